"""What the tests of the client share: kubeconfigs of every form, and an administrator's session."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth_crds.client import api, connection, informer
from client.scenes import Scene
from support import stub
from testbed import cluster as clusters
from testbed import pki


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> pki.Authority:
    """Lend a certificate authority."""
    return pki.Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def pair(authority: pki.Authority) -> pki.Pair:
    """Lend a client certificate and its key."""
    return authority.client("somebody", file="somebody")


class Folder:
    """A folder of kubeconfigs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(
        self,
        name: str = "config",
        *,
        user: Any = None,
        cluster: Any = None,
        context: str = "c",
        current: str | None = "",
    ) -> Path:
        """Write a kubeconfig of one context, whose cluster and user have names of their own."""
        server = {"server": f"https://{context}.example:6443"}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": f"{context}-cluster", "cluster": server if cluster is None else cluster}],
            "users": [{"name": f"{context}-user", "user": {"token": "t0ken"} if user is None else user}],
            "contexts": [
                {"name": context, "context": {"cluster": f"{context}-cluster", "user": f"{context}-user"}}
            ],
            "current-context": context if current == "" else current,
        }
        return self.text(name, yaml.safe_dump(document))

    def text(self, name: str, text: str | bytes) -> Path:
        """Write a file as it is."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """Lend a folder, and an environment that leads nowhere else."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return Folder(tmp_path)


@pytest.fixture
async def admin(cluster: clusters.Cluster) -> AsyncIterator[api.Api]:
    """Lend a session of the administrator."""
    async with api.Api(connection.load(cluster.admin_kubeconfig), agent="test-admin") as session:
        yield session
        await asyncio.sleep(0)


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """Lend a scene in which failures are waited out quickly."""
    monkeypatch.setattr(informer, "BACKOFF_SECONDS", (0.01,))
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        yield Scene(server, session)
