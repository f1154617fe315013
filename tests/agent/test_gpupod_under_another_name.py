"""A pod's name may be another node's record's: what is needed is then written beside it, without a pause."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from berth_agent.gpupods import evidence, reconciler, watched_pod
from berth_agent.kubelet import podresources, poller
from berth_crds import allocation, names, wire
from berth_crds.client import api, errors, resources
from support import clock, stub
from testbed import waiting

CARD = wire.Card(uuid="GPU-a", type="gpu", minor=0, memory=16, model="Tesla T4")
KEY = ("ns", "p")
OTHER_NAME = "u-1.n1"
GRANTED = allocation.encode(allocation.of("n1", {"main": {"gpu": [allocation.Share("GPU-a", 0, 100, 16)]}}))


class Scene:
    """The reconciler of node n1, on which the pod ns/p has a card from the kubelet, and a server."""

    def __init__(self, server: stub.Stub, session: api.Api) -> None:
        self.server = server
        sources, runtime = (
            evidence.EvidenceSources(kubelet=True),
            reconciler.ReconcilerRuntime(clock.Clock().wall, float),
        )
        self.reconciler = reconciler.GpuPodReconciler(
            session, "n1", runtime, sources, on_pod_change=lambda: None
        )
        self.reconciler.set_cards([CARD])

    def placed(self, **annotations: str) -> None:
        """Have the pod be there, and the kubelet tell of its card."""
        meta = wire.Meta("p", "ns", "u-1", annotations=annotations)
        self.reconciler._pods.upserted(
            watched_pod.Pod(meta, watched_pod.PodSpec("n1"), watched_pod.PodStatus("Running"))
        )
        self.kubelet_tells()

    def kubelet_tells(self) -> None:
        """Have the kubelet tell of the pod's card."""
        devices = (podresources.ListedDevices("nvidia.com/gpu", ("GPU-a",)),)
        listed = podresources.ListedPod("ns", "p", (podresources.ListedContainer("main", devices),))
        self.reconciler.kubelet_reported(poller.KubeletReport((listed,)))

    def answers(self, name: str, answer: stub.Answer) -> None:
        """Have what is written under a name be answered."""
        for sub in ("", "status"):
            self.server.on("PATCH", resources.GPU_PODS.path(name, namespace="ns", sub=sub), answer)
        self.server.on("GET", resources.GPU_PODS.path(name, namespace="ns"), answer)

    @property
    def written(self) -> list[str]:
        """The names under which something was written, or tried to be."""
        return [one.path.split("/gpupods/")[1] for one in self.server.requests if one.method == "PATCH"]


def gpupod(name: str) -> dict[str, Any]:
    """Make the GpuPod of the pod under a name, as the server has it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-1"}
    held = {"uuid": "GPU-a", "minor": 0, "type": "gpu", "core": 100, "memory": 16, "model": "Tesla T4"}
    meta = {"name": name, "namespace": "ns", "uid": f"g-{name}", "ownerReferences": [owner]}
    containers = [{"name": "main", "devices": [held]}]
    return {"metadata": meta, "spec": {"node": "n1", "podUID": "u-1", "containers": containers}}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """Lend a scene."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        yield Scene(server, session)


TAKEN = {
    "by the schema": stub.status(422, "spec.node cannot change", reason="Invalid"),
    "by a policy": stub.status(403, "may write only the GpuPods of its own node", reason="Forbidden"),
}


@pytest.mark.parametrize("refused", TAKEN)
async def test_the_only_word_on_a_pods_cards_is_written_beside_the_taken_name(
    scene: Scene, refused: str
) -> None:
    """At once, and from then on there; when the pod goes, it goes."""
    scene.answers("p", TAKEN[refused])
    scene.answers(OTHER_NAME, stub.thing(gpupod(OTHER_NAME)))
    scene.server.on("DELETE", resources.GPU_PODS.path(OTHER_NAME, namespace="ns"), stub.thing({}))
    scene.placed()

    await scene.reconciler._reconcile(KEY)
    first = scene.written
    await scene.reconciler._reconcile(KEY)
    again = scene.written[len(first) :]
    scene.reconciler._pods.deleted(wire.Meta("p", "ns", "u-1"))
    await scene.reconciler._reconcile(KEY)

    assert first[:2] == ["p", OTHER_NAME]
    assert "p" not in again
    assert (scene.server.requests[-1].method, scene.reconciler.gpupods()) == ("DELETE", [])


