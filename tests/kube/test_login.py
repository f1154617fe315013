"""Logging in with every form of kubeconfig, on a real API server, and what is said when it fails."""

import asyncio
import base64
import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from berth_crds import names
from berth_crds.client import api, connection, errors
from berth_operator.kube import login
from kube import eventually
from support import clock
from testbed import cluster as clusters

USER = "system:serviceaccount:berth-system:berth-operator"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

PLUGIN = """\
#!{python}
import json, os, pathlib, sys
runs = pathlib.Path({runs!r})
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
assert json.loads(os.environ["KUBERNETES_EXEC_INFO"])["kind"] == "ExecCredential"
{body}
"""


class Folder:
    """A folder with a kubeconfig and an exec plug-in in it."""

    def __init__(self, path: Path, cluster: clusters.Cluster) -> None:
        self.path = path
        self.cluster = cluster
        self.runs = path / "runs"

    def token(self) -> str:
        """Return a fresh token of the operator's account."""
        return self.cluster.token(names.SYSTEM_NAMESPACE, names.OPERATOR_ACCOUNT)

    def plugin(self, body: str) -> dict[str, Any]:
        """Write a plug-in, and give the user that runs it."""
        path = self.path / "plugin"
        path.write_text(PLUGIN.format(python=sys.executable, runs=str(self.runs), body=body))
        path.chmod(0o755)
        return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path)}}

    def credential(self, **status: str) -> dict[str, Any]:
        """Write a plug-in that gives a credential."""
        thing = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "kind": "ExecCredential",
            "status": status,
        }
        return self.plugin(f"print({json.dumps(thing)!r})")

    def config(self, user: Mapping[str, Any], *, name: str = "config", **cluster: Any) -> str:
        """Write a kubeconfig."""
        authority = base64.b64encode(self.cluster.ca_file.read_bytes()).decode()
        entry = {"server": self.cluster.server, "certificate-authority-data": authority} | cluster
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "k", "cluster": {k: v for k, v in entry.items() if v is not None}}],
            "users": [{"name": "u", "user": dict(user)}],
            "contexts": [{"name": name, "context": {"cluster": "k", "user": "u", "namespace": "ml"}}],
            "current-context": name,
        }
        path = self.path / name
        path.write_text(yaml.safe_dump(document))
        return str(path)


@pytest.fixture
def folder(tmp_path: Path, berth: clusters.Cluster) -> Folder:
    """Lend a folder."""
    return Folder(tmp_path, berth)


async def whoami(link: connection.Connection) -> str:
    """Ask the server who we are."""
    body = b'{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}'
    async with api.Api(link, agent="test-login") as session:
        answer = json.loads(await session.send("POST", WHO, body=body))
    name: str = answer["status"]["userInfo"]["username"]
    return name


# ---------------------------------------------------------------- who we are then


def by_token(folder: Folder) -> dict[str, Any]:
    """Log in by a token."""
    return {"token": folder.token()}


def by_token_file(folder: Folder) -> dict[str, Any]:
    """Log in by a token in a file beside the kubeconfig."""
    (folder.path / "token").write_text(folder.token())
    return {"tokenFile": "token"}


def by_plugin(folder: Folder) -> dict[str, Any]:
    """Log in by a plug-in that gives a token."""
    return folder.credential(token=folder.token())


def by_certificate(folder: Folder) -> dict[str, Any]:
    """Log in by a client certificate in the kubeconfig."""
    user: dict[str, Any] = yaml.safe_load(folder.cluster.admin_kubeconfig.read_text())["users"][0]["user"]
    return user


def by_certificate_of_a_plugin(folder: Folder) -> dict[str, Any]:
    """Log in by a plug-in that gives a client certificate instead of a token."""
    user = by_certificate(folder)
    return folder.credential(
        clientCertificateData=base64.b64decode(user["client-certificate-data"]).decode(),
        clientKeyData=base64.b64decode(user["client-key-data"]).decode(),
    )


