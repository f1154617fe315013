"""The rules in force: how nodes are ranked, and how long an agent may be silent.

A strategy is a plain function over the inventory that gives each node a number, the
lower the better. Adding one is a function and a line in the table.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

import numpy as np

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import inventory
from berth_operator.scheduling.nodes import facts

PERMILLE: Final = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """What a PlacementPolicy says, as the core uses it."""

    strategy: Strategy = Strategy.BINPACK
    grace_seconds: float = 40.0


def fullness(picture: inventory.Inventory) -> inventory.Numbers:
    """Rank nodes by how much is left on them: cards first, then cpu in thousandths of the node."""
    size = picture.size
    total = np.maximum(picture.allocatable[:size, picture.columns[facts.CPU]], 1)
    used = picture.used[:size, picture.columns[facts.CPU]]
    left = np.clip(PERMILLE - used * PERMILLE // total, 0, PERMILLE)
    score: inventory.Numbers = picture.free_cards[:size] * (PERMILLE + 1) + left
    return score


def binpack(picture: inventory.Inventory) -> inventory.Numbers:
    """Fill started nodes first, so that whole ones stay free."""
    return fullness(picture)


def spread(picture: inventory.Inventory) -> inventory.Numbers:
    """Use the emptiest node first, so that pods share least."""
    return -fullness(picture)


STRATEGIES: Final[dict[Strategy, Callable[[inventory.Inventory], inventory.Numbers]]] = {
    Strategy.BINPACK: binpack,
    Strategy.SPREAD: spread,
}
