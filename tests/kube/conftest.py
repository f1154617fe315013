"""What the tests of the operator's edge to the cluster share."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import api, connection, errors, resources
from support import pods, stub
from testbed import cluster as clusters
from testbed import proxy, shipped


@pytest.fixture(scope="session")
def berth(cluster: clusters.Cluster) -> clusters.Cluster:
    """Lend the cluster with our kinds, roles and default policy on it.

    The admission policies stay away: damaged and foreign records, which tests here make by
    hand, come from clusters that did not have them yet; and agents of tests that share the
    cluster start before their Nodes are there, which no token could name.
    """
    shipped.install(cluster, without=("admission.yaml", "agents.yaml"))
    return cluster


@pytest.fixture
async def admin(berth: clusters.Cluster) -> AsyncIterator[api.Api]:
    """Lend a session of the administrator."""
    async with api.Api(connection.load(berth.admin_kubeconfig), agent="test-admin") as session:
        yield session


@pytest.fixture
def pod_client(admin: api.Api, namespace: str) -> pods.PodClient:
    """Lend the administrator's access to the pods of a namespace."""
    return pods.PodClient(admin, namespace)


@pytest.fixture
async def server() -> AsyncIterator[stub.Stub]:
    """Lend a server that answers as a test says."""
    async with stub.Stub() as server:
        yield server


@pytest.fixture
async def stub_session(server: stub.Stub) -> AsyncIterator[api.Api]:
    """Lend a session with that server."""
    async with api.Api(server.link, agent="test") as session:
        yield session


@pytest.fixture(scope="session")
def account(berth: clusters.Cluster) -> Path:
    """Lend a kubeconfig of the operator's own service account."""
    return berth.kubeconfig_for(names.SYSTEM_NAMESPACE, names.OPERATOR_ACCOUNT)


class RecordingApi(api.Api):
    """A session that records what was sent through it."""

    def __init__(self, link: connection.Connection, *, agent: str) -> None:
        super().__init__(link, agent=agent)
        self.sent: list[tuple[str, str]] = []

    async def send(self, method: str, path: str, **rest: Any) -> bytes:
        """Send, and record."""
        self.sent.append((method, path))
        return await super().send(method, path, **rest)


@pytest.fixture
async def session(account: Path) -> AsyncIterator[RecordingApi]:
    """Lend a session of the operator's own account."""
    async with RecordingApi(connection.load(account), agent="test-operator") as session:
        yield session


@dataclasses.dataclass(frozen=True, slots=True)
class Wired:
    """A session of the operator's account, and the wire that it speaks through."""

    session: api.Api
    wire: proxy.Proxy


@pytest.fixture
async def wired(berth: clusters.Cluster, account: Path) -> AsyncIterator[Wired]:
    """Lend a session through a wire that can be cut."""
    async with proxy.Proxy(berth.port) as wire:
        link = dataclasses.replace(connection.load(account), server=wire.server)
        async with api.Api(link, agent="test-wired") as session:
            yield Wired(session, wire)
        # A connection that was being made at the end is still on its way into the proxy.
        await asyncio.sleep(0.05)


@pytest.fixture
async def no_leader(admin: api.Api) -> AsyncIterator[None]:
    """Make sure that nobody holds the leader's Lease, before and after."""
    await _forget_leader(admin)
    yield
    await _forget_leader(admin)


async def _forget_leader(admin: api.Api) -> None:
    with contextlib.suppress(errors.NotFound):
        await admin.delete(resources.LEASES, names.LEADER_LEASE, namespace=names.SYSTEM_NAMESPACE)
