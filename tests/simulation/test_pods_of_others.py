"""Whole pods of other projects, as they are, through `place`."""

from typing import Any, Final

import msgspec
import pytest

from berth_crds import wire
from simulation import simulator
from support import pods_of_others

NIC: Final = {"uuid": "rdma-0000:1f:00.0", "type": "rdma"}
FAR: Final = {
    "uuid": "rdma-0000:9f:00.0",
    "type": "rdma",
    "minor": 0,
    "topology": {"numaNode": 1, "pcieRoot": "pci0000:9e", "busID": "0000:9f:00.0"},
    "vfGroups": [{"vfs": [{"minor": 0, "busID": "0000:9f:00.2"}]}],
}


def cluster(**labels: str) -> tuple[simulator.Body, simulator.Body]:
    """Return a node and its devices: a NIC that is far, and one below the root of the first cards."""
    node, device = simulator.both("n1", pods_of_others.SHAPE)
    node["metadata"]["labels"] = labels
    cards = device["spec"]["devices"]
    near = {
        "minor": 1,
        "topology": cards[0]["topology"] | {"busID": "0000:1f:00.0"},
        "vfGroups": [{"vfs": [{"minor": 0, "busID": "0000:1f:00.2"}, {"minor": 1, "busID": "0000:1f:00.3"}]}],
    }
    device["spec"]["devices"] = [*cards, FAR, NIC | near]
    return node, device


def devices_of(device: simulator.Body) -> pods_of_others.Devices:
    """Return the devices of a node, by uuid."""
    listed = msgspec.convert(device["spec"]["devices"], tuple[wire.Card, ...])
    return {one.uuid: one for one in listed}


@pytest.mark.parametrize("case", pods_of_others.CASES.values(), ids=pods_of_others.CASES.keys())
def test_it_gets_what_it_asks_for_or_is_told_why_not(case: dict[str, Any]) -> None:
    """A pod needs no change but for those with a sentence that says so."""
    node, device = cluster(**case.get("labels", {}))

    words = ["--scheduler-names", pods_of_others.SCHEDULERS]
    (answer,) = simulator.place(node, device, case["pod"], words=words)

    if "told" in case:
        told = [refusal["message"] for refusal in answer["refusals"]]
        assert answer["node"] is None
        assert case["told"] in " ".join([*told, answer["nearest"] or ""])
    else:
        pods_of_others.assert_given(case, answer["allocation"], devices_of(device))


A100, OTHER_A100, T4, OTHER_T4 = range(4)
FAR_NIC, NEAR_NIC = 4, 5
WRONG: Final[dict[str, tuple[str, list[tuple[int, str]]]]] = {
    "cards on two roots": ("koordinator: cards on one PCIe root", [(A100, ""), (T4, "")]),
    "the same root, but the same card": ("koordinator: cards on one PCIe root", [(A100, ""), (A100, "")]),
    "cards of another type": ("hami: cards of some types", [(A100, ""), (T4, "")]),
    "another model": ("others: caden2016's scheduler", [(A100, "")]),
    "no function": ("koordinator: a card, and a virtual function near it", [(A100, ""), (NEAR_NIC, "")]),
    "no NIC": ("koordinator: a card, and a virtual function near it", [(A100, "")]),
    "a function that is far": (
        "koordinator: a card, and a virtual function near it",
        [(A100, ""), (FAR_NIC, "0000:9f:00.2")],
    ),
    "a card that is far": (
        "koordinator: a card, and a virtual function near it",
        [(T4, ""), (NEAR_NIC, "0000:1f:00.2")],
    ),
    "another function than the lowest": (
        "koordinator: a card, and a virtual function near it",
        [(A100, ""), (NEAR_NIC, "0000:1f:00.3")],
    ),
    "a NIC that was not asked for": (
        "koordinator: cards on one PCIe root",
        [(A100, ""), (OTHER_A100, ""), (NEAR_NIC, "")],
    ),
}
RIGHT: Final = {
    "cards on one root": ("koordinator: cards on one PCIe root", [(A100, ""), (OTHER_A100, "")]),
    "the model": ("others: caden2016's scheduler", [(OTHER_T4, "")]),
    "the near function": (
        "koordinator: a card, and a virtual function near it",
        [(OTHER_A100, ""), (NEAR_NIC, "0000:1f:00.2")],
    ),
}


def allocation(given: list[tuple[int, str]]) -> dict[str, Any]:
    """Return the allocation of whole devices of the node, by their places in its Device."""
    listed = list(devices_of(cluster()[1]).values())
    found: dict[str, list[dict[str, Any]]] = {}
    for at, function in given:
        share = {"uuid": listed[at].uuid, "core": 100, "memory": listed[at].memory or 0}
        found.setdefault(listed[at].type, []).append(share | ({"vf": function} if function else {}))
    return {"containers": {"worker": found}}


@pytest.mark.parametrize(("case", "given"), WRONG.values(), ids=WRONG)
def test_a_case_fails_with_other_devices(case: str, given: list[tuple[int, str]]) -> None:
    """Each case asserts what it is about, not the number of cards alone."""
    known = devices_of(cluster()[1])

    with pytest.raises(AssertionError):
        pods_of_others.assert_given(pods_of_others.CASES[case], allocation(given), known)


@pytest.mark.parametrize(("case", "given"), RIGHT.values(), ids=RIGHT)
def test_a_case_holds_with_any_right_devices(case: str, given: list[tuple[int, str]]) -> None:
    """And no more than that."""
    pods_of_others.assert_given(pods_of_others.CASES[case], allocation(given), devices_of(cluster()[1]))
