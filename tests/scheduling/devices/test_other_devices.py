"""Devices of other types: shares, virtual functions, every one of them, and jointly with cards."""

from typing import Final

import pytest

from berth_crds.vocabulary import Scope
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, device_view, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from scheduling.placements import Outcome, outcome, refused
from support import builders
from support.builders import card, function, nic, request, view

LABELLED: Final = requests.Grouping(function_labels=builders.selecting(type="general"))
FABRIC: Final = requests.Grouping(labels=builders.selecting(fabric="a"))
JOINT: Final = requests.Grouping(joint=("gpu", "rdma"))


def rdma(count: int = 1, share: int = 100, **fields: bool) -> requests.OtherDevices:
    """Ask for NICs."""
    return requests.OtherDevices("rdma", count, share, **fields)


def used(percent: int) -> device_view.Usage:
    """Return what one pod has of a NIC."""
    return device_view.Usage(percent, 0, 1)


def rooted(*roots: str, nics: str = "") -> list[PhysicalDevice]:
    """Return cards and NICs by the names of their roots."""
    cards = [card(minor, root=root) for minor, root in enumerate(roots)]
    return cards + [nic(minor, root=root) for minor, root in enumerate(nics)]


def named(conditions: requests.Conditions, *asks: requests.Ask) -> requests.DeviceRequest:
    """Ask for several things of these devices alone."""
    return request(asks, conditions=conditions)


CARD: Final = requests.cards(1)
EVERY: Final = rdma(every=True)
PARTS: Final = view(
    [nic(0), nic(1, functions=1), nic(2)], {"rdma-n1-0": used(10)}, functions=frozenset({"0000:01:00.0"})
)
TWO_FABRICS: Final = view([nic(0, labels=(("fabric", "b"),)), nic(1, labels=(("fabric", "a"),))])
CARD_AND_NICS: Final = view([card(), nic(0), nic(1)])
MIXED_NICS: Final = view(
    [nic(0), nic(1, trouble=Reason.UNHEALTHY), nic(2, labels=(("fabric", "b"),)), nic(3)]
)
Case = tuple[device_view.View, requests.DeviceRequest, Outcome]
SINGLE: Final[dict[str, Case]] = {
    "a device with a share or a function in use is not given whole": (PARTS, request(rdma()), "rdma-n1-2"),
    "and what uses it may end": (PARTS, request(rdma(2)), (Reason.PARTLY_USED, False)),
    "a share is the lowest unused function": (
        view([nic(functions=3)], {"rdma-n1-0": used(20)}, functions=frozenset({"0000:00:00.0"})),
        request(rdma(share=20)),
        "rdma-n1-0/0000:00:00.1/20%",
    ),
    "a function of another group is passed over": (
        view([nic(functions=(function(0, 0), function(0, 1, type="general")))]),
        request(rdma(share=20), grouping=LABELLED),
        "rdma-n1-0/0000:00:00.1/20%",
    ),
    "a whole device comes without a function": (view([nic(functions=1)]), request(rdma()), "rdma-n1-0"),
    "but with the one that is described": (
        view([nic(functions=(function(0, 0, type="general"),))]),
        request(rdma(), grouping=LABELLED),
        "rdma-n1-0/0000:00:00.0",
    ),
    "without functions percents add up": (
        view([nic(0), nic(1)], {"rdma-n1-0": used(60)}),
        request(rdma(share=40)),
        "rdma-n1-0/40%",
    ),
    "up to a hundred": (
        view([nic(0), nic(1)], {"rdma-n1-0": used(60)}),
        request(rdma(share=50)),
        "rdma-n1-1/50%",
    ),
    "functions run out before percents": (
        view([nic(functions=1)], {"rdma-n1-0": used(10)}, functions=frozenset({"0000:00:00.0"})),
        request(rdma(share=10)),
        (Reason.NO_FUNCTION, False),
    ),
    "an init container borrows a function": (
        view([nic(functions=2)]),
        request(builders.init(rdma(share=90)), rdma(share=40)),
        "rdma-n1-0/0000:00:00.0/90% | rdma-n1-0/0000:00:00.0/40%",
    ),
    "a device of another fabric is never taken": (TWO_FABRICS, request(rdma(), grouping=FABRIC), "rdma-n1-1"),
    "not even where it is missing": (
        TWO_FABRICS,
        request(rdma(2), grouping=FABRIC),
        (Reason.LABEL_MISMATCH, True),
    ),
    "an empty node": (view([]), request(rdma()), (Reason.NO_DEVICE, True)),
    "a node without the type": (view([card()]), request(rdma()), (Reason.NO_DEVICE, True)),
    "a list of GPUs rules out no NIC": (
        CARD_AND_NICS,
        named(requests.Conditions(uuids=frozenset({"GPU-n1-0"})), CARD, rdma()),
        "GPU-n1-0 rdma-n1-0",
    ),
    "a list that names a NIC rules out the others": (
        CARD_AND_NICS,
        named(requests.Conditions(uuids=frozenset({"GPU-n1-0", "rdma-n1-1"})), CARD, rdma()),
        "GPU-n1-0 rdma-n1-1",
    ),
    "as does one to avoid": (
        CARD_AND_NICS,
        named(requests.Conditions(avoid_uuids=frozenset({"rdma-n1-0"})), rdma()),
        "rdma-n1-1",
    ),
    "every device, but for those that are ill": (MIXED_NICS, request(EVERY), "rdma-n1-0 rdma-n1-2 rdma-n1-3"),
    "every device, and one that is well is in use": (
        view([nic(0), nic(1)], {"rdma-n1-1": None}),
        request(EVERY),
        (Reason.IN_USE, False),
    ),
    "every device, and all are ill": (
        view([nic(trouble=Reason.CARD_CORDONED)]),
        request(EVERY),
        (Reason.CARD_CORDONED, False),
    ),
}
TOGETHER: Final[dict[str, Case]] = {
    "two cards on two roots have a NIC on each, though one was asked for": (
        view(rooted("a", "b", nics="aabb")),
        request((requests.cards(2), rdma()), grouping=JOINT),
        "GPU-n1-0 GPU-n1-1 rdma-n1-0 rdma-n1-2",
    ),
    "three NICs for one card all come from its root": (
        view(rooted("a", "b", nics="babbb")),
        request((CARD, rdma(3)), grouping=JOINT),
        "GPU-n1-1 rdma-n1-0 rdma-n1-2 rdma-n1-3",
    ),
    "the best cards are passed over when their root has no NIC left": (
        view(rooted("a", "a", "b", "b", nics="ab"), {"rdma-n1-0": None}),
        request((requests.cards(2), rdma()), grouping=JOINT),
        "GPU-n1-2 GPU-n1-3 rdma-n1-1",
    ),
    "each container has its NIC beside its own card": (
        view(rooted("a", "b", nics="ba")),
        request((CARD, rdma()), (CARD, rdma()), grouping=JOINT),
        "GPU-n1-0 rdma-n1-1 | GPU-n1-1 rdma-n1-0",
    ),
    "a share of a card has its NIC on the root of that card": (
        view(rooted("a", "b", nics="b")),
        request((requests.Gpus(1, core=50), rdma(share=50)), grouping=JOINT),
        "GPU-n1-1/50% rdma-n1-0/50%",
    ),
    **{
        what: (view(known), request((requests.cards(count), rdma()), grouping=JOINT), (Reason.NO_ROOT, True))
        for what, known, count in (
            ("no NIC is on any root", rooted("a", "b", nics="cc"), 2),
            ("unknown roots are no roots", [card(), nic()], 1),
            ("one root lacks a NIC", rooted("a", "b", nics="a"), 2),
        )
    },
    "who asks for cards alone has no NIC": (view([card(), nic()]), request(CARD, grouping=JOINT), "GPU-n1-0"),
    "who asks for NICs alone has no card": (
        view([card(), nic()]),
        request(rdma(), grouping=JOINT),
        "rdma-n1-0",
    ),
    "who asks for all NICs has all, wherever the cards are": (
        view(rooted("a", nics="ab")),
        request((CARD, EVERY), grouping=JOINT),
        "GPU-n1-0 rdma-n1-0 rdma-n1-1",
    ),
}


