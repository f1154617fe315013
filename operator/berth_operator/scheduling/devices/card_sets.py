"""The best set of cards on one topology, by comparing sets as a whole and not card by card.

A set is better the more its own pairs are worth; between equals, the more it leaves to
those who come later; then the lowest slots win, so that equal topologies give equal answers.
The slots that may be chosen (the pool) can be fewer than those that are free: a card
that does not suit this pod still counts for what is left to the next one. Results are
remembered for each topology, because thousands of nodes share a few of them.

Sets are compared in numpy, and where they are too many, a few cards are swapped as long as
that helps. Both have an end, however a topology is wired: so many sets and rounds for all
groups of cards in which one search looks (`among`), and what they take is charged in
steps, the same whether it was remembered or not. Topologies of eight cards cost none.
"""

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling.devices import node_topology
from berth_operator.scheduling.devices.search_effort import Effort

# Above this many sets, a search that improves step by step takes over from comparing all.
MOST_COMPARED: Final = 20_000
# In all groups of one search together: sets that are compared, and rounds of swaps.
COMPARED_TOGETHER: Final = 26_000
ROUNDS_TOGETHER: Final = 48
# What a step of the search is worth of this.
COMPARED_PER_STEP: Final = 500
RANKED_PER_STEP: Final = 150
STEPS_PER_ROUND_OF_SWAPS: Final = 2
# A Device lists no more; beyond these, the lowest slots are chosen from.
MOST_SLOTS: Final = 64

Quality = tuple[int, int, int]
Numbers = npt.NDArray[np.int64]
Masks = npt.NDArray[np.uint64]


class Found(NamedTuple):
    """The best set, and the steps it took to find it."""

    chosen: int
    steps: int = 0


class Sets(NamedTuple):
    """Some sets: what their pairs are worth, what they take from the free cards, and their masks by place."""

    inside: Numbers
    degrees: Numbers
    masks: Masks


def best_set(
    topology: node_topology.NodeTopology,
    free: int,
    count: int,
    pool: int | None = None,
    *,
    effort: Effort | None = None,
    among: int = 1,
) -> int | None:
    """Choose `count` slots of the pool (of all free ones, if none is given); None where there are too few."""
    found = _best(topology, free, count, free if pool is None else pool, among)
    if found is None:
        return None
    if effort is not None and found.steps:
        effort.spend(found.steps)
    return found.chosen


