"""A Device on the real API server: published, kept right, left alone, and vouched for by a Lease."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent import programs
from berth_agent import device_spec, simulated
from berth_agent.publish import object_writer
from berth_crds import names, wire
from berth_crds.client import resources
from testbed import audit, proxy, waiting
from testbed import cluster as clusters

if TYPE_CHECKING:
    import pytest

    from agent.conftest import Scene


def ready(device: wire.Device) -> bool:
    """Return whether the agent says that its source answers."""
    return any((each.type, each.status) == ("NVMLReady", "True") for each in device.status.conditions)


def plain(spec: wire.DeviceSpec) -> wire.DeviceSpec:
    """Return a spec without what people write into it."""
    return wire.DeviceSpec(spec.node, spec.boot_id, spec.driver, spec.devices, spec.partitions, spec.summary)


async def truth(scene: Scene) -> wire.DeviceSpec:
    """Return what the simulated machine of the scene really is."""
    return device_spec.spec(scene.node, simulated.machine(scene.node, scene.shape), None)


async def test_device_is_the_truth_and_goes_with_its_node(scene: Scene) -> None:
    """The Device equals the simulated machine, waits for its Node, and is owned by it."""
    scene.shape = "8xA100-SXM4-80GB+2xT4"
    async with scene.agent(node=False):
        uid = await scene.create_node()
        device = await scene.until_device(ready, what="the Device")

    assert device.spec == await truth(scene)
    assert device.spec.summary == wire.SpecSummary("A100-SXM4-80GB x8, Tesla-T4 x2", 10)
    [owner] = device.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid) == ("Node", scene.node, uid)


async def test_nothing_is_written_while_nothing_changes(scene: Scene) -> None:
    """Over several looks, and over a restart, the agent writes nothing but its Lease."""
    await scene.create_node()
    await scene.bound_pod("held")
    async with scene.agent():
        await scene.until_device(ready, what="the Device")
        await scene.until_gpupod("held", lambda it: it.status.phase, what="the GpuPod")
        settled = await scene.settled()
        await scene.until_renewed(settled, 5)
    async with scene.agent(name="agent-2"):
        await scene.until_lease(lambda it: it.spec.holder_identity == "agent-2", what="the second agent")
        await scene.until_renewed(settled, 10)

    later = scene.writes()[settled:]
    assert {(each.resource, each.name, each.code) for each in later} == {("leases", scene.node, 200)}


async def test_deleted_device_comes_back(scene: Scene) -> None:
    """A Device that somebody deletes is published again, as it was."""
    async with scene.agent():
        first = await scene.until_device(ready, what="the Device")
        await scene.admin.delete(resources.DEVICES, scene.node, uid=first.metadata.uid)

        again = await scene.until_device(
            lambda it: it.metadata.uid != first.metadata.uid and ready(it), what="a new Device"
        )
    assert again.spec == first.spec


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
        assert plain(right.spec) == await truth(scene)
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
        added = {"uuid": "GPU-alien", "health": "Unhealthy"}
        await scene.patch_device({"status": {"devices": [added]}}, sub="status")
        settled = len(scene.writes())
        await scene.until_device(lambda it: not it.status.devices, what="the verdict to be taken out")
        await scene.until_renewed(settled, 5)

    await quiet_since(scene, settled)


async def quiet_since(scene: Scene, settled: int) -> None:
    """Check that the agent wrote little since, beside its Lease: that it is not fighting anybody."""
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
        await until_told(caplog, "another live agent, first", "another live agent, second")
        await scene.until_renewed(len(scene.writes()), 10)

    assert caplog.text.count("another live agent") == 2
    assert plain((await scene.until_device(ready, what="the Device")).spec) == await truth(scene)


async def until_told(caplog: pytest.LogCaptureFixture, *sentences: str) -> None:
    """Wait until the log has all these sentences."""
    await waiting.eventually(
        lambda: asyncio.sleep(0, all(each in caplog.text for each in sentences)),
        what=f"in the log: {sentences}",
    )


async def test_api_away_and_back_loses_nothing(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """What happened while the API could not be reached is found and put right when it is back."""
    await scene.create_node()
    await scene.bound_pod("goes")
    async with proxy.Proxy(scene.cluster.port) as wire_:
        through = scene.cluster.kubeconfig_for(
            names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT, server=wire_.server
        )
        async with scene.agent(kubeconfig=through):
            device = await scene.until_device(ready, what="the Device")
            await scene.until_gpupod("goes", lambda it: it.status.phase, what="the GpuPod")
            await scene.until_lease(lambda _: True, what="the Lease")

            wire_.refuse()
            wire_.cut()
            scene.faults.write_text(json.dumps({scene.node: {"0": {}}}))
            await scene.admin.delete(resources.DEVICES, scene.node)
            await scene.bound_pod("comes", minor=1)
            await scene.delete_pod("goes")
            before = await scene.until_lease(lambda _: True, what="the Lease")
            await until_told(caplog, f"node {scene.node} is not published")
            await wire_.accept()

            again = await scene.until_device(lambda it: it.status.devices, what="the Device with its verdict")
            await scene.until_gpupod("comes", lambda it: it.status.phase, what="the new GpuPod")
            await scene.until_no_gpupod("goes")
            await scene.until_lease(lambda it: it.spec.renew_time != before.spec.renew_time, what="a renewal")

    assert again.metadata.uid != device.metadata.uid
    assert again.spec == device.spec


async def test_hung_probe_neither_silences_nor_keeps_the_program(
    berth: clusters.Cluster, scene: Scene, tmp_path: Path
) -> None:
    """With a hung probe the program says so and renews its Lease, and a signal ends it in two seconds."""
    await scene.create_node()
    scene.faults.write_text(json.dumps({scene.node: {"source": {"hang": True}}}))
    command = [
        *(sys.executable, "-m", "berth_agent", "--simulated-node", f"{scene.node}=2xT4"),
        *("--faults", str(scene.faults), "--interval", "0.2", "--sample-deadline", "0.3"),
        *("--kubeconfig", str(berth.kubeconfig_for(names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT))),
    ]
    async with programs.running(command, tmp_path / "log") as agent:
        hung = await scene.until_device(lambda it: it.status.conditions, what="the condition")
        first = await scene.until_lease(lambda it: it.spec.renew_time, what="the Lease")
        await scene.until_lease(lambda it: it.spec.renew_time != first.spec.renew_time, what="a renewal")
        await programs.ends(agent)

    assert [(each.status, each.reason) for each in hung.status.conditions] == [("False", "Hung")]
    assert "Traceback" not in (tmp_path / "log").read_text()


async def test_api_away_at_the_start_is_waited_for(scene: Scene) -> None:
    """An agent that finds no API server when it starts publishes all there is once there is one."""
    await scene.create_node()
    await scene.bound_pod("p")
    account = names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT
    async with proxy.Proxy(scene.cluster.port) as wire_:
        wire_.refuse()
        through = scene.cluster.kubeconfig_for(*account, server=wire_.server)
        async with scene.agent(kubeconfig=through):
            await asyncio.sleep(1.0)
            assert await scene.device() is None
            await wire_.accept()

            await scene.until_device(ready, what="the Device")
            await scene.until_gpupod("p", lambda it: it.status.phase, what="the GpuPod")
            await scene.until_lease(lambda it: it.spec.holder_identity, what="the Lease")


async def test_names_that_join_alike_are_told_apart(scene: Scene) -> None:
    """Pods whose namespace and name make one word when put together have a record each."""
    await scene.create_node()
    spaces = [f"{scene.namespace}-b", scene.namespace]
    for minor, (space, name) in enumerate(zip(spaces, ("c", "b-c"), strict=True)):
        scene.namespace = space
        if minor == 0:
            scene.cluster.kubectl("create", "namespace", space)
            scene.cluster.service_account(space, "default")
        await scene.bound_pod(name, minor=minor)
    async with scene.agent():
        for minor, (space, name) in enumerate(zip(spaces, ("c", "b-c"), strict=True)):
            scene.namespace = space
            found = await scene.until_gpupod(name, lambda it: it.status.minors, what=name)
            assert found.status.minors == str(minor)
