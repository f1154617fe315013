"""Shares of cards, several containers, init containers, and cards that are withheld."""

from typing import Any, Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, device_view, requests
from scheduling.placements import HALF, Outcome, granted, outcome, refused
from support import builders
from support.builders import GIB, MEMORY, card, init, request, view

EIGHTH: Final = MEMORY // 8
FOUR: Final = [card(minor) for minor in range(4)]


def used(core: int, eighths: int = 0) -> device_view.Usage:
    """Return what one pod has of a card."""
    return device_view.Usage(core, eighths * EIGHTH, 1)


def share(core: int = 0, eighths: int = 0, count: int = 1) -> requests.Gpus:
    """Ask for a share of a card, or of several."""
    return requests.Gpus(count, core=core, memory=eighths * EIGHTH)


SIDECAR: Final = request(builders.container_request("sidecar", 1), init(1), 1)
FULL: Final = view(FOUR, {0: used(80)}, withheld=9)
CASES: Final[dict[str, tuple[device_view.View, requests.DeviceRequest, Outcome]]] = {
    "a share goes where it leaves least": (
        view(FOUR, {1: used(20, 2), 2: used(50, 4), 3: used(90, 7)}),
        request(share(30, 2)),
        "GPU-n1-2/30%",
    ),
    "a card of unknown size serves no bytes": (
        view([card(memory=0)]),
        request(share(10, 1)),
        (Reason.TOO_SMALL, True),
    ),
    "nor percents of its memory": (view([card(memory=0)]), request(HALF), (Reason.TOO_SMALL, True)),
    "but compute": (view([card(memory=0)]), request(share(10)), "GPU-n1-0/10%"),
    "and is given whole": (view([card(memory=0)]), request(1), "GPU-n1-0"),
    "shares of two cards are of different ones": (
        view(FOUR[:2]),
        request(share(50, 1, 2)),
        "GPU-n1-0/50% GPU-n1-1/50%",
    ),
    "containers that run together share a card, each with its own part": (
        view(FOUR),
        request(share(60, 4), share(40, 4)),
        "GPU-n1-0/60% | GPU-n1-0/40%",
    ),
    # The first would fit more tightly on card 1, but only card 1 has the memory for the second.
    "a first choice that is a dead end is taken back": (
        view([card(minor, memory=10 * EIGHTH) for minor in (0, 1)], {0: used(30, 4), 1: used(40, 2)}),
        request(share(60, 1), share(10, 8)),
        "GPU-n1-0/60% | GPU-n1-1/10%",
    ),
    "two asks that meet on a card are one share": (
        view(FOUR[:1]),
        request((share(30, 1), share(20, 2))),
        "GPU-n1-0/50%",
    ),
    "whole cards spare the only card that has room for a share": (
        view([card(0, memory=10 * MEMORY), card(1), card(2)]),
        request((requests.cards(2), share(10, 40))),
        "GPU-n1-1 GPU-n1-2 GPU-n1-0/10%",
    ),
    "an init container borrows what the others will use": (
        view(FOUR, {3: None}),
        request(init(2), 2),
        "GPU-n1-0 GPU-n1-1 | GPU-n1-0 GPU-n1-1",
    ),
    "a larger init container takes only the difference": (
        view(FOUR),
        request(init(4), 2),
        "GPU-n1-0 GPU-n1-1 GPU-n1-2 GPU-n1-3 | GPU-n1-0 GPU-n1-1",
    ),
    "a sidecar lends nothing to a later init container": (
        view(FOUR[:2]),
        SIDECAR,
        "GPU-n1-0 | GPU-n1-1 | GPU-n1-1",
    ),
    "so that one card is too few": (view(FOUR[:2], {1: None}), SIDECAR, (Reason.FULL, False)),
    "a share of a started card, where all unused ones are withheld": (
        FULL,
        request(share(20)),
        "GPU-n1-0/20%",
    ),
    "a share that starts no card that is withheld": (FULL, request(share(30)), (Reason.WITHHELD, False)),
}


@pytest.mark.parametrize(("given", "asked", "expected"), CASES.values(), ids=CASES)
def test_which_shares_are_given(
    given: device_view.View, asked: requests.DeviceRequest, expected: Outcome
) -> None:
    """Each container has its shares, of cards that are chosen for all of them together."""
    assert outcome(given, asked) == expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        pytest.param({"first_slot": 3}, "GPU-n1-3/30%", id="the one that was chosen before"),
        pytest.param({"first_slot": 2}, "GPU-n1-1/30%", id="another where that has no room"),
    ],
)
def test_a_card_is_chosen_as_the_caller_wants(how: dict[str, Any], expected: str) -> None:
    """Who compared all nodes has chosen the card; it is only checked."""
    given = view(FOUR, {1: used(20, 2), 2: used(80, 4)})

    assert outcome(given, request(share(30, 2)), **how) == expected


