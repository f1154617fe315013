"""The best set of cards on one board: all sets are compared, not grown around a star.

A set is better the more its own pairs are worth; between equals, the more it leaves to
those who come later; then the lowest slots win, so that equal boards give equal answers.
The slots that may be chosen (the pool) can be fewer than those that are free: a card
that does not suit this pod still counts for what is left to the next one. Results are
remembered for each board, because thousands of nodes share a few of them.
"""

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling.devices import boards

# Above this many sets, a search that improves step by step takes over from comparing all.
MOST_COMPARED: Final = 20_000

Quality = tuple[int, int, int]


@functools.lru_cache(maxsize=1 << 15)
def best_set(board: boards.Board, free: int, count: int, pool: int | None = None) -> int | None:
    """Choose `count` slots of the pool (of all free ones, if none is given); None where there are too few."""
    pool = free if pool is None else pool
    available = boards.slots(pool)
    if count > len(available):
        return None
    if count == len(available):
        return pool
    known = not board.size or pool.bit_length() <= board.size
    if known and board.uniform and not board.partitions:
        return boards.mask_of(available[:count])
    if math.comb(len(available), count) > MOST_COMPARED:
        return _improved(board, free, count, pool)
    return _best_of_all(board, free, count, pool)


@functools.lru_cache(maxsize=32)
def ranked(board: boards.Board, free: int, count: int, pool: int) -> tuple[int, ...]:
    """List all sets of `count` slots of the pool, best first; for boards where all can be compared."""
    sets, inside, degrees = _all_sets(board, free, count, pool)
    if board.partitions:
        left = [board.wholeness(free & ~chosen) for chosen in sets]
    else:
        # What is left loses the links of the chosen cards; those between them were counted twice.
        left = (inside - degrees).tolist()
    graded = sorted(zip((-inside).tolist(), (-one for one in left), sets, strict=True))
    return tuple(chosen for _, _, chosen in graded)


def each(board: boards.Board, free: int, count: int, pool: int) -> Iterator[int]:
    """Walk over all sets, the best first; where they are too many to compare, the others in plain order."""
    best = best_set(board, free, count, pool)
    if best is None:
        return
    yield best
    available = boards.slots(pool)
    if math.comb(len(available), count) <= MOST_COMPARED:
        others: Iterator[int] = iter(ranked(board, free, count, pool))
    else:
        others = map(boards.mask_of, itertools.combinations(available, count))
    yield from (chosen for chosen in others if chosen != best)


def quality(board: boards.Board, free: int, chosen: int) -> Quality:
    """Grade a set: the higher the better, and no two sets are equal."""
    return board.within(chosen), board.wholeness(free & ~chosen), -chosen


def _best_of_all(board: boards.Board, free: int, count: int, pool: int) -> int:
    sets, inside, degrees = _all_sets(board, free, count, pool)
    best = inside == inside.max()
    if not board.partitions:
        best &= degrees == degrees[best].min()
    equals = [sets[at] for at in np.flatnonzero(best).tolist()]
    # The lowest slots win the last comparison: their mask is the smallest number.
    return max(equals, key=lambda chosen: (board.wholeness(free & ~chosen), -chosen))


def _all_sets(
    board: boards.Board, free: int, count: int, pool: int
) -> tuple[list[int], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """List all sets, what their pairs are worth, and what all links of their cards to free ones are worth."""
    chosen = list(itertools.combinations(boards.slots(pool), count))
    worth = _matrix(board, free.bit_length())
    columns = np.array(chosen, dtype=np.int64).reshape(len(chosen), count).T
    inside = np.zeros(len(chosen), dtype=np.int64)
    for a, b in itertools.combinations(range(count), 2):
        inside += worth[columns[a], columns[b]]
    degrees = worth[:, list(boards.slots(free))].sum(axis=1)[columns].sum(axis=0)
    return [boards.mask_of(one) for one in chosen], inside, degrees


@functools.lru_cache(maxsize=1 << 10)
def _matrix(board: boards.Board, slots: int) -> npt.NDArray[np.int64]:
    """Give the worth of all pairs; slots beyond the board are worth nothing to anybody."""
    size = max(slots, board.size)
    worth = np.zeros((size, size), dtype=np.int64)
    for at, row in enumerate(board.worth):
        worth[at, : len(row)] = row
    return worth


def _improved(board: boards.Board, free: int, count: int, pool: int) -> int:
    """Start from the lowest slots and swap pairs while that helps."""
    best = boards.mask_of(boards.slots(pool)[:count])
    while True:
        swaps = (
            best & ~(1 << out) | 1 << new for out in boards.slots(best) for new in boards.slots(pool & ~best)
        )
        better = max(swaps, key=lambda chosen: quality(board, free, chosen))
        if quality(board, free, better) <= quality(board, free, best):
            return best
        best = better
