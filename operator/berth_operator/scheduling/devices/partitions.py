"""Partitions of an NVLink fabric: a set of cards that the fabric can isolate as one.

A request of one, two, four or eight cards should take one partition, and the one whose
loss breaks up the fewest larger ones. A board without a table has no opinion.
"""

import functools

from berth_operator.scheduling.devices import boards


@functools.lru_cache(maxsize=1 << 15)
def choose(board: boards.Board, free: int, count: int) -> int | None:
    """Take the free partition of that size which leaves most; None where there is none."""
    able = [part for part in board.partitions if part.size == count and part.mask & free == part.mask]
    if not able:
        return None
    return max(able, key=lambda part: (board.wholeness(free & ~part.mask), part.score, -part.mask)).mask
