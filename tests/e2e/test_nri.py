"""Containers that the agent adjusts as containerd makes them, each looked at from inside (K21, G7)."""

import json
from pathlib import Path
from typing import Final

import pytest

from berth_agent import simulated
from berth_crds import names
from e2e.inside import (
    ABSENT,
    ALLOWED,
    MOST_CARDS,
    Inside,
    assert_as_decided,
    container,
    make_node,
    pod,
    scene,
    until_running,
    whole,
)
from e2e.stage import HARDWARE, Stage
from support import thorough
from support.deviceplugin import DevicePlugin
from support.nvml import fixtures, machine, presets
from support.rdma_tree import RdmaTree
from testbed import workers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("leader")]

SHAPE: Final = f"{MOST_CARDS}xT4"
SEES_ALL: Final = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
REQUIRED: Final = "required-plugins.noderesource.dev"


@pytest.mark.parametrize("by_cdi", [False, thorough.case(True)], ids=["directly", "by the agent's CDI spec"])
async def test_each_container_opens_the_cards_of_its_annotation_and_no_others(
    stage: Stage, worker: workers.Worker, driver: Path, *, by_cdi: bool
) -> None:
    """Whatever it says itself: containers of one pod, halves of one card, and one without a card."""
    flags = ("--nri", str(worker.nri), "--nvidia-driver-root", str(driver))
    cdi = ("--cdi", str(worker.cdi), "--nri-cdi-kind", "berth.dev/gpu") if by_cdi else ()
    await stage.agent(*flags, *cdi, **{worker.name: SHAPE})
    await stage.until_ready(worker.name)
    pods = scene()

    await stage.create(*pods)
    await until_running(stage, *(each["metadata"]["name"] for each in pods))

    cards = simulated.machine(worker.name, SHAPE).answering_cards()
    await assert_as_decided(stage, worker, {card.uuid: card.minor for card in cards})


async def test_a_container_that_cannot_get_its_card_does_not_start_without(
    stage: Stage, worker: workers.Worker, driver: Path
) -> None:
    """Neither while a device node lacks, nor, in a pod that requires the agent, while that is away."""
    (driver / "dev" / "nvidia0").unlink()
    (driver / "dev" / "nvidia0").write_text("no device")
    fixtures.require()
    made = machine.Machine.make(driver / "machine", presets.MIG)
    made.change({"card.0.mig.mode": "0 0"})
    words = ("--sysfs", str(made.sys), "--nri", str(worker.nri), "--nvidia-driver-root", str(driver))
    stage.agents_read(made)
    agent = await stage.agent(*words, **{worker.name: HARDWARE})
    await stage.until_ready(worker.name)

    await stage.create(pod("p", whole("main")))
    told = await stage.until("the kubelet to say why", lambda: reason(stage, "p"), seconds=60)
    (driver / "dev" / "nvidia0").unlink()
    make_node(driver, "nvidia0", 0)
    await until_running(stage, "p")
    assert f"there is no device node {driver}/dev/nvidia0" in told
    assert Inside(stage, worker, ("p", "main")).minors() == [0]

    await stage.delete("p")
    await stage.until_gone("p")
    agent.kill()
    needy = pod("q", whole("main"))
    needy["metadata"]["annotations"] = {REQUIRED: '["berth"]'}
    await stage.create(needy)
    told = await stage.until("the runtime to say why", lambda: reason(stage, "q"), seconds=60)
    assert "berth" in told
    await stage.agent(*words, **{worker.name: HARDWARE})
    await until_running(stage, "q")
    assert Inside(stage, worker, ("q", "main")).minors() == [0]


async def reason(stage: Stage, name: str) -> str | None:
    """Return why a container of a pod is not made."""
    statuses = (await stage.pods())[name]["status"].get("containerStatuses", ())
    waits = (status["state"].get("waiting", {}) for status in statuses)
    return next((each["message"] for each in waits if each.get("reason") == "CreateContainerError"), None)


