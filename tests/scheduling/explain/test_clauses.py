"""Every change has its words: what would have to happen, and on how many nodes the pod would then fit."""

import dataclasses
from typing import Any

import pytest

from berth_operator.scheduling import explain
from berth_operator.scheduling.changes import Change, DeviceRef, FreeDevices, RemovePods
from berth_operator.scheduling.constraints import arrangement, asks, cards
from berth_operator.scheduling.constraints.agent_state import RepairAgent
from berth_operator.scheduling.constraints.cards import MakeRoom
from berth_operator.scheduling.constraints.device_state import RepairDevices
from berth_operator.scheduling.constraints.host_ports import DropHostPort
from berth_operator.scheduling.constraints.resources import AskLessResource, FreeResource
from berth_operator.scheduling.constraints.taints_and_affinity import (
    DropAffinity,
    DropFeature,
    DropSelector,
    Tolerate,
    Uncordon,
)
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import Deficit, Unit
from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.nodes.facts import HostPort, Taint
from scheduling.explain import scenes
from support import builders

GIB = builders.GIB
EVERYTHING = dataclasses.replace(
    scenes.PICKY.request,
    containers=(
        requests.ContainerRequest("a", (requests.Gpus(1, 50, 8 * GIB), requests.Gpus(1, 100, ratio=50))),
        requests.ContainerRequest("b", (requests.cards(8),)),
    ),
)


def rooms(count: int, **fields: Any) -> tuple[DeviceRef, ...]:
    """Name cards of n3."""
    return tuple(DeviceRef(f"GPU-{minor}", minor, **fields) for minor in range(count))


def room(count: int, **fields: Any) -> MakeRoom:
    """Make room on cards of n3."""
    return MakeRoom(node="n3", rooms=rooms(count, **fields), holders=("ml/a",))


def less(number: int, field: str, free: int, *, container: int = 0) -> Change:
    """Ask for less of one thing."""
    return asks.ask_less(EVERYTHING, asks.Position(container, number), field, free)


def repair(reason: Reason, count: int) -> RepairDevices:
    """Repair devices of n3."""
    return RepairDevices(node="n3", reason=reason, devices=rooms(count), wanted=1)


