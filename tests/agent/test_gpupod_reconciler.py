"""The reconciler of GpuPods: a name that is taken, a record beside it, one that goes while it is deleted.

A pod's name may be another node's GpuPod's: what is needed is then written beside it, without a pause.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest
from aiohttp import web

from berth_agent.gpupods import desired, evidence, reconciler, watched_pod
from berth_agent.kubelet import podresources, poller
from berth_crds import allocation, names, wire
from berth_crds.client import api, errors, resources
from support import clock, stub
from testbed import waiting

CARD = wire.Card(uuid="GPU-a", type="gpu", minor=0, memory=16, model="Tesla T4")
KEY = ("ns", "p")
OTHER_NAME = "u-1.n1"
GRANTED = allocation.encode(allocation.of("n1", {"main": {"gpu": [allocation.Share("GPU-a", 0, 100, 16)]}}))


class Reconciled:
    """The reconciler of node n1, on which the pod ns/p has a card from the kubelet, and a server."""

    def __init__(self, server: stub.Stub, session: api.Api) -> None:
        self.server = server
        self.reconciler = reconciler.GpuPodReconciler(
            session,
            desired.NodeCards("n1"),
            evidence.EvidenceSources(kubelet=True),
            clock=clock.Clock().wall,
            on_pod_change=lambda: None,
        )
        self.reconciler.set_cards([CARD])
        devices = (podresources.ListedDevices("nvidia.com/gpu", ("GPU-a",)),)
        listed = podresources.ListedPod("ns", "p", (podresources.ListedContainer("main", devices),))
        self.reconciler.evidence.kubelet_reported(poller.KubeletReport((listed,)))

    def placed(self, name: str = "p", uid: str = "u-1", **annotations: str) -> None:
        """Have a running pod be there."""
        meta = wire.Meta(name, "ns", uid, annotations=annotations)
        self.reconciler._pods.upserted(
            watched_pod.Pod(meta, watched_pod.PodSpec("n1"), watched_pod.PodStatus("Running"))
        )

    def found(self, gpupod: Mapping[str, Any]) -> None:
        """Have the watch show a GpuPod."""
        self.reconciler.gpupods.upserted(msgspec.convert(gpupod, wire.GpuPod))

    def answers(self, name: str, answer: stub.Answer) -> None:
        """Have what is written under a name be answered."""
        path = resources.GPU_PODS.path(name, namespace="ns")
        for method, where in (("PATCH", path), ("PATCH", f"{path}/status"), ("GET", path)):
            self.server.on(method, where, answer)
        self.server.on("DELETE", path, stub.thing({}))

    def paths(self, method: str) -> list[str]:
        """Return the names under which something was written or deleted, or tried to be."""
        return [one.path.split("/gpupods/")[1] for one in self.server.requests if one.method == method]


def gpupod(name: str, uid: str = "u-1") -> dict[str, Any]:
    """Return the GpuPod of a pod under a name, as the server has it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}
    held = {"uuid": "GPU-a", "minor": 0, "type": "gpu", "core": 100, "memory": 16, "model": "Tesla T4"}
    meta = {"name": name, "namespace": "ns", "uid": f"g-{name}", "ownerReferences": [owner]}
    containers = [{"name": "main", "devices": [held]}]
    return {"metadata": meta, "spec": {"node": "n1", "podUID": uid, "containers": containers}}


