"""Login with every form of kubeconfig, through our own reader or kubernetes-asyncio.

In a pod our own client uses the mounted service account, and it reads tokens and certificates from a
kubeconfig. Passwords, exec plug-ins and identity providers are left to the library, whose result is turned
into our Connection; our own reader checks the files first, for errors of one line. The library is loaded
for them alone: that takes a quarter of a second and 30 MiB.
"""

import asyncio
import contextlib
import os
import re
import signal
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from berth_crds import text
from berth_crds.client import connection, errors

RENEW_SECONDS: Final = 60.0
PLUGIN_SECONDS: Final = 30.0
LONGEST_ERROR: Final = 300  # Of the library's message.
LIBRARY_FORMS: Final = frozenset({"exec", "auth-provider", "username", "password"})
ENTRY: Final = re.compile(r"\{.*\}")


async def connect(kubeconfig: str | None = None, *, context: str | None = None) -> connection.Connection:
    """Find the configuration and log in with it."""
    paths = connection.find(kubeconfig)
    return connection.from_pod() if paths is None else await from_kubeconfig(paths, context=context)


async def from_kubeconfig(paths: tuple[Path, ...], *, context: str | None) -> connection.Connection:
    """Log in with a kubeconfig."""
    origin = os.pathsep.join(str(path) for path in paths)
    with connection.reading_config(origin):
        return await _from_kubeconfig(paths, origin, context)


async def _from_kubeconfig(
    paths: tuple[Path, ...], origin: str, context: str | None
) -> connection.Connection:
    files = connection.merge(paths)
    # The first file that names a current context wins; the library takes the last.
    chosen = context or files.current
    entry = connection.pick(files.contexts, chosen, what="context", origin=origin)
    cluster = connection.pick(files.clusters, entry.get("cluster"), what="cluster", origin=origin)
    server = connection.server_of(cluster, name=entry.get("cluster"), origin=origin)
    user = (
        connection.pick(files.users, entry["user"], what="user", origin=origin) if entry.get("user") else {}
    )
    connection.check_credentials(user, server=server, name=entry.get("user"), origin=origin)
    if not LIBRARY_FORMS & user.keys():
        return connection.from_merged(files, origin, context)
    from kubernetes_asyncio import client, config  # noqa: PLC0415  It is large.

    found = client.Configuration()
    try:
        async with _plugin_timeout():
            loader = await config.load_kube_config(
                config_file=origin, context=chosen, client_configuration=found, persist_config=False
            )
        trust = _trust(found) if server.startswith("https://") else None
    except Exception as error:  # the library and its plug-ins raise anything
        raise errors.Unusable(f"{origin}: login failed: {_line(error, plugin=_plugin(user))}.") from error
    if user.get("exec") and not (found.api_key or found.cert_file):
        raise errors.Unusable(f"{origin}: login failed: the plug-in gave neither a token nor a certificate.")
    return connection.Connection(
        server=server,
        trust=trust,
        authorization=Login(loader, found, plugin=_plugin(user)),
        origin=f"{origin}, context {chosen}",
        namespace=str(entry.get("namespace") or "default"),
        server_name=connection.text_of(cluster, "tls-server-name"),
        proxy=connection.text_of(cluster, "proxy-url"),
    )


class Login:
    """The Authorization header of a kubeconfig's user, renewed where a plug-in made it."""

    def __init__(
        self, loader: Any, found: Any, *, plugin: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._plugin = plugin
        self._loader = loader
        self._found = found
        self._clock = clock
        self._checked = clock()

    async def __call__(self) -> str:
        """Return the header; renew the plug-in's token once a minute if it expires."""
        if self._clock() - self._checked >= RENEW_SECONDS:
            # Set before the wait, so that other callers use the old token meanwhile.
            self._checked = self._clock()
            await self._renew()
        return str(self._found.api_key.get("BearerToken", ""))

    async def _renew(self) -> None:
        try:
            # Cheap where the token is valid: the loader knows when it expires.
            async with _plugin_timeout():
                await self._loader.load_and_set(self._found)
        except Exception as error:  # the plug-in raises anything
            message = f"the login cannot be renewed: {_line(error, plugin=self._plugin)}"
            raise errors.Unreachable(message, ambiguous=False) from error


@contextlib.asynccontextmanager
async def _plugin_timeout() -> AsyncIterator[None]:
    """Limit the time of a plug-in; one that hangs is killed, which the library does not do."""
    before = _children()
    try:
        async with asyncio.timeout(PLUGIN_SECONDS):
            yield
    except TimeoutError:
        for pid in _children() - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise


def _children() -> set[int]:
    """Return the pids of our own child processes, from Linux's /proc."""
    with contextlib.suppress(OSError):
        lists = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
        return {int(pid) for words in lists for pid in words.split()}
    return set()


def _trust(found: Any) -> ssl.SSLContext:
    trust = ssl.create_default_context(cafile=found.ssl_ca_cert)
    if not found.verify_ssl:
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    if found.cert_file and found.key_file:
        trust.load_cert_chain(found.cert_file, found.key_file)
    return trust


def _plugin(user: Mapping[str, Any]) -> str:
    """Return the program that logs a user in, if there is one."""
    plugin = user.get("exec")
    return str(plugin.get("command", "")) if isinstance(plugin, Mapping) else ""


def _line(error: BaseException, *, plugin: str) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {PLUGIN_SECONDS:g} s"
    if isinstance(error, FileNotFoundError) and plugin and error.filename in {None, plugin}:
        return f"there is no program {text.quoted(plugin)}"
    # The library quotes whole entries of the file in its messages, keys and tokens included.
    message = text.line(ENTRY.sub("{...}", " ".join(str(error).split())), most=LONGEST_ERROR)
    return message.rstrip(".") or type(error).__name__
