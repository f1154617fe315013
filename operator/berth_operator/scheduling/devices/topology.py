"""The best set of cards on one board: all sets are compared, not grown around a star.

A set is better the more its own pairs are worth; between equals, the more it leaves to
those who come later; then the lowest slots win, so that equal boards give equal answers.
Results are remembered for each board, because thousands of nodes share a few of them.
"""

import functools
import itertools
import math
from typing import Final

from berth_operator.scheduling.devices import boards

# Above this many sets, a search that improves step by step takes over from comparing all.
MOST_COMPARED: Final = 20_000


@functools.lru_cache(maxsize=1 << 15)
def best_set(board: boards.Board, free: int, count: int) -> int | None:
    """Choose `count` of the free slots, or None where there are too few."""
    available = boards.slots(free)
    if count > len(available):
        return None
    if count == len(available):
        return free
    if board.uniform and not board.partitions:
        return boards.mask_of(available[:count])
    if math.comb(len(available), count) > MOST_COMPARED:
        return _improved(board, free, count)
    sets = (boards.mask_of(chosen) for chosen in itertools.combinations(available, count))
    return max(sets, key=lambda chosen: _quality(board, free, chosen))


def best_in_scope(board: boards.Board, groups: tuple[int, ...], free: int, count: int) -> int | None:
    """Choose within one of several groups of slots; among equally good sets the fuller group gives."""
    found = [
        (_quality(board, free, chosen), -(group & free).bit_count(), chosen)
        for group in groups
        if (chosen := best_set(board, group & free, count)) is not None
    ]
    return max(found)[2] if found else None


def _quality(board: boards.Board, free: int, chosen: int) -> tuple[int, int, int]:
    rest = free & ~chosen
    # The lowest slots win the last comparison: their mask is the smallest number.
    return board.within(chosen), board.wholeness(rest), -chosen


def _improved(board: boards.Board, free: int, count: int) -> int:
    """Start from the lowest slots and swap pairs while that helps."""
    available = boards.slots(free)
    best = boards.mask_of(available[:count])
    while True:
        swaps = (
            best & ~(1 << out) | 1 << new for out in boards.slots(best) for new in boards.slots(free & ~best)
        )
        better = max(swaps, key=lambda chosen: _quality(board, free, chosen))
        if _quality(board, free, better) <= _quality(board, free, best):
            return best
        best = better