@pytest.mark.parametrize(
    ("form", "name"),
    [
        (by_token, USER),
        (by_token_file, USER),
        (by_plugin, USER),
        (by_certificate, "testbed-admin"),
        (by_certificate_of_a_plugin, "testbed-admin"),
    ],
)
async def test_any_form_of_login(folder: Folder, form: Callable[[Folder], dict[str, Any]], name: str) -> None:
    """By token, certificate, file or plug-in, the server knows who we are."""
    link = await login.connect(folder.config(form(folder)))

    assert await whoami(link) == name
    assert link.namespace == "ml"


async def test_a_password_becomes_a_header(folder: Folder) -> None:
    """Name and password travel as they do for kubectl."""
    link = await login.connect(folder.config({"username": "ada", "password": "secret"}))

    assert await link.authorization() == "Basic " + base64.b64encode(b"ada:secret").decode()


@pytest.mark.parametrize(
    "entry",
    [
        {"certificate-authority-data": None, "insecure-skip-tls-verify": True},
        {"tls-server-name": "kubernetes.default"},
    ],
    ids=["without proof", "under a name of our choice"],
)
async def test_how_the_server_proves_itself(folder: Folder, entry: dict[str, Any]) -> None:
    """Without proof of the server, or under another name, the same server is reached."""
    link = await login.connect(folder.config(by_token(folder), **entry))

    assert await whoami(link) == USER


async def test_the_first_current_context_wins(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several files in KUBECONFIG the first one that names a context decides, as for kubectl."""
    first = folder.config(by_token(folder), name="first")
    second = folder.config({"token": "nonsense"}, name="second", server="https://127.0.0.1:9")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([first, str(folder.path / "missing"), second]))

    link = await login.connect()

    assert link.origin.endswith("context first")
    assert await whoami(link) == USER


# ---------------------------------------------------------------- renewal

SHORT: Final = "t"
NEW: Final = "new"


async def renewing(folder: Folder, user: Mapping[str, Any], time: clock.Clock) -> login.Login:
    """Return a login with a kubeconfig that lives by a clock of ours."""
    made = (await login.connect(folder.config(user))).authorization
    assert isinstance(made, login.Login)
    return login.Login(made._loader, made._found, clock=time)


@pytest.mark.parametrize(
    ("left", "runs"), [(3600, "x"), (-3600, "xx")], ids=["still good: kept", "expired: asked again"]
)
async def test_a_plugin_is_asked_again_when_its_token_expired(folder: Folder, left: int, runs: str) -> None:
    """Once a minute the token's age is looked at; the plug-in runs again only when it is over."""
    end = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=left)).strftime("%Y-%m-%dT%H:%M:%SZ")
    time, found = clock.Clock(), []
    header = await renewing(folder, folder.credential(token=SHORT, expirationTimestamp=end), time)

    for seconds in (59, 1):
        time.advance(seconds)
        found.append((await header(), folder.runs.read_text()))

    assert found == [("Bearer t", "x"), ("Bearer t", runs)]


