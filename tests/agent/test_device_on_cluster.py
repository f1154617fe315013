"""A Device on the real API server: published, kept right, left alone, and vouched for by a Lease.

The labels of its Node are written once, kept and taken away, and nobody else's are touched.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from berth_agent import device_spec, node_labels, simulated
from berth_agent.publish import label_writer, object_writer
from berth_crds import names, wire
from berth_crds.client import api, resources
from support import nodes
from support.nvml import presets
from testbed import audit, proxy, waiting

if TYPE_CHECKING:
    from agent.conftest import Scene


def ready(device: wire.Device) -> bool:
    """Return whether the agent says that its source answers."""
    return any((each.type, each.status) == ("NVMLReady", "True") for each in device.status.conditions)


def agents_part(spec: wire.DeviceSpec) -> wire.DeviceSpec:
    """Return a spec without what people write into it."""
    return msgspec.structs.replace(spec, cordon=())


def simulated_spec(scene: Scene) -> wire.DeviceSpec:
    """Return the spec that the simulated machine of the node should have."""
    return device_spec.spec(scene.node, simulated.machine(scene.node, scene.shape), None)


async def test_device_is_the_truth_and_goes_with_its_node(scene: Scene) -> None:
    """The Device equals the simulated machine, waits for its Node, and is owned by it."""
    scene.shape = "8xA100-SXM4-80GB+2xT4"
    async with scene.agent(node=False):
        uid = await scene.create_node()
        device = await scene.until_device(ready, what="the Device")

    assert device.spec == simulated_spec(scene)
    assert device.spec.summary == wire.SpecSummary("A100-SXM4-80GB x8, Tesla-T4 x2", 10)
    [owner] = device.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid) == ("Node", scene.node, uid)


async def test_nothing_is_written_while_nothing_changes(scene: Scene) -> None:
    """Over several looks, and over a restart, the agent writes nothing but its Lease."""
    await scene.create_node()
    await scene.bound_pod("held")
    async with scene.agent():
        await scene.until_device(ready, what="the Device")
        await scene.until_gpupod("held")
        settled = await scene.settled()
        await scene.until_renewed(settled, 5)
    async with scene.agent(name="agent-2"):
        await scene.until_lease(lambda it: it.spec.holder_identity == "agent-2", what="the second agent")
        await scene.until_renewed(settled, 10)

    later = scene.writes()[settled:]
    assert {(each.resource, each.name, each.code) for each in later} == {("leases", scene.node, 200)}


async def test_device_follows_its_node_made_again(scene: Scene) -> None:
    """When the Node is deleted and made again, the new Device is owned by the new Node."""
    async with scene.agent():
        await scene.until_device(ready, what="the Device")
        await scene.admin.delete(resources.NODES, scene.node)
        uid = await scene.create_node()

        await scene.until_device(
            lambda it: [each.uid for each in it.metadata.owner_references] == [uid] and ready(it),
            what="a Device owned by the new Node",
        )


async def test_hand_edit_is_put_right_and_cordon_survives(scene: Scene) -> None:
    """What belongs to the agent is put right; what belongs to people is left as they wrote it."""
    async with scene.agent():
        device = await scene.until_device(ready, what="the Device")
        cordoned = device.spec.devices[0].uuid
        await scene.patch_device({"spec": {"bootID": "by-hand", "partitions": [], "cordon": [cordoned]}})

        right = await scene.until_device(
            lambda it: it.spec.boot_id != "by-hand", what="the boot id to be put right"
        )
        assert agents_part(right.spec) == simulated_spec(scene)
        assert right.spec.cordon == (cordoned,)

        # A restart, with a source that fails, finds the cordon in the Device and leaves it there.
    scene.faults.write_text(json.dumps({scene.node: {"source": {"reason": "NoDriver"}}}))
    async with scene.agent(name="agent-2"):
        failed = await scene.until_device(lambda it: not ready(it), what="the condition to turn")
    assert failed.spec == right.spec


async def test_what_others_add_is_taken_out(scene: Scene) -> None:
    """A card and a verdict that somebody adds by hand are taken out, though an apply would keep them."""
    await scene.create_node()
    alien = {"uuid": "GPU-alien", "type": "gpu", "minor": 63, "memory": 1}
    async with scene.agent():
        device = await scene.until_device(ready, what="the Device")
        await scene.admin.send(
            "PATCH",
            resources.DEVICES.path(scene.node),
            body=msgspec.json.encode(
                [
                    {"op": "add", "path": "/spec/devices/0", "value": alien},
                    {"op": "replace", "path": "/spec/summary/gpus", "value": 3},
                ]
            ),
            content=object_writer.JSON_PATCH,
        )
        await scene.until_device(lambda it: it.spec == device.spec, what="the card to be taken out")
        verdict = {"uuid": "GPU-alien", "health": "Unhealthy"}
        await scene.patch_device({"status": {"devices": [verdict]}}, sub="status")
        settled = len(scene.writes())
        await scene.until_device(lambda it: not it.status.devices, what="the verdict to be taken out")
        await scene.until_renewed(settled, 5)

    assert len([each for each in scene.writes()[settled:] if each.resource != "leases"]) <= 3


async def test_fault_turns_one_card_and_back(scene: Scene) -> None:
    """A broken card gets a verdict of its own while all cards stay listed, and loses it when it heals."""
    async with scene.agent():
        well = await scene.until_device(ready, what="the Device")
        scene.faults.write_text(json.dumps({scene.node: {"1": {"reason": "XidCritical", "xid": 79}}}))
        ill = await scene.until_device(lambda it: it.status.devices, what="a verdict")
        scene.faults.write_text("not JSON")
        unknown = await scene.until_device(lambda it: not ready(it), what="the condition to turn")
        scene.faults.unlink()
        healed = await scene.until_device(
            lambda it: ready(it) and not it.status.devices, what="the card to heal"
        )

    [verdict] = ill.status.devices
    assert (verdict.uuid, verdict.health, verdict.xid) == (well.spec.devices[1].uuid, "Unhealthy", 79)
    assert ready(ill)
    assert unknown.status.devices == ill.status.devices
    assert [each.reason for each in unknown.status.conditions] == ["FaultsUnreadable"]
    assert well.spec == ill.spec == unknown.spec == healed.spec


async def test_lease_vouches_only_for_what_the_api_took(scene: Scene) -> None:
    """While the API refuses the Device there is no Lease; once it takes it, the Lease is kept fresh."""
    await scene.create_node()
    limited = scene.limited_account()

    async def refused_twice() -> bool:
        mine = audit.writes_by(scene.cluster.audit(), limited.user)
        return len(audit.refused(audit.writes_to(mine, names.DEVICES))) >= 2

    async with scene.agent(kubeconfig=limited.kubeconfig):
        await waiting.eventually(refused_twice, what="two refusals")
        assert await scene.heartbeat() is None

        limited.trust()
        first = await scene.until_lease(lambda it: it.spec.renew_time, what="the Lease")
        assert await scene.device() is not None
        await scene.until_lease(
            lambda it: (it.spec.renew_time or "") > (first.spec.renew_time or ""), what="a renewal"
        )

    assert (first.spec.holder_identity, first.spec.lease_duration_seconds) == ("agent-1", 40)
    assert [each.name for each in first.metadata.owner_references] == [scene.node]


async def test_two_agents_of_one_node_are_told(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """Two live agents of one node each say so once, and the Device stays true."""
    async with scene.agent(name="first"), scene.agent(name="second"):
        await scene.until_device(ready, what="the Device")
        for other in ("first", "second"):
            await scene.until(lambda: f"another agent, {other}" in caplog.text, what=other)  # noqa: B023
        await scene.until_renewed(len(scene.writes()), 10)

    assert caplog.text.count("another agent, ") == 2
    assert agents_part((await scene.until_device(ready, what="the Device")).spec) == simulated_spec(scene)


async def test_api_away_and_back_loses_nothing(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """What happened while the API could not be reached is found and put right when it is back."""
    await scene.create_node()
    await scene.bound_pod("goes")
    async with (
        proxy.Proxy(scene.cluster.port) as wire_,
        scene.agent(kubeconfig=scene.kubeconfig(wire_.server)),
    ):
        device = await scene.until_device(ready, what="the Device")
        await scene.until_gpupod("goes")
        await scene.until_lease(lambda _: True, what="the Lease")

        wire_.refuse()
        wire_.cut()
        scene.faults.write_text(json.dumps({scene.node: {"0": {}}}))
        await scene.admin.delete(resources.DEVICES, scene.node)
        await scene.bound_pod("comes", minor=1)
        await scene.delete_pod("goes")
        before = await scene.until_lease(lambda _: True, what="the Lease")
        await scene.until(
            lambda: f"node {scene.node} is not published" in caplog.text, what="the failure in the log"
        )
        await wire_.accept()

        again = await scene.until_device(lambda it: it.status.devices, what="the Device with its verdict")
        await scene.until_gpupod("comes", lambda it: it.status.phase, what="the new GpuPod")
        await scene.until_no_gpupod("goes")
        await scene.until_lease(lambda it: it.spec.renew_time != before.spec.renew_time, what="a renewal")

    assert again.metadata.uid != device.metadata.uid
    assert again.spec == device.spec


# ---------------------------------------------------------------- labels of the Node


async def labels(scene: Scene) -> dict[str, str]:
    """Read the labels of the Node."""
    node = await scene.admin.get(resources.NODES, scene.node, into=api.WithMetadata)
    return node.metadata.labels


async def until_labelled(scene: Scene, wanted: dict[str, Any], *, what: str) -> dict[str, str]:
    """Wait until the Node bears these labels; None is one that it does not bear."""

    async def found() -> dict[str, str] | None:
        current = await labels(scene)
        return current if all(current.get(key) == text for key, text in wanted.items()) else None

    return await waiting.eventually(found, what=what)


async def label(scene: Scene, **changes: str | None) -> None:
    """Change labels by hand."""
    body = msgspec.json.encode({"metadata": {"labels": changes}})
    await scene.admin.send("PATCH", resources.NODES.path(scene.node), body=body, content=api.MERGE_PATCH)


async def test_node_is_labelled_once(scene: Scene, place: nodes.Place) -> None:
    """Labels come with the cards and follow them; nothing is written while nothing changes."""
    rig = place(presets.DGX_A100)
    await scene.create_node()
    await label(scene, mine="kept")
    async with scene.agent(source=rig.start(), labels=True):
        await until_labelled(
            scene, {"berth.dev/gpu.product": "A100-SXM4-80GB", "mine": "kept"}, what="the labels"
        )
        await asyncio.sleep(1.0)  # Several ticks.
        rig.machine.change({"card.0.mig.mode": "1 1"})
        mixed = await until_labelled(
            scene, {"berth.dev/gpu.mig": None}, what="a label that is no longer so to go"
        )
        await scene.settled()  # The server logs a write once it is answered.

    assert (mixed["berth.dev/gpu.count"], mixed["mine"]) == ("8", "kept")
    writes = [each for each in scene.writes() if each.resource == "nodes"]
    assert [each.verb for each in writes] == ["patch"] * 2


async def test_labels_taken_away_come_back(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may remove or change one by hand; it is looked at again now and then."""
    monkeypatch.setattr(label_writer, "CHECK_SECONDS", 0.2)
    async with scene.agent(labels=True):
        whole = await until_labelled(scene, {"berth.dev/gpu.count": "2"}, what="the labels")
        ours = {key: text for key, text in whole.items() if node_labels.ours(key)}
        await label(scene, **{"berth.dev/gpu.count": "99", "berth.dev/gpu.product": None})
        await until_labelled(scene, ours, what="the labels to be right again")


