"""Which whole cards: links, partitions and scopes, on topologies as they are built."""

import dataclasses
import itertools
from typing import Final

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import link_worths
from berth_crds.vocabulary import Scope
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import (
    card_sets,
    device_facts,
    node_topology,
    nvlink_cliques,
    requests,
    scopes,
)
from scheduling.devices import brute, merits
from scheduling.placements import granted, refused
from support import builders, random_devices, thorough, topologies
from support.builders import card, request, view

DGX_1V: Final = topologies.device("n1", "8xV100-SXM2-16GB")
HGX_A100: Final = topologies.device("n1", "8xA100-SXM4-80GB")
HGX_H100: Final = topologies.device("n1", "8xH100-80GB-HBM3")
PCIE: Final = topologies.device("n1", "8xA40")
UNKNOWN: Final = builders.device(cards=2)
# What the scope asks of all cards, or wishes.
ANY: Final = requests.NO_GROUPING
NVLINK, SWITCH, SOCKET, NODE = map(requests.Grouping, (Scope.NVLINK, Scope.PCIE, Scope.NUMA, Scope.NODE))
NVLINK_WISH, SWITCH_WISH, SOCKET_WISH = (
    dataclasses.replace(grouping, required=False) for grouping in (NVLINK, SWITCH, SOCKET)
)