async def test_cards_that_nobody_gave_are_taken_from_other_schedulers_pods(
    stage: Stage, worker: workers.Worker
) -> None:
    """An image may say `all`; what a device plugin gave stays, and so do the pods of unguarded namespaces."""
    (uuid,) = (card.uuid for card in simulated.machine(worker.name, "1xT4").answering_cards())
    async with DevicePlugin(worker.plugins, names.NVIDIA_GPU) as plugin:
        plugin.offers(uuid)
        plugin.env = {"NVIDIA_VISIBLE_DEVICES": uuid}
        sockets = ("--nri", str(worker.nri), "--pod-resources", str(worker.pod_resources), "--guard")
        agent = await stage.agent(*sockets, **{worker.name: "1xT4"})
        await stage.says(agent, "containers are adjusted")
        stray = pod("stray", container("main"), schedulerName="somebody-else", nodeName=worker.name)
        given = pod("given", whole("main"), schedulerName="somebody-else", nodeName=worker.name)
        twice = pod("twice", container("main") | {"env": [SEES_ALL]}, schedulerName="somebody-else")
        twice["spec"]["nodeName"] = worker.name
        await stage.create(stray, given, twice)
        await until_running(stage, "stray", "given")
        told = await stage.until("the runtime to say why", lambda: reason(stage, "twice"), seconds=60)

    assert "NVIDIA_VISIBLE_DEVICES is set both in the image and in the pod" in told
    assert Inside(stage, worker, ("stray", "main")).uuids() == "void"
    assert Inside(stage, worker, ("given", "main")).uuids() == uuid
    assert "container main of pod" in agent.log.read_text()


async def test_cards_can_be_named_as_in_a_spec_of_others(
    stage: Stage, worker: workers.Worker, driver: Path
) -> None:
    """The runtime does what the node's own spec says of each of them."""
    machine_cards = tuple(simulated.machine(worker.name, "2xT4").answering_cards())
    spec = {
        "cdiVersion": "0.6.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {"name": card.uuid, "containerEdits": {"env": [f"SEEN_{card.minor}=yes"]}}
            for card in machine_cards
        ],
    }
    (worker.cdi / "nvidia.json").write_text(json.dumps(spec))
    flags = (
        "--nri",
        str(worker.nri),
        "--nri-cdi-kind",
        "nvidia.com/gpu",
        "--nvidia-driver-root",
        str(driver),
    )
    await stage.agent(*flags, **{worker.name: "2xT4"})
    await stage.until_ready(worker.name)

    await stage.create(pod("p", whole("main")))
    await until_running(stage, "p")

    inside = Inside(stage, worker, ("p", "main"))
    (minor,) = (card.minor for card in machine_cards if card.uuid == inside.uuids())
    assert {name: value for name, value in inside.env.items() if name.startswith("SEEN_")} == {
        f"SEEN_{minor}": "yes"
    }
    assert inside.minors() == []


async def test_a_container_opens_its_rdma_device_and_no_other(
    stage: Stage, worker: workers.Worker, driver: Path
) -> None:
    """By the node of its verbs, with the address of its virtual function; one without any has neither."""
    tree = RdmaTree(driver)
    for number, address in enumerate(("0000:3b:00.0", "0000:3c:00.0")):
        place = tree.add(f"mlx5_{number}", address)
        tree.add_vf(0, f"{address[:-1]}2", of=place, name=f"mlx5_{number + 2}")
    for number in range(4):
        make_node(driver, f"infiniband/uverbs{number}", 100 + number)
    make_node(driver, "infiniband/rdma_cm", 104)
    words = ("--no-gpus", "--sysfs", str(tree.kernel.sys), "--nvidia-driver-root", str(driver))
    await stage.agent(*words, "--nri", str(worker.nri), **{worker.name: HARDWARE})
    await stage.until_ready(worker.name)
    function = pod("function", container("main", **{names.RDMA: "1"}), container("side"))
    whole_device = pod("whole", container("main", **{names.RDMA: "100"}))

    await stage.create(whole_device)
    await until_running(stage, "whole")
    await stage.create(function)
    await until_running(stage, "function")

    verbs = [f"/dev/infiniband/uverbs{number}" for number in range(4)]
    manager = "/dev/infiniband/rdma_cm"
    seen = Inside(stage, worker, ("whole", "main"), *verbs, manager)
    assert seen.opened(*verbs, manager) == [ALLOWED, ABSENT, ABSENT, ABSENT, ALLOWED]
    assert seen.env["PCIDEVICE_BERTH_DEV_RDMA"] == "0000:3b:00.0"
    seen = Inside(stage, worker, ("function", "main"), *verbs)
    assert seen.opened(*verbs) == [ABSENT, ABSENT, ABSENT, ALLOWED]
    assert seen.env["PCIDEVICE_BERTH_DEV_RDMA"] == "0000:3c:00.2"
    side = Inside(stage, worker, ("function", "side"), *verbs)
    assert side.opened(*verbs) == [ABSENT] * 4 and "PCIDEVICE_BERTH_DEV_RDMA" not in side.env
