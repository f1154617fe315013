"""Every form of kubeconfig that needs no other program leads to the right server, as the right person."""

import base64
import ssl
import threading
from pathlib import Path
from unittest import mock

import pytest
import yaml

from berth_crds.client import connection, errors
from client.conftest import Folder
from support import clock
from testbed import pki, waiting


def embedded(path: Path) -> str:
    """Write a file as kubeconfigs carry it."""
    return base64.b64encode(path.read_bytes()).decode()


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
async def test_a_user_is_told_by_a_header(
    folder: Folder, user: dict[str, str], header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens and passwords become the Authorization header; files are looked for beside the kubeconfig."""
    folder.text("deep/secrets/token", "filed\n")
    config = folder.write("deep/config", user=user)
    monkeypatch.chdir("/")

    link = connection.load(config)

    assert await link.authorization() == header


@pytest.mark.parametrize("form", ["data", "data with line breaks", "file", "relative file"])
def test_a_client_certificate_is_loaded(folder: Folder, pair: pki.Pair, form: str) -> None:
    """A certificate and its key are taken from the kubeconfig itself or from files."""
    data = {"client-certificate-data": embedded(pair.certificate), "client-key-data": embedded(pair.key)}
    broken = {
        key: "\n".join(value[at : at + 64] for at in range(0, len(value), 64)) for key, value in data.items()
    }
    folder.text("my.crt", pair.certificate.read_bytes())
    folder.text("my.key", pair.key.read_bytes())
    users = {
        "data": data,
        "data with line breaks": broken,
        "file": {"client-certificate": str(pair.certificate), "client-key": str(pair.key)},
        "relative file": {"client-certificate": "my.crt", "client-key": "my.key"},
    }

    link = connection.load(folder.write(user=users[form]))

    assert link.trust is not None
    assert list(folder.path.glob("berth-*.pem")) == []


@pytest.mark.parametrize("form", ["data", "file", "relative file"])
def test_an_authority_is_trusted(folder: Folder, authority: pki.Authority, form: str) -> None:
    """With an authority of its own a cluster is judged by that alone."""
    folder.text("ca.crt", authority.certificate.read_bytes())
    forms = {
        "data": {"certificate-authority-data": embedded(authority.certificate)},
        "file": {"certificate-authority": str(authority.certificate)},
        "relative file": {"certificate-authority": "ca.crt"},
    }

    link = connection.load(folder.write(cluster={"server": "https://c:6443", **forms[form]}))

    assert link.trust is not None
    assert link.trust.cert_store_stats()["x509_ca"] == 1
    assert link.trust.verify_mode is ssl.CERT_REQUIRED
    assert link.trust.check_hostname


def test_insecure_asks_for_no_proof(folder: Folder) -> None:
    """insecure-skip-tls-verify switches off what it says, and nothing is switched off without it."""
    cluster = {"server": "https://c:6443", "insecure-skip-tls-verify": True}

    insecure = connection.load(folder.write("one", cluster=cluster))
    usual = connection.load(folder.write("two"))

    assert insecure.trust is not None
    assert insecure.trust.verify_mode is ssl.CERT_NONE
    assert usual.trust is not None
    assert usual.trust.verify_mode is ssl.CERT_REQUIRED


def test_the_rest_of_a_cluster_is_taken_along(folder: Folder) -> None:
    """Server name, proxy and namespace are what the kubeconfig says; plain HTTP has no trust."""
    cluster = {"server": "http://c:8080/", "tls-server-name": "kubernetes", "proxy-url": "http://p:1"}

    link = connection.load(folder.write(cluster=cluster))

    assert (link.server, link.server_name, link.proxy) == ("http://c:8080", "kubernetes", "http://p:1")
    assert (link.trust, link.namespace) == (None, "default")


# ---------------------------------------------------------------- which file


def test_the_flag_wins_over_the_environment(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that was named is used, whatever KUBECONFIG says."""
    monkeypatch.setenv("KUBECONFIG", str(folder.write("environment", context="e")))

    by_flag = connection.load(folder.write("flag", context="f"))
    by_environment = connection.load()

    assert by_flag.server == "https://f.example:6443"
    assert by_environment.server == "https://e.example:6443"


def test_home_comes_last(folder: Folder) -> None:
    """Without flag, environment and pod it is ~/.kube/config, as for kubectl."""
    folder.write("home/.kube/config", context="h")

    assert connection.load().server == "https://h.example:6443"


def test_several_files_are_merged(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each name the first file wins, files that do not exist are skipped, and paths keep their folder."""
    folder.text("first/token", "of the first")
    first = folder.write("first/config", context="a", user={"tokenFile": "token"}, current=None)
    second = folder.write("second/config", context="a", user={"token": "of the second"})
    third = folder.write("third/config", context="b")
    files = [first, folder.path / "missing", second, third]
    monkeypatch.setenv("KUBECONFIG", ":".join(str(one) for one in files))

    merged = connection.merge(connection.find() or ())

    assert merged.current == "a"
    assert merged.users["a-user"] == {"tokenFile": str(first.parent / "token")}
    assert sorted(merged.contexts) == ["a", "b"]
    assert connection.load(context="b").server == "https://b.example:6443"


def test_many_contexts_are_one_reading(folder: Folder) -> None:
    """A file with a context for each of hundreds of nodes is read once, not hundreds of times."""
    paths = (folder.write("first", context="a"), folder.write("second", context="b"))

    with mock.patch.object(connection, "merge", wraps=connection.merge) as reading:
        found = connection.from_contexts(paths, ["b", "a", None])

    assert [one.server for one in found] == [f"https://{name}.example:6443" for name in "baa"]
    assert reading.call_count == 1


# ---------------------------------------------------------------- in a pod


@pytest.fixture
def mounted(folder: Folder, authority: pki.Authority) -> Path:
    """Return a folder as the kubelet mounts it."""
    folder.text("account/ca.crt", authority.certificate.read_bytes())
    folder.text("account/namespace", "berth-system")
    return folder.text("account/token", "one").parent


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
    assert await token() == "Bearer one"
    (mounted / "token").write_text("two")

    time.advance(59)
    early = await token()
    time.advance(1)
    late = await token()

    assert (early, late) == ("Bearer one", "Bearer two")


async def test_a_token_that_cannot_be_read_in_time_keeps_nobody(
    mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one counts while a read hangs, and without one there is an error; nothing waits for ever."""
    monkeypatch.setattr(connection, "READ_SECONDS", 0.05)
    time, goes_on, reads = clock.Clock(), threading.Event(), []
    known, unknown = (connection.TokenFile(mounted / "token", clock=time) for _ in range(2))
    await known()

    def hang(path: Path) -> str:
        reads.append(path)
        goes_on.wait(20)
        return "two"

    monkeypatch.setattr(Path, "read_text", hang)
    time.advance(60)
    meanwhile = [await known() for _ in range(3)]
    with pytest.raises(errors.Unreachable):
        await unknown()
    looks = len(reads)
    goes_on.set()

    async def read() -> bool:
        return await known() == "Bearer two"

    assert meanwhile == ["Bearer one"] * 3
    assert looks == 2
    assert await waiting.eventually(read, what="the file to be read")


async def test_a_token_that_vanished_is_said(mounted: Path) -> None:
    """A token file that cannot be read is one sentence that names it."""
    (mounted / "token").unlink()

    with pytest.raises(errors.Unusable) as caught:
        await connection.TokenFile(mounted / "token")()

    assert (
        str(caught.value) == f"The token file {mounted / 'token'} cannot be read: No such file or directory."
    )


@pytest.mark.parametrize("missing", ["ca.crt", "namespace"])
def test_a_half_mounted_account_is_said(mounted: Path, missing: str) -> None:
    """An account without authority or namespace is one sentence that names its folder."""
    (mounted / missing).unlink()

    with pytest.raises(errors.Unusable) as caught:
        connection.from_pod(mounted, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})

    assert str(mounted) in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- what cannot be used

GOOD = {
    "clusters": [{"name": "k", "cluster": {"server": "https://k:6443"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "current-context": "c",
}


def but(**changes: object) -> str:
    """Write a good kubeconfig, with some parts changed."""
    return yaml.safe_dump({**GOOD, **{key.replace("_", "-"): value for key, value in changes.items()}})


def with_cluster(**fields: object) -> str:
    """Write a kubeconfig whose cluster has these fields too."""
    entry = {"server": "https://k:6443"} | {key.replace("_", "-"): value for key, value in fields.items()}
    return but(clusters=[{"name": "k", "cluster": entry}])


def with_user(**fields: object) -> str:
    """Write a kubeconfig whose user has these fields."""
    entry = {key.replace("_", "-"): value for key, value in fields.items()}
    return but(users=[{"name": "u", "user": entry}])


FAULTS = {
    "broken YAML": ("clusters: [", "is not YAML"),
    "no text": (b"\xff\xfe\x00\x00", "is not YAML"),
    "an empty file": ("", "it lists no clusters"),
    "a word": ("hello", "it lists no clusters"),
    "another kind of document": ("kind: Pod", "it lists no clusters"),
    "clusters are no list": (but(clusters={"a": 1}), "clusters must be a list"),
    "an entry without a name": (but(users=[{"user": {}}]), "an entry of users has no name"),
    "an entry that is a word": (but(contexts=["c"]), "an entry of contexts has no name"),
    "no current context": (but(current_context=None), "no context is chosen"),
    "unknown context": (but(current_context="d"), "there is no context named 'd' (there: c)"),
    "unknown cluster": (but(clusters=[]), "there is no cluster named 'k' (there: none)"),
    "unknown user": (but(users=None), "there is no user named 'u' (there: none)"),
    "a context that is a word": (but(contexts=[{"name": "c", "context": "x"}]), "no cluster is chosen"),
    "no server": (with_cluster(server=None), "cluster 'k' names no server URL"),
    "a server without a scheme": (with_cluster(server="k:6443"), "cluster 'k' names no server URL"),
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
        with_user(client_certificate_data="aGVsbG8=", client_key_data="?"),
        "client-key-data is not base64",
    ),
    "certificate without key": (
        with_user(client_certificate_data="aGVsbG8="),
        "a client certificate and its key go together",
    ),
    "certificate is none": (
        with_user(client_certificate_data="aGVsbG8=", client_key_data="aGVsbG8="),
        "its certificates cannot be used",
    ),
    "a plug-in": (with_user(exec={"command": "aws"}), "login by exec is known to the operator only"),
    "an identity provider": (
        with_user(auth_provider={"name": "oidc"}),
        "login by auth-provider is known to the operator only",
    ),
}


@pytest.mark.parametrize(("text", "fault"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_one_line(folder: Folder, text: str | bytes, fault: str) -> None:
    """Whatever is wrong with a kubeconfig is one line that names the file and the fault."""
    config = folder.text("broken", text)

    with pytest.raises(errors.Unusable) as caught:
        connection.load(config)

    sentence = str(caught.value)
    assert str(config) in sentence
    assert fault in sentence
    assert "\n" not in sentence


def test_a_file_that_is_not_there_is_one_line(folder: Folder) -> None:
    """A missing file and a folder in its place are told as such."""
    missing = folder.path / "missing"

    with pytest.raises(errors.Unusable, match=f"The kubeconfig {missing} does not exist"):
        connection.load(missing)
    with pytest.raises(errors.Unusable, match=f"The kubeconfig {folder.path} cannot be read: Is a directory"):
        connection.load(folder.path)


def test_of_several_files_one_must_exist(folder: Folder) -> None:
    """A list of files of which none is there is told with all their names."""
    files = f"{folder.path}/a:{folder.path}/b"

    with pytest.raises(errors.Unusable, match=f"No kubeconfig file exists at {files}"):
        connection.load(files)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("clusters: []\nx: 2020-99-99", id="an impossible date"),
        pytest.param("[" * 5000, id="nested without end"),
        pytest.param("clusters: [{name: c, cluster: {server: 'https://c:99999'}}]", id="an impossible port"),
        pytest.param("clusters: [{name: c, cluster: {server: 'https://'}}]", id="no host"),
        pytest.param("clusters: [{name: c, cluster: {server: 'https://a b'}}]", id="a space in the host"),
        pytest.param(
            "clusters: [{name: c, cluster: {server: 'https://c', proxy-url: 5}}]", id="a number as proxy"
        ),
        pytest.param(
            "clusters: [{name: c, cluster: {server: 'https://c', proxy-url: x}}]", id="no URL as proxy"
        ),
        pytest.param(
            "clusters: [{name: c, cluster: {server: 'https://c', tls-server-name: 5}}]", id="a number as name"
        ),
    ],
)
def test_what_makes_no_sense_is_one_line(tmp_path: Path, text: str) -> None:
    """Whatever stands in a kubeconfig, it is refused in one line that names the file."""
    path = tmp_path / "odd.kubeconfig"
    rest = (
        "\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n" if "clusters" in text else ""
    )
    path.write_text(text + rest)

    with pytest.raises(errors.Unusable) as refused:
        connection.load(path)

    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
