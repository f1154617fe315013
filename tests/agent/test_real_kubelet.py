"""Beside a real kubelet with real containers: what it hands out, who is on a card, and its restarts."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from berth_agent import probe
from berth_agent.kubelet import cgroups
from berth_crds import names, wire
from support.deviceplugin import DevicePlugin
from testbed import images, waiting, workers

if TYPE_CHECKING:
    from agent.conftest import Scene

pytestmark = pytest.mark.slow

GPU = "nvidia.com/gpu"


@pytest.fixture
async def plugin(worker: workers.Worker) -> AsyncIterator[DevicePlugin]:
    """Lend a device plugin of that kubelet; it offers nothing yet."""
    async with DevicePlugin(worker.plugins, GPU) as plugin:
        yield plugin


def asking(cards: int) -> dict[str, Any]:
    """Describe a pod that a worker can run and that asks for cards."""
    resources = {"limits": {GPU: str(cards)}}
    main = {"name": "main", "image": images.NAME, "imagePullPolicy": "Never", "resources": resources}
    return {
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 2,
        "containers": [main],
    }


async def until_offered(scene: Scene, count: int) -> None:
    """Wait until the kubelet would admit a pod with so many cards."""

    async def offered() -> bool:
        allocatable = scene.cluster.read_node(scene.node)["status"].get("allocatable", {})
        return bool(allocatable.get(names.NVIDIA_GPU) == str(count))

    await waiting.eventually(offered, what="the node to have its cards", seconds=30)


async def test_what_it_hands_out_is_compared_and_goes_with_the_pod(
    scene: Scene, worker: workers.Worker, plugin: DevicePlugin
) -> None:
    """Verified, mismatched, and a pod of somebody else's; the records go with the pods."""
    one, two = scene.uuid(0), scene.uuid(1)
    scene.socket, scene.pod_spec = worker.pod_resources, asking(1)
    plugin.offers(one)
    await until_offered(scene, 1)
    async with scene.agent(node=False):
        await scene.bound_pod("right", minor=0)
        agreed = await scene.until_verified("right", "True", "Agreed", seconds=60)
        plugin.offers(one, f"{two}::3")
        await until_offered(scene, 2)
        await scene.bound_pod("wrong", minor=0)
        parted = await scene.until_verified("wrong", "False", "Mismatch", seconds=60)
        for name in ("right", "wrong"):
            await scene.end_pod(name)
            await scene.until_no_gpupod(name)
        plugin.offers(two)
        await until_offered(scene, 1)
        await scene.foreign_pod("foreign")
        found = await scene.until_verified("foreign", "True", "Agreed", seconds=60)

    assert agreed.status.granted == (wire.Grant("main", (one,), "podresources"),)
    assert parted.status.granted == (wire.Grant("main", (two,), "podresources"),)
    assert [card.uuid for each in found.spec.containers for card in each.devices] == [two]


async def test_processes_of_its_containers_are_their_pods(
    scene: Scene, worker: workers.Worker, plugin: DevicePlugin
) -> None:
    """By the cgroups that are really made: a pod's process is the pod's, any other is a stray."""
    scene.socket, scene.pod_spec = worker.pod_resources, asking(1)
    crowd = scene.crowded(Path("/"))
    assert crowd.procfs == Path("/proc")
    plugin.offers(scene.uuid(0))
    await until_offered(scene, 1)
    async with scene.agent(node=False):
        uid = await scene.bound_pod("p", minor=0)
        await scene.until_gpupod("p", lambda it: it.status.phase == "Running", what="it to run", seconds=60)
        pid, *_ = worker.processes_of(uid)
        crowd.there[pid] = probe.Process(pid, scene.uuid(0), 1 << 30)
        crowd.there[os.getpid()] = probe.Process(os.getpid(), scene.uuid(1), 2 << 30)
        hurt = await scene.until_device(lambda it: it.status.devices, what="the stray")
        assert await scene.gpupod("p") is not None
        crowd.there[pid] = probe.Process(pid, scene.uuid(1), 1 << 30)
        both = await scene.until_device(
            lambda it: it.status.devices and len(it.status.devices[0].occupants) == 2, what="both strays"
        )

    (verdict,) = hurt.status.devices
    own, theirs = (cgroups.read_command(Path("/proc"), one) for one in (os.getpid(), pid))
    assert own
    assert theirs
    assert (verdict.uuid, verdict.occupants) == (
        scene.uuid(1),
        (wire.Occupant(os.getpid(), 2 << 30, command=own),),
    )
    (verdict,) = both.status.devices
    assert wire.Occupant(pid, 1 << 30, scene.namespace, "p", theirs) in verdict.occupants


async def test_its_restart_takes_nothing_away(
    scene: Scene, worker: workers.Worker, plugin: DevicePlugin
) -> None:
    """While it is away the Device says so and the record stands; then it is verified again."""
    scene.socket, scene.pod_spec = worker.pod_resources, asking(1)
    plugin.offers(scene.uuid(0))
    await until_offered(scene, 1)
    async with scene.agent(node=False):
        await scene.bound_pod("p", minor=0)
        before = await scene.until_verified("p", "True", "Agreed", seconds=60)
        await scene.until_kubelet_ready("True")
        worker.kill_kubelet()
        await scene.until_kubelet_ready("False")
        assert await scene.gpupod("p") is not None
        worker.start_kubelet()
        await plugin.start()
        await scene.until_kubelet_ready("True")
        after = await scene.until_verified("p", "True", "Agreed", seconds=60)

    assert (after.metadata.uid, after.status.granted) == (before.metadata.uid, before.status.granted)
