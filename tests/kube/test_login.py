"""Logging in with every form of kubeconfig, on a real API server, and what is said when it fails."""

import asyncio
import base64
import datetime as dt
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from berth_crds import names
from berth_crds.client import api, connection, errors
from berth_operator.kube import login
from support import clock
from testbed import cluster as clusters
from testbed import waiting

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


def token(folder: Folder) -> str:
    """Get a fresh token of the operator's account."""
    return folder.cluster.token(names.SYSTEM_NAMESPACE, names.OPERATOR_ACCOUNT)


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
    return {"token": token(folder)}


def by_token_file(folder: Folder) -> dict[str, Any]:
    """Log in by a token in a file beside the kubeconfig."""
    (folder.path / "token").write_text(token(folder))
    return {"tokenFile": "token"}


def by_plugin(folder: Folder) -> dict[str, Any]:
    """Log in by a plug-in that gives a token."""
    return folder.credential(token=token(folder))


@pytest.mark.parametrize("form", [by_token, by_token_file, by_plugin])
async def test_a_token_of_any_origin(folder: Folder, form: Callable[[Folder], dict[str, Any]]) -> None:
    """By token, token file or plug-in, the server knows who we are."""
    link = await login.connect(folder.config(form(folder)))

    assert await whoami(link) == USER
    assert link.namespace == "ml"


async def test_a_certificate(berth: clusters.Cluster) -> None:
    """The administrator's kubeconfig, which has a client certificate in it, works."""
    link = await login.connect(str(berth.admin_kubeconfig))

    assert await whoami(link) == "testbed-admin"


async def test_a_certificate_from_a_plugin(folder: Folder, berth: clusters.Cluster) -> None:
    """A plug-in may give a client certificate instead of a token."""
    admin = yaml.safe_load(berth.admin_kubeconfig.read_text())["users"][0]["user"]
    pair = {
        "clientCertificateData": base64.b64decode(admin["client-certificate-data"]).decode(),
        "clientKeyData": base64.b64decode(admin["client-key-data"]).decode(),
    }

    link = await login.connect(folder.config(folder.credential(**pair)))

    assert await whoami(link) == "testbed-admin"


async def test_a_password_becomes_a_header(folder: Folder) -> None:
    """Name and password travel as they do for kubectl."""
    link = await login.connect(folder.config({"username": "ada", "password": "secret"}))

    assert await link.authorization() == "Basic " + base64.b64encode(b"ada:secret").decode()


async def test_insecure_and_server_name(folder: Folder) -> None:
    """Without proof of the server, or under a name of our choice, the same server is reached."""
    user = by_token(folder)
    insecure = {"certificate-authority-data": None, "insecure-skip-tls-verify": True}
    named = {"tls-server-name": "kubernetes.default"}

    links = [
        await login.connect(folder.config(user, name=name, **cluster))
        for name, cluster in (("insecure", insecure), ("named", named))
    ]

    assert [await whoami(link) for link in links] == [USER, USER]


async def test_the_first_current_context_wins(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several files in KUBECONFIG the first one that names a context decides, as for kubectl."""
    first = folder.config(by_token(folder), name="first")
    second = folder.config({"token": "nonsense"}, name="second", server="https://127.0.0.1:9")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([first, str(folder.path / "missing"), second]))

    link = await login.connect()

    assert link.origin.endswith("context first")
    assert await whoami(link) == USER


# ---------------------------------------------------------------- renewal


def on(time: clock.Clock, link: connection.Connection) -> login.Login:
    """Give a connection's login, living by a clock of ours."""
    made = link.authorization
    assert isinstance(made, login.Login)
    return login.Login(made._loader, made._found, clock=time)


SHORT: Final = "t"
NEW: Final = "new"


@pytest.mark.parametrize(
    ("left", "runs"), [(3600, "x"), (-3600, "xx")], ids=["still good: kept", "expired: asked again"]
)
async def test_a_plugin_is_asked_again_when_its_token_expired(folder: Folder, left: int, runs: str) -> None:
    """Once a minute the token's age is looked at; the plug-in runs again only when it is over."""
    end = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=left)).strftime("%Y-%m-%dT%H:%M:%SZ")
    user = folder.credential(token=SHORT, expirationTimestamp=end)
    time = clock.Clock()
    link = await login.connect(folder.config(user))
    renewing = on(time, link)

    time.advance(59)
    await renewing()
    assert folder.runs.read_text() == "x"
    time.advance(1)
    header = await renewing()

    assert header == "Bearer t"
    assert folder.runs.read_text() == runs