OF_NODES: dict[str, tuple[Change, str]] = {
    "memory of a card": (room(1, memory=2 * GIB), "2 GiB were freed on GPU-0 of n3"),
    "core and memory of a card": (
        room(1, core=20, memory=GIB // 2),
        "20 % core and 512 MiB were freed on GPU-0 of n3",
    ),
    "a part of another device": (room(1, core=20, type="rdma"), "20 % were freed on GPU-0 of n3"),
    "core of two cards": (room(2, core=20), "20 % core on GPU-0 and 20 % core on GPU-1 of n3 were freed"),
    "a card": (
        FreeDevices(node="n3", holds=(builders.hold("a"),), devices=rooms(1)),
        "GPU-0 of n3 were freed",
    ),
    "many cards": (
        FreeDevices(node="n3", holds=(builders.hold("a"),), devices=rooms(5)),
        "5 devices of n3 (minors 0, 1, 2, 3 and 4) were freed",
    ),
    "pods that hold no card by name": (
        RemovePods(node="n3", holds=(builders.hold("b"), builders.hold("a"))),
        "ml/a and ml/b on n3 terminated",
    ),
    "cpu": (
        FreeResource(node="n3", deficit=Deficit("cpu", Unit.THOUSANDTHS, 4000, 2500)),
        "1.5 cpu were freed on n3",
    ),
    "pods": (FreeResource(node="n3", deficit=Deficit("pods", Unit.PIECES, 1, -1)), "2 pods on n3 terminated"),
    "a cordoned node": (Uncordon(node="n3"), "n3 were uncordoned"),
    "a silent agent": (RepairAgent(node="n3", reason=Reason.SILENT), "the Berth agent on n3 reported again"),
    "a failed source": (
        RepairAgent(node="n3", reason=Reason.SOURCE_FAILED),
        "the Berth agent on n3 could read its GPUs",
    ),
    "a cordoned card": (repair(Reason.CARD_CORDONED, 1), "GPU-0 of n3 were not cordoned"),
    "unhealthy cards": (repair(Reason.UNHEALTHY, 2), "GPU-0 and GPU-1 of n3 were healthy"),
    "occupied cards": (repair(Reason.OCCUPIED, 3), "no other process used GPU-0, GPU-1 and GPU-2 of n3"),
    "a card that a process is known to use": (
        RepairDevices(
            node="n3",
            reason=Reason.OCCUPIED,
            devices=(DeviceRef("GPU-0", 0, occupants=(device_facts.Occupant(7, "python3"),)),),
            wanted=1,
        ),
        "no other process used GPU-0 of n3 (process 7 (python3))",
    ),
    "a uuid that another node reports, too": (
        repair(Reason.DUPLICATE_UUID, 1),
        "no other node reported GPU-0 of n3",
    ),
}
OF_THE_POD: dict[str, tuple[Change, str]] = {
    "fewer cards": (less(0, "count", 6, container=1), "it asked for 6 instead of 8 cards in container b"),
    "less memory": (
        less(0, "memory", GIB // 2),
        "it asked for 512 MiB instead of 8 GiB of each card in container a",
    ),
    "less core": (
        less(0, "core", 20),
        "it asked for 20 % instead of 50 % of the core of each card in container a",
    ),
    "a lower ratio": (
        less(1, "ratio", 20),
        "it asked for 20 % instead of 50 % of the memory of each card in container a",
    ),
    "less cpu": (
        AskLessResource(deficit=Deficit("cpu", Unit.THOUSANDTHS, 8000, 6000)),
        "it asked for 6 instead of 8 cpu",
    ),
    **{
        f"{count} replicas, whole {whole}": (
            asks.AskReplicas(position=asks.Position(0, 0), count=count, is_whole=whole),
            f"it asked for {text}",
        )
        for count, whole, text in (
            (1, True, "1 replica (nvidia.com/gpu.shared) instead of 1 whole card"),
            (2, True, "2 replicas (nvidia.com/gpu.shared) instead of 2 whole cards"),
            (1, False, "1 replica (nvidia.com/gpu.shared) instead of a part of a card"),
            (2, False, "2 replicas (nvidia.com/gpu.shared) instead of parts of 2 cards"),
        )
    },
    "a pair of the selector": (DropSelector(pair=("zone", "a")), "the node selector zone=a were dropped"),
    "the selector": (DropSelector(), "the node selector were dropped"),
    "a feature": (DropFeature(feature="Restarts"), "it did not need the node feature Restarts"),
    "affinity": (DropAffinity(), "the node affinity were dropped"),
    "a taint": (Tolerate(taint=Taint("gpu", "yes", "")), "the taint gpu=yes were tolerated"),
    "a host port": (DropHostPort(port=HostPort(80)), "it did not request host port 80/TCP"),
}


@pytest.mark.parametrize(
    ("change", "text"), [*OF_NODES.values(), *OF_THE_POD.values()], ids=[*OF_NODES, *OF_THE_POD]
)
def test_change(change: Change, text: str) -> None:
    """Each change is said so that one knows what to do, and where."""
    assert change.clause() == text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ([DropAffinity()], "would fit on at least 4 nodes if the node affinity were dropped"),
        (
            [DropAffinity(), Tolerate(taint=Taint("a", "", ""))],
            "would fit on at least 4 nodes if the node affinity were dropped and the taint a were tolerated",
        ),
        (
            [Uncordon(node="n3"), DropAffinity()],
            "would fit if n3 were uncordoned and the node affinity were dropped",
        ),
    ],
    ids=["one of the pod", "two of the pod", "one of a node"],
)
def test_advice(changes: list[Change], text: str) -> None:
    """How many nodes would take the pod is said where only the pod changes."""
    assert explain.would_fit(explain.Advice(tuple(changes), nodes=4)) == text


def test_the_only_container_is_not_named() -> None:
    """Which container should ask for less is said only where it could be another."""
    change = asks.ask_less(scenes.cards(2).request, asks.Position(0, 0), "count", 1)

    assert change.clause() == "it asked for 1 instead of 2 cards"


def test_every_condition_on_devices_can_be_dropped() -> None:
    """No condition that may be all that is in the way is left without words."""
    words = {
        field: text for field, _, text in (*cards.DROPPED, *arrangement.SCOPE_DROPPED, *arrangement.DROPPED)
    }

    conditions = {one.name for one in dataclasses.fields(requests.Conditions)} - {"spelt"}
    grouping = {"scope", "partition", "ring_bandwidth", "joint", "exclusive", "labels", "function_labels"}
    assert set(words) == conditions | grouping
    assert len(set(words.values())) == len(words)
