"""Partitions of an NVLink fabric: a set of cards that the fabric can isolate as one.

A request of one, two, four or eight cards should take one partition, and the one whose
loss breaks up the fewest larger ones; between equals the better score wins, then the
lowest slots. A board without a table, or with none of that size, has no opinion.
"""

from berth_operator.scheduling.devices import node_topology


@node_topology.remembered(1 << 12)
def able(board: node_topology.NodeTopology, free: int, count: int, pool: int) -> tuple[int, ...]:
    """Return the partitions of that size that lie in the pool, best first; `free` is what others may use."""
    found = [part for part in board.partitions if part.size == count and part.mask & pool == part.mask]
    found.sort(key=lambda part: (-board.wholeness(free & ~part.mask), -part.score, part.mask))
    return tuple(dict.fromkeys(part.mask for part in found))


def choose(board: node_topology.NodeTopology, free: int, count: int) -> int | None:
    """Return the free partition of that size which leaves most; None where there is none."""
    return next(iter(able(board, free, count, free)), None)