@node_topology.remembered(1 << 13)
def _best(topology: node_topology.NodeTopology, free: int, count: int, pool: int, among: int) -> Found | None:
    available = node_topology.slots(pool)
    if count > len(available):
        return None
    if count == len(available):
        return Found(pool)
    known = not topology.size or pool.bit_length() <= topology.size
    if known and topology.uniform and not topology.partitions:
        return Found(node_topology.mask_of(available[:count]))
    if count > MOST_SLOTS:
        return Found(node_topology.mask_of(available[:count]))
    comparison = _SetComparison(topology, free, available[:MOST_SLOTS])
    number = math.comb(len(comparison.available), count)
    if number > most_compared(among):
        return comparison.improved(count, max(1, ROUNDS_TOGETHER // among))
    sets = comparison.all_sets(count)
    return Found(comparison.mask(sets.masks[comparison.first(sets)]), number // COMPARED_PER_STEP)


def most_compared(among: int) -> int:
    """Return how many sets of one group may be compared, where a search looks in so many groups."""
    return min(MOST_COMPARED, COMPARED_TOGETHER // among)


def price(available: int, count: int) -> int:
    """Return how many steps it costs at most to choose so many of the slots that are available."""
    if count >= available:
        return 0
    number = math.comb(available, count)
    if number > most_compared(1):
        return STEPS_PER_ROUND_OF_SWAPS * ROUNDS_TOGETHER
    return number // COMPARED_PER_STEP


def each(
    topology: node_topology.NodeTopology,
    free: int,
    count: int,
    pool: int,
    *,
    effort: Effort,
    among: int = 1,
) -> Iterator[int]:
    """Yield all sets, the best first; where they are too many to compare, the others in plain order."""
    if (best := best_set(topology, free, count, pool, effort=effort, among=among)) is None:
        return
    yield best
    available = node_topology.slots(pool)
    number = math.comb(len(available), count)
    if len(available) <= MOST_SLOTS and number <= most_compared(among):
        effort.spend(number // RANKED_PER_STEP)
        others: Iterator[int] = iter(()) if effort.cut_short else _ranked_masks(topology, free, count, pool)
    else:
        others = map(node_topology.mask_of, itertools.combinations(available, count))
    yield from (chosen for chosen in others if chosen != best)


def _ranked_masks(topology: node_topology.NodeTopology, free: int, count: int, pool: int) -> Iterator[int]:
    comparison = _SetComparison(topology, free, node_topology.slots(pool))
    return map(comparison.mask, _ranked(topology, free, count, pool))


@node_topology.remembered(32)
def _ranked(topology: node_topology.NodeTopology, free: int, count: int, pool: int) -> Masks:
    """List all sets of `count` slots of the pool, best first; for topologies where all can be compared."""
    comparison = _SetComparison(topology, free, node_topology.slots(pool))
    sets = comparison.all_sets(count)
    if topology.partitions:
        left = [-comparison.left_whole(rank, sets.masks) for rank in topology.ranks]
    else:
        # What is left loses the links of the chosen cards; those between them were counted twice.
        left = [sets.degrees - sets.inside]
    ranked: Masks = sets.masks[np.lexsort((sets.masks, *reversed(left), -sets.inside))]
    return ranked


def quality(topology: node_topology.NodeTopology, free: int, chosen: int) -> Quality:
    """Grade a set: the higher the better, and no two sets are equal."""
    inside = topology.within(chosen)
    if topology.partitions or chosen & ~free:
        return inside, topology.wholeness(free & ~chosen), -chosen
    whole, degrees = _free_links(topology, free)
    return inside, whole - sum(degrees[at] for at in node_topology.slots(chosen)) + inside, -chosen


@node_topology.remembered(1 << 12)
def _free_links(topology: node_topology.NodeTopology, free: int) -> tuple[int, tuple[int, ...]]:
    """Return what all pairs of free cards are worth, and the links of each slot to free ones."""
    links = _matrix(topology, free.bit_length())[:, list(node_topology.slots(free))].sum(axis=1).tolist()
    return sum(links[at] for at in node_topology.slots(free)) // 2, tuple(links)


@node_topology.remembered(256)
def _matrix(topology: node_topology.NodeTopology, slots: int) -> Numbers:
    """Return the worth of all pairs; slots beyond the topology are worth nothing."""
    size = max(slots, topology.size)
    worth = np.zeros((size, size), dtype=np.int64)
    for at, row in enumerate(topology.worth):
        worth[at, : len(row)] = row
    return worth


# One entry for each number of cards that topologies have, and for each that is wanted.
@functools.lru_cache(maxsize=1 << 10)
def _combinations(size: int, count: int) -> npt.NDArray[np.uint8]:
    """List all sets of so many places: a row for each member, a column for each set."""
    flat = itertools.chain.from_iterable(itertools.combinations(range(size), count))
    number = math.comb(size, count)
    listed = np.fromiter(flat, dtype=np.uint8, count=number * count)
    return np.ascontiguousarray(listed.reshape(number, count).T)


class _SetComparison:
    """What sets of some slots are compared by; a place is the number of a slot among those."""

    def __init__(self, topology: node_topology.NodeTopology, free: int, available: tuple[int, ...]) -> None:
        self.topology = topology
        self.free = free
        self.available = available
        self.full = (1 << len(available)) - 1
        at = list(available)
        matrix = _matrix(topology, max(free.bit_length(), at[-1] + 1))
        self.worth: Numbers = matrix[np.ix_(at, at)]
        self.degrees: Numbers = matrix[:, list(node_topology.slots(free))].sum(axis=1)[at]
        self.bits: Masks = np.left_shift(np.uint64(1), np.arange(len(at), dtype=np.uint64))

    def mask(self, places: np.uint64) -> int:
        """Make a mask of slots from one of places."""
        return node_topology.mask_of(self.available[at] for at in node_topology.slots(int(places)))

    def all_sets(self, count: int) -> Sets:
        """Return all sets of so many places; of large ones, those that are left out are counted."""
        size = len(self.available)
        inverse = count > size - count
        rows = _combinations(size, size - count if inverse else count)
        number = math.comb(size, count)
        inside, degrees = np.zeros(number, dtype=np.int64), np.zeros(number, dtype=np.int64)
        masks = np.zeros(number, dtype=np.uint64)
        for a, b in itertools.combinations(rows, 2):
            inside += self.worth[a, b]
        for row in rows:
            degrees += self.degrees[row]
            masks |= self.bits[row]
        if inverse:
            links = self.worth.sum(axis=1)
            for row in rows:
                inside -= links[row]
            inside += links.sum() // 2
            degrees = self.degrees.sum() - degrees
            masks = np.uint64(self.full) ^ masks
        return Sets(inside, degrees, masks)

    def improved(self, count: int, rounds: int) -> Found:
        """Start from the lowest places and swap pairs while that helps, for so many rounds at most."""
        best = (1 << count) - 1
        for done in range(rounds):
            swaps = self._swaps(best)
            better = int(swaps.masks[self.first(swaps)])
            if better == best:
                return Found(self.mask(np.uint64(best)), STEPS_PER_ROUND_OF_SWAPS * (done + 1))
            best = better
        return Found(self.mask(np.uint64(best)), STEPS_PER_ROUND_OF_SWAPS * rounds)

    def _swaps(self, best: int) -> Sets:
        """Return all sets that one swap makes of a set, and the set itself."""
        ins = np.array(node_topology.slots(best))
        outs = np.array(node_topology.slots(self.full & ~best))
        links = self.worth[:, ins].sum(axis=1)
        inside = links[outs][None, :] - links[ins][:, None] - self.worth[np.ix_(ins, outs)]
        degrees = self.degrees[outs][None, :] - self.degrees[ins][:, None]
        masks = np.uint64(best) ^ (self.bits[ins][:, None] | self.bits[outs][None, :])
        itself = np.array([best], dtype=np.uint64)
        return Sets(np.append(inside, 0), np.append(degrees, 0), np.concatenate((masks.ravel(), itself)))

    def first(self, sets: Sets) -> int:
        """Return which of some sets is the best."""
        able = np.flatnonzero(sets.inside == sets.inside.max())
        if not self.topology.partitions:
            taken = sets.degrees[able]
            able = able[taken == taken.min()]
        for rank in self.topology.ranks:
            left = self.left_whole(rank, sets.masks[able])
            able = able[left == left.max()]
        # The lowest slots win the last comparison: their mask is the smallest number.
        return int(able[sets.masks[able].argmin()])

    def left_whole(self, rank: tuple[node_topology.Partition, ...], masks: Masks) -> Numbers:
        """Return what the partitions of a rank are worth that each set leaves whole."""
        left = np.zeros(len(masks), dtype=np.int64)
        for part in rank:
            if part.mask & self.free == part.mask:
                left += ((masks & self._places(part.mask)) == 0) * (1 + part.score)
        return left

    def _places(self, mask: int) -> np.uint64:
        inside = (1 << at for at, slot in enumerate(self.available) if mask >> slot & 1)
        return np.uint64(sum(inside))
