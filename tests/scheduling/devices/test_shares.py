"""Shares of cards, several containers, init containers, and cards that are withheld."""

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, device_view, requests
from scheduling.devices import build

GIB = build.GIB


def used(core: int, gib: int) -> device_view.Usage:
    """Say that one pod holds a part of a card."""
    return device_view.Usage(core, gib * GIB, 1)


FOUR = build.device(*(build.gpu(at) for at in range(4)))


def share(core: int = 0, gib: int = 0, count: int = 1) -> requests.Gpus:
    """Ask for a share of a card, or of several."""
    return requests.Gpus(count, core=core, memory=gib * GIB)


# ---------------------------------------------------------------- one share


def test_packing_takes_the_started_card_with_least_left() -> None:
    """A share goes where it leaves least, and never on an unused card while a started one has room."""
    view = build.view(FOUR, {1: used(20, 2), 2: used(50, 4), 3: used(90, 7)})

    assert build.minors(allocator.place(view, build.request(share(30, 2)))) == (2,)


def test_spreading_takes_the_emptiest_card() -> None:
    """A share goes where most is left, the lowest minor among equals."""
    view = build.view(FOUR, {0: used(20, 2)})

    assert build.minors(
        allocator.place(view, build.request(share(30, 2)), prefer=allocator.Prefer.SPREAD)
    ) == (1,)


def test_a_slot_that_was_chosen_before_is_used() -> None:
    """Who compared all nodes has chosen the card; it is only checked."""
    view = build.view(FOUR, {1: used(20, 2), 2: used(50, 4)})

    assert build.minors(allocator.place(view, build.request(share(30, 2)), first=3)) == (3,)


def test_a_slot_that_will_not_do_is_replaced() -> None:
    """A choice that turns out wrong costs nothing but a second look."""
    view = build.view(FOUR, {1: used(20, 2), 2: used(80, 4)})

    assert build.minors(allocator.place(view, build.request(share(30, 2)), first=2)) == (1,)


def test_a_ratio_is_bytes_of_the_very_card_rounded_up() -> None:
    """A third of a card that does not divide by three is a byte more, not less (I10)."""
    made = build.device(build.gpu(0, memory=85_198_045_184))

    (given,) = build.given(
        allocator.place(build.view(made), build.request(requests.Gpus(1, core=33, ratio=33)))
    )["main"]

    assert (given.memory, given.core) == (28_115_354_911, 33)


@st.composite
def portions(draw: st.DrawFn) -> list[int]:
    """Draw percentages that are a hundred together."""
    cuts = sorted(draw(st.sets(st.integers(1, 99), max_size=12)))
    return [after - before for before, after in zip([0, *cuts], [*cuts, 100], strict=True)]


