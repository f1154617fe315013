"""How to reach an API server, and with which credentials.

A Connection is made once, from the files that Kubernetes mounts into a pod or from a
kubeconfig with certificates or tokens in it. Forms of login that run other programs
or speak to identity providers are left to the operator, which has a library for them.
Whatever is wrong with the files becomes `errors.Unusable` with one line that names the
file and the fault.
"""

import asyncio
import base64
import binascii
import contextlib
import dataclasses
import os
import ssl
import tempfile
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from berth_crds import text
from berth_crds.client import errors
from berth_crds.text import quoted

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_REFRESH_SECONDS: Final = 60.0  # The kubelet rotates tokens well before they expire.
CREDENTIALS: Final = (
    *("token", "tokenFile", "username", "exec", "auth-provider"),
    *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
)
READ_SECONDS: Final = 5.0  # A file on a dead disk must not keep a request for ever.

Authorization = Callable[[], Awaitable[str]]


def fixed_header(header: str) -> Authorization:
    """Return an Authorization header that stays as it is; empty for none."""

    async def authorization() -> str:
        return header

    return authorization


ANONYMOUS: Final = fixed_header("")


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """An API server and the credentials for it."""

    server: str
    trust: ssl.SSLContext | None = None
    authorization: Authorization = ANONYMOUS
    origin: str = "given directly"
    namespace: str = "default"
    server_name: str | None = None  # What the certificate says, where it is not the host of the URL.
    proxy: str | None = None


def load(kubeconfig: str | Path | None = None, *, context: str | None = None) -> Connection:
    """Find the configuration as kubectl users expect: flag, $KUBECONFIG, the pod's own, ~/.kube/config."""
    source = find(kubeconfig)
    return from_pod() if source is None else from_kubeconfig(source, context=context)


def find(kubeconfig: str | Path | None = None) -> tuple[Path, ...] | None:
    """Return the kubeconfig files to read, or None for the pod's own service account."""
    given = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG", "")
    if given:
        return tuple(Path(part) for part in given.split(os.pathsep) if part)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    return (Path.home() / ".kube" / "config",)


def from_pod(directory: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] = os.environ) -> Connection:
    """Use the service account that Kubernetes mounted into this pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise errors.Unusable("KUBERNETES_SERVICE_HOST is not set, so this is not a pod of a cluster.")
    host = f"[{host}]" if ":" in host else host
    try:
        trust = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        namespace = (directory / "namespace").read_text().strip()
    except (OSError, ssl.SSLError) as error:
        raise errors.Unusable(
            f"The pod's service account in {directory} cannot be used: {text.cause(error)}."
        ) from error
    return Connection(
        server=f"https://{host}:{port}",
        trust=trust,
        authorization=TokenFile(directory / "token"),
        origin=f"service account in {directory}",
        namespace=namespace,
    )


class TokenFile:
    """A bearer token in a file that the kubelet renews."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._value = ""
        self._read_at = -TOKEN_REFRESH_SECONDS
        self._reading = False

    async def __call__(self) -> str:
        """Return the Authorization header, from a copy at most a minute old; older where a read hangs."""
        due = self._clock() - self._read_at >= TOKEN_REFRESH_SECONDS
        if not self._value or (due and not self._reading):
            await self._renew()
        return self._value

    async def _renew(self) -> None:
        self._reading = True
        reading = asyncio.ensure_future(asyncio.to_thread(self._read))
        # What becomes of one that is given up is of no interest: the next one will tell.
        reading.add_done_callback(lambda late: late.cancelled() or late.exception())
        done, _ = await asyncio.wait([reading], timeout=READ_SECONDS)
        if done:
            reading.result()
        elif not self._value:
            raise errors.Unreachable(
                f"the token file {self._path} was not read within {READ_SECONDS:g} s", ambiguous=False
            )

    def _read(self) -> None:
        try:
            self._value = f"Bearer {bearer(self._path.read_text())}"
            self._read_at = self._clock()
        except OSError as error:
            raise errors.Unusable(f"The token file {self._path} cannot be read: {error.strerror}.") from error
        except ValueError as error:
            raise errors.Unusable(f"The token file {self._path} holds no token.") from error
        finally:
            self._reading = False


