"""What tests of the removal of misplaced GpuPods need: a server with one of them, and a cleaner."""

import json
from typing import Any

from berth_crds.client import api, resources
from berth_operator import metrics
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import misplaced_gpupods
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
    """Make the GpuPod ml/train."""
    spec = {"node": node, "podUID": pod_uid, "containers": []}
    return {
        "metadata": {"name": "train", "namespace": "ml", "uid": "g1", "resourceVersion": "5"} | meta,
        "spec": spec,
    }


def pod(node: str = "n1", uid: str = "u1") -> stub.Answer:
    """Answer with the pod ml/train."""
    spec = {"nodeName": node} if node else {}
    return stub.thing({"metadata": {"name": "train", "namespace": "ml", "uid": uid}, "spec": spec})


class Scene:
    """A server with one GpuPod and its pod, what the operator knows of both, and a cleaner."""

    def __init__(self, server: stub.Stub, session: api.Api) -> None:
        self.server = server
        self.ledger = Ledger(clock.Clock())
        self.store = misplaced_gpupods.GpuPodStore()
        self.clock = clock.Clock()
        self.leading = True
        self.reasons: list[metrics.Removal] = []
        self.cleaner = misplaced_gpupods.GpuPodCleaner(
            session, self.ledger, self.store, self, clock=self.clock, removed=self.reasons.append
        )
        server.on("DELETE", WHERE, stub.thing({}))

    def leads(self) -> bool:
        """Whether it leads."""
        return self.leading

    async def sure(self) -> None:
        """Be sure at once."""

    @property
    def removed(self) -> int:
        """How many were removed."""
        return len(self.reasons)

    def knows(self, node: str, *, pod_uid: str = "u1", uid: str = "g1", title: str = "ml/train") -> None:
        """Let the operator know of a GpuPod."""
        self.store.put(title, misplaced_gpupods.Record(uid, pod_uid, node))

    def bound(self, node: str, *, uid: str = "u1") -> None:
        """Let the operator know of the bound pod."""
        self.ledger.pod_bound(holds.Hold(uid, "ml/train", node))

    def serves(self, found: Thing | None, answer: stub.Answer) -> None:
        """Let the server have these."""
        self.server.on("GET", LISTED, stub.page(*([found] if found else []), version="9"))
        self.server.on("GET", POD, answer)

    async def passes(self, count: int = 2) -> None:
        """Look so many times."""
        for _ in range(count):
            await self.cleaner.scan()

    @property
    def deletes(self) -> list[Thing]:
        """The bodies of all deletes."""
        both = zip(self.server.requests, self.server.bodies, strict=True)
        return [json.loads(body) for request, body in both if request.method == "DELETE"]
