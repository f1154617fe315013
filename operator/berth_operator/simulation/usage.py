"""How much of the cards is given out: of a node, of a cluster, over time.

A card counts by the larger of its two parts that are given out, compute and memory; one
that is cut into instances or replicas by the part of those that are in use. Cards that a
pod holds without a readable record count as given out, though nobody can name them.
"""

import dataclasses

from berth_operator.scheduling import node_info
from berth_operator.scheduling.devices import device_view, facts
from berth_operator.scheduling.inventory import Inventory


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """Cards that are there, cards of which anything is given out, and cards given out in all."""

    cards: int = 0
    touched: int = 0
    given: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        """Add another node's."""
        return Usage(self.cards + other.cards, self.touched + other.touched, self.given + other.given)

    def __sub__(self, other: "Usage") -> "Usage":
        """Take a node's away."""
        return Usage(self.cards - other.cards, self.touched - other.touched, self.given - other.given)


NOTHING = Usage()


def of_node(info: node_info.Row | None) -> Usage:
    """Count one node's."""
    if info is None or info.device is None:
        return NOTHING
    view = info.view()
    parts = [of_card(view, card) for card in view.device.cards]
    withheld = min(view.withheld, parts.count(0.0))
    return Usage(len(parts), len(parts) - parts.count(0.0) + withheld, sum(parts) + withheld)


def of_card(view: device_view.View, card: facts.Card) -> float:
    """Say which part of a card is given out."""
    if card.mig:
        used = sum(one.size for one in card.instances if view.usage(one.uuid) != device_view.UNUSED)
        return used / max(1, sum(one.size for one in card.instances))
    usage = view.usage(card.uuid)
    if card.replicas > 1:
        return min(1.0, usage.pods / card.replicas)
    return min(1.0, max(usage.core / device_view.FULL_CORE, usage.memory / max(1, card.memory)))


def of_all(inventory: Inventory) -> Usage:
    """Count a whole cluster's."""
    return sum((of_node(info) for info in inventory.each()), NOTHING)


class Meter:
    """Follows what is given out through time, looking only at nodes that changed."""

    def __init__(self) -> None:
        self.total = NOTHING
        self.card_seconds = 0.0
        self.given_seconds = 0.0
        self.peak = 0.0
        self._nodes: dict[str, Usage] = {}
        self._since = 0.0

    def pass_time(self, now: float) -> None:
        """Let time pass in which nothing changes."""
        self.card_seconds += self.total.cards * (now - self._since)
        self.given_seconds += self.total.given * (now - self._since)
        self._since = now

    def look(self, inventory: Inventory, changed: set[str] | None) -> None:
        """Count the nodes that changed anew, or all."""
        for name in sorted(self._nodes.keys() | inventory.index.keys() if changed is None else changed):
            found = of_node(inventory.row(name))
            self.total = self.total + found - self._nodes.get(name, NOTHING)
            self._nodes[name] = found
        self.peak = max(self.peak, self.total.given)

    @property
    def mean(self) -> float:
        """Part of the cards that was given out, as a mean over time."""
        return self.given_seconds / self.card_seconds if self.card_seconds else 0.0
