"""What the tests of the client share: kubeconfigs of every form, and an administrator's session."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_crds.client import api, connection, list_backoff
from client.informers import InformerSetup
from support import stub
from testbed import cluster as clusters
from testbed import pki


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> pki.Authority:
    """Return a certificate authority."""
    return pki.Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def pair(authority: pki.Authority) -> pki.Pair:
    """Return a client certificate and its key."""
    return authority.client("somebody", file="somebody")


def kubeconfig(context: str = "c", *, user: Any = None, cluster: Any = None, **parts: Any) -> str:
    """Write a kubeconfig of one context, whose cluster and user have names of their own."""
    document = {
        "clusters": [
            {
                "name": f"{context}-cluster",
                "cluster": cluster or {"server": f"https://{context}.example:6443"},
            }
        ],
        "users": [{"name": f"{context}-user", "user": {"token": "t0ken"} if user is None else user}],
        "contexts": [
            {"name": context, "context": {"cluster": f"{context}-cluster", "user": f"{context}-user"}}
        ],
        "current-context": context,
    }
    return yaml.safe_dump(document | {name.replace("_", "-"): part for name, part in parts.items()})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for kubeconfigs, and make an environment that leads nowhere else."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
async def admin(cluster: clusters.Cluster) -> AsyncIterator[api.Api]:
    """Yield a session of the administrator."""
    async with api.Api(connection.load(cluster.admin_kubeconfig), agent="test-admin") as session:
        yield session
        await asyncio.sleep(0)


@pytest.fixture
async def server() -> AsyncIterator[stub.Stub]:
    """Yield a stub server."""
    async with stub.Stub() as running:
        yield running


@pytest.fixture
async def session(server: stub.Stub) -> AsyncIterator[api.Api]:
    """Yield a session with the stub server."""
    async with api.Api(server.link, agent="test") as opened:
        yield opened


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch, server: stub.Stub, session: api.Api) -> InformerSetup:
    """Return an informer in front of the stub server, which retries soon after a failure."""
    monkeypatch.setattr(list_backoff, "BACKOFF_SECONDS", (0.01,))
    return InformerSetup(server, session)