def test_a_card_that_was_chosen_before_is_not_started_if_it_is_withheld() -> None:
    """A choice of the caller does not lift what keeps a card back."""
    assert refused(FULL, request(share(30)), first_slot=1).reason is Reason.WITHHELD


def test_a_refusal_counts_the_cards() -> None:
    """It tells how many cards were wanted, and on how many there is room."""
    shortfall = refused(view(FOUR[:2], {0: used(60)}), request(share(50, 1, 2)))

    assert (shortfall.reason, shortfall.wanted, shortfall.found) == (Reason.FULL, 2, 1)


# ---------------------------------------------------------------- rounding


@st.composite
def portions(draw: st.DrawFn) -> list[int]:
    """Draw percentages that are a hundred together."""
    cuts = sorted(draw(st.sets(st.integers(1, 99), max_size=12)))
    return [after - before for before, after in zip([0, *cuts], [*cuts, 100], strict=True)]


@hypothesis.given(portions(), st.integers(1 << 30, 1 << 38))
def test_rounding_up_costs_no_share_its_place(percents: list[int], memory: int) -> None:
    """Shares of a hundred percent together fit on any card, one after the other or in one pod (I1, I10)."""
    cards = [card(memory=memory)]
    asks = [requests.Gpus(1, core=percent, ratio=percent) for percent in percents]

    taken = device_view.Usage()
    for percent, ask in zip(percents, asks, strict=True):
        (given,) = granted(view(cards, {0: taken}), request(ask))
        assert given.memory == min(-(-memory * percent // 100), memory - taken.memory)
        taken = device_view.Usage(taken.core + percent, taken.memory + given.memory, taken.pods + 1)

    together = allocator.allocate(view(cards), request(*asks))
    assert together is not None
    assert sum(given.memory for given in allocator.peak_shares(together)) == taken.memory == memory


@pytest.mark.parametrize(
    ("memory", "taken", "fits"), [(8 * GIB, 99, True), (8 * GIB, 100, False), (1 << 20, 2, False)]
)
def test_rounding_is_forgiven_to_a_millionth_of_the_card_at_most(
    memory: int, taken: int, *, fits: bool
) -> None:
    """What others took on purpose is missed by a share in percent as by any other."""
    given = view([card(memory=memory)], {0: device_view.Usage(0, memory // 2 + taken, 1)})

    assert (allocator.allocate(given, request(HALF)) is not None) is fits


def test_a_borrowing_share_in_percent_is_not_cut() -> None:
    """Containers that never run at once leave each other every byte of their percentage."""
    most = requests.Gpus(1, core=60, ratio=60)

    given = granted(view([card(memory=85_198_045_185)]), request(init(most), most))

    assert [one.memory for one in given] == [51_118_827_111] * 2


# ---------------------------------------------------------------- withheld cards


@pytest.mark.parametrize(("withheld", "count"), [(1, 3), (2, 2), (3, 1)])
def test_so_many_unused_cards_stay_untouched(withheld: int, count: int) -> None:
    """Nobody knows which cards are withheld, so as many as that must be left over (I9)."""
    given = view(FOUR, withheld=withheld)

    shortfall = refused(given, request(count + 1))

    assert len(granted(given, request(count))) == count
    assert (shortfall.reason, shortfall.never_fits, shortfall.found) == (Reason.WITHHELD, False, count)


# ---------------------------------------------------------------- conditions


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ({"models": frozenset({"a100-sxm4-80gb"})}, Reason.MODEL_MISMATCH),
        ({"pattern": "^a100"}, Reason.MODEL_MISMATCH),
        ({"pattern": "("}, Reason.MODEL_MISMATCH),
        ({"avoid_pattern": "t4$"}, Reason.MODEL_MISMATCH),
        ({"avoid_pattern": "("}, Reason.MODEL_MISMATCH),
        ({"avoid_models": frozenset({"T4"})}, Reason.MODEL_MISMATCH),
        ({"uuids": frozenset({"GPU-n1-1"})}, Reason.NOT_INCLUDED),
        ({"avoid_uuids": frozenset({"GPU-n1-0"})}, Reason.EXCLUDED),
        ({"memory_at_least": MEMORY + 1}, Reason.TOO_SMALL),
    ],
)
@pytest.mark.parametrize("ask", [requests.cards(1), share(10, 1)], ids=["whole", "share"])
def test_a_card_says_which_condition_it_fails(
    conditions: dict[str, Any], reason: Reason, ask: requests.Gpus
) -> None:
    """And it will never meet it."""
    verdict = allocator.judge(view([T4]), T4, ask, requests.Conditions(**conditions))

    assert verdict is not None
    assert (verdict.reason, verdict.never_fits) == (reason, True)


T4: Final = card(model="Tesla T4")