@pytest.fixture
async def node() -> AsyncIterator[Reconciled]:
    """Lend a node."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        yield Reconciled(server, session)


TAKEN = {
    "by the schema": stub.status(422, "spec.node cannot change", reason="Invalid"),
    "by a policy": stub.status(403, "may write only the GpuPods of its own node", reason="Forbidden"),
}


@pytest.mark.parametrize("refused", TAKEN)
async def test_the_only_word_on_a_pods_cards_is_written_beside_the_taken_name(
    node: Reconciled, refused: str
) -> None:
    """At once, and from then on there; when the pod goes, it goes."""
    node.answers("p", TAKEN[refused])
    node.answers(OTHER_NAME, stub.thing(gpupod(OTHER_NAME)))
    node.placed()

    await node.reconciler._reconcile(KEY)
    await node.reconciler._reconcile(KEY)
    node.reconciler._pods.deleted(wire.Meta("p", "ns", "u-1"))
    await node.reconciler._reconcile(KEY)

    written = node.paths("PATCH")
    assert written[:2] == ["p", OTHER_NAME]
    assert "p" not in written[1:]
    assert (node.paths("DELETE"), node.reconciler.gpupods.objects()) == ([OTHER_NAME], [])


@pytest.mark.parametrize(("promised", "written"), [("GPU-b", ["p", OTHER_NAME]), ("GPU-a", ["p"])])
async def test_what_was_given_otherwise_is_said_beside_the_taken_name(
    node: Reconciled, promised: str, written: list[str]
) -> None:
    """The operator gives the card to others if it does not hear of it; what was promised it knows itself."""
    node.answers("p", TAKEN["by a policy"])
    node.answers(OTHER_NAME, stub.thing(gpupod(OTHER_NAME)))
    share = allocation.Share(promised, 0, 100, 16)
    node.placed(**{names.ALLOCATION: allocation.encode(allocation.of("n1", {"main": {"gpu": [share]}}))})

    refused = pytest.raises(errors.Forbidden) if written == ["p"] else contextlib.nullcontext()
    with refused:
        await node.reconciler._reconcile(KEY)

    assert list(dict.fromkeys(path.removesuffix("/status") for path in node.paths("PATCH"))) == written


async def test_a_record_beside_is_found_after_a_restart_and_leaves_for_the_own_name(node: Reconciled) -> None:
    """Its news is that of its pod; where the pod's own name is this node's as well, one is enough."""
    for name in (OTHER_NAME, "p"):
        node.answers(name, stub.thing(gpupod(name)))
    node.placed()
    await node.reconciler._queue.get()

    node.found(gpupod(OTHER_NAME))
    news = node.reconciler._pods_to_reconcile(await node.reconciler._queue.get())
    node.found(gpupod("p"))
    await node.reconciler._reconcile(KEY)

    assert KEY in news
    assert [one.metadata.name for one in node.reconciler.gpupods.objects()] == ["p"]


async def test_a_restarted_agent_keeps_a_record_beside_whichever_list_comes_first(node: Reconciled) -> None:
    """It may be the only word on the pod's cards: while the pod is not known yet, nobody's it only seems."""
    known, never = asyncio.Event(), asyncio.Event()
    meta = {"name": "p", "namespace": "ns", "uid": "u-1", "resourceVersion": "3"}
    pod = {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    lists = {
        resources.GPU_PODS: stub.page(gpupod(OTHER_NAME), version="9"),
        resources.PODS: stub.later(known, stub.page(pod, version="9")),
    }
    for resource, listed in lists.items():
        answers = {"": listed, "true": stub.watch(until=never)}
        node.server.on("GET", resource.path(), stub.by_query("watch", answers))
    node.answers("p", TAKEN["by the schema"])
    node.answers(OTHER_NAME, stub.thing(gpupod(OTHER_NAME)))

    running = asyncio.create_task(node.reconciler.run())
    await waiting.eventually(
        lambda: asyncio.sleep(0, node.reconciler.gpupods.objects()), what="the record to be known"
    )
    known.set()
    await waiting.eventually(lambda: asyncio.sleep(0, node.paths("PATCH")), what="the record to be written")
    running.cancel()
    never.set()

    assert {one.removesuffix("/status") for one in node.paths("PATCH")} == {OTHER_NAME}
    assert node.paths("DELETE") == []


@pytest.mark.parametrize("name", ["u-1", "u-1.n2"], ids=["its uid", "its uid and another node"])
async def test_a_pod_named_by_the_uid_of_another_has_its_own_news(node: Reconciled, name: str) -> None:
    """Any pod may be named so; what becomes of its record is not taken for news of the other pod."""
    node.placed()

    assert node.reconciler._pods_to_reconcile(("ns", name)) == {("ns", name)}
    assert node.reconciler._pods_to_reconcile(("ns", OTHER_NAME)) == {("ns", OTHER_NAME), KEY}


async def test_a_pod_that_has_the_name_of_anothers_record_gets_its_own(node: Reconciled) -> None:
    """Neither pod's record is taken for the other's: both are written, and none is removed."""
    own = gpupod(OTHER_NAME, "u-2")
    node.answers(OTHER_NAME, stub.thing(own))
    node.answers("p", stub.thing(gpupod("p")))
    node.placed()
    node.placed(OTHER_NAME, "u-2", **{names.ALLOCATION: GRANTED})

    await node.reconciler._reconcile(("ns", OTHER_NAME))
    node.found(own)
    await node.reconciler._reconcile(KEY)
    await node.reconciler._reconcile(("ns", OTHER_NAME))

    assert node.paths("PATCH")[0] == OTHER_NAME
    assert "p" in node.paths("PATCH")
    assert node.paths("DELETE") == []


async def test_a_pod_whose_record_can_be_read_waits_for_its_name(node: Reconciled) -> None:
    """The operator knows what it gave: only people miss the GpuPod, and they look for the pod's name."""
    node.answers("p", TAKEN["by the schema"])
    node.placed(**{names.ALLOCATION: GRANTED})

    with pytest.raises(errors.Invalid):
        await node.reconciler._reconcile(KEY)

    assert node.paths("PATCH") == ["p"]


