"""When a search is hopeless: what is left to place against the room that is left, by counting.

Two counts, for each phase and each quantity by itself. All that is left to place must not
be more than all room that is left. And for every size, what is at least that large must
not be more in number than such pieces fit into the spots: nine shares of 60 percent need
nine cards, though eight cards have room enough in sum. Both are necessary only; a search
that they let pass may still find nothing.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

MOST_SIZES: Final = 16


class Unplaced(NamedTuple):
    """What is left to place in one phase, of one of the two quantities.

    `steps` says for each size how many units are at least so large, `column` where the
    load of a spot has this phase and quantity.
    """

    column: int
    spots: tuple[int, ...]
    total: int
    steps: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """How many units an item has, in which phases and on which spots, and how large each is at least."""

    count: int
    phases: tuple[int, ...]
    least: tuple[int, int]
    spots: frozenset[int]


def sum_up(items: Sequence[Size], phases: int) -> Iterator[Unplaced]:
    """Return what of some items is left to place, summed up."""
    for column in range(2 * phases):
        phase, quantity = divmod(column, 2)
        here = [item for item in items if phase in item.phases]
        units: dict[int, int] = {}
        for item in here:
            size = item.least[quantity]
            if size:
                units[size] = units.get(size, 0) + item.count
        if units:
            spots = tuple(sorted(frozenset().union(*(item.spots for item in here))))
            total = sum(size * count for size, count in units.items())
            yield Unplaced(column, spots, total, _steps(units))


def _steps(units: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Return for each size how many units are at least so large; of many sizes some are enough."""
    sizes = sorted(units)
    at_least = itertools.accumulate(units[size] for size in reversed(sizes))
    steps = list(zip(sizes, reversed(list(at_least)), strict=True))
    return tuple(steps[:: -(-len(steps) // MOST_SIZES)])


def exceeds(unplaced: Unplaced, rooms: Sequence[tuple[int, int]], loads: Sequence[tuple[int, ...]]) -> bool:
    """Return whether what is left to place is surely too much."""
    quantity = unplaced.column % 2
    left = [rooms[at][quantity] - loads[at][unplaced.column] for at in unplaced.spots]
    if sum(left) < unplaced.total:
        return True
    return any(sum(one // size for one in left) < units for size, units in unplaced.steps)
