"""GpuPods on the real API server: each follows its pod from the bind to the end.

What the kubelet and the driver show reaches the API: agreement, mismatch, foreign holders, and
processes without permission.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from berth_agent import simulated
from berth_crds import wire
from berth_crds.client import poller, resources
from support.podresources import Kubelet
from testbed import waiting

if TYPE_CHECKING:
    import pytest

    from agent.conftest import Scene

GPU = "nvidia.com/gpu"


async def test_agreement_and_mismatch_are_told(scene: Scene, kubelet: Kubelet) -> None:
    """A pod with the card that it was given is verified; with another one both are named."""
    given, other = scene.uuid(0), scene.uuid(1)
    await scene.create_node()
    kubelet.says([(f"{scene.namespace}/p", {"main": {GPU: [given]}})])
    async with scene.agent():
        await scene.bound_pod("p", minor=0)
        agreed = await scene.until_verified("p", "True", "Agreed")
        kubelet.says([(f"{scene.namespace}/p", {"main": {GPU: [f"{other}::2"]}})])
        parted = await scene.until_verified("p", "False", "Mismatch")
        await scene.phase("p", "Succeeded")
        ended = await scene.until_verified("p", "Unknown", "Finished")

    assert agreed.status.granted == (wire.Grant("main", (given,), "podresources"),)
    assert parted.status.granted == (wire.Grant("main", (other,), "podresources"),)
    assert parted.spec == agreed.spec
    message = parted.status.conditions[0].message
    assert message == f"container main was given {given} and holds {other} (podresources)"
    assert ended.status.granted == ()


async def test_pod_of_somebody_else_is_named_while_it_holds_cards(scene: Scene, kubelet: Kubelet) -> None:
    """A pod that Berth did not place gets a record of the cards that the kubelet gave it, and only then."""
    await scene.create_node()
    kubelet.says([(f"{scene.namespace}/p", {"main": {GPU: [scene.uuid(1)]}})])
    async with scene.agent():
        uid = await scene.foreign_pod("p")
        found = await scene.until_verified("p", "True", "Agreed")
        kubelet.says([(f"{scene.namespace}/p", {"main": {}})])
        await scene.until_no_gpupod("p")
        kubelet.says([(f"{scene.namespace}/p", {"main": {GPU: [scene.uuid(1)]}})])
        await scene.until_verified("p", "True", "Agreed")
        await scene.phase("p", "Succeeded")  # Old kubelets list what has ended.
        await scene.until_no_gpupod("p")

    [container] = found.spec.containers
    [card] = container.devices
    assert (found.spec.pod_uid, container.name) == (uid, "main")
    assert (card.uuid, card.minor, card.core, found.status.minors) == (scene.uuid(1), 1, 100, "1")


async def test_pod_that_asks_and_was_given_nothing_has_a_record_of_that(
    scene: Scene, kubelet: Kubelet
) -> None:
    """Once it runs, its GpuPod says that the kubelet gave it no device; Berth's own pods are not meant."""
    await scene.create_node()
    asks = {"name": "main", "image": "none", "resources": {"limits": {GPU: "1"}}}
    scene.pod_spec = {"containers": [asks]}
    kubelet.says([(f"{scene.namespace}/{name}", {"main": {}}) for name in ("p", "ours")])
    async with scene.agent():
        uid = await scene.foreign_pod("p")
        await _until_asked(kubelet, len(kubelet.asked) + 2)
        early = await scene.gpupod("p")
        await scene.phase("p", "Running")
        found = await scene.until_gpupod("p", lambda it: bool(it.status.granted), what="the GpuPod")
        await scene.bound_pod("ours")
        await scene.phase("ours", "Running")
        ours = await scene.until_gpupod("ours", lambda it: it.status.phase == "Running", what="ours")
        await scene.phase("p", "Succeeded")
        await scene.until_no_gpupod("p")

    assert early is None
    assert (found.spec.pod_uid, found.spec.containers, found.status.phase) == (uid, (), "Running")
    assert found.status.granted == (wire.Grant("main", (), "podresources"),)
    assert ours.status.granted == ()


