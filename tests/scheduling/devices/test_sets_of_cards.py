"""Which whole cards: links, partitions and scopes, on boards as they are built."""

import itertools

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import catalog
from berth_crds.vocabulary import Scope
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import (
    allocator,
    facts,
    node_topology,
    nvlink_cliques,
    partitions,
    requests,
    topology,
)
from scheduling.devices import brute, build, generate, merits

DGX_1V, HGX_A100, HGX_H100, PCIE = (
    "Tesla V100-SXM2-16GB",
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA H100 80GB HBM3",
    "NVIDIA A40",
)


def chosen(made: facts.Device, count: int, *held: int, **grouping: object) -> tuple[int, ...]:
    """Place so many whole cards where some are held, and name their minors."""
    asked = build.request(requests.cards(count), grouping=build.grouping(**grouping))
    return build.minors(allocator.place(build.view(made, build.held(*held)), asked))


def reason(made: facts.Device, count: int, *held: int, **grouping: object) -> Reason:
    """Ask for so many whole cards in vain, and say why."""
    asked = build.request(requests.cards(count), grouping=build.grouping(**grouping))
    return build.refused(allocator.place(build.view(made, build.held(*held)), asked)).reason


def links(minors: tuple[int, ...]) -> int:
    """Count the NVLinks inside a set of cards of a DGX-1V."""
    return sum(catalog.CUBE[a][b] for a, b in itertools.combinations(minors, 2))


# ---------------------------------------------------------------- the cube mesh of a DGX-1V


@pytest.mark.parametrize(
    ("count", "most"), [(2, 2), (3, 5), (4, 9)], ids=["a double link", "two doubles and one", "a full quad"]
)
def test_an_empty_cube_mesh_gives_the_best_linked_set(count: int, most: int) -> None:
    """Two, three or four cards of a DGX-1V have as many NVLinks among them as any such set has."""
    made = build.node(DGX_1V)

    minors = chosen(made, count)

    assert links(minors) == most == max(links(one) for one in itertools.combinations(range(8), count))


def test_a_cube_mesh_keeps_the_other_quad_whole() -> None:
    """With a card of one quad gone, four cards come from the other quad, and two from the broken one."""
    made = build.node(DGX_1V)

    assert chosen(made, 4, 3) == (4, 5, 6, 7)
    assert set(chosen(made, 2, 3)) <= {0, 1, 2}


def test_a_pair_is_not_torn_from_a_quad_that_is_still_whole() -> None:
    """Where a double link is free outside the whole quad, the quad is left alone."""
    made = build.node(DGX_1V)

    assert chosen(made, 2, 0, 3) == (1, 2)


def test_nvlink_in_a_cube_mesh_means_every_pair() -> None:
    """Four cards of the mesh can all be joined, five cannot: that would never fit."""
    made = build.node(DGX_1V)

    assert chosen(made, 4, 0, scope=Scope.NVLINK) == (4, 5, 6, 7)
    refusal = build.refused(
        allocator.place(
            build.view(made), build.request(requests.cards(5), grouping=build.grouping(scope=Scope.NVLINK))
        )
    )
    assert (refusal.reason, refusal.never, refusal.found) == (Reason.SCOPE_MISMATCH, True, 4)


def test_two_halves_of_a_mesh_are_no_ring() -> None:
    """With one card of each quad gone, four cards are there but never all joined: full now, not for ever."""
    made = build.node(DGX_1V)
    asked = build.request(requests.cards(4), grouping=build.grouping(scope=Scope.NVLINK))

    refusal = build.refused(allocator.place(build.view(made, build.held(0, 5)), asked))

    assert (refusal.reason, refusal.never, refusal.found) == (Reason.SCOPE_MISMATCH, False, 3)


# ---------------------------------------------------------------- boards with a switch and a table


