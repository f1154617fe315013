"""When a search is hopeless: what is left to place against the room that is left, by counting.

Two counts, for each phase and each quantity by itself. All that is left to place must not
be more than all room that is left. And for every size, what is at least that large must
not be more in number than such pieces fit into the spots: nine shares of 60 percent need
nine cards, though eight cards have room enough in sum. Both are necessary only; a search
that they let pass may still find nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol


class Item(Protocol):
    """What is placed, as far as counting goes."""

    @property
    def count(self) -> int:
        """How many units."""

    @property
    def phases(self) -> tuple[int, ...]:
        """In which phases."""

    @property
    def needs(self) -> Mapping[int, tuple[int, int]]:
        """What a unit takes of each spot that would do."""


class Demand(NamedTuple):
    """What is left to place in one phase, of one of the two quantities.

    `steps` says for each size how many units are at least so large, `column` where the
    load of a spot has this phase and quantity.
    """

    column: int
    spots: tuple[int, ...]
    total: int
    steps: tuple[tuple[int, int], ...]


def demands(items: Sequence[Item], phases: int) -> Iterator[Demand]:
    """Sum up what some items demand, taking each unit for as small as it is on any spot."""
    for column in range(2 * phases):
        phase, quantity = divmod(column, 2)
        here = [item for item in items if phase in item.phases and item.needs]
        least = [min(need[quantity] for need in item.needs.values()) for item in here]
        units = [size for item, size in zip(here, least, strict=True) if size for _ in range(item.count)]
        spots = tuple(sorted({at for item in here for at in item.needs}))
        steps = tuple((size, sum(unit >= size for unit in units)) for size in sorted(set(units)))
        if steps:
            yield Demand(column, spots, sum(units), steps)


def exceeds(demand: Demand, rooms: Sequence[tuple[int, int]], loads: Sequence[tuple[int, ...]]) -> bool:
    """Tell whether a demand is surely too much."""
    quantity = demand.column % 2
    left = [rooms[at][quantity] - loads[at][demand.column] for at in demand.spots]
    if sum(left) < demand.total:
        return True
    return any(sum(one // size for one in left) < units for size, units in demand.steps)
