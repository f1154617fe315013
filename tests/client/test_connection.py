"""Every form of kubeconfig that needs no other program leads to the right server, as the right person."""

import base64
import re
import ssl
import textwrap
import threading
from pathlib import Path
from unittest import mock

import pytest

from berth_crds.client import connection, errors
from client.conftest import kubeconfig
from support import clock
from testbed import pki, waiting


def embedded(path: Path) -> str:
    """Write a file as kubeconfigs carry it."""
    return base64.b64encode(path.read_bytes()).decode()


def write(path: Path, text: str | bytes) -> Path:
    """Write a file, and the folders that lead to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---------------------------------------------------------------- who we are


@pytest.mark.parametrize(
    ("user", "header"),
    [
        pytest.param({"token": "t0ken"}, "Bearer t0ken", id="token"),
        pytest.param({"tokenFile": "secrets/token"}, "Bearer filed", id="token in a file, path relative"),
        pytest.param(
            {"token": "t0ken", "tokenFile": "secrets/token"},
            "Bearer filed",
            id="the file wins over the token",
        ),
        pytest.param(
            {"username": "ada", "password": "päss"},
            "Basic " + base64.b64encode("ada:päss".encode()).decode(),
            id="password",
        ),
    ],
)
async def test_a_user_is_an_authorization_header(
    folder: Path, user: dict[str, str], header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens and passwords become the Authorization header; files are looked for beside the kubeconfig."""
    write(folder / "deep/secrets/token", "filed\n")
    config = write(folder / "deep/config", kubeconfig(user=user))
    monkeypatch.chdir("/")

    assert await connection.load(config).authorization() == header


@pytest.mark.parametrize("form", ["data", "data with line breaks", "file", "relative file"])
def test_a_client_certificate_is_loaded(folder: Path, pair: pki.Pair, form: str) -> None:
    """A certificate and its key are taken from the kubeconfig itself or from files."""
    data = {"client-certificate-data": embedded(pair.certificate), "client-key-data": embedded(pair.key)}
    users = {
        "data": data,
        "data with line breaks": {key: "\n".join(textwrap.wrap(text, 64)) for key, text in data.items()},
        "file": {"client-certificate": str(pair.certificate), "client-key": str(pair.key)},
        "relative file": {"client-certificate": "my.crt", "client-key": "my.key"},
    }
    write(folder / "my.crt", pair.certificate.read_bytes())
    write(folder / "my.key", pair.key.read_bytes())

    link = connection.load(write(folder / "config", kubeconfig(user=users[form])))

    assert link.trust is not None
    assert list(folder.glob("berth-*.pem")) == []