async def test_pod_without_a_gpu_gets_no_record(scene: Scene, kubelet: Kubelet) -> None:
    """Network cards and processors that the kubelet handed out are nothing to a GpuPod."""
    await scene.create_node()
    kubelet.says(
        [
            (f"{scene.namespace}/rdma", {"main": {"rdma/hca": ["0000:1f:00.0"], "cpu": ["3"]}}),
            (f"{scene.namespace}/gpu", {"main": {GPU: [scene.uuid(1)], "rdma/hca": ["0000:1f:00.1"]}}),
        ]
    )
    async with scene.agent():
        await scene.foreign_pod("rdma")
        await scene.foreign_pod("gpu")
        found = await scene.until_verified("gpu", "True", "Agreed")
        await _until_asked(kubelet, len(kubelet.asked) + 2)
        assert await scene.gpupod("rdma") is None

    assert [card.uuid for each in found.spec.containers for card in each.devices] == [scene.uuid(1)]


async def test_records_stand_while_the_kubelet_is_away(scene: Scene, kubelet: Kubelet) -> None:
    """A lost kubelet takes none, nor an agent that starts without one, nor a kubelet that knows no pods."""
    await scene.create_node()
    kubelet.says(
        [(f"{scene.namespace}/{name}", {"main": {GPU: [scene.uuid(at)]}}) for at, name in enumerate("op")]
    )
    await scene.bound_pod("o", minor=0)
    await scene.foreign_pod("p")
    async with scene.agent():
        ours = await scene.until_verified("o", "True", "Agreed")
        first = await scene.until_verified("p", "True", "Agreed")
        await scene.until_kubelet_ready("True")
        await kubelet.stop()
        await scene.until_kubelet_ready("False")
    async with scene.agent(name="agent-2"):
        await scene.until_lease(lambda it: it.spec.holder_identity == "agent-2", what="the second agent")
        kubelet.says([])
        await kubelet.start()
        await scene.until_kubelet_ready("True")
        asked = len(kubelet.asked)
        await scene.until(lambda: len(kubelet.asked) > asked, what="another question")
        there = [await scene.gpupod(name) for name in "op"]

    assert there == [ours, first]  # The very revisions: nothing was written meanwhile.


async def test_unreadable_allocation_is_spoken_for_by_the_kubelet(scene: Scene, kubelet: Kubelet) -> None:
    """The record of a pod whose allocation is damaged names what the kubelet gave it."""
    await scene.create_node()
    kubelet.says([(f"{scene.namespace}/p", {"main": {GPU: [scene.uuid(1)]}})])
    async with scene.agent():
        await scene.bound_pod("p", text='{"v":1,"node":')
        found = await scene.until_gpupod("p")

    assert [one.uuid for each in found.spec.containers for one in each.devices] == [scene.uuid(1)]


async def test_driver_verifies_what_no_device_plugin_gave(scene: Scene, tmp_path: Path) -> None:
    """A pod of Berth's with a process on its card is verified, on another card it is not."""
    crowd = scene.crowded(tmp_path)
    async with scene.agent():
        uid = await scene.bound_pod("p", minor=0)
        await scene.phase("p", "Running")
        await scene.until_verified("p", "Unknown", "NotSeen")
        crowd.enter(8, scene.uuid(0), cgroup=f"/kubepods/pod{uid}/{'c' * 64}")
        await scene.until_verified("p", "True", "Agreed")
        crowd.enter(8, scene.uuid(1), cgroup=f"/kubepods/pod{uid}/{'c' * 64}")
        await scene.until_verified("p", "False", "Mismatch")


async def test_nothing_is_written_while_the_sources_say_the_same(
    scene: Scene, kubelet: Kubelet, tmp_path: Path
) -> None:
    """With both sources asked again and again, and a kubelet that refuses now and then, only Leases are."""
    crowd = scene.crowded(tmp_path)
    await scene.create_node()
    uid = await scene.bound_pod("p", minor=0)
    await scene.phase("p", "Running")
    await scene.foreign_pod("q")
    crowd.enter(7, scene.uuid(1))
    crowd.enter(8, scene.uuid(0), cgroup=f"/kubepods/pod{uid}/{'c' * 64}")
    kubelet.says(
        [
            (f"{scene.namespace}/p", {"main": {GPU: [scene.uuid(0)]}}),
            (f"{scene.namespace}/q", {"main": {GPU: ["GPU-x"]}}),
        ]
    )
    async with scene.agent():
        await scene.until_verified("p", "True", "Agreed")
        await scene.until_gpupod("q", lambda it: it.status.conditions, what="the other GpuPod")
        await scene.until_device(lambda it: it.status.devices, what="the stray")
        settled, asked = await scene.settled(), len(kubelet.asked)
        kubelet.refusal = grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit"
        await _until_asked(kubelet, asked + 1)
        kubelet.refusal = None
        await _until_asked(kubelet, asked + 3)
        await scene.until_renewed(settled, 5)

    assert {(one.resource, one.name) for one in scene.writes()[settled:]} == {("leases", scene.node)}


async def _until_asked(kubelet: Kubelet, count: int) -> None:
    await waiting.eventually(
        lambda: asyncio.sleep(0, len(kubelet.asked) >= count), what="the kubelet to be asked"
    )


async def test_a_pod_whose_name_is_taken_is_told_of_under_another(scene: Scene, kubelet: Kubelet) -> None:
    """Another node's record has the name, so this one is named by uid and node; it goes as others do."""
    await scene.create_node()
    kubelet.says([(f"{scene.namespace}/p", {"main": {GPU: [scene.uuid(1)]}})])
    taken = {
        "metadata": {"name": "p", "namespace": scene.namespace},
        "spec": {"node": "another-node", "podUID": "u"},
    }
    await scene.admin.apply(resources.GPU_PODS, taken, manager="test")
    async with scene.agent():
        uid = await scene.foreign_pod("p")
        name = f"{uid}.{scene.node}"
        found = await scene.until_verified(name, "True", "Agreed")
        kubelet.says([(f"{scene.namespace}/p", {"main": {GPU: [scene.uuid(0)]}})])
        changed = await scene.until_gpupod(name, lambda it: it.status.minors == "0", what="the news")
    async with scene.agent():
        await scene.phase("p", "Succeeded")
        await scene.until_no_gpupod(name)
        left = await scene.gpupod("p")

    [owner] = found.metadata.owner_references
    assert (found.spec.pod_uid, found.status.minors) == (uid, "1")
    assert (owner.kind, owner.name, owner.uid) == ("Pod", "p", uid)
    assert changed.metadata.uid == found.metadata.uid
    assert left is not None
    assert left.spec.node == "another-node"


# ---------------------------------------------------------------- from the bind to the end


async def test_gpupod_follows_its_pod(scene: Scene) -> None:
    """The record appears with the bind and goes with the pod; its grants begin and end with the run."""
    async with scene.agent():
        uid = await scene.bound_pod("p", minor=1)
        bound = await scene.until_gpupod("p", lambda it: it.status.phase == "Pending", what="the GpuPod")
        await scene.phase("p", "Running")
        runs = await scene.until_gpupod("p", lambda it: it.status.phase == "Running", what="it to run")
        await scene.phase("p", "Succeeded")
        ended = await scene.until_gpupod("p", lambda it: it.status.phase == "Succeeded", what="it to end")
        await scene.delete_pod("p")
        await scene.until_no_gpupod("p")

    card = list(simulated.machine(scene.node, scene.shape).answering_cards())[1]
    held = wire.HeldCard(card.uuid, 1, "gpu", core=100, memory=card.memory, model=card.model)
    assert bound.spec == wire.GpuPodSpec(scene.node, uid, (wire.HoldingContainer("main", (held,)),))
    assert [(each.kind, each.uid) for each in bound.metadata.owner_references] == [("Pod", uid)]
    assert [it.status.minors for it in (bound, runs, ended)] == ["1", "1", "1"]
    assert [it.status.granted for it in (bound, ended)] == [(), ()]
    assert runs.status.granted == (wire.Grant("main", (card.uuid,), "simulated"),)
    assert [it.status.conditions[0].status for it in (bound, runs, ended)] == ["Unknown", "True", "Unknown"]


