"""How much of something is wanted and how much is there, in units that people write."""

import dataclasses
import enum
from typing import Final

from berth_operator.scheduling.nodes import facts


class Unit(enum.StrEnum):
    """What an amount counts, so that it can be written as people write it."""

    PERCENT = "percent"
    BYTES = "bytes"
    THOUSANDTHS = "thousandths"
    PIECES = "pieces"


@dataclasses.dataclass(frozen=True, slots=True)
class Deficit:
    """So much is wanted of something and so much is free; `name` is empty for the memory of a card."""

    name: str
    unit: Unit
    wanted: int
    free: int

    @property
    def missing(self) -> int:
        """How much would have to be freed."""
        return max(0, self.wanted - self.free)

    @property
    def missing_fraction(self) -> float:
        """Which fraction of the wanted is missing, from 0 to 1."""
        return self.missing / self.wanted if self.wanted else 0.0


CARDS: Final = "cards"
REPLICAS: Final = "replicas"
CORE: Final = "core"
RATIO: Final = "ratio"
_UNITS: Final = {
    facts.CPU: Unit.THOUSANDTHS,
    facts.MEMORY: Unit.BYTES,
    "ephemeral-storage": Unit.BYTES,
}


def unit_of(resource: str) -> Unit:
    """Return what a resource of a node is counted in."""
    return Unit.BYTES if resource.startswith("hugepages-") else _UNITS.get(resource, Unit.PIECES)