def bearer(text: str) -> str:
    """Check that a token can stand in a header; raise ValueError if not."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("not a token")
    return token


# ---------------------------------------------------------------- kubeconfig


@dataclasses.dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One or several kubeconfig files, merged: for each name the first file wins."""

    current: str | None
    contexts: Mapping[str, Mapping[str, Any]]
    clusters: Mapping[str, Mapping[str, Any]]
    users: Mapping[str, Mapping[str, Any]]


def from_kubeconfig(paths: tuple[Path, ...], *, context: str | None = None) -> Connection:
    """Use a kubeconfig's current (or the named) context, with certificates or tokens."""
    (connection,) = from_contexts(paths, [context])
    return connection


def from_contexts(paths: tuple[Path, ...], contexts: Iterable[str | None]) -> list[Connection]:
    """Use several contexts of a kubeconfig, which is read once."""
    origin = os.pathsep.join(str(path) for path in paths)
    with reading_config(origin):
        config = merge(paths)
        return [from_merged(config, origin, context) for context in contexts]


@contextlib.contextmanager
def reading_config(origin: str) -> Iterator[None]:
    """Turn values of a kind that no kubeconfig has into one line; what exactly, only Python can say."""
    try:
        yield
    except ValueError as error:
        raise errors.Unusable(f"{origin}: it does not make sense: {_line(error)}.") from error
    except (TypeError, AttributeError, KeyError) as error:
        raise errors.Unusable(f"{origin}: something in it is of a kind that no kubeconfig has.") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160].rstrip(".") or "a value has the wrong kind"


def from_merged(config: Kubeconfig, origin: str, context: str | None) -> Connection:
    """Use the current (or the named) context of a kubeconfig that has been read."""
    chosen = context or config.current
    entry = pick(config.contexts, chosen, what="context", origin=origin)
    cluster = pick(config.clusters, entry.get("cluster"), what="cluster", origin=origin)
    user = pick(config.users, entry["user"], what="user", origin=origin) if entry.get("user") else {}
    server = server_of(cluster, name=entry.get("cluster"), origin=origin)
    check_credentials(user, server=server, name=entry.get("user"), origin=origin)
    return Connection(
        server=server,
        trust=_trust(cluster, user, origin=origin) if server.startswith("https://") else None,
        authorization=_authorization(user, origin=origin),
        origin=f"{origin}, context {chosen}",
        namespace=str(entry.get("namespace") or "default"),
        server_name=text_of(cluster, "tls-server-name"),
        proxy=text_of(cluster, "proxy-url"),
    )


def text_of(entry: Mapping[str, Any], key: str) -> str | None:
    """Read an optional text; raise where it is something else."""
    if (value := entry.get(key)) is not None and not isinstance(value, str):
        raise ValueError(f"{key} must be text")
    if key == "proxy-url" and value is not None and not _reachable(value):
        raise ValueError(f"{key} is no URL: {value}")
    return value


