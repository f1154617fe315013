"""An agent at work on the real cluster, and eyes and hands of an administrator beside it.

The agent runs inside the test, under its own service account and the roles of the
manifests; what it may not do there it cannot do here. Pods are bound and moved through
their phases by the administrator, because what a kubelet or a scheduler would do is
nothing these tests are about.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from agent import accounts
from berth_agent import loop, node_view, probe, simulated
from berth_agent.kubelet import podresources
from berth_crds import allocation, names, vocabulary, wire
from berth_crds.client import api, connection, errors, lease, resources
from support import nodes
from support.crowd import Crowd, Crowded
from support.nvml import presets
from support.podresources import Kubelet
from testbed import audit, shipped, waiting, workers
from testbed import cluster as clusters

INTERVAL = 0.2
PATIENCE = 15.0
USER = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"

T = TypeVar("T")


@pytest.fixture(scope="session")
def berth(cluster: clusters.Cluster) -> clusters.Cluster:
    """Lend the cluster with Berth's kinds and roles in it."""
    shipped.install_kinds(cluster)
    cluster.apply(shipped.MANIFESTS / "rbac.yaml")
    return cluster


class Thing(wire.Struct, frozen=True):
    """Any object, of which only the identity matters."""

    metadata: wire.Meta


class Scene:
    """One node, the agent that speaks for it, and an administrator."""

    def __init__(self, cluster: clusters.Cluster, admin: api.Api, namespace: str, tmp_path: Path) -> None:
        self.cluster = cluster
        self.admin = admin
        self.namespace = namespace
        self.node = f"agent-{secrets.token_hex(3)}"
        self.shape = "2xA100-SXM4-80GB"
        self.faults = tmp_path / "faults.json"
        self.faults.write_text("{}")  # A file that is not there would be complained of.
        # No kubelet runs what tests bind, unless they bring one.
        self.pod_spec: Mapping[str, Any] = {"containers": [{"name": "main", "image": "none"}]}
        # Who tells what pods hold: the simulated cards, unless a kubelet or a crowd is asked.
        self.socket: Path | None = None
        self.crowd: Crowd | None = None
        self.rules = nodes.AT_ONCE  # A card that answers is well, unless a test is about the way back.
        self.interval, self.deadline = INTERVAL, 5.0
        self._has_node = False
        self.clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)

    @contextlib.asynccontextmanager
    async def agent(
        self,
        *,
        kubeconfig: Path | None = None,
        name: str = "agent-1",
        source: probe.Probe | None = None,
        labels: bool = False,
        node: bool = True,
    ) -> AsyncIterator[node_view.NodeView]:
        """Run the agent of the node, made if it is not there; it must not have failed at the end."""
        if node and not self._has_node:
            await self.create_node()
        where = connection.load(kubeconfig or self.kubeconfig())
        config = replace(self._subject(source), labels=labels)
        runtime = loop.ProcessContext(self.clock, identity=name)
        timing = loop.Timing(self.interval, deadline=self.deadline, lease_seconds=40)
        async with api.Api(where, agent="berth-agent-test") as session:
            view = node_view.NodeView(self.node)
            task = asyncio.create_task(loop.NodeAgent(session, config, timing, runtime, view).run())
            try:
                yield view
                assert not task.done(), "the agent ended by itself"
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    def kubeconfig(self, server: str | None = None) -> Path:
        """Return the kubeconfig of an agent, which may lead to the API server by a way of its own."""
        return self.cluster.kubeconfig_for(names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT, server=server)

    def _subject(self, source: probe.Probe | None) -> loop.NodeConfig:
        cards = source or simulated.SimulatedProbe(self.node, self.shape, self.faults)
        return loop.NodeConfig(
            self.node,
            Crowded(cards, self.crowd) if self.crowd else cards,
            None if self.socket or self.crowd else vocabulary.GrantSource.SIMULATED,
            kubelet=podresources.PodResourcesClient(self.socket, deadline=1) if self.socket else None,
            procfs=self.crowd.procfs if self.crowd else Path("/nowhere"),
            rules=self.rules,
        )

    def crowded(self, tmp_path: Path) -> Crowd:
        """Have a driver that tells processes, and give them."""
        self.crowd = Crowd(tmp_path / "proc")
        return self.crowd

    def uuid(self, minor: int) -> str:
        """Return the uuid of a card of the node."""
        return self.card(minor).uuid

    def card(self, minor: int) -> probe.Card:
        """Return a card of the node."""
        return list(simulated.machine(self.node, self.shape).answering_cards())[minor]

    def limited_account(self) -> accounts.Limited:
        """Make an account that may read what an agent reads, and write nothing but Leases."""
        name = f"limited-{self.node}"
        self.cluster.apply(accounts.LIMITED.format(name=name, namespace=self.namespace))
        kubeconfig = self.cluster.kubeconfig_for(self.namespace, name)
        return accounts.Limited(self.cluster, self.namespace, name, kubeconfig)

    def writes(self) -> list[audit.AuditEvent]:
        """Return what the agents have written about this node and in this namespace."""
        events = audit.writes_by(self.cluster.audit(), USER)
        return [each for each in events if each.name == self.node or each.namespace == self.namespace]

    # What stands in the API.

    async def device(self) -> wire.Device | None:
        """Read the Device of the node."""
        return await _or_none(self.admin.get(resources.DEVICES, self.node, into=wire.Device))

    async def heartbeat(self) -> lease.Lease | None:
        """Read the Lease of the node."""
        found = self.admin.get(resources.LEASES, self.node, into=lease.Lease, namespace=names.NODES_NAMESPACE)
        return await _or_none(found)

    async def gpupod(self, name: str) -> wire.GpuPod | None:
        """Read a GpuPod."""
        found = self.admin.get(resources.GPU_PODS, name, into=wire.GpuPod, namespace=self.namespace)
        return await _or_none(found)

    async def until_device(
        self, holds: Callable[[wire.Device], object], *, what: str, seconds: float = PATIENCE
    ) -> wire.Device:
        """Wait until the Device is there and something holds of it."""
        return await self._until(self.device, holds, what=what, seconds=seconds)

    async def until_lease(self, holds: Callable[[lease.Lease], object], *, what: str) -> lease.Lease:
        """Wait until the Lease is there and something holds of it."""
        return await self._until(self.heartbeat, holds, what=what)

    async def until_gpupod(
        self,
        name: str,
        holds: Callable[[wire.GpuPod], object] = lambda it: it.status.phase,
        *,
        what: str = "the GpuPod",
        seconds: float = PATIENCE,
    ) -> wire.GpuPod:
        """Wait until a GpuPod is there and something holds of it."""
        return await self._until(lambda: self.gpupod(name), holds, what=what, seconds=seconds)

    async def until_verified(
        self, name: str, truth: str, reason: str, *, seconds: float = PATIENCE
    ) -> wire.GpuPod:
        """Wait until a GpuPod says this of itself."""
        return await self.until_gpupod(
            name,
            lambda it: [(one.status, one.reason) for one in it.status.conditions] == [(truth, reason)],
            what=f"{name} to be {reason}",
            seconds=seconds,
        )

    async def until_kubelet_ready(self, truth: str) -> wire.Device:
        """Wait until the Device says this of its kubelet."""
        wanted = "PodResourcesReady", truth
        return await self.until_device(
            lambda it: wanted in {(one.type, one.status) for one in it.status.conditions}, what=str(wanted)
        )

    async def until_no_gpupod(self, name: str) -> None:
        """Wait until a GpuPod is gone."""

        async def gone() -> bool:
            return await self.gpupod(name) is None

        await waiting.eventually(gone, what=f"the GpuPod {name} to go")

    async def until(self, holds: Callable[[], object], *, what: str) -> None:
        """Wait until something holds that needs no question to the API."""
        await waiting.eventually(lambda: asyncio.sleep(0, holds()), what=what)

    async def until_renewed(self, settled: int, count: int) -> None:
        """Wait until the Lease has been renewed so many times since so many writes."""
        await self.until(
            lambda: len(audit.writes_to(self.writes()[settled:], "leases")) >= count, what=f"{count} renewals"
        )

    async def settled(self) -> int:
        """Return how much was written until now, after two renewals: lines of the audit may be late."""
        await self.until_renewed(len(self.writes()), 2)
        return len(self.writes())

    async def _until(
        self,
        read: Callable[[], Awaitable[T | None]],
        holds: Callable[[T], object],
        *,
        what: str,
        seconds: float = PATIENCE,
    ) -> T:
        last: T | None = None

        async def found() -> T | None:
            nonlocal last
            last = await read()
            return last if last is not None and holds(last) else None

        return await waiting.eventually(found, what=what, seconds=seconds, instead=lambda: last)

    # What the administrator does.

    async def create_node(self) -> str:
        """Create the Node and give its uid."""
        self._has_node = True
        await self.admin.create(resources.NODES, {"metadata": {"name": self.node}})
        return (await self.admin.get(resources.NODES, self.node, into=Thing)).metadata.uid

    async def bound_pod(self, name: str, *, minor: int = 0, text: str | None = None) -> str:
        """Create a pod, bind it as Berth would, and give its uid."""
        body = {"metadata": {"name": name}, "spec": {"schedulerName": names.SCHEDULER_NAME, **self.pod_spec}}
        await self.admin.create(resources.PODS, body, namespace=self.namespace)
        binding = {
            "metadata": {"name": name, "annotations": {names.ALLOCATION: text or self.allocation(minor)}},
            "target": {"kind": "Node", "name": self.node},
        }
        await self.admin.create(resources.PODS, binding, namespace=self.namespace, sub="binding")
        return await self.pod_uid(name)

    async def foreign_pod(self, name: str) -> str:
        """Create a pod that somebody else has bound to the node, and give its uid."""
        body = {"metadata": {"name": name}, "spec": {"nodeName": self.node, **self.pod_spec}}
        await self.admin.create(resources.PODS, body, namespace=self.namespace)
        return await self.pod_uid(name)

    def allocation(self, minor: int) -> str:
        """Write the allocation of one whole card."""
        card = self.card(minor)
        share = allocation.Share(card.uuid, minor, core=100, memory=card.memory)
        return allocation.encode(allocation.of(self.node, {"main": {"gpu": [share]}}))

    async def pod_uid(self, name: str) -> str:
        """Read a pod's uid."""
        return (await self.admin.get(resources.PODS, name, into=Thing, namespace=self.namespace)).metadata.uid

    async def phase(self, name: str, phase: str) -> None:
        """Have a pod be in a phase."""
        await self._patch(resources.PODS, name, {"status": {"phase": phase}}, sub="status")

    async def end_pod(self, name: str) -> None:
        """Ask for a pod to be ended; it is its kubelet that ends it."""
        await self.admin.delete(resources.PODS, name, namespace=self.namespace)

    async def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        path = resources.PODS.path(name, namespace=self.namespace)
        await self.admin.send("DELETE", path, params={"gracePeriodSeconds": "0"})

    async def patch_device(self, change: Mapping[str, Any], *, sub: str = "") -> None:
        """Change the Device by hand."""
        await self._patch(resources.DEVICES, self.node, change, sub=sub)

    async def patch_gpupod(self, name: str, change: Mapping[str, Any]) -> None:
        """Change a GpuPod by hand."""
        await self._patch(resources.GPU_PODS, name, change)

    async def _patch(
        self, resource: resources.Resource, name: str, change: Mapping[str, Any], *, sub: str = ""
    ) -> None:
        namespace = self.namespace if resource.namespaced else ""
        path = resource.path(name, namespace=namespace, sub=sub)
        await self.admin.send("PATCH", path, body=msgspec.json.encode(change), content=api.MERGE_PATCH)


