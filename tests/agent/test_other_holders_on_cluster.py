"""Who holds cards that Berth did not give, on the real API server: claims, strays and monitors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from berth_crds import wire
from berth_operator.translate import devices
from support.podresources import Claim, Kubelet

if TYPE_CHECKING:
    from agent.conftest import Scene


async def test_pod_with_a_claim_is_named_while_it_holds_cards(scene: Scene, kubelet: Kubelet) -> None:
    """What a driver of claims gave to a pod is in its GpuPod, and claims of other drivers are not."""
    await scene.create_node()
    card, nic = Claim(f"{scene.namespace}/card"), Claim(f"{scene.namespace}/nic", "dra.net")
    kubelet.says(
        [
            (f"{scene.namespace}/p", {"main": {card: ["gpu-1"]}}),
            (f"{scene.namespace}/q", {"main": {nic: ["gpu-0"]}}),
        ]
    )
    async with scene.agent():
        uid = await scene.foreign_pod("p")
        await scene.foreign_pod("q")
        found = await scene.until_verified("p", "True", "Agreed")
        asked = len(kubelet.asked) + 2
        await scene.until(lambda: len(kubelet.asked) >= asked, what="two more questions")
        network = await scene.gpupod("q")
        await scene.phase("p", "Succeeded")
        await scene.until_no_gpupod("p")

    [container] = found.spec.containers
    assert (found.spec.pod_uid, [one.uuid for one in container.devices]) == (uid, [scene.uuid(1)])
    assert network is None


async def test_strays_close_their_card_and_are_named(scene: Scene, tmp_path: Path) -> None:
    """A process of the host and one of a pod that was given nothing stand at their cards until they go."""
    crowd = scene.crowded(tmp_path)
    await scene.create_node()
    uid = await scene.foreign_pod("thief")
    crowd.enter(7, scene.uuid(0))
    crowd.enter(8, scene.uuid(1), cgroup=f"/kubepods/besteffort/pod{uid}/{'c' * 64}")
    async with scene.agent():
        there = await scene.until_device(lambda it: len(it.status.devices) == 2, what="the strays")
        record = await scene.until_gpupod("thief", lambda it: it.status.conditions, what="the GpuPod")
        crowd.there.clear()
        await scene.until_device(lambda it: not it.status.devices, what="the strays to go")
        await scene.until_no_gpupod("thief")

    occupants = {one.uuid: one.occupants for one in there.status.devices}
    assert occupants[scene.uuid(0)] == (wire.Occupant(7, 1 << 30),)
    assert occupants[scene.uuid(1)] == (wire.Occupant(8, 1 << 30, scene.namespace, "thief"),)
    assert ({one.health for one in there.status.devices}, record.spec.containers) == ({"Healthy"}, ())


async def test_monitor_is_shown_and_a_program_closes_its_card(scene: Scene, tmp_path: Path) -> None:
    """Both are named; only the program keeps new pods away. What breathes causes no write."""
    crowd = scene.crowded(tmp_path)
    await scene.create_node()
    crowd.enter(7, scene.uuid(0), memory=8 << 20, command="dcgm-exporter")
    crowd.enter(8, scene.uuid(1), command="python3")
    async with scene.agent():
        there = await scene.until_device(lambda it: len(it.status.devices) == 2, what="both")
        ticks = await scene.until_lease(lambda it: it.spec.renew_time, what="a renewal")
        crowd.enter(7, scene.uuid(0), memory=9 << 20, command="exporter")
        await scene.until_lease(
            lambda it: it.spec.renew_time != ticks.spec.renew_time, what="another renewal"
        )
        later = await scene.until_device(lambda it: len(it.status.devices) == 2, what="both")

    assert {one.uuid: one.occupants for one in there.status.devices} == {
        scene.uuid(0): (wire.Occupant(7, 8 << 20, command="dcgm-exporter", small=True),),
        scene.uuid(1): (wire.Occupant(8, 1 << 30, command="python3"),),
    }
    assert later == there  # The very revision.
    closed = {card.uuid: card.trouble is not None for card in devices.read(there).cards}
    assert closed == {scene.uuid(0): False, scene.uuid(1): True}
