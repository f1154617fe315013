"""The place where schedulers are compared: a real API server, equal nodes, waiting pods, a watcher.

The API server's own limits are lifted, and no controller runs beside it. Each node has
eight cards twice over: as `nvidia.com/gpu` in its allocatable, which the stock scheduler
counts, and as the Device that an agent would publish. No agent runs: their Leases are
written once and the policy in force is patient with them.
"""

import asyncio
import dataclasses
import datetime as dt
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import msgspec
import yaml

from berth_agent import device_spec, device_status, simulated
from berth_agent.gpupods import desired, watched_pod
from berth_crds import allocation, names, wire
from berth_crds.client import connection, lease, resources
from berth_operator.kube import elector
from e2e import fleet
from support import kubelet
from testbed import cluster as clusters
from testbed import waiting

SHAPE: Final = "8xH100-SXM5-80GB"
CARDS: Final = 8
WHOLE: Final = 100  # Percent of a card.
IN_FLIGHT: Final = 32
LIFTED: Final = ("--max-requests-inflight=10000", "--max-mutating-requests-inflight=10000")
POLICIES: Final = fleet.ROOT / "manifests" / "admission.yaml"
PATIENT: Final = '{"spec": {"agents": {"graceSeconds": 86400}}}'
MERGE: Final = {"Content-Type": "application/merge-patch+json"}
JSON: Final = {"Content-Type": "application/json"}
BOUND: Final = b'"type":"ADDED"'
HAS_NODE: Final = {"fieldSelector": "spec.nodeName!="}

Thing = dict[str, Any]


@dataclasses.dataclass(slots=True)
class Sighting:
    """When the watcher saw the first and the last bind of a run."""

    first: float = 0.0
    last: float = 0.0
    count: int = 0

    def saw(self, count: int) -> None:
        """Note that so many more pods have a node."""
        if count:
            self.last = time.monotonic()
            self.first = self.first or self.last
            self.count += count

    @property
    def seconds(self) -> float:
        """The time from the first to the last bind."""
        return self.last - self.first