def links_alone(device: device_facts.Device) -> device_facts.Device:
    """Return a Device of which nothing but the NVLinks is known."""
    worth = link_worths.NVLINK
    rows = tuple(tuple(pair // worth * worth for pair in row) for row in device.topology.worth)
    return dataclasses.replace(device, topology=node_topology.NodeTopology(8, rows))


def wired(*partitions_: tuple[int, int], size: int = 4) -> device_facts.Device:
    """Return a Device of cards that only a table of partitions joins."""
    table = tuple(itertools.starmap(node_topology.Partition, partitions_))
    topology = node_topology.NodeTopology(size, ((0,) * size,) * size, partitions=table)
    return builders.device(cards=size, topology=topology)


SCORED: Final = wired((0b1100, 1), (0b0011, 1), (0b1010, 7), (0b100001, 9), size=6)
# The topology, how many cards are asked for, which are held, the grouping; which cards are given.
GIVEN: Final[
    dict[str, tuple[device_facts.Device, int, tuple[int, ...], requests.Grouping, tuple[int, ...]]]
] = {
    "two cards of a cube mesh have a double link": (DGX_1V, 2, (), ANY, (2, 3)),
    "three have two double links and a single one": (DGX_1V, 3, (), ANY, (0, 2, 3)),
    "four are a full quad": (DGX_1V, 4, (), ANY, (0, 1, 2, 3)),
    "four come from the other quad where one has lost a card": (DGX_1V, 4, (3,), ANY, (4, 5, 6, 7)),
    "two come from the broken quad where links are all that is known": (
        links_alone(DGX_1V),
        2,
        (3,),
        ANY,
        (1, 2),
    ),
    "no pair is torn from a whole quad where links are all that is known": (
        links_alone(DGX_1V),
        2,
        (0, 3),
        ANY,
        (1, 2),
    ),
    "four cards of a cube mesh are all joined": (DGX_1V, 4, (0,), NVLINK, (4, 5, 6, 7)),
    **{
        f"{count} of a switched topology of {model} where {held} are held": (device, count, held, ANY, minors)
        for model, device in (("A100", HGX_A100), ("H100", HGX_H100))
        for count, held, minors in (
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
        )
    },
    "a table of partitions binds nobody who does not ask": (HGX_H100, 2, (1, 3, 5, 7), ANY, (0, 2)),
    "nor who would rather have NVLink": (HGX_H100, 2, (1, 3, 5, 7), NVLINK_WISH, (0, 2)),
    "a count that the table lacks is judged by links": (HGX_A100, 3, (0,), NVLINK, (1, 2, 3)),
    "the best score comes first": (SCORED, 2, (), ANY, (0, 5)),
    "then the next score, even where it breaks two others": (SCORED, 2, (5,), ANY, (1, 3)),
    "of equals the first of the table": (wired((0b1100, 1), (0b0011, 1)), 2, (), ANY, (2, 3)),
    "a pair below one switch": (PCIE, 2, (), ANY, (0, 1)),
    "a pair below another": (PCIE, 2, (0,), ANY, (2, 3)),
    "four on one socket": (PCIE, 4, (0,), ANY, (4, 5, 6, 7)),
    "three on one socket": (PCIE, 3, (0, 1), ANY, (4, 5, 6)),
    "one whose switch is in use already": (PCIE, 1, (0,), ANY, (1,)),
    "two pairs below one switch each": (PCIE, 4, (1, 6), ANY, (2, 3, 4, 5)),
    "one switch is required": (PCIE, 2, (0,), SWITCH, (2, 3)),
    "one socket is required": (PCIE, 3, (0,), SOCKET, (1, 2, 3)),
    "one socket is required, and one has too few": (PCIE, 4, (0,), SOCKET, (4, 5, 6, 7)),
    "the node is required": (PCIE, 7, (0,), NODE, tuple(range(1, 8))),
    "the node is required, and nothing is known": (UNKNOWN, 2, (), NODE, (0, 1)),
    "there is no NVLink, so one switch": (PCIE, 2, (0,), NVLINK_WISH, (2, 3)),
    "there is no such switch, so one socket": (PCIE, 3, (0,), SWITCH_WISH, (1, 2, 3)),
    "there is no such socket, so the node": (PCIE, 5, (0,), SOCKET_WISH, (1, 4, 5, 6, 7)),
    **{
        f"nothing is known of any {wish.scope}": (UNKNOWN, 2, (), wish, (0, 1))
        for wish in (NVLINK_WISH, SWITCH_WISH, SOCKET_WISH)
    },
}


@pytest.mark.parametrize(("device", "count", "held", "grouping", "minors"), GIVEN.values(), ids=GIVEN)
def test_which_cards_are_given(
    device: device_facts.Device,
    count: int,
    held: tuple[int, ...],
    grouping: requests.Grouping,
    minors: tuple[int, ...],
) -> None:
    """The best connected set, then the one that leaves most, and the scope is kept if it can be."""
    asked = request(count, grouping=grouping)

    found = granted(view(device, dict.fromkeys(held)), asked)

    assert tuple(share.minor for share in found) == minors


# The same; why there is no such set, whether that is for ever, and how many cards there would be.
REFUSED: Final[
    dict[str, tuple[device_facts.Device, int, tuple[int, ...], requests.Grouping, tuple[Reason, bool, int]]]
] = {
    "five cards of a cube mesh are never all joined": (
        DGX_1V,
        5,
        (),
        NVLINK,
        (Reason.SCOPE_MISMATCH, True, 4),
    ),
    "two halves of it are no ring, for now": (DGX_1V, 4, (0, 5), NVLINK, (Reason.SCOPE_MISMATCH, False, 3)),
    "no partition of the size is free": (HGX_H100, 2, (1, 3, 5, 7), NVLINK, (Reason.NO_PARTITION, False, 4)),
    "three below one switch": (PCIE, 3, (), SWITCH, (Reason.SCOPE_MISMATCH, True, 2)),
    "five on one socket": (PCIE, 5, (), SOCKET, (Reason.SCOPE_MISMATCH, True, 4)),
    "four on one socket of two with three each": (PCIE, 4, (0, 4), SOCKET, (Reason.SCOPE_MISMATCH, False, 3)),
    "NVLink where there is none": (PCIE, 2, (), NVLINK, (Reason.SCOPE_MISMATCH, True, 1)),
    **{
        f"a {scope.scope} where nothing is known": (UNKNOWN, 1, (), scope, (Reason.SCOPE_MISMATCH, True, 0))
        for scope in (NVLINK, SWITCH, SOCKET)
    },
}


@pytest.mark.parametrize(("device", "count", "held", "grouping", "why"), REFUSED.values(), ids=REFUSED)
def test_a_required_scope_that_cannot_be_had_is_refused(
    device: device_facts.Device,
    count: int,
    held: tuple[int, ...],
    grouping: requests.Grouping,
    why: tuple[Reason, bool, int],
) -> None:
    """Cards enough on the node do not help where no group has them; and unknown is not zero."""
    asked = request(count, grouping=grouping)

    shortfall = refused(view(device, dict.fromkeys(held)), asked)

    assert (shortfall.reason, shortfall.never_fits, shortfall.found) == why


def test_a_scope_binds_shares_as_well() -> None:
    """Shares of two cards under a required scope come from one group."""
    asked = request(requests.Gpus(2, core=50), grouping=SWITCH)

    found = granted(view(PCIE, {0: None, 2: None}), asked)

    assert [share.minor for share in found] == [4, 5]


# ---------------------------------------------------------------- against all sets


@st.composite
def boards_in_use(draw: st.DrawFn) -> tuple[node_topology.NodeTopology, int, int]:
    """Make a topology of up to seven slots, which of them are free, and how many are wanted."""
    made = tuple(card(at) for at in range(draw(st.integers(2, 7))))
    topology = draw(random_devices.wirings(made))
    free = draw(st.integers(1, (1 << len(made)) - 1))
    return topology, free, draw(st.integers(1, free.bit_count()))


@hypothesis.settings(max_examples=thorough.examples(300))
@hypothesis.given(boards_in_use())
def test_the_best_set_is_the_best_of_all_sets(case: tuple[node_topology.NodeTopology, int, int]) -> None:
    """No set has better pairs, and among equals none leaves more."""
    topology, free, count = case
    slots = merits.set_of(free)

    best = card_sets.best_set(topology, free, count)

    def merit(one: frozenset[int]) -> tuple[object, ...]:
        return (
            merits.worth(topology, one),
            merits.wholeness(topology, slots - one),
            -sum(1 << at for at in one),
        )

    every = map(frozenset, itertools.combinations(sorted(slots), count))
    assert merits.set_of(best or 0) == max(every, key=merit)


@hypothesis.settings(max_examples=thorough.examples(300))
@hypothesis.given(boards_in_use())
def test_the_partition_taken_leaves_most(case: tuple[node_topology.NodeTopology, int, int]) -> None:
    """No free partition of the size has a better score, and none of that score leaves more."""
    topology, free, count = case
    able = [part for part in topology.partitions if part.size == count and part.mask & free == part.mask]
    best = [part for part in able if part.score == max(one.score for one in able)]

    mask = next(iter(scopes.partitions(scopes.SelectableCards(topology, free, free, free), count)), None)

    left = {part.mask: _left(topology, free & ~part.mask, count) for part in best}
    assert (mask is None) == (not able)
    assert mask is None or left[mask] == max(left.values())


def _left(topology: node_topology.NodeTopology, mask: int, count: int) -> tuple[object, ...]:
    slots = merits.set_of(mask)
    return merits.kept(topology, slots, count), merits.wholeness(topology, slots)


@hypothesis.settings(max_examples=thorough.examples(300))
@hypothesis.given(boards_in_use())
def test_rings_are_the_largest_sets_with_every_pair_joined(
    case: tuple[node_topology.NodeTopology, int, int],
) -> None:
    """The groups of the NVLink scope are exactly the maximal cliques."""
    topology = case[0]
    slots = range(topology.size)
    cliques = [
        frozenset(one)
        for size in range(1, topology.size + 1)
        for one in itertools.combinations(slots, size)
        if all(brute.linked(topology, a, b) for a, b in itertools.combinations(one, 2))
    ]

    found = {merits.set_of(mask) for mask in nvlink_cliques.find(topology) or ()}

    assert found == {one for one in cliques if not any(one < other for other in cliques)}


def test_more_sets_than_can_be_compared_still_give_a_good_one() -> None:
    """On a topology of twenty cards in two halves, ten cards come from one half."""
    worth = tuple(
        tuple(link_worths.NVLINK if a != b and a % 2 == b % 2 else 0 for b in range(20)) for a in range(20)
    )
    topology = node_topology.NodeTopology(20, worth)

    best = card_sets.best_set(topology, (1 << 20) - 1, 10)

    assert topology.within(best or 0) == 45 * link_worths.NVLINK