@pytest.mark.parametrize(("given", "asked", "expected"), (SINGLE | TOGETHER).values(), ids=SINGLE | TOGETHER)
def test_which_devices_are_given(
    given: device_view.View, asked: requests.DeviceRequest, expected: Outcome
) -> None:
    """Which devices and functions a pod gets, by percent, by labels and by roots."""
    assert outcome(given, asked) == expected


def test_several_functions_of_one_device_are_held_with_one_sum() -> None:
    """What a pod holds of a device is named once, beside all functions that it holds."""
    found = allocator.allocate(view([nic(functions=2)]), request(rdma(share=40), rdma(share=50)))

    held = allocator.peak_shares(found or ())
    assert sorted(share.core for share in held) == [0, 90]
    assert {share.function for share in held} == {"0000:00:00.0", "0000:00:00.1"}


def test_what_is_ill_and_left_out_is_told() -> None:
    """One bad NIC costs the pod that NIC, and not its place."""
    found = allocator.left_out(MIXED_NICS, request(EVERY))

    assert [(verdict.device, verdict.reason) for verdict in found] == [("rdma-n1-1", Reason.UNHEALTHY)]


@pytest.mark.parametrize(
    ("given", "ask", "figures"),
    [
        pytest.param(PARTS, rdma(2), (2, 1, "rdma"), id="two NICs where one is free"),
        pytest.param(view([nic(0), nic(1)], {"rdma-n1-1": None}), EVERY, (2, 1, "rdma"), id="every NIC"),
    ],
)
def test_a_refusal_has_figures(
    given: device_view.View, ask: requests.Ask, figures: tuple[int, int, str]
) -> None:
    """It tells how many devices were wanted and found, and of which type."""
    shortfall = refused(given, request(ask))

    assert (shortfall.wanted, shortfall.found, shortfall.detail) == figures


@pytest.mark.parametrize(
    ("kind", "gone"),
    [("rdma", "rdma-n1-7"), ("gpu", "GPU-n1-7"), ("gpu", "MIG-7")],
    ids=["rdma", "gpu", "mig"],
)
def test_a_held_device_that_is_not_listed_may_be_below_any_root(kind: str, gone: str) -> None:
    """It may come back where an exclusive pod was placed meanwhile."""
    devices = [card(0, root="r0"), nic(0, root="r1")]
    asks: dict[str, requests.Ask] = {"gpu": requests.cards(1), "rdma": requests.OtherDevices("rdma", 1, 100)}
    asked = request(asks[kind], grouping=requests.Grouping(exclusive=((kind, Scope.PCIE),)))

    assert allocator.allocate(view(devices, {"FPGA-n1-7": device_view.Usage(100, 0, 1)}), asked) is not None
    assert allocator.allocate(view(devices, {gone: device_view.Usage(100, 0, 1)}), asked) is None