async def test_a_rotated_token_file_is_read_again(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token file that somebody keeps fresh is read again within a minute."""
    monkeypatch.setattr(connection, "TOKEN_REFRESH_SECONDS", 0.0)
    file = folder.path / "token"
    file.write_text("one")
    header = (await login.connect(folder.config({"tokenFile": "token"}))).authorization

    assert await header() == "Bearer one"
    file.write_text("two")
    assert await header() == "Bearer two"


@pytest.mark.parametrize(
    ("user", "loaded"),
    [({"token": "t"}, "[]"), ({"username": "u", "password": "p"}, "['kubernetes_asyncio']")],
)
def test_the_library_is_loaded_for_logins_that_need_it(
    folder: Folder, user: dict[str, str], loaded: str
) -> None:
    """And not by Kopf, which would take it if it found it."""
    program = (
        "import asyncio, sys, berth_operator.app\n"
        "from berth_operator.kube import login\n"
        "asyncio.run(login.connect(sys.argv[1]))\n"
        "print([name for name in sys.modules if name == 'kubernetes_asyncio'])"
    )

    said = subprocess.run(
        [sys.executable, "-c", program, folder.config(user)], capture_output=True, text=True, check=True
    )

    assert said.stdout.strip() == loaded


async def test_a_renewal_that_fails_is_one_failed_request(folder: Folder) -> None:
    """A plug-in that breaks later costs the request that asked, and is asked again a minute later."""
    expired = folder.credential(token=SHORT, expirationTimestamp="2020-01-01T00:00:00Z")
    time = clock.Clock()
    header = await renewing(folder, expired, time)
    folder.plugin("sys.exit('the identity provider is away')")

    time.advance(60)
    with pytest.raises(errors.Unreachable, match="the identity provider is away") as caught:
        await header()
    after = await header()
    folder.credential(token=NEW)
    time.advance(60)

    assert not caught.value.ambiguous
    assert (after, await header()) == ("Bearer t", "Bearer new")


# ---------------------------------------------------------------- what fails

PLUGINS = {
    "ends badly": ("sys.exit('first line\\nsecond line')", "first line second line"),
    "says nothing": ("pass", "failed to decode"),
    "says no JSON": ("print('hello')", "failed to decode"),
    "says something else": ("print('{}')", "missing key"),
    "gives nothing": (
        'print(\'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "x", "status": {}}\')',
        "gave neither a token nor a certificate",
    ),
}


async def refusal(config: str) -> str:
    """Return the line that refuses a kubeconfig, which names it."""
    with pytest.raises(errors.Unusable) as caught:
        await login.connect(config)
    assert config in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("body", "fault"), PLUGINS.values(), ids=PLUGINS.keys())
async def test_a_plugin_that_fails_is_one_line(folder: Folder, body: str, fault: str) -> None:
    """Whatever a plug-in does wrong is one line that names the kubeconfig and the fault."""
    config = folder.config(folder.plugin(body))

    line = await refusal(config)

    assert line.startswith(f"{config}: login failed: ")
    assert fault in line


async def test_a_plugin_that_is_not_there_is_one_line(folder: Folder) -> None:
    """A program that does not exist is named."""
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-program"}}

    assert "no-such-program" in await refusal(folder.config(user))


async def test_a_plugin_that_hangs_is_ended(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in that waits for somebody at a keyboard is told of after a time, and killed."""
    monkeypatch.setattr(login, "PLUGIN_SECONDS", 1.0)
    body = "import time; (runs.parent / 'pid').write_text(str(os.getpid())); time.sleep(600)"

    line = await refusal(folder.config(folder.plugin(body)))

    assert line.endswith("login failed: no answer within 1 s.")
    process = Path("/proc") / (folder.path / "pid").read_text()
    await eventually.holds(lambda: not process.exists(), "the plug-in to end")
    await asyncio.sleep(0.2)  # The loop learns of it from a thread.


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        pytest.param({"server": None}, "cluster 'k' names no server URL", id="no server"),
        pytest.param({"server": "k:6443"}, "cluster 'k' names no server URL", id="no scheme"),
        pytest.param({"certificate-authority-data": "%%%"}, "is not base64", id="no base64"),
        pytest.param(
            {"certificate-authority-data": "aGVsbG8="}, "does not contain a certificate", id="no certificate"
        ),
        pytest.param(
            {"certificate-authority-data": None, "certificate-authority": "gone.crt"},
            "gone.crt",
            id="no such file",
        ),
    ],
)
async def test_a_cluster_that_cannot_be_used_is_one_line(
    folder: Folder, change: dict[str, Any], fault: str
) -> None:
    """What is wrong with the cluster is one line that names the kubeconfig and the fault."""
    assert fault in await refusal(folder.config({"token": "t"}, **change))


async def test_no_secret_is_told(folder: Folder) -> None:
    """What the line quotes of the kubeconfig has neither keys nor tokens in it."""
    user = {"token": None, "client-key-data": "c2VjcmV0", "username": "ada", "password": "s3cret"}

    line = await refusal(folder.config(user))

    assert "c2VjcmV0" not in line
    assert "s3cret" not in line
