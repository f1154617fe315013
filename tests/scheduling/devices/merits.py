"""What a set of whole cards is worth, worked out by the words of the documentation alone."""

import itertools

from berth_operator.scheduling.devices import device_view, node_topology
from scheduling.devices import brute


def merit(view: device_view.View, slots: frozenset[int]) -> tuple[object, ...]:
    """Grade a set of whole cards: a partition where the table knows the size, then links, then the rest."""
    topology = view.device.topology
    free = {at for at, card in enumerate(view.device.cards) if brute.plain(card) and view.unused(card)}
    left = kept(topology, free - slots, len(slots)), wholeness(topology, free - slots)
    score = max((part.score for part in topology.partitions if set_of(part.mask) == slots), default=-1)
    if score >= 0:
        first = min(at for at, part in enumerate(topology.partitions) if set_of(part.mask) == slots)
        return True, score, left, -first
    return False, worth(topology, slots), left[1]


def kept(topology: node_topology.NodeTopology, slots: frozenset[int] | set[int], count: int) -> int:
    """Add up what the best partitions of 8, 4 and 2 cards are worth that are left, from the size asked on."""
    total = 0
    for size, weight in {8: 10_000, 4: 100, 2: 1}.items():
        sized = [part for part in topology.partitions if len(set_of(part.mask)) == size >= count]
        best = max((part.score for part in sized), default=0)
        whole = [part for part in sized if part.score == best and set_of(part.mask) <= slots]
        total += weight * best * len(whole)
    return total


def set_of(mask: int) -> frozenset[int]:
    """List the slots of a mask."""
    return frozenset(at for at in range(mask.bit_length()) if mask >> at & 1)


def worth(topology: node_topology.NodeTopology, slots: frozenset[int] | set[int]) -> int:
    """Add up the worth of all pairs."""
    if not topology.size:
        return 0
    return sum(topology.worth[a][b] for a, b in itertools.combinations(sorted(slots), 2))


def wholeness(topology: node_topology.NodeTopology, slots: frozenset[int] | set[int]) -> tuple[int, ...]:
    """Grade what is left: the larger whole partitions first, or links where there is no table."""
    if not topology.partitions:
        return (worth(topology, slots),)
    whole = [part for part in topology.partitions if set_of(part.mask) <= slots]
    grades = [0] * 8
    for part in whole:
        if len(set_of(part.mask)) > 1:
            grades[-len(set_of(part.mask)).bit_length()] += 1 + part.score
    return tuple(grades)