async def test_a_rotated_token_file_is_read_again(folder: Folder) -> None:
    """A token file that somebody keeps fresh is read again within a minute."""
    (folder.path / "token").write_text("one")
    time = clock.Clock()
    link = await login.connect(folder.config({"tokenFile": "token"}))
    renewing = on(time, link)
    (folder.path / "token").write_text("two")

    time.advance(60)

    assert await renewing() == "Bearer two"


async def test_a_renewal_that_fails_is_one_failed_request(folder: Folder) -> None:
    """A plug-in that breaks later costs the request that asked, and is asked again a minute later."""
    expired = folder.credential(token=SHORT, expirationTimestamp="2020-01-01T00:00:00Z")
    time = clock.Clock()
    link = await login.connect(folder.config(expired))
    renewing = on(time, link)
    folder.plugin("sys.exit('the identity provider is away')")

    time.advance(60)
    with pytest.raises(errors.Unreachable, match="the identity provider is away") as caught:
        await renewing()
    after = await renewing()
    folder.credential(token=NEW)
    time.advance(60)

    assert not caught.value.ambiguous
    assert after == "Bearer t"
    assert await renewing() == "Bearer new"


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


@pytest.mark.parametrize(("body", "fault"), PLUGINS.values(), ids=PLUGINS.keys())
async def test_a_plugin_that_fails_is_one_line(folder: Folder, body: str, fault: str) -> None:
    """Whatever a plug-in does wrong is one line that names the kubeconfig and the fault."""
    config = folder.config(folder.plugin(body))

    with pytest.raises(errors.Unusable) as caught:
        await login.connect(config)

    sentence = str(caught.value)
    assert sentence.startswith(f"{config}: login failed: ")
    assert fault in sentence
    assert "\n" not in sentence


async def test_a_plugin_that_is_not_there_is_one_line(folder: Folder) -> None:
    """A program that does not exist is named."""
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-program"}}

    with pytest.raises(errors.Unusable, match="no-such-program"):
        await login.connect(folder.config(user))


async def test_a_plugin_that_hangs_is_ended(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plug-in that waits for somebody at a keyboard is told of after a time, and killed."""
    monkeypatch.setattr(login, "PLUGIN_SECONDS", 1.0)
    body = "import time; (runs.parent / 'pid').write_text(str(os.getpid())); time.sleep(600)"
    config = folder.config(folder.plugin(body))

    with pytest.raises(errors.Unusable) as caught:
        await login.connect(config)

    assert str(caught.value).endswith("login failed: no answer within 1 s.")
    pid = (folder.path / "pid").read_text()

    process = Path(f"/proc/{pid}")

    async def ended() -> bool:
        return not await asyncio.to_thread(process.exists)

    await waiting.eventually(ended, what="the plug-in to end")
    await asyncio.sleep(0.2)  # The loop learns of it from a thread.


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        pytest.param({"server": None}, "cluster 'k' names no server URL", id="no server"),
        pytest.param({"server": "k:6443"}, "cluster 'k' names no server URL", id="no scheme"),
        pytest.param({"certificate-authority-data": "%%%"}, "login failed", id="no base64"),
        pytest.param({"certificate-authority-data": "aGVsbG8="}, "login failed", id="no certificate"),
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
    config = folder.config({"token": "t"}, **change)

    with pytest.raises(errors.Unusable) as caught:
        await login.connect(config)

    sentence = str(caught.value)
    assert config in sentence
    assert fault in sentence
    assert "\n" not in sentence


async def test_no_secret_is_told(folder: Folder) -> None:
    """What the line quotes of the kubeconfig has neither keys nor tokens in it."""
    user = {"token": None, "client-key-data": "c2VjcmV0", "username": "ada", "password": "s3cret"}

    with pytest.raises(errors.Unusable) as caught:
        await login.connect(folder.config(user))

    assert "c2VjcmV0" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