@pytest.mark.parametrize("form", ["data", "file", "relative file"])
def test_an_authority_is_trusted(folder: Path, authority: pki.Authority, form: str) -> None:
    """With an authority of its own a cluster is judged by that alone."""
    forms = {
        "data": {"certificate-authority-data": embedded(authority.certificate)},
        "file": {"certificate-authority": str(authority.certificate)},
        "relative file": {"certificate-authority": "ca.crt"},
    }
    write(folder / "ca.crt", authority.certificate.read_bytes())

    link = connection.load(
        write(folder / "config", kubeconfig(cluster={"server": "https://c"} | forms[form]))
    )

    assert link.trust is not None
    assert link.trust.cert_store_stats()["x509_ca"] == 1
    assert (link.trust.verify_mode, link.trust.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_insecure_asks_for_no_proof(folder: Path) -> None:
    """insecure-skip-tls-verify switches off what it names."""
    cluster = {"server": "https://c:6443", "insecure-skip-tls-verify": True}

    link = connection.load(write(folder / "config", kubeconfig(cluster=cluster)))

    assert link.trust is not None
    assert link.trust.verify_mode is ssl.CERT_NONE


async def test_the_rest_of_a_cluster_is_taken_along(folder: Path) -> None:
    """Server name and proxy are those of the kubeconfig; `kubectl proxy`, in clear, needs no credentials."""
    cluster = {"server": "http://c:8080/", "tls-server-name": "kubernetes", "proxy-url": "http://p:1"}

    link = connection.load(write(folder / "config", kubeconfig(user={}, cluster=cluster)))

    assert (link.server, link.server_name, link.proxy) == ("http://c:8080", "kubernetes", "http://p:1")
    assert (link.trust, link.namespace, await link.authorization()) == (None, "default", "")


# ---------------------------------------------------------------- which file


def test_the_file_that_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was named wins over KUBECONFIG, and that over ~/.kube/config, as for kubectl."""
    write(folder / "home/.kube/config", kubeconfig("home"))
    by_home = connection.load()
    monkeypatch.setenv("KUBECONFIG", str(write(folder / "environment", kubeconfig("environment"))))

    links = [by_home, connection.load(), connection.load(write(folder / "flag", kubeconfig("flag")))]

    assert [link.server for link in links] == [
        f"https://{name}.example:6443" for name in ("home", "environment", "flag")
    ]


def test_several_files_are_merged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each name the first file wins, files that do not exist are skipped, and paths keep their folder."""
    first = write(folder / "first/config", kubeconfig("a", user={"tokenFile": "token"}, current_context=None))
    second = write(folder / "second/config", kubeconfig("a"))
    third = write(folder / "third/config", kubeconfig("b"))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{folder / 'missing'}:{second}:{third}")

    merged = connection.merge(connection.find() or ())

    assert (merged.current, sorted(merged.contexts)) == ("a", ["a", "b"])
    assert merged.users["a-user"] == {"tokenFile": str(first.parent / "token")}
    assert connection.load(context="b").server == "https://b.example:6443"


def test_many_contexts_are_one_reading(folder: Path) -> None:
    """A file with a context for each of hundreds of nodes is read once, not hundreds of times."""
    paths = (write(folder / "first", kubeconfig("a")), write(folder / "second", kubeconfig("b")))

    with mock.patch.object(connection, "merge", wraps=connection.merge) as reading:
        links = connection.from_contexts(paths, ["b", "a", None])

    assert [link.server for link in links] == [f"https://{name}.example:6443" for name in "baa"]
    assert reading.call_count == 1


# ---------------------------------------------------------------- in a pod


@pytest.fixture
def mounted(folder: Path, authority: pki.Authority) -> Path:
    """Return a folder as the kubelet mounts it."""
    write(folder / "account/ca.crt", authority.certificate.read_bytes())
    write(folder / "account/namespace", "berth-system")
    return write(folder / "account/token", "one").parent


@pytest.mark.parametrize(
    ("host", "server"),
    [
        pytest.param("10.0.0.1", "https://10.0.0.1:443", id="IPv4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="IPv6"),
    ],
)
async def test_a_pod_uses_its_own_account(mounted: Path, host: str, server: str) -> None:
    """In a pod the mounted token, authority and namespace are enough."""
    link = connection.from_pod(mounted, {"KUBERNETES_SERVICE_HOST": host})

    assert (link.server, link.namespace) == (server, "berth-system")
    assert await link.authorization() == "Bearer one"


async def test_a_rotated_token_is_read_again(mounted: Path) -> None:
    """The kubelet replaces the token now and then; a copy is at most a minute old."""
    time = clock.Clock()
    token = connection.TokenFile(mounted / "token", clock=time)
    found = [await token()]
    (mounted / "token").write_text("two")

    for seconds in (59, 1):
        time.advance(seconds)
        found.append(await token())

    assert found == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_token_that_cannot_be_read_in_time_keeps_nobody(
    mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one counts while a read hangs, and without one there is an error; nothing waits for ever."""
    time, goes_on = clock.Clock(), threading.Event()
    known, unknown = (connection.TokenFile(mounted / "token", clock=time) for _ in range(2))
    await known()
    time.advance(60)
    monkeypatch.setattr(connection, "READ_SECONDS", 0.05)
    read = mock.Mock(side_effect=lambda: goes_on.wait(20) and "two")
    monkeypatch.setattr(Path, "read_text", read)

    meanwhile = [await known() for _ in range(3)]
    with pytest.raises(errors.Unreachable):
        await unknown()
    reads = read.call_count
    goes_on.set()

    async def renewed() -> bool:
        return await known() == "Bearer two"

    assert (meanwhile, reads) == (["Bearer one"] * 3, 2)
    assert await waiting.eventually(renewed, what="the file to be read")


@pytest.mark.parametrize("missing", ["ca.crt", "namespace", "token"])
async def test_a_half_mounted_account_is_an_error(mounted: Path, missing: str) -> None:
    """An account without authority, namespace or token is one sentence that names its folder."""
    (mounted / missing).unlink()

    with pytest.raises(errors.Unusable) as caught:
        await connection.from_pod(mounted, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}).authorization()

    assert re.fullmatch(f"The .*{mounted}.* cannot be .*: No such file or directory.", str(caught.value))


# ---------------------------------------------------------------- what cannot be used

CERTIFICATE = {"client-certificate-data": "aGVsbG8="}


def with_cluster(server: object = "https://k:6443", **fields: object) -> str:
    """Write a kubeconfig whose cluster has these fields."""
    return kubeconfig(cluster={"server": server} | {key.replace("_", "-"): it for key, it in fields.items()})


FAULTS = {
    "broken YAML": ("clusters: [", "is not YAML"),
    "no text": (b"\xff\xfe\x00\x00", "is not YAML"),
    "an impossible date": ("clusters: []\nx: 2020-99-99", "is not YAML"),
    "nested without end": ("[" * 5000, "is not YAML"),
    "an empty file": ("", "it lists no clusters"),
    "a word": ("hello", "it lists no clusters"),
    "another kind of document": ("kind: Pod", "it lists no clusters"),
    "clusters are no list": (kubeconfig(clusters={"a": 1}), "clusters must be a list"),
    "an entry without a name": (kubeconfig(users=[{"user": {}}]), "an entry of users has no name"),
    "an entry that is a word": (kubeconfig(contexts=["c"]), "an entry of contexts has no name"),
    "no current context": (kubeconfig(current_context=None), "no context is chosen"),
    "unknown context": (kubeconfig(current_context="d"), "there is no context named 'd' (there: c)"),
    "unknown cluster": (kubeconfig(clusters=[]), "there is no cluster named 'c-cluster' (there: none)"),
    "unknown user": (kubeconfig(users=None), "there is no user named 'c-user' (there: none)"),
    "a context that is a word": (
        kubeconfig(contexts=[{"name": "c", "context": "x"}]),
        "no cluster is chosen",
    ),
    "a list for a name": (
        kubeconfig().replace("user: c-user", "user: [c-user]"),
        "something in it is of a kind that no kubeconfig has",
    ),
    "no server": (with_cluster(None), "cluster 'c-cluster' names no server URL"),
    "a server without a scheme": (with_cluster("k:6443"), "cluster 'c-cluster' names no server URL"),
    "an impossible port": (with_cluster("https://c:99999"), "names a server that is no URL"),
    "no host": (with_cluster("https://"), "names a server that is no URL"),
    "a blank in the host": (with_cluster("https://a b"), "names a server that is no URL"),
    "a number as proxy": (with_cluster(proxy_url=5), "proxy-url must be text"),
    "no URL as proxy": (with_cluster(proxy_url="x"), "proxy-url is no URL: x"),
    "a number as name": (with_cluster(tls_server_name=5), "tls-server-name must be text"),
    "authority is no base64": (
        with_cluster(certificate_authority_data="%%%"),
        "certificate-authority-data is not base64",
    ),
    "authority is no certificate": (
        with_cluster(certificate_authority_data="aGVsbG8="),
        "its certificates cannot be used",
    ),
    "authority does not exist": (with_cluster(certificate_authority="gone.crt"), "gone.crt"),
    "key is no base64": (
        kubeconfig(user=CERTIFICATE | {"client-key-data": "?"}),
        "client-key-data is not base64",
    ),
    "certificate without key": (
        kubeconfig(user=CERTIFICATE),
        "a client certificate and its key go together",
    ),
    "certificate is none": (
        kubeconfig(user=CERTIFICATE | {"client-key-data": "aGVsbG8="}),
        "its certificates cannot be used",
    ),
    "a plug-in": (
        kubeconfig(user={"exec": {"command": "aws"}}),
        "login by exec is known to the operator only",
    ),
    "an identity provider": (
        kubeconfig(user={"auth-provider": {"name": "oidc"}}),
        "login by auth-provider is known to the operator only",
    ),
    **{
        f"no credentials: {user}": (
            kubeconfig(user=user),
            "no credentials: the user 'c-user' has neither a token nor",
        )
        for user in ({}, {"token": ""}, {"username": None})
    },
}


@pytest.mark.parametrize(("text", "fault"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_one_line(folder: Path, text: str | bytes, fault: str) -> None:
    """Whatever is wrong with a kubeconfig is one line that names the file and the fault."""
    config = write(folder / "broken", text)

    with pytest.raises(errors.Unusable) as caught:
        connection.load(config)

    assert str(config) in str(caught.value)
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ("{0}/missing", "The kubeconfig {0}/missing does not exist"),
        ("{0}", "The kubeconfig {0} cannot be read: Is a directory"),
        ("{0}/a:{0}/b", "No kubeconfig file exists at {0}/a:{0}/b"),
    ],
    ids=["a missing file", "a folder", "of several files none"],
)
def test_a_file_that_is_not_there_is_one_line(tmp_path: Path, files: str, fault: str) -> None:
    """What is not there is named with its path."""
    with pytest.raises(errors.Unusable, match=fault.format(tmp_path)):
        connection.load(files.format(tmp_path))