def merge(paths: tuple[Path, ...]) -> Kubeconfig:
    """Read the files that exist; a list of several may name missing ones, as kubectl allows."""
    documents = [(path, _read(path)) for path in paths if len(paths) == 1 or path.exists()]
    if not documents:
        raise errors.Unusable(f"No kubeconfig file exists at {os.pathsep.join(map(str, paths))}.")
    currents = [document.get("current-context") for _, document in documents]
    return Kubeconfig(
        current=next((str(name) for name in currents if name), None),
        contexts=_named(documents, "contexts", "context"),
        clusters=_named(documents, "clusters", "cluster"),
        users=_named(documents, "users", "user"),
    )


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(path.read_text())
    except FileNotFoundError as error:
        raise errors.Unusable(f"The kubeconfig {path} does not exist.") from error
    except OSError as error:
        raise errors.Unusable(f"The kubeconfig {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        where = " ".join(str(error).split())[:160]
        raise errors.Unusable(f"The kubeconfig {path} is not YAML: {where}.") from error
    if not isinstance(document, dict) or "clusters" not in document:
        raise errors.Unusable(f"{path} is not a kubeconfig: it lists no clusters.")
    return document


def _named(
    documents: list[tuple[Path, Mapping[str, Any]]], plural: str, singular: str
) -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for path, document in documents:
        entries = document.get(plural) or []
        if not isinstance(entries, list):
            raise errors.Unusable(f"{path}: {plural} must be a list.")
        for entry in entries:
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise errors.Unusable(f"{path}: an entry of {plural} has no name.")
            found.setdefault(entry["name"], _absolute(entry.get(singular) or {}, path.parent))
    return found


def _absolute(entry: Any, base: Path) -> Mapping[str, Any]:
    """Resolve file names against the folder of the kubeconfig they stand in."""
    if not isinstance(entry, dict):
        return {}
    keys = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
    return entry | {key: str(base / str(entry[key])) for key in keys if entry.get(key)}


def pick(entries: Mapping[str, Mapping[str, Any]], name: Any, *, what: str, origin: str) -> Mapping[str, Any]:
    """Return an entry by its name, or raise `Unusable` with the names that there are."""
    if not name:
        raise errors.Unusable(f"{origin}: no {what} is chosen; set current-context or name one.")
    if name not in entries:
        known = ", ".join(sorted(entries)) or "none"
        raise errors.Unusable(f"{origin}: there is no {what} named {quoted(str(name))} (there: {known}).")
    return entries[name]


def server_of(cluster: Mapping[str, Any], *, name: Any, origin: str) -> str:
    """Return the URL of a cluster's server."""
    server = cluster.get("server")
    if not isinstance(server, str) or not server.startswith(("https://", "http://")):
        raise errors.Unusable(f"{origin}: cluster {quoted(str(name))} names no server URL.")
    if not _reachable(server):
        raise errors.Unusable(
            f"{origin}: cluster {quoted(str(name))} names a server that is no URL: {server}."
        )
    return server.rstrip("/")


def check_credentials(user: Mapping[str, Any], *, server: str, name: Any, origin: str) -> None:
    """Raise where a user has nothing to show; to a server in clear (kubectl proxy) others add it."""
    if server.startswith("https://") and not any(user.get(form) for form in CREDENTIALS):
        who = f"the user {quoted(str(name))}" if name else "the context names no user, so it"
        raise errors.Unusable(
            f"{origin}: no credentials: {who} has neither a token nor a client certificate nor a login."
        )


def _reachable(url: str) -> bool:
    """Return whether a URL names a host, and a port that can be one."""
    try:
        parts = urllib.parse.urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and not any(one.isspace() for one in url)
    except ValueError:
        return False


def _trust(cluster: Mapping[str, Any], user: Mapping[str, Any], *, origin: str) -> ssl.SSLContext:
    try:
        authority = _bytes(cluster, "certificate-authority")
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        certificate, key = _bytes(user, "client-certificate"), _bytes(user, "client-key")
        if certificate or key:
            _load_pair(context, certificate, key)
    except (OSError, ValueError) as error:
        file = getattr(error, "filename", None)
        what = f"{file}: {text.cause(error)}" if file else text.cause(error)
        raise errors.Unusable(f"{origin}: its certificates cannot be used: {what}.") from error
    return context


def _bytes(entry: Mapping[str, Any], key: str) -> bytes:
    if data := entry.get(f"{key}-data"):
        try:
            # Line breaks are legal, as they are for kubectl; anything else that is no base64 is not.
            return base64.b64decode("".join(str(data).split()), validate=True)
        except binascii.Error as error:
            raise ValueError(f"{key}-data is not base64 ({error})") from error
    return Path(entry[key]).read_bytes() if entry.get(key) else b""


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Hand a certificate to OpenSSL, which takes files only: private, and gone at once."""
    if not certificate or not key:
        raise ValueError("a client certificate and its key go together, and one of them is missing")
    with tempfile.NamedTemporaryFile(prefix="berth-", suffix=".pem") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _authorization(user: Mapping[str, Any], *, origin: str) -> Authorization:
    for form in ("exec", "auth-provider"):
        if user.get(form):
            raise errors.Unusable(
                f"{origin}: login by {form} is known to the operator only, not to the agent."
            )
    if user.get("tokenFile"):
        return TokenFile(Path(user["tokenFile"]))
    if user.get("token"):
        return fixed_header(f"Bearer {bearer(str(user['token']))}")
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return fixed_header(f"Basic {base64.b64encode(pair).decode()}")
    return ANONYMOUS