async def test_a_pod_whose_name_is_never_free_is_written_beside_it(
    node: Reconciled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody makes another node's GpuPod under this name as soon as the operator has removed it."""
    node.answers("p", TAKEN["by the schema"])
    node.answers(OTHER_NAME, stub.thing(gpupod(OTHER_NAME)))
    node.placed(**{names.ALLOCATION: GRANTED})

    for _ in range(9):  # Other news of the pod has it tried at once.
        await node.reconciler._reconcile_or_retry(KEY)
    before = set(node.paths("PATCH"))
    monkeypatch.setattr(reconciler, "OTHER_NAME_AFTER_SECONDS", 0.0)
    await node.reconciler._reconcile_or_retry(KEY)

    assert before == {"p"}
    assert OTHER_NAME in node.paths("PATCH")


@pytest.mark.parametrize(
    ("code", "reason", "left"),
    [
        pytest.param(404, "NotFound", [], id="gone"),
        pytest.param(409, "Conflict", [gpupod("p", "u-3")], id="made anew"),
    ],
)
async def test_gpupod_that_goes_while_it_is_deleted_is_deleted_once(
    node: Reconciled, code: int, reason: str, left: list[dict[str, Any]]
) -> None:
    """Who finds it gone, or another in its place, is content: he neither tries again nor takes that one."""

    async def answer(request: web.Request) -> web.StreamResponse:
        for another in left:
            node.found(another | {"metadata": another["metadata"] | {"uid": "another"}})
        return await stub.status(code, "it is gone", reason=reason)(request)

    node.found(gpupod("p"))
    node.server.on("DELETE", resources.GPU_PODS.path("p", namespace="ns"), answer)

    await node.reconciler._reconcile(KEY)

    assert node.paths("DELETE") == ["p"]
    assert [one.metadata.uid for one in node.reconciler.gpupods.objects()] == ["another"] * len(left)


async def test_a_restart_beside_a_slow_kubelet_leaves_the_record_of_a_pod_without_cards(
    node: Reconciled,
) -> None:
    """An answer that was under way when the pods were read may be older than that; the next one is not."""
    asks = watched_pod.Container("main", watched_pod.Resources(limits={"nvidia.com/gpu": "1"}))
    pod = watched_pod.Pod(
        wire.Meta("p", "ns", "u-1"), watched_pod.PodSpec("n1", (asks,)), watched_pod.PodStatus("Running")
    )
    without = poller.KubeletReport(
        (podresources.ListedPod("ns", "p", (podresources.ListedContainer("main"),)),)
    )
    bare = gpupod("p") | {"spec": {"node": "n1", "podUID": "u-1", "containers": []}}
    node.answers("p", stub.thing(bare))
    node.reconciler.evidence.kubelet_requested()
    node.reconciler._pods.upserted(pod)
    node.found(bare)
    for _ in range(2):
        node.reconciler.evidence.kubelet_reported(without)
        await node.reconciler._reconcile(KEY)
        node.reconciler.evidence.kubelet_requested()

    assert node.paths("DELETE") == []
    assert set(node.paths("PATCH")) == {"p/status"}


async def test_what_a_container_requests_is_known_whatever_the_resource(node: Reconciled) -> None:
    """The guard of the node asks, which may look after resources that Berth does not serve."""
    limits = {"acme.com/gpu": "1", "nvidia.com/gpu": "0", "cpu": "2"}
    init = watched_pod.Container("init", watched_pod.Resources(limits=limits))
    spec = watched_pod.PodSpec("n1", (watched_pod.Container("main"),), (init,))
    node.reconciler._pods.upserted(watched_pod.Pod(wire.Meta("q", "ns", "u-2"), spec))

    assert set(node.reconciler.requested(("ns", "q"), "init")) == {"acme.com/gpu", "cpu"}
    assert list(node.reconciler.requested(("ns", "q"), "main")) == []
    assert list(node.reconciler.requested(("ns", "unknown"), "init")) == []


@pytest.mark.parametrize(
    ("error", "most"),
    [
        pytest.param(errors.Forbidden(403, "not of this node"), 4.0, id="refused: the name may be free soon"),
        pytest.param(errors.Invalid(422, "spec.node cannot change"), 4.0, id="so is the node of a record"),
        pytest.param(errors.Unreachable("away", ambiguous=False), 20.0, id="no answer: spare the server"),
    ],
)
def test_a_name_that_another_node_has_taken_is_tried_every_few_seconds(
    error: errors.ClientError, most: float
) -> None:
    """Nobody tells the agent when the operator has given the name back."""
    assert reconciler.longest_pause(error) == most


async def test_queued_names_come_once_and_in_order() -> None:
    """A name that is added twice is looked at once; a worker waits for the next one."""
    work_queue = reconciler.WorkQueue()
    for name in ("a", "b", "a"):
        work_queue.put_nowait(("ns", name))

    assert [await work_queue.get(), await work_queue.get()] == [("ns", "a"), ("ns", "b")]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(work_queue.get(), 0.01)
    work_queue.put_nowait(("ns", "a"))
    assert await work_queue.get() == ("ns", "a")