async def _or_none(reading: Awaitable[T]) -> T | None:
    try:
        return await reading
    except errors.NotFound:
        return None


@pytest.fixture
async def admin(berth: clusters.Cluster) -> AsyncIterator[api.Api]:
    """Lend a client that may do everything."""
    async with api.Api(connection.load(berth.admin_kubeconfig), agent="test-admin") as session:
        yield session


@pytest.fixture
async def own_rules(berth: clusters.Cluster, admin: api.Api) -> AsyncIterator[None]:
    """Remove for a test the policy that others may have brought: the rules are its own."""
    before = await _or_none(admin.get(resources.POLICIES, names.DEFAULT_POLICY, into=Thing))
    if before:
        await admin.delete(resources.POLICIES, names.DEFAULT_POLICY)
    yield
    if before:
        berth.apply(shipped.MANIFESTS / "default-policy.yaml")


@pytest.fixture
async def scene(
    berth: clusters.Cluster,
    admin: api.Api,
    namespace: str,
    tmp_path: Path,
    own_rules: None,  # noqa: ARG001  It comes first, and goes last.
) -> AsyncIterator[Scene]:
    """Lend a node name of its own and who acts around it; what was made goes with the node."""
    scene = Scene(berth, admin, namespace, tmp_path)
    yield scene
    with contextlib.suppress(errors.NotFound):
        await admin.delete(resources.NODES, scene.node)