async def test_a_record_beside_is_found_after_a_restart_and_leaves_for_the_own_name(scene: Scene) -> None:
    """Its news is that of its pod; where the pod's own name is this node's as well, one is enough."""
    found, plain = (api.decode(stub_body(name), wire.GpuPod, path="") for name in (OTHER_NAME, "p"))
    scene.server.on("DELETE", resources.GPU_PODS.path(OTHER_NAME, namespace="ns"), stub.thing({}))
    scene.answers("p", stub.thing(gpupod("p")))
    scene.placed()
    await scene.reconciler._queue.get()

    scene.reconciler._cache.upserted(found)
    news = scene.reconciler._pods_to_reconcile(await scene.reconciler._queue.get())
    scene.reconciler._cache.upserted(plain)
    await scene.reconciler._reconcile(KEY)

    assert KEY in news
    assert [one.metadata.name for one in scene.reconciler.gpupods()] == ["p"]


async def test_a_restarted_agent_keeps_a_record_beside_whichever_list_comes_first(scene: Scene) -> None:
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
        scene.server.on("GET", resource.path(), stub.by_query("watch", answers))
    scene.server.on("DELETE", resources.GPU_PODS.path(OTHER_NAME, namespace="ns"), stub.thing({}))
    scene.answers("p", TAKEN["by the schema"])
    scene.answers(OTHER_NAME, stub.thing(gpupod(OTHER_NAME)))
    scene.kubelet_tells()

    running = asyncio.create_task(scene.reconciler.run())
    await waiting.eventually(
        lambda: asyncio.sleep(0, scene.reconciler.gpupods()), what="the record to be known"
    )
    known.set()
    await waiting.eventually(lambda: asyncio.sleep(0, scene.written), what="the record to be written")
    running.cancel()
    never.set()

    assert {one.removesuffix("/status") for one in scene.written} == {OTHER_NAME}
    assert not [one for one in scene.server.requests if one.method == "DELETE"]


@pytest.mark.parametrize("name", ["u-1", "u-1.n2"], ids=["its uid", "its uid and another node"])
async def test_a_pod_that_is_named_by_the_uid_of_another_has_its_own_news(scene: Scene, name: str) -> None:
    """Any pod may be named so; what becomes of its record is not taken for news of the other pod."""
    scene.placed()

    assert scene.reconciler._pods_to_reconcile(("ns", name)) == {("ns", name)}
    assert scene.reconciler._pods_to_reconcile(("ns", OTHER_NAME)) == {("ns", OTHER_NAME), KEY}


async def test_a_pod_that_has_the_name_of_anothers_record_gets_its_own(scene: Scene) -> None:
    """Neither pod's record is taken for the other's: both are written, and none is removed."""
    own = gpupod(OTHER_NAME) | {"spec": gpupod(OTHER_NAME)["spec"] | {"podUID": "u-2"}}
    scene.answers(OTHER_NAME, stub.thing(own))
    scene.placed()
    meta = wire.Meta(OTHER_NAME, "ns", "u-2", annotations={names.ALLOCATION: GRANTED})
    scene.reconciler._pods.upserted(
        watched_pod.Pod(meta, watched_pod.PodSpec("n1"), watched_pod.PodStatus("Running"))
    )

    await scene.reconciler._reconcile(("ns", OTHER_NAME))
    written = scene.written[0]
    scene.reconciler._cache.upserted(msgspec.convert(own, wire.GpuPod))
    scene.answers("p", stub.thing(gpupod("p")))
    await scene.reconciler._reconcile(KEY)
    await scene.reconciler._reconcile(("ns", OTHER_NAME))

    assert written == OTHER_NAME
    assert "p" in scene.written
    assert not [one for one in scene.server.requests if one.method == "DELETE"]


def stub_body(name: str) -> bytes:
    """Return the GpuPod of the pod under a name, as the server sends it."""
    return msgspec.json.encode(gpupod(name))


async def test_a_pod_whose_record_can_be_read_waits_for_its_name(scene: Scene) -> None:
    """The operator knows what it gave: only people miss the GpuPod, and they look for the pod's name."""
    scene.answers("p", TAKEN["by the schema"])
    scene.placed(**{names.ALLOCATION: GRANTED})

    with pytest.raises(errors.Invalid):
        await scene.reconciler._reconcile(KEY)

    assert scene.written == ["p"]