@pytest.mark.parametrize("model", [HGX_A100, HGX_H100])
@pytest.mark.parametrize(
    ("count", "held", "expected"),
    [
        (1, (), (0,)),
        (2, (), (0, 1)),
        (4, (), (0, 1, 2, 3)),
        (8, (), tuple(range(8))),
        (1, (0,), (1,)),
        (1, (5,), (4,)),
        (1, (0, 1), (2,)),
        (2, (0,), (2, 3)),
        (2, (5,), (6, 7)),
        (2, (0, 1), (2, 3)),
        (2, (2, 6), (0, 1)),
        (4, (7,), (0, 1, 2, 3)),
        (4, (0, 1), (4, 5, 6, 7)),
        (3, (5,), (4, 6, 7)),
    ],
)
def test_a_switched_board_breaks_no_larger_partition_without_need(
    model: str, count: int, held: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """The partition is taken whose loss breaks the fewest larger ones; other counts spare them too."""
    assert chosen(build.node(model, table=True), count, *held) == expected


def test_a_table_binds_only_who_requires_nvlink() -> None:
    """With no pair of the table free, two cards are given all the same, unless NVLink is required."""
    made, odd = build.node(HGX_H100, table=True), (1, 3, 5, 7)

    assert chosen(made, 2, *odd) == (0, 2)
    assert chosen(made, 2, *odd, scope=Scope.NVLINK, required=False) == (0, 2)
    assert reason(made, 2, *odd, scope=Scope.NVLINK) is Reason.NO_PARTITION


def test_a_count_that_the_table_lacks_is_judged_by_links() -> None:
    """Three cards of a switched board are all joined, though no partition has three."""
    made = build.node(HGX_A100, table=True)

    assert chosen(made, 3, 0, scope=Scope.NVLINK) == (1, 2, 3)


def test_the_better_score_wins_between_equal_partitions() -> None:
    """Where two partitions leave equally much, the score decides before the minor."""
    cards = tuple(build.gpu(at) for at in range(4))
    table = (
        node_topology.Partition(0b0011, 1),
        node_topology.Partition(0b1100, 1),
        node_topology.Partition(0b1010, 7),
    )
    made = facts.Device("n", cards, board=node_topology.NodeTopology(4, ((0,) * 4,) * 4, partitions=table))

    assert chosen(made, 2) == (0, 1)  # It leaves another pair whole, which the better one would not.
    assert chosen(made, 2, 0, 2) == (1, 3)


# ---------------------------------------------------------------- PCIe and two NUMA nodes


@pytest.mark.parametrize(
    ("count", "held", "expected"),
    [
        (2, (), (0, 1)),
        (2, (0,), (2, 3)),
        (4, (0,), (4, 5, 6, 7)),
        (3, (0, 1), (4, 5, 6)),
        (1, (0,), (1,)),
        (4, (1, 6), (2, 3, 4, 5)),
    ],
)
def test_cards_without_nvlink_sit_below_one_switch_and_one_socket(
    count: int, held: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """Pairs below one root come before pairs on one socket, and those before any others."""
    assert chosen(build.node(PCIE), count, *held) == expected


@pytest.mark.parametrize(
    ("scope", "count", "held", "expected"),
    [
        (Scope.PCIE, 2, (0,), (2, 3)),
        (Scope.NUMA, 3, (0,), (1, 2, 3)),
        (Scope.NUMA, 4, (0,), (4, 5, 6, 7)),
        (Scope.NODE, 7, (0,), (1, 2, 3, 4, 5, 6, 7)),
    ],
)
def test_a_required_scope_is_met(
    scope: Scope, count: int, held: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """All cards lie in one group of the scope."""
    assert chosen(build.node(PCIE), count, *held, scope=scope) == expected


@pytest.mark.parametrize(
    ("scope", "count", "held"),
    [(Scope.PCIE, 3, ()), (Scope.NUMA, 5, ()), (Scope.NUMA, 4, (0, 4)), (Scope.NVLINK, 2, ())],
)
def test_a_required_scope_that_no_group_meets_is_refused(
    scope: Scope, count: int, held: tuple[int, ...]
) -> None:
    """Cards enough on the node do not help where no group has them."""
    assert reason(build.node(PCIE), count, *held, scope=scope) is Reason.SCOPE_MISMATCH


@pytest.mark.parametrize(
    ("scope", "count", "held", "expected"),
    [
        (Scope.NVLINK, 2, (0,), (2, 3)),
        (Scope.PCIE, 3, (0,), (1, 2, 3)),
        (Scope.NUMA, 5, (0,), (1, 4, 5, 6, 7)),
    ],
    ids=["no nvlink, so one switch", "no such switch, so one socket", "no such socket, so the node"],
)
def test_a_preferred_scope_falls_back_step_by_step(
    scope: Scope, count: int, held: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """A wish that cannot be met is met as nearly as it can be."""
    assert chosen(build.node(PCIE), count, *held, scope=scope, required=False) == expected


@pytest.mark.parametrize("scope", [Scope.NUMA, Scope.PCIE, Scope.NVLINK])
def test_unknown_wiring_meets_no_required_scope(scope: Scope) -> None:
    """A card of which nothing is known is in no group; unknown is not zero."""
    made = build.device(build.gpu(0), build.gpu(1))

    assert reason(made, 1, scope=scope) is Reason.SCOPE_MISMATCH
    assert chosen(made, 2, scope=scope, required=False) == (0, 1)


def test_the_node_is_a_scope_that_every_card_is_in() -> None:
    """To require the node is to require nothing."""
    made = build.device(build.gpu(0), build.gpu(1))

    assert chosen(made, 2, scope=Scope.NODE) == (0, 1)


def test_a_scope_binds_shares_as_well() -> None:
    """Shares of two cards under a required scope come from one group."""
    half = {0: build.whole(build.gpu(0)), 2: build.whole(build.gpu(2))}
    asked = build.request(requests.Gpus(2, core=50), grouping=build.grouping(scope=Scope.PCIE))

    assert build.minors(allocator.place(build.view(build.node(PCIE), half), asked)) == (4, 5)


# ---------------------------------------------------------------- against all sets


@st.composite
def boards_in_use(draw: st.DrawFn) -> tuple[node_topology.NodeTopology, int, int]:
    """Make a board of up to seven slots, which of them are free, and how many are wanted."""
    made = tuple(build.gpu(at) for at in range(draw(st.integers(2, 7))))
    board = draw(generate.wirings(made))
    free = draw(st.integers(1, (1 << len(made)) - 1))
    return board, free, draw(st.integers(1, free.bit_count()))


@hypothesis.settings(max_examples=300)
@hypothesis.given(boards_in_use())
def test_the_best_set_is_the_best_of_all_sets(case: tuple[node_topology.NodeTopology, int, int]) -> None:
    """No set has better pairs, and among equals none leaves more."""
    board, free, count = case
    slots = merits.set_of(free)

    best = topology.best_set(board, free, count)

    def merit(one: frozenset[int]) -> tuple[object, ...]:
        return merits.worth(board, one), merits.wholeness(board, slots - one), -sum(1 << at for at in one)

    every = map(frozenset, itertools.combinations(sorted(slots), count))
    assert merits.set_of(best or 0) == max(every, key=merit)


@hypothesis.settings(max_examples=300)
@hypothesis.given(boards_in_use())
def test_the_partition_taken_leaves_most(case: tuple[node_topology.NodeTopology, int, int]) -> None:
    """No free partition of the size leaves larger ones whole that this one breaks."""
    board, free, count = case
    able = [part for part in board.partitions if part.size == count and part.mask & free == part.mask]

    mask = partitions.choose(board, free, count)

    left = {part.mask: merits.wholeness(board, merits.set_of(free & ~part.mask)) for part in able}
    assert (mask is None) == (not able)
    assert mask is None or left[mask] == max(left.values())


@hypothesis.settings(max_examples=300)
@hypothesis.given(boards_in_use())
def test_rings_are_the_largest_sets_with_every_pair_joined(
    case: tuple[node_topology.NodeTopology, int, int],
) -> None:
    """The groups of the NVLink scope are exactly the maximal cliques."""
    board = case[0]
    slots = range(board.size)
    cliques = [
        frozenset(one)
        for size in range(1, board.size + 1)
        for one in itertools.combinations(slots, size)
        if all(brute.linked(board, a, b) for a, b in itertools.combinations(one, 2))
    ]

    found = {merits.set_of(mask) for mask in nvlink_cliques.find(board) or ()}

    assert found == {one for one in cliques if not any(one < other for other in cliques)}


def test_more_sets_than_can_be_compared_still_give_a_good_one() -> None:
    """On a board of twenty cards in two halves, ten cards come from one half."""
    worth = tuple(
        tuple(node_topology.NVLINK_WORTH if a != b and a % 2 == b % 2 else 0 for b in range(20))
        for a in range(20)
    )
    board = node_topology.NodeTopology(20, worth)

    best = topology.best_set(board, (1 << 20) - 1, 10)

    assert board.within(best or 0) == 45 * node_topology.NVLINK_WORTH
