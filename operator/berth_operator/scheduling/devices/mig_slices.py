"""Which MIG instance to give: the one whose loss does the least harm to its card.

Static instances do not compete with each other, but their slices do: slices that stay
free in one piece can be cut anew into something large. The harm of an instance is what
can no longer be cut once it is taken. Of all profiles that the card's model knows, and
all places where each may start, those are counted that are free now and that the
instance overlaps, and a larger profile outweighs all smaller ones together. So an
instance in a corner that is broken up already costs little, and one in the middle of an
untouched card costs most. A model that the catalogue does not know is taken to be cut in
halves, quarters and so on.
"""

import functools
from collections.abc import Iterable
from typing import Final

from berth_crds import catalog
from berth_operator.scheduling.devices import device_facts

USUAL_SLICES: Final = 8
# More places than any model has for profiles of one size, so that sizes never trade.
SIZE_WEIGHT: Final = 64

Place = tuple[int, int]  # The slices of a possible instance as a mask, and how many they are.


@functools.lru_cache(maxsize=1 << 14)
def harm(model: str, slices: int, taken: int) -> int:
    """Return what giving these slices of a card away does to it, where `taken` are in use; both are masks."""
    return sum(SIZE_WEIGHT**size for place, size in _places(model) if not place & taken and place & slices)


def occupied(instances: Iterable[device_facts.Instance]) -> int:
    """Make a mask of the memory slices of some instances."""
    mask = 0
    for one in instances:
        mask |= (1 << one.size) - 1 << one.start
    return mask


@functools.lru_cache(maxsize=256)
def _places(model: str) -> tuple[Place, ...]:
    """List what can be cut from a card of a model, and where; variants of one profile count once."""
    if (known := catalog.find(model)) is not None and known.mig:
        cuts = {(start, profile.slices, profile.compute) for profile in known.mig for start in profile.starts}
    else:
        cuts = {(start, size, size) for size in (1, 2, 4, 8) for start in range(0, USUAL_SLICES, size)}
    return tuple(((1 << size) - 1 << start, size) for start, size, _ in sorted(cuts))
