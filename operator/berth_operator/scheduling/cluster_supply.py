"""What all nodes have together: the sums with which placement compares a node.

Every score that the search remembers depends on these sums, so that each change of them voids all
scores. An agent may change its Device many times a second, and nodes come and go; therefore the
sums are kept up to date node by node, but published at most once a second. For that long nodes
are scored by the sums of before; whether a pod fits never depends on them.

Nodes that can give nothing now (their agents are silent, no card is well, or they are cordoned)
do not count.
"""

import collections
import dataclasses
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from berth_crds import catalog
from berth_operator.scheduling import node_info, workload, workload_model
from berth_operator.scheduling.nodes import facts

T = TypeVar("T")

REFRESH_SECONDS: Final = 1.0
NO_MODEL: Final = ""  # Of a node without cards.


class Scale(NamedTuple):
    """The most cards of a node, and the most bytes of cards: to compare other nodes with."""

    cards: int = 1
    memory: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSupply:
    """What one node adds: its kind, and the bytes of its cards."""

    kind: workload_model.Kind
    memory: int

    @property
    def cards(self) -> int:
        """How many cards that can be given out it has."""
        return self.kind[1] // workload.GRID


def node_supply(info: node_info.NodeInfo) -> NodeSupply | None:
    """Return what a node adds; nothing where it has cards and no pod can have them."""
    if info.node is None or info.cordoned:
        return None
    given = dict(info.node.allocatable)
    cpu, memory = given.get(facts.CPU, 0), given.get(facts.MEMORY, 0)
    if info.device is None:
        return NodeSupply((NO_MODEL, 0, cpu, memory), 0)
    well = [card for card in info.device.cards if card.trouble is None]
    if not well or not info.in_service:
        return None
    kind = catalog.model_key(well[0].model), len(well) * workload.GRID, cpu, memory
    return NodeSupply(kind, sum(card.memory for card in well))


class OnceASecond:
    """Allows something at most once a second; on a clock on which no time passes, always."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = 0.0

    def allows(self) -> bool:
        """Whether it may be done now; it counts as done."""
        if 0 < (now := self._clock()) - self._last < REFRESH_SECONDS:
            return False
        self._last = now
        return True


class ClusterSupply:
    """The sums over all nodes, by what each of them adds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.version = 0  # Rises whenever new sums are published.
        self._pace = OnceASecond(clock)
        self._parts: dict[str, NodeSupply] = {}  # By node.
        self._kinds: collections.Counter[workload_model.Kind] = collections.Counter()
        self._cards: collections.Counter[int] = collections.Counter()
        self._memory: collections.Counter[int] = collections.Counter()
        self._behind = False
        self._seen: tuple[workload_model.Supply, Scale] | None = None

    def update(self, node: str, added: NodeSupply | None) -> None:
        """Update what a node adds."""
        before = self._parts.pop(node, None)
        if added is not None:
            self._parts[node] = added
        if added == before:
            return
        for one, sign in ((before, -1), (added, 1)):
            if one is not None:
                _count(self._kinds, one.kind, sign)
                _count(self._cards, one.cards, sign)
                _count(self._memory, one.memory, sign)
        if self._seen is not None and _changes_what_is_seen(before, added, self._seen[1]):
            self._behind = True
            self.refresh()

    def refresh(self) -> None:
        """Publish new sums, unless that was done within the last second; for events and between rounds."""
        if self._behind and self._pace.allows():
            self._behind, self._seen = False, None
            self.version += 1

    def seen(self) -> tuple[workload_model.Supply, Scale]:
        """Return the published sums, and the most cards and bytes of a node; as of this version."""
        if self._seen is None:
            largest = Scale(max(1, max(self._cards, default=1)), max(1, max(self._memory, default=1)))
            self._seen = workload_model.supply_of(self._kinds), largest
        return self._seen


def _changes_what_is_seen(before: NodeSupply | None, added: NodeSupply | None, largest: Scale) -> bool:
    """Whether what one node adds now may change the sums or the largest nodes."""
    if before is None or added is None or before.kind != added.kind:
        return True
    return max(before.memory, added.memory) >= largest.memory


def _count(counts: collections.Counter[T], what: T, sign: int) -> None:
    counts[what] += sign
    if not counts[what]:
        del counts[what]
