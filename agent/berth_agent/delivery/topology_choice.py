"""Which whole cards a pod should get that the scheduler chose none for. Pure, and without numpy.

The set whose cards are joined best wins, as in the scheduler's own choice: one NVLink outweighs all paths
through PCIe, and each further one counts again. Between equals the set wins that leaves most to those who
come later, then the lowest minors.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from berth_crds import link_worths, wire
from berth_crds.vocabulary import LinkKind

MOST_COMPARED: Final = 5_000  # These take a tenth of a second; the core compares more.

Pairs = Mapping[frozenset[str], int]


def best_set(
    cards: Sequence[wire.Card],
    partitions: Iterable[wire.Partition],
    free: Collection[str],
    must_include: Collection[str],
    size: int,
) -> tuple[str, ...]:
    """Return the uuids of `size` free cards, among them those that must be; empty where there are too few."""
    ordered = [card.uuid for card in sorted(cards, key=lambda card: card.minor) if card.uuid in free]
    optional = [uuid for uuid in ordered if uuid not in must_include]
    missing = size - len(must_include)
    if missing < 0 or missing > len(optional) or not set(must_include) <= set(ordered):
        return ()
    if math.comb(len(optional), missing) > MOST_COMPARED:
        chosen = {*must_include, *optional[:missing]}
        return tuple(uuid for uuid in ordered if uuid in chosen)
    pairs = _pairs(cards)
    whole = _Partitions(partitions, {card.uuid for card in cards})
    place = {uuid: number for number, uuid in enumerate(ordered)}

    def quality(added: tuple[str, ...]) -> tuple[int, tuple[int, ...] | int, tuple[int, ...]]:
        chosen = {*must_include, *added}
        left = [uuid for uuid in ordered if uuid not in chosen]
        remaining = whole.within(left) if whole else _worth(pairs, left)
        # The lowest minors: the set whose highest card is lowest, then the next.
        return _worth(pairs, chosen), remaining, tuple(sorted(-place[uuid] for uuid in chosen))

    best = {*must_include, *max(itertools.combinations(optional, missing), key=quality)}
    return tuple(uuid for uuid in ordered if uuid in best)


def _worth(pairs: Pairs, uuids: Iterable[str]) -> int:
    """Add up what the pairs of a set are worth."""
    return sum(pairs.get(frozenset(pair), 0) for pair in itertools.combinations(uuids, 2))


def _pairs(cards: Sequence[wire.Card]) -> Pairs:
    """Return what each pair is worth; either end may have reported the link, and the better report counts."""
    known = {card.uuid for card in cards}
    links: dict[frozenset[str], int] = {}
    for card in cards:
        for link in card.links:
            if link.peer in known and link.peer != card.uuid:
                pair = frozenset((card.uuid, link.peer))
                worth = link_worths.of_link(link.kind, link.count)
                links[pair] = max(links.get(pair, 0), worth)
    found = {}
    for one, other in itertools.combinations(cards, 2):
        pair = frozenset((one.uuid, other.uuid))
        found[pair] = link_worths.of_pair(links.get(pair, 0), _nearness(one, other))
    return found


def _nearness(one: wire.Card, other: wire.Card) -> int:
    """Return what the places of two cards are worth; their PCIe path may be unknown."""
    here, there = one.topology or wire.Topology(), other.topology or wire.Topology()
    if here.pcie_root is not None and here.pcie_root == there.pcie_root:
        return link_worths.PATHS[LinkKind.PCIE_SWITCH]
    if here.numa_node is not None and here.numa_node == there.numa_node:
        return link_worths.PATHS[LinkKind.NUMA]
    return 0


class _Partitions:
    """The groups of an NVLink switch, of which whole ones are worth keeping, the larger the more."""

    def __init__(self, partitions: Iterable[wire.Partition], known: Collection[str]) -> None:
        self._all = [
            (frozenset(part.members), part.score) for part in partitions if set(part.members) <= set(known)
        ]
        self._sizes = sorted({len(members).bit_length() for members, _ in self._all}, reverse=True)

    def __bool__(self) -> bool:
        return bool(self._all)

    def within(self, left: Iterable[str]) -> tuple[int, ...]:
        """Return what is whole among these cards, by size, the largest first."""
        there = set(left)
        return tuple(
            sum(
                1 + score
                for members, score in self._all
                if len(members) > 1 and len(members).bit_length() == size and members <= there
            )
            for size in self._sizes
        )
