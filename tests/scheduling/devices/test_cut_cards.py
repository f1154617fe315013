"""Cards that are cut: MIG instances and replicas."""

from typing import Any, Final

import pytest

from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts, device_view, mig_slices, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from scheduling.placements import Outcome, granted, outcome, refused
from support import builders
from support.builders import GIB, request, view

A100: Final = "NVIDIA A100-SXM4-80GB"
SMALL: Final = "1g.10gb"
ONE: Final = requests.Instances(SMALL, 1)
USED: Final = device_view.Usage(100, 10 * GIB, 1)
PACKED: Final = requests.Grouping(spread_replicas=False)


def mig(minor: int, *starts: int, profile: str = SMALL, size: int = 1) -> PhysicalDevice:
    """Return a card in MIG mode with instances that start at these slices."""
    instances = tuple(
        device_facts.Instance(f"MIG-{minor}-{start}", profile, size * 10 * GIB, start, size)
        for start in starts
    )
    return builders.card(minor, model=A100, mig=True, instances=instances)


def replicas(*used: int, count: int = 4) -> device_view.View:
    """Return cards that are given out as replicas, of which pods have so many."""
    cards = [builders.card(minor, replicas=count) for minor in range(len(used))]
    core, memory = 100 // count, builders.MEMORY // count
    held = {at: device_view.Usage(core * taken, memory * taken, taken) for at, taken in enumerate(used)}
    return view(cards, held)


CASES: Final[dict[str, tuple[device_view.View, requests.DeviceRequest, Outcome]]] = {
    "an untouched card stays so while a started one has an instance": (
        view([mig(0, 0, 1), mig(1, 0, 1)], {"MIG-1-0": USED}),
        request(ONE),
        "MIG-1-1",
    ),
    # Slices 0 to 3 could still be one piece of four; beside slice 5, only slice 4 is spoilt for a pair.
    "the instance is given whose loss does the least harm": (
        view([mig(0, 0, 1, 2, 4, 5, 6)], {"MIG-0-5": USED}),
        request(ONE),
        "MIG-0-4",
    ),
    "after each instance the harm is counted anew, so three break one half of the card": (
        view([mig(0, *range(7))]),
        request(requests.Instances(SMALL, 3)),
        "MIG-0-4 MIG-0-5 MIG-0-6",
    ),
    "a list of uuids may name an instance instead of its card": (
        view([mig(0, 0, 1)]),
        request(ONE, conditions=requests.Conditions(uuids=frozenset({"MIG-0-1"}))),
        "MIG-0-1",
    ),
    "an init container borrows the instance that the main one will use": (
        view([mig(0, *range(3))]),
        request(builders.init(ONE), ONE),
        "MIG-0-0 | MIG-0-0",
    ),
    "a profile that no card has": (
        view([mig(0, 0)]),
        request(requests.Instances("7g.80gb", 1)),
        (Reason.PROFILE_MISMATCH, True),
    ),
    "a profile of which no instance is left": (
        view([mig(0, 0)], {"MIG-0-0": USED}),
        request(ONE),
        (Reason.NO_INSTANCE, False),
    ),
    **{
        f"a card in MIG mode gives no {what}": (view([mig(0, 0)]), request(ask), (Reason.MIG_MODE, True))
        for what, ask in (
            ("whole card", 1),
            ("share", requests.Gpus(1, core=10)),
            ("replica", requests.Replicas(1)),
        )
    },
    "distributed replicas go to the card with the fewest in use, then to the lower minor": (
        replicas(2, 1, 1),
        request(requests.Replicas(1)),
        "GPU-n1-1/25%",
    ),
    "packed replicas go to the card with the most in use that has one left": (
        replicas(0, 3, 4),
        request(requests.Replicas(1), grouping=PACKED),
        "GPU-n1-1/25%",
    ),
    "replicas of one container come from different cards": (
        replicas(2, 0),
        request(requests.Replicas(2)),
        "GPU-n1-0/25% GPU-n1-1/25%",
    ),
    "and from one card only when nothing else is left": (
        replicas(2, 0),
        request(requests.Replicas(3)),
        "GPU-n1-0/25% GPU-n1-1/50%",
    ),
    "a pod that has the card whole, from before it was shared, leaves no replica": (
        view([builders.card(replicas=4)], {0: None}),
        request(requests.Replicas(1)),
        (Reason.FULL, False),
    ),
    **{
        f"{what} of another mode": (view([card]), request(ask), (Reason.SHARING_MODE, True))
        for what, card, ask in (
            ("a whole card", builders.card(replicas=4), 1),
            ("a share of a card", builders.card(replicas=4), requests.Gpus(1, core=10)),
            ("a replica of a card", builders.card(), requests.Replicas(1)),
        )
    },
}


@pytest.mark.parametrize(("given", "asked", "expected"), CASES.values(), ids=CASES)
def test_what_a_cut_card_gives(
    given: device_view.View, asked: requests.DeviceRequest, expected: Outcome
) -> None:
    """Instances and replicas of cards that are cut, and nothing else of them."""
    assert outcome(given, asked) == expected


@pytest.mark.parametrize(
    ("card", "ask", "shares"),
    [
        pytest.param(
            mig(3, 4, profile="2g.20gb", size=2),
            requests.Instances("2g.20gb", 1),
            {"uuid": "MIG-3-4", "minor": 3, "profile": "2g.20gb", "core": 100, "memory": 20 * GIB},
            id="an instance has its own uuid and its card's minor",
        ),
        pytest.param(
            builders.card(replicas=3, memory=8 * GIB),
            requests.Replicas(1),
            {"uuid": "GPU-n1-0", "core": 33, "memory": 8 * GIB // 3},
            id="a replica is its part, rounded down, so that all of them fit",
        ),
    ],
)
def test_what_is_written_of_a_piece(card: PhysicalDevice, ask: requests.Ask, shares: dict[str, Any]) -> None:
    """A share says which piece it is, on which card, and how large."""
    (share,) = granted(view([card]), request(ask))

    assert {name: getattr(share, name) for name in shares} == shares


def test_a_refusal_counts_the_replicas_that_are_left() -> None:
    """A card with one replica left is told as full for two, and names what it lacks."""
    shortfall = refused(replicas(1, count=2), request(requests.Replicas(2)))

    assert (shortfall.reason, shortfall.never_fits, shortfall.found) == (Reason.FULL, False, 1)


def test_a_refusal_names_the_profile() -> None:
    """The node's reason and that of its card are one, with the profile as its detail."""
    shortfall = refused(view([mig(0, 0)]), request(requests.Instances("7g.80gb", 1)))

    assert shortfall.detail == "7g.80gb"
    assert [verdict.reason for verdict in shortfall.verdicts] == [Reason.PROFILE_MISMATCH]


def test_harm_counts_what_can_no_longer_be_cut() -> None:
    """Larger pieces outweigh all smaller ones together, and a used slice harms nothing more."""
    untouched = mig_slices.harm(A100, 0b1, taken=0)
    quad_gone = mig_slices.harm(A100, 0b1, taken=0b10)
    pair_gone = mig_slices.harm(A100, 0b10000000, taken=0b01000000)

    assert untouched > mig_slices.SIZE_WEIGHT**8 > quad_gone > 0
    assert pair_gone < quad_gone


def test_an_unknown_model_is_cut_in_halves() -> None:
    """Without a catalogue entry a free half still outweighs its quarters."""
    assert mig_slices.harm("NoSuchCard", 0b1, taken=0b100000) > mig_slices.harm("NoSuchCard", 0b1, taken=0b10)