@pytest.fixture
async def kubelet(scene: Scene, tmp_path: Path) -> AsyncIterator[Kubelet]:
    """Lend the kubelet of the scene's node."""
    scene.socket = tmp_path / "kubelet.sock"
    async with Kubelet(scene.socket) as kubelet:
        yield kubelet


@pytest.fixture
def worker(berth: clusters.Cluster, scene: Scene) -> Iterator[workers.Worker]:
    """Lend a node with a real kubelet: it is the scene's."""
    if why := workers.obstacle():
        pytest.skip(why)
    with workers.Worker(berth, scene.node) as worker:
        yield worker
        # Pytest shows it where the test failed.
        print(berth.kubectl("get", "pods", "--namespace", scene.namespace, "--output=yaml"))
        print(worker.last_words(lines=60))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[nodes.Place]:
    """Lend a maker of nodes under the mock of NVML; they are taken down at the end."""
    standing: list[Iterator[nodes.Mocked]] = []

    def make(preset: presets.Preset, changes: Mapping[str, object] | None = None) -> nodes.Mocked:
        standing.append(nodes.mocked(preset)(tmp_path / str(len(standing)), monkeypatch))
        rig = next(standing[-1])
        rig.machine.change(changes or {})
        return rig

    yield make
    for each in standing:
        next(each, None)