class BenchCluster:
    """One cluster for all runs; use it as an asynchronous context manager."""

    def __init__(self, cluster: clusters.Cluster, *, tell: Callable[[str], None]) -> None:
        self.cluster = cluster
        self.fleet = fleet.Fleet(cluster)
        self.nodes: list[str] = []
        self._tell = tell
        self._policed: bool | None = None  # Installed, and not yet known to be in force.
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        """Open a session of the administrator."""
        link = connection.load(self.cluster.admin_kubeconfig)
        connector = aiohttp.TCPConnector(limit=0, ssl=link.trust or True)
        self._session = aiohttp.ClientSession(link.server, connector=connector)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self._session.close()

    # ------------------------------------------------------------ the furniture

    async def furnish(self, count: int, *, env_delivered: bool = True) -> None:
        """Install what the project ships, and make nodes with Devices and Leases."""
        self._tell(f"installing Berth's kinds and policies, making {count} nodes with {CARDS} cards each")
        self.fleet.install(env_delivered=env_delivered)
        self.cluster.kubectl("patch", "placementpolicy", "default", "--type=merge", f"--patch={PATIENT}")
        self.nodes = [f"node-{at:05}" for at in range(count)]
        await self.each(self._furnish_node(name) for name in self.nodes)

    async def _furnish_node(self, name: str) -> None:
        now = dt.datetime.now(dt.UTC)
        node = kubelet.FakeNode(name, extended={names.NVIDIA_GPU: CARDS}).manifest(lease.rfc3339(now))
        await self.send("POST", "/api/v1/nodes", node)
        # Admission taints every new node as not ready.
        await self.send("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, headers=MERGE)
        beat = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": lease.micro_time(now)}
        await self.send(
            "POST",
            f"/apis/coordination.k8s.io/v1/namespaces/{names.NODES_NAMESPACE}/leases",
            {"metadata": {"name": name}, "spec": beat},
        )
        sample = simulated.machine(name, SHAPE)
        spec = device_spec.spec(name, sample, None)
        path = f"/apis/{names.API_VERSION}/{names.DEVICES}"
        kind = {"apiVersion": names.API_VERSION, "kind": "Device", "metadata": {"name": name}}
        await self.send("POST", path, kind | {"spec": msgspec.to_builtins(spec)})
        status = msgspec.to_builtins(device_status.status(sample, {}, wire.DeviceStatus(), now=now))
        await self.send("PATCH", f"{path}/{name}/status", {"status": status}, headers=MERGE)

    async def police(self, *, wanted: bool) -> None:
        """Put Berth's policies in force or take them away, and wait until the server does so.

        The fence itself stays: it judges nobody's Bindings but Berth's, and once taken away and
        put back, a server of 1.36 compares with the Lease as it was before, until it is restarted.
        """
        if wanted == self._policed:
            return
        if wanted:
            self.cluster.apply(POLICIES)
        else:
            self.cluster.kubectl("delete", "--filename=-", stdin=yaml.safe_dump_all(removable()))
        self._policed = wanted

        async def noticed() -> bool:
            return await self._forbids({"annotations": {names.TERM: "x"}}) == wanted

        await waiting.eventually(noticed, what=f"the policies to be {'in force' if wanted else 'gone'}")

    async def _forbids(self, meta: Thing) -> bool:
        """Whether a Binding that the policies must turn down is forbidden to the administrator."""
        body = {"metadata": {"name": "nobody", **meta}, "target": {"name": "nowhere"}}
        path = "/api/v1/namespaces/default/pods/nobody/binding"
        async with self._session.post(path, json=body) as answer:
            return answer.status == 403

    async def lead(self, holder: str = "") -> str:
        """Write the leader's Lease in a name, or as one that was released in order; return the term."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{names.SYSTEM_NAMESPACE}/leases"
        async with self._session.delete(f"{path}/{names.LEADER_LEASE}"):
            pass  # There may be none.
        seconds = 6 if holder else elector.RELEASED_SECONDS
        spec = {"holderIdentity": holder, "leaseTransitions": 1, "leaseDurationSeconds": seconds}
        await self.send("POST", path, {"metadata": {"name": names.LEADER_LEASE}, "spec": spec})
        return f"{holder}/1"

    # ------------------------------------------------------------ pods

    async def fill(self, count: int, *, scheduler: str, cards: int = 1, percent: int = WHOLE) -> str:
        """Make a namespace with waiting pods of one card each, or of more, or of a part."""
        namespace = self.cluster.namespace("fill")
        await self.make(namespace, (pod(at, scheduler, cards=cards, percent=percent) for at in range(count)))
        return namespace

    async def make(self, namespace: str, pods: Iterable[Thing]) -> None:
        """Make pods."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        await self.each(self.send("POST", path, one) for one in pods)

    async def record(self) -> None:
        """Make the GpuPod of each bound pod, as the agent of its node does, but without a status."""
        async for pods in self.bound_pods():
            await self.each(map(self._record_pod, pods))

    async def bound_pods(self) -> AsyncIterator[list[Thing]]:
        """Yield the pods that have a node, some hundred at a time."""
        token = ""
        while True:
            page = await self.read(
                "/api/v1/pods", **HAS_NODE, limit="500", **({"continue": token} if token else {})
            )
            yield page["items"]
            if not (token := page["metadata"].get("continue", "")):
                return

    async def _record_pod(self, thing: Thing) -> None:
        bound, node = msgspec.convert(thing, watched_pod.Pod), thing["spec"]["nodeName"]
        allocated = desired.decode_allocation(bound, node)
        assert isinstance(allocated, allocation.Allocation), allocated
        spec = desired.spec(bound, allocated, desired.NodeCards(node))
        name, path = bound.metadata.name, resources.GPU_PODS.path(namespace=bound.metadata.namespace)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": bound.metadata.uid}
        meta = {"name": name, "ownerReferences": [owner]}
        kind = {"apiVersion": names.API_VERSION, "kind": resources.GPU_PODS.kind, "metadata": meta}
        await self.send("POST", path, kind | {"spec": msgspec.to_builtins(spec)})

    async def clear(self, namespace: str) -> None:
        """Delete the pods and events of a namespace, and wait until they are gone."""
        for kind in ("pods", "events"):
            path = f"/api/v1/namespaces/{namespace}/{kind}"

            async def gone(path: str = path) -> bool:
                # Again and again: an event may come after the verdict that it tells of.
                await self.send("DELETE", path, {"gracePeriodSeconds": 0})
                async with self._session.get(path, params={"limit": "1"}) as answer:
                    return not (await answer.json())["items"]

            await waiting.eventually(gone, what=f"the {kind} to be gone", seconds=120)

    async def watch(self, namespace: str, count: int, sighting: Sighting) -> None:
        """Note when pods get a node, until so many have one; a watch that the server ends is begun anew."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        while sighting.count < count:
            async with self._session.get(path, params=HAS_NODE) as answer:
                listed = await answer.json()
            sighting.saw(len(listed["items"]) - sighting.count)
            if sighting.count < count:
                await self._follow(path, listed["metadata"]["resourceVersion"], count, sighting)

    async def _follow(self, path: str, version: str, count: int, sighting: Sighting) -> None:
        params = {**HAS_NODE, "watch": "true", "resourceVersion": version}
        endless = aiohttp.ClientTimeout(total=None)
        async with self._session.get(path, params=params, timeout=endless) as answer:
            rest = b""
            async for chunk in answer.content.iter_any():
                text = rest + chunk
                sighting.saw(text.count(BOUND))
                rest = text[-len(BOUND) + 1 :]
                if sighting.count >= count:
                    return

    # ------------------------------------------------------------ the audit log

    @property
    def log(self) -> Path:
        """The audit log."""
        return self.cluster.directory / "audit.log"

    # ------------------------------------------------------------ requests

    async def send(self, method: str, path: str, body: Thing, *, headers: Thing = JSON) -> None:
        """Send one request that must succeed."""
        async with self._session.request(method, path, data=json.dumps(body), headers=headers) as answer:
            text = await answer.text()
            assert answer.ok, f"{method} {path}: {answer.status} {text[:500]}"

    async def read(self, path: str, **params: str) -> Thing:
        """Read an object or a list."""
        async with self._session.get(path, params=params) as answer:
            assert answer.ok, f"GET {path}: {answer.status}"
            return dict(await answer.json())

    async def news(self, path: str, version: str, **choice: str) -> AsyncIterator[tuple[float, Thing]]:
        """Yield what a watch tells, with the moment when it came, until the server ends the watch."""
        params = {"watch": "true", "resourceVersion": version, **choice}
        endless = aiohttp.ClientTimeout(total=None)
        async with self._session.get(path, params=params, timeout=endless) as answer:
            rest = b""
            async for chunk in answer.content.iter_any():
                moment = time.monotonic()  # Before anything is parsed: our own work is nobody's delay.
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield moment, json.loads(line)

    async def each(self, works: Iterable[Awaitable[None]]) -> None:
        """Do some works, a few at a time."""
        todo = iter(works)

        async def worker() -> None:
            for work in todo:
                await work

        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


def removable() -> list[Thing]:
    """Return the policies without the fence, and their bindings."""
    documents = yaml.safe_load_all(POLICIES.read_text())
    return [one for one in documents if one["metadata"]["name"] != "berth-fence"]


def pod(at: int, scheduler: str, *, cards: int = 1, percent: int = WHOLE) -> Thing:
    """Make a pod that asks for cards, as the stock scheduler and Berth both read it, or for a part of one."""
    limits = {names.NVIDIA_GPU: f"{cards}"} if percent == WHOLE else {names.GPU: f"{percent}"}
    resources = {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": limits}
    container = {"name": "main", "image": "example.org/none", "resources": resources}
    return {
        "metadata": {"name": f"pod-{at:05}"},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }
