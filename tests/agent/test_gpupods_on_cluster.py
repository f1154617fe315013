"""GpuPods on the real API server: each follows its pod from the bind to the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from berth_agent import simulated
from berth_crds import wire
from berth_crds.client import api, resources

if TYPE_CHECKING:
    from agent.conftest import Scene
    from berth_crds.client.resources import Resource


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
    await orphaned(scene, "gone")
    await orphaned(scene, "again")
    await scene.delete_pod("gone")
    await scene.delete_pod("again")
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


async def test_recreated_pod_gets_a_new_record(scene: Scene) -> None:
    """A pod deleted and made again under the same name gets a record of its own while the agent runs."""
    async with scene.agent():
        await scene.bound_pod("p")
        old = await scene.until_gpupod("p", lambda it: it.status.phase, what="the GpuPod")
        await scene.delete_pod("p")
        uid = await scene.bound_pod("p", minor=1)

        new = await scene.until_gpupod(
            "p", lambda it: it.spec.pod_uid == uid and it.status.phase, what="the new GpuPod"
        )
    assert new.metadata.uid != old.metadata.uid
    assert new.status.minors == "1"


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
        await scene.until_gpupod("p", lambda it: it.status.phase, what="the GpuPod")


async def test_record_changed_by_hand_is_put_right(scene: Scene) -> None:
    """A record that somebody empties is filled again, and one that somebody deletes is made again."""
    async with scene.agent():
        await scene.bound_pod("p")
        first = await scene.until_gpupod("p", lambda it: it.status.phase, what="the GpuPod")
        await scene.patch_gpupod("p", {"spec": {"containers": []}})
        await scene.until_gpupod("p", lambda it: it.spec == first.spec, what="the record to be filled again")
        await scene.admin.delete(resources.GPU_PODS, "p", namespace=scene.namespace)

        again = await scene.until_gpupod(
            "p", lambda it: it.metadata.uid != first.metadata.uid and it.status.phase, what="a new one"
        )
    assert again.spec == first.spec


@pytest.mark.parametrize("then", ["gone", "made anew"])
async def test_record_that_goes_while_it_is_deleted_is_deleted_once(
    scene: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """Who finds a record gone, or another in its place, is content: he neither tries again nor complains."""
    await scene.create_node()
    await scene.admin.apply(resources.GPU_PODS, recorded(scene, scene.node), manager="test")
    deleted: list[str] = []
    delete = api.Api.delete

    async def beaten(
        self: api.Api, resource: Resource, name: str, *, namespace: str = "", uid: str = ""
    ) -> None:
        if resource is resources.GPU_PODS:
            deleted.append(uid)
            await delete(scene.admin, resource, name, namespace=namespace)
            if then == "made anew":
                await scene.admin.apply(resource, recorded(scene, "another-node"), manager="test")
        await delete(self, resource, name, namespace=namespace, uid=uid)

    monkeypatch.setattr(api.Api, "delete", beaten)
    async with scene.agent():
        if then == "gone":
            await scene.until_no_gpupod("record")
        else:
            await scene.until_gpupod("record", lambda it: it.spec.node == "another-node", what="another one")
        await scene.bound_pod("p")
        # Names are looked at one after the other: what would be tried again was tried by then.
        await scene.until_gpupod("p", lambda it: it.status.phase, what="the GpuPod of a pod")
        left = await scene.gpupod("record")

    assert len(deleted) == 1
    assert (left.spec.node if left else "") == ("" if then == "gone" else "another-node")
    # A server that has just come up may tell an informer to be patient, which is nobody's complaint here.
    told = [line for line in caplog.records if line.levelname == "WARNING"]
    assert not [line for line in told if line.name.startswith("berth_agent")]


def recorded(scene: Scene, node: str) -> Mapping[str, Any]:
    """Make a GpuPod of a node, of a pod that does not exist."""
    spec = {"node": node, "podUID": "u"}
    return {"metadata": {"name": "record", "namespace": scene.namespace}, "spec": spec}


async def test_records_of_other_nodes_are_left_alone(scene: Scene) -> None:
    """An agent removes no record that names another node, though it knows no pod for it."""
    other = {
        "metadata": {"name": "other", "namespace": scene.namespace},
        "spec": {"node": "another-node", "podUID": "u"},
    }
    mine = {
        "metadata": {"name": "mine", "namespace": scene.namespace},
        "spec": {"node": scene.node, "podUID": "u"},
    }
    await scene.create_node()
    for thing in (other, mine):
        await scene.admin.apply(resources.GPU_PODS, thing, manager="test")

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