async def test_labels_of_others_under_our_names_go(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else wrote there is taken away once; it is not written against for ever."""
    monkeypatch.setattr(label_writer, "CHECK_SECONDS", 0.2)
    await scene.create_node()
    await label(scene, mine="kept", **{"berth.dev/gpu.foreign": "x"})
    async with scene.agent(labels=True):
        await until_labelled(
            scene, {"berth.dev/gpu.count": "2", "berth.dev/gpu.foreign": None}, what="it to go"
        )
        await label(scene, **{"berth.dev/gpu.later": "y"})
        found = await until_labelled(scene, {"berth.dev/gpu.later": None}, what="the other to go")
        settled = await scene.settled()
        await scene.until_renewed(settled, 5)

    assert (found["mine"], {each.resource for each in scene.writes()[settled:]}) == ("kept", {"leases"})


async def test_agent_that_may_not_label_vouches_all_the_same(scene: Scene) -> None:
    """An account without the right to it publishes its Device and renews its Lease."""
    limited = scene.limited_account()
    role = json.loads(scene.cluster.kubectl("get", "clusterrole", "berth-agent", "-o", "json"))
    rules = [rule | {"verbs": ["get"]} if "nodes" in rule["resources"] else rule for rule in role["rules"]]
    kind = {"apiVersion": role["apiVersion"], "kind": role["kind"]}
    scene.cluster.apply(json.dumps(kind | {"metadata": {"name": f"{limited.name}-all"}, "rules": rules}))
    scene.cluster.kubectl(
        *("create", "clusterrolebinding", f"{limited.name}-all", f"--clusterrole={limited.name}-all"),
        f"--serviceaccount={limited.namespace}:{limited.name}",
    )
    async with scene.agent(kubeconfig=limited.kubeconfig, labels=True):
        first = await scene.until_lease(lambda one: one.spec.holder_identity, what="the Lease")
        await scene.until_lease(
            lambda one: one.spec.renew_time != first.spec.renew_time, what="the Lease to be renewed"
        )

    assert not [key for key in await labels(scene) if node_labels.ours(key)]