async def test_what_happened_before_the_start_is_found(scene: Scene) -> None:
    """An agent that starts removes records without a pod, renews those of pods made again, adds new ones."""
    await scene.create_node()
    await scene.bound_pod("gone")
    await scene.bound_pod("again")
    async with scene.agent():
        await scene.until_gpupod("gone", lambda it: it.status.phase, what="the first GpuPod")
        old = await scene.until_gpupod("again", lambda it: it.status.phase, what="the second GpuPod")
    for name in ("gone", "again"):
        await orphaned(scene, name)
        await scene.delete_pod(name)
    uid = await scene.bound_pod("again", minor=1)
    await scene.bound_pod("new")

    async with scene.agent():
        await scene.until_no_gpupod("gone")
        new = await scene.until_gpupod("again", lambda it: it.spec.pod_uid == uid, what="a new record")
        await scene.until_gpupod("new", lambda it: it.status.phase, what="the third GpuPod")

    assert new.metadata.uid != old.metadata.uid


async def orphaned(scene: Scene, name: str) -> None:
    """Take a GpuPod away from its owner, so that no garbage collector does the agent's work."""
    path = resources.GPU_PODS.path(name, namespace=scene.namespace)
    body = b'[{"op": "remove", "path": "/metadata/ownerReferences"}]'
    await scene.admin.send("PATCH", path, body=body, content="application/json-patch+json")


async def test_refused_record_is_tried_again(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """A record that the API refuses is written once the API takes it, without any news of the pod."""
    await scene.create_node()
    limited = scene.limited_account()
    async with scene.agent(kubeconfig=limited.kubeconfig):
        await scene.bound_pod("p")
        await scene.until(
            lambda: f"GpuPod {scene.namespace}/p (attempt 1)" in caplog.text,
            what="the refusal to be told",
        )
        limited.trust()
        await scene.until_gpupod("p")


async def test_record_changed_by_hand_is_put_right(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next time it is read: one that somebody empties is filled again, a deleted one is made again."""
    monkeypatch.setattr(poller, "pause", lambda _: 0.5)
    async with scene.agent():
        await scene.bound_pod("p")
        first = await scene.until_gpupod("p")
        await scene.patch_gpupod("p", {"spec": {"containers": []}})
        await scene.until_gpupod("p", lambda it: it.spec == first.spec, what="the record to be filled again")
        await scene.admin.delete(resources.GPU_PODS, "p", namespace=scene.namespace)

        again = await scene.until_gpupod(
            "p", lambda it: it.metadata.uid != first.metadata.uid and it.status.phase, what="a new one"
        )
    assert again.spec == first.spec


async def test_records_of_other_nodes_are_left_alone(scene: Scene) -> None:
    """An agent removes no record that names another node, though it knows no pod for it."""
    await scene.create_node()
    for name, node in (("other", "another-node"), ("mine", scene.node)):
        metadata = {"name": name, "namespace": scene.namespace}
        gpupod = {"metadata": metadata, "spec": {"node": node, "podUID": "u"}}
        await scene.admin.apply(resources.GPU_PODS, gpupod, manager="test")

    async with scene.agent():
        await scene.until_no_gpupod("mine")
        assert await scene.gpupod("other") is not None


async def test_unreadable_allocation_is_told_and_nothing_invented(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """A pod with a damaged allocation gets no record, the log names it once, and its neighbour is served."""
    async with scene.agent():
        await scene.bound_pod("damaged", text='{"v":1,"node":')
        await scene.bound_pod("sound", minor=1)
        await scene.until_gpupod("sound", lambda it: it.status.phase, what="the neighbour's record")
        await scene.phase("damaged", "Running")
        await scene.until(
            lambda: f"pod {scene.namespace}/damaged" in caplog.text,
            what="the log to name the pod",
        )
        assert await scene.gpupod("damaged") is None

    assert caplog.text.count("its allocation cannot be used") == 1
