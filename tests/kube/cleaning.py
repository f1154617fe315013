"""A cleaner of misplaced GpuPods, and a server with one of them, for tests of their removal."""

import json
from typing import Any

from berth_crds.client import api, resources
from berth_operator import metrics
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import gpupod_store, misplaced_gpupods
from berth_operator.scheduling import holds
from support import clock, stub

Thing = dict[str, Any]
OTHER, GONE = metrics.Removal.OTHER_NODE, metrics.Removal.NO_SUCH_POD
WHERE = resources.GPU_PODS.path("train", namespace="ml")
LISTED = resources.GPU_PODS.path(namespace="ml")
POD = resources.PODS.path("train", namespace="ml")
NONE = stub.thing(
    {
        "kind": "Status",
        "status": "Failure",
        "code": 404,
        "reason": "NotFound",
        "message": 'pods "train" not found',
        "details": {"name": "train", "kind": "pods"},
    },
    code=404,
)


def gpupod(node: str = "n1", pod_uid: str = "u1", **meta: Any) -> Thing:
    """Return the GpuPod ml/train."""
    usual = {"name": "train", "namespace": "ml", "uid": "g1", "resourceVersion": "5"}
    return {"metadata": usual | meta, "spec": {"node": node, "podUID": pod_uid, "containers": []}}


def pod(node: str = "n1", uid: str = "u1") -> stub.Answer:
    """Answer with the pod ml/train."""
    spec = {"nodeName": node} if node else {}
    return stub.thing({"metadata": {"name": "train", "namespace": "ml", "uid": uid}, "spec": spec})


class Cleaner(misplaced_gpupods.GpuPodCleaner):
    """A cleaner that leads, what the operator knows, and the server that it asks."""

    def __init__(self, server: stub.Stub, session: api.Api) -> None:
        self.server = server
        self.ledger = Ledger(clock.Clock())
        self.store = gpupod_store.GpuPodStore()
        self.clock = clock.Clock()
        self.leading = True
        self.removals: list[metrics.Removal] = []
        super().__init__(
            session, self.ledger, self.store, self, clock=self.clock, removed=self.removals.append
        )
        server.on("DELETE", WHERE, stub.thing({}))

    def leads(self) -> bool:
        """Whether it leads."""
        return self.leading

    async def wait_until_leading(self) -> None:
        """Be sure at once."""

    def knows(self, node: str, *, pod_uid: str = "u1", uid: str = "g1", title: str = "ml/train") -> None:
        """Let the operator know of a GpuPod."""
        self.store.put(title, gpupod_store.Record(uid, pod_uid, node))

    def knows_many(self, count: int, node: str = "n2") -> None:
        """Let the operator know of so many GpuPods of pods that are not there."""
        for number in range(count):
            title = f"many/{node}-{number:04d}"
            self.knows(node, uid=f"g{number}", pod_uid=f"u{number}", title=title)

    def bound(self, node: str, *, uid: str = "u1") -> None:
        """Let the operator know of the bound pod."""
        self.ledger.pod_bound(holds.Hold(uid, "ml/train", node))

    def serves(self, found: Thing | None, answer: stub.Answer) -> None:
        """Let the server have these."""
        self.server.on("GET", LISTED, stub.page(*([found] if found else []), version="9"))
        self.server.on("GET", POD, answer)

    def misplaced(self, uid: str = "g1") -> None:
        """Let the GpuPod be of n2, and its pod bound to n1."""
        self.knows("n2", uid=uid)
        self.bound("n1")
        self.serves(gpupod("n2", uid=uid), pod())

    async def scans(self, count: int = 2) -> None:
        """Scan so many times."""
        for _ in range(count):
            await self.scan()

    @property
    def reads(self) -> list[str]:
        """The names of the GpuPods that were read, in this order."""
        asked = [request.query.get("fieldSelector", "") for request in self.server.requests]
        return [selector.removeprefix("metadata.name=") for selector in asked if selector]

    @property
    def deletes(self) -> list[Thing]:
        """The bodies of all deletes."""
        both = zip(self.server.requests, self.server.bodies, strict=True)
        return [json.loads(body) for request, body in both if request.method == "DELETE"]
