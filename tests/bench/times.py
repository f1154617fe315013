"""How times are spread: the middle, what all but one in a hundred keep to, and the worst."""

import dataclasses
import math
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """Some times in three figures, all in seconds."""

    count: int
    p50: float
    p99: float
    worst: float


def spread(seconds: Sequence[float]) -> Spread:
    """Take the figures of at least one time."""
    ordered = sorted(seconds)
    return Spread(len(ordered), rank(ordered, 50), rank(ordered, 99), ordered[-1])


def rank(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent do not exceed: one that was measured, never a mean."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]
