"""How much of the cards is allocated: of a node, of a cluster, over time.

A card counts by the larger of its allocated compute and memory; one with MIG instances or replicas
by the share of those that are in use. Cards that a pod withholds without naming them count as
allocated.
"""

import dataclasses

from berth_operator.scheduling import node_info
from berth_operator.scheduling.devices import device_view
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.inventory import Inventory


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """The number of cards, of those in use, and the sum of the allocated shares of cards."""

    cards: int = 0
    used_cards: int = 0
    allocated: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum of two usages."""
        return Usage(
            self.cards + other.cards, self.used_cards + other.used_cards, self.allocated + other.allocated
        )

    def __sub__(self, other: "Usage") -> "Usage":
        """Return the difference of two usages."""
        return Usage(
            self.cards - other.cards, self.used_cards - other.used_cards, self.allocated - other.allocated
        )


NOTHING = Usage()


def of_node(info: node_info.NodeInfo | None) -> Usage:
    """Return the usage of one node."""
    if info is None or info.device is None:
        return NOTHING
    view = info.view()
    parts = [of_card(view, card) for card in view.device.cards]
    withheld = min(view.withheld, parts.count(0.0))
    return Usage(len(parts), len(parts) - parts.count(0.0) + withheld, sum(parts) + withheld)


def of_card(view: device_view.View, card: PhysicalDevice) -> float:
    """Return the allocated share of a card, from 0 to 1."""
    if card.mig:
        used = sum(one.size for one in card.instances if view.usage(one.uuid) != device_view.UNUSED)
        return used / max(1, sum(one.size for one in card.instances))
    usage = view.usage(card.uuid)
    if card.replicas > 1:
        return min(1.0, usage.pods / card.replicas)
    return min(1.0, max(usage.core / device_view.FULL_CORE, usage.memory / max(1, card.memory)))


def of_all(inventory: Inventory) -> Usage:
    """Return the usage of a whole cluster."""
    return sum((of_node(info) for info in inventory.each()), NOTHING)


class UsageMeter:
    """Sums usage over time; only nodes that changed are counted again."""

    def __init__(self) -> None:
        self.total = NOTHING
        self.card_seconds = 0.0
        self.allocated_seconds = 0.0
        self.peak = 0.0
        self._nodes: dict[str, Usage] = {}
        self._since = 0.0

    def pass_time(self, now: float) -> None:
        """Add the time in which nothing changed."""
        self.card_seconds += self.total.cards * (now - self._since)
        self.allocated_seconds += self.total.allocated * (now - self._since)
        self._since = now

    def update(self, inventory: Inventory, changed: set[str] | None) -> None:
        """Count the nodes that changed again; without a set of them, all."""
        for name in sorted(self._nodes.keys() | inventory.index.keys() if changed is None else changed):
            found = of_node(inventory.node(name))
            self.total = self.total + found - self._nodes.get(name, NOTHING)
            self._nodes[name] = found
        self.peak = max(self.peak, self.total.allocated)

    @property
    def mean(self) -> float:
        """The allocated share of the cards, as a mean over time."""
        return self.allocated_seconds / self.card_seconds if self.card_seconds else 0.0