@hypothesis.given(portions(), st.integers(1 << 30, 1 << 38))
def test_rounding_up_costs_no_share_its_place(percents: list[int], memory: int) -> None:
    """Shares of a hundred percent together fit on any card, one after the other or in one pod (I1, I10)."""
    card = build.gpu(0, memory=memory)
    asks = [requests.Gpus(1, core=percent, ratio=percent) for percent in percents]

    taken = device_view.Usage()
    for percent, ask in zip(percents, asks, strict=True):
        view = build.view(build.device(card), {0: taken})
        (share,) = build.given(allocator.place(view, build.request(ask)))["main"]
        assert share.memory == min(-(-memory * percent // 100), memory - taken.memory)
        taken = device_view.Usage(taken.core + percent, taken.memory + share.memory, taken.pods + 1)

    together = allocator.find(build.view(build.device(card)), build.request(*asks))
    assert together is not None
    assert sum(share.memory for share in allocator.held(together)) == taken.memory == memory


def test_rounding_is_forgiven_to_a_millionth_of_the_card_at_most() -> None:
    """What others took on purpose is missed by a share in percent as by any other."""
    half = requests.Gpus(1, core=50, ratio=50)
    for memory, taken, fits in ((8 * GIB, 99, True), (8 * GIB, 100, False), (1 << 20, 2, False)):
        made = build.device(build.gpu(0, memory=memory))
        view = build.view(made, {0: device_view.Usage(0, memory // 2 + taken, 1)})
        assert (allocator.find(view, build.request(half)) is not None) is fits


def test_a_borrowing_share_in_percent_is_not_cut() -> None:
    """Containers that never run at once leave each other every byte of their percentage."""
    made = build.device(build.gpu(0, memory=85_198_045_185))
    most = requests.Gpus(1, core=60, ratio=60)

    given = build.given(allocator.place(build.view(made), build.request(most, init=(most,))))

    assert {share.memory for shares in given.values() for share in shares} == {51_118_827_111}


def test_what_a_card_does_not_have_never_fits() -> None:
    """A card whose memory is unknown serves no request for memory, but can be given whole or by core."""
    made = build.device(build.gpu(0, memory=0))
    view = build.view(made)

    for ask in (share(10, 1), requests.Gpus(1, core=50, ratio=50)):
        refusal = build.refused(allocator.place(view, build.request(ask)))
        assert (refusal.reason, refusal.never) == (Reason.TOO_SMALL, True)
    assert build.minors(allocator.place(view, build.request(share(10)))) == (0,)
    assert build.minors(allocator.place(view, build.request(requests.cards(1)))) == (0,)


def test_a_share_of_several_cards_takes_different_ones() -> None:
    """Two halves of one card are not halves of two cards."""
    made = build.device(build.gpu(0), build.gpu(1))

    assert build.minors(allocator.place(build.view(made), build.request(share(50, 1, 2)))) == (0, 1)
    refusal = build.refused(
        allocator.place(build.view(made, {0: used(60, 0)}), build.request(share(50, 1, 2)))
    )
    assert (refusal.reason, refusal.wanted, refusal.found) == (Reason.FULL, 2, 1)


# ---------------------------------------------------------------- several containers


def test_containers_that_run_together_share_one_card() -> None:
    """Two containers of 60 and 40 percent meet on one card; each is listed with its own part."""
    pod = requests.Request(
        (
            requests.ContainerRequest("a", (share(60, 4),)),
            requests.ContainerRequest("b", (share(40, 4),)),
        )
    )

    given = build.given(allocator.place(build.view(FOUR), pod))

    assert [(one.minor, one.core) for one in (*given["a"], *given["b"])] == [(0, 60), (0, 40)]


def test_a_first_choice_that_is_a_dead_end_is_taken_back() -> None:
    """Where the tightest fit for one share would leave the other none, the other is thought of."""
    made = build.device(build.gpu(0, memory=10 * GIB), build.gpu(1, memory=10 * GIB))
    view = build.view(made, {0: used(30, 4), 1: used(40, 2)})
    # The first would fit more tightly on card 1, but only card 1 has the memory for the second.
    pod = requests.Request(
        (
            requests.ContainerRequest("a", (share(60, 1),)),
            requests.ContainerRequest("b", (share(10, 8),)),
        )
    )

    given = build.given(allocator.place(view, pod))

    assert (given["a"][0].minor, given["b"][0].minor) == (0, 1)


def test_two_asks_that_meet_on_a_card_are_one_share() -> None:
    """A container lists each device once, or its allocation could not be read back."""
    made = build.device(build.gpu(0))

    (given,) = build.given(allocator.place(build.view(made), build.request(share(30, 1), share(20, 2))))[
        "main"
    ]

    assert (given.core, given.memory) == (50, 3 * GIB)


def test_whole_cards_spare_the_only_card_that_has_room_for_a_share() -> None:
    """Whole cards are taken from where the share cannot go."""
    made = build.device(build.gpu(0, memory=80 * GIB), build.gpu(1), build.gpu(2))

    given = build.given(allocator.place(build.view(made), build.request(requests.cards(2), share(10, 40))))

    assert [(one.minor, one.core) for one in given["main"]] == [(1, 100), (2, 100), (0, 10)]


# ---------------------------------------------------------------- init containers


def test_an_init_container_borrows_what_the_others_will_use() -> None:
    """A pod of an init container and a main one, two cards each, holds two cards."""
    found = allocator.place(
        build.view(FOUR, build.held(3)), build.request(requests.cards(2), init=(requests.cards(2),))
    )

    assert build.minors(found, "init") == build.minors(found) == (0, 1)


def test_a_larger_init_container_takes_only_the_difference() -> None:
    """Four cards for the init container include the two that keep running."""
    found = allocator.place(build.view(FOUR), build.request(requests.cards(2), init=(requests.cards(4),)))

    assert build.minors(found, "init") == (0, 1, 2, 3)
    assert not isinstance(found, allocator.Shortfall)
    assert len(allocator.held(found)) == 4


def test_a_sidecar_lends_nothing_to_a_later_init_container() -> None:
    """A sidecar has started before the init container and keeps its card."""
    made = build.device(build.gpu(0), build.gpu(1))
    pod = requests.Request(
        (
            requests.ContainerRequest("sidecar", (requests.cards(1),)),
            requests.ContainerRequest("init", (requests.cards(1),), runs=False),
            requests.ContainerRequest("main", (requests.cards(1),)),
        )
    )

    found = allocator.place(build.view(made), pod)

    assert build.minors(found, "sidecar") == (0,)
    assert build.minors(found, "init") == build.minors(found, "main") == (1,)
    refusal = build.refused(allocator.place(build.view(made, build.held(1)), pod))
    assert (refusal.reason, refusal.never) == (Reason.FULL, False)


def test_what_a_pod_holds_is_the_most_of_any_moment() -> None:
    """Running containers add up; an init container only counts where it takes more."""
    pod = requests.Request(
        (
            requests.ContainerRequest("init", (share(50, 6),), runs=False),
            requests.ContainerRequest("a", (share(30, 2),)),
            requests.ContainerRequest("b", (share(30, 2),)),
        )
    )
    made = build.device(build.gpu(0))

    found = allocator.place(build.view(made), pod)

    assert not isinstance(found, allocator.Shortfall)
    (held,) = allocator.held(found)
    assert (held.core, held.memory) == (60, 6 * GIB)


# ---------------------------------------------------------------- withheld cards


@pytest.mark.parametrize(("withheld", "count"), [(1, 3), (2, 2), (3, 1)])
def test_so_many_unused_cards_stay_untouched(withheld: int, count: int) -> None:
    """Nobody knows which cards are withheld, so as many as that must be left over (I9)."""
    view = build.view(FOUR, withheld=withheld)

    assert len(build.minors(allocator.place(view, build.request(requests.cards(count))))) == count
    refusal = build.refused(allocator.place(view, build.request(requests.cards(count + 1))))
    assert (refusal.reason, refusal.never, refusal.found) == (Reason.WITHHELD, False, count)


def test_a_share_starts_no_card_that_is_withheld() -> None:
    """Where all unused cards are withheld, shares come from started cards only."""
    view = build.view(FOUR, {0: used(80, 0)}, withheld=9)

    assert build.minors(allocator.place(view, build.request(share(20)))) == (0,)
    assert build.refused(allocator.place(view, build.request(share(30)))).reason is Reason.WITHHELD
    assert build.refused(allocator.place(view, build.request(share(30)), first=1)).reason is Reason.WITHHELD


# ---------------------------------------------------------------- conditions


CONDITIONS = [
    ({"models": frozenset({"a100-sxm4-80gb"})}, 1, Reason.MODEL_MISMATCH),
    ({"pattern": "^a100"}, 1, Reason.MODEL_MISMATCH),
    ({"pattern": "("}, None, Reason.MODEL_MISMATCH),
    ({"avoid_pattern": "t4$"}, 1, Reason.MODEL_MISMATCH),
    ({"avoid_pattern": "("}, None, Reason.MODEL_MISMATCH),
    ({"avoid_models": frozenset({"T4"})}, 1, Reason.MODEL_MISMATCH),
    ({"uuids": frozenset({"GPU-1"})}, 1, Reason.NOT_INCLUDED),
    ({"avoid_uuids": frozenset({"GPU-0"})}, 1, Reason.EXCLUDED),
    ({"memory_at_least": 16 * GIB}, 1, Reason.TOO_SMALL),
    # No single card meets both, though one meets each.
    ({"models": frozenset({"T4"}), "memory_at_least": 16 * GIB}, None, Reason.MODEL_MISMATCH),
]


@pytest.mark.parametrize(("fields", "expected", "why"), CONDITIONS)
@pytest.mark.parametrize("ask", [requests.cards(1), share(10, 1)], ids=["whole", "share"])
def test_all_conditions_hold_for_the_same_card(
    fields: dict[str, object], expected: int | None, why: Reason, ask: requests.Gpus
) -> None:
    """Each card is judged by all conditions at once, and says which one it fails."""
    made = build.device(
        build.gpu(0, model="Tesla T4"), build.gpu(1, model="NVIDIA A100-SXM4-80GB", memory=80 * GIB)
    )
    asked = build.request(ask, conditions=requests.Conditions(**fields))  # type: ignore[arg-type]

    found = allocator.place(build.view(made), asked)

    if expected is None:
        assert build.refused(found).never
    else:
        assert build.minors(found) == (expected,)
    verdict = allocator.judge(build.view(made), made.cards[0], ask, asked.conditions)
    assert verdict is not None
    assert (verdict.reason, verdict.never) in {(why, True), (Reason.TOO_SMALL, True)}
