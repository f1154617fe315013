"""The picture a decision is made on: nodes, their resources, their cards, who holds what.

It is columnar, one row for each node and one slot for each card of it, in numpy arrays,
so that a question to thousands of nodes is a handful of vector operations. Only the
ledger changes it, and nobody does while a decision reads it; a what-if is `charge` and
then `release`. Every node has one row from the moment anything names it (its Node, its
Device or a pod bound to it, in whatever order they arrive) until nothing does.
"""

import dataclasses
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from berth_crds import catalog
from berth_operator.scheduling import decisions
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import affinity, facts, taints

ABSENT: Final = -1  # A resource that the node does not advertise: less than any demand.
BASE_COLUMNS: Final = (facts.CPU, facts.MEMORY, facts.PODS)
ROWS: Final = 16
SLOTS: Final = 8
MOST_SPOTS: Final = 1024  # Different wheres remembered at once.

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class Card:
    """One card as its agent published it; `trouble` is why it takes no new pod."""

    uuid: str
    minor: int
    model: str
    memory: int
    trouble: decisions.Reason | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """All cards of a node, in the order of their minors; `failed` tells which source of the agent is down."""

    node: str
    cards: tuple[Card, ...] = ()
    failed: str = ""


@dataclasses.dataclass(slots=True)
class Row:
    """Everything about one node that is not a number."""

    name: str
    node: facts.Node | None = None
    device: Device | None = None
    silent: bool = True
    holds: dict[str, Hold] = dataclasses.field(default_factory=dict)
    used: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Whether nothing names this node any more."""
        return self.node is None and self.device is None and not self.holds

    @property
    def takes_cards(self) -> bool:
        """Whether its cards may be given out at all."""
        return self.device is not None and not self.device.failed and not self.silent


class Inventory:
    """Nodes, cards and holds."""

    def __init__(self) -> None:
        self.columns: dict[str, int] = {name: at for at, name in enumerate(BASE_COLUMNS)}
        self.rows: list[Row | None] = []
        self.index: dict[str, int] = {}
        self.models: dict[str, int] = {}
        self.known: Mask = np.zeros(ROWS, dtype=np.bool_)
        self.allocatable: Numbers = np.full((ROWS, len(self.columns)), ABSENT, dtype=np.int64)
        self.used: Numbers = np.zeros((ROWS, len(self.columns)), dtype=np.int64)
        self.free: Mask = np.zeros((ROWS, SLOTS), dtype=np.bool_)
        self.model: Numbers = np.full((ROWS, SLOTS), ABSENT, dtype=np.int64)
        self.withheld: Numbers = np.zeros(ROWS, dtype=np.int64)
        self.free_cards: Numbers = np.zeros(ROWS, dtype=np.int64)
        self._rank: Numbers | None = None
        self._spots: dict[facts.Where, Mask] = {}
        self._holders: dict[str, int] = {}
        self._vacant: list[int] = []

    def __repr__(self) -> str:
        """Tell the state in words."""
        return f"<Inventory: {len(self.index)} nodes, {len(self._holders)} holds>"

    # ------------------------------------------------------------ reading

    @property
    def size(self) -> int:
        """Rows in use, vacant ones between them included."""
        return len(self.rows)

    def row(self, name: str) -> Row | None:
        """Look a node up by name."""
        at = self.index.get(name)
        return self.rows[at] if at is not None else None

    def each(self) -> Iterable[Row]:
        """Go through all nodes, by name."""
        return (row for _, row in sorted((row.name, row) for row in self.rows if row is not None))

    def hold(self, uid: str) -> Hold | None:
        """Look a pod's hold up."""
        at = self._holders.get(uid)
        row = self.rows[at] if at is not None else None
        return row.holds[uid] if row is not None else None

    def rank(self) -> Numbers:
        """Give each row its place in the order of names: the last tie-breaker."""
        if self._rank is None or len(self._rank) != self.size:
            names = [row.name if row else "" for row in self.rows]
            self._rank = np.empty(self.size, dtype=np.int64)
            self._rank[sorted(range(self.size), key=names.__getitem__)] = np.arange(self.size)
        return self._rank

    def spots(self, where: facts.Where) -> Mask:
        """Tell which nodes a pod's selector, affinity and tolerations accept; kept until a node changes."""
        mask = self._spots.get(where)
        if mask is None:
            if len(self._spots) >= MOST_SPOTS:
                self._spots.clear()
            accepted = (
                row is not None and row.node is not None and accepts(row.node, where) for row in self.rows
            )
            mask = self._spots[where] = np.fromiter(accepted, dtype=np.bool_, count=self.size)
        return mask

    def room(self, demand: facts.Demand) -> Mask:
        """Tell which nodes have the resources left."""
        mask = self.known[: self.size].copy()
        for name, amount in demand.amounts:
            mask &= self._left(name) >= amount
        for name, amount in demand.served:
            if name in self.columns:
                advertised = self.allocatable[: self.size, self.columns[name]] != ABSENT
                mask &= ~advertised | (self._left(name) >= amount)
        return mask

    def free_matching(self, models: frozenset[str]) -> Mask:
        """Tell for each node and slot whether the card is free and of one of the models (of any, if none)."""
        free = self.free[: self.size]
        if not models:
            return free
        keys = {catalog.model_key(model) for model in models}
        wanted = [self.models[key] for key in keys if key in self.models]
        matching: Mask = np.isin(self.model[: self.size], wanted)
        return free & matching

    def _left(self, name: str) -> Numbers:
        at = self.columns.get(name)
        if at is None:
            return np.full(self.size, ABSENT, dtype=np.int64)
        left: Numbers = self.allocatable[: self.size, at] - self.used[: self.size, at]
        return left

    # ------------------------------------------------------------ changing: nodes and cards

    def put_node(self, node: facts.Node) -> None:
        """Take a node's new state."""
        at = self._at(node.name)
        self._row(at).node = node
        self.known[at] = True
        columns = {self._column(name): amount for name, amount in node.allocatable}
        self.allocatable[at] = ABSENT
        for column, amount in columns.items():
            self.allocatable[at, column] = amount
        self._spots.clear()

    def drop_node(self, name: str) -> None:
        """Forget a node; its Device and holds stay as long as they exist."""
        at = self.index.get(name)
        if at is None:
            return
        self._row(at).node = None
        self.known[at] = False
        self.allocatable[at] = ABSENT
        self._spots.clear()
        self._vacate_if_idle(at)

    def put_device(self, device: Device) -> None:
        """Take what an agent published."""
        at = self._at(device.node)
        self._row(at).device = device
        self._widen_slots(len(device.cards))
        self.model[at] = ABSENT
        for slot, card in enumerate(device.cards):
            self.model[at, slot] = self.models.setdefault(catalog.model_key(card.model), len(self.models))
        self._recount(at)

    def drop_device(self, node: str) -> None:
        """Forget a node's cards."""
        at = self.index.get(node)
        if at is None:
            return
        row = self._row(at)
        row.device, row.silent = None, True  # Whoever publishes anew must be heard anew.
        self.model[at] = ABSENT
        self._recount(at)
        self._vacate_if_idle(at)

    def set_silent(self, node: str, silent: bool) -> None:  # noqa: FBT001  the value is the message
        """Note whether a node's agent is silent."""
        at = self.index.get(node)
        if at is not None:
            self._row(at).silent = silent
            self._recount(at)

    # ------------------------------------------------------------ changing: holds

    def charge(self, hold: Hold) -> None:
        """Take what a pod holds from its node."""
        if hold.uid in self._holders:
            raise ValueError(f"{hold.title} holds something already")
        at = self._at(hold.node)
        self._holders[hold.uid] = at
        self._row(at).holds[hold.uid] = hold
        self._use(at, hold.amounts, 1)
        if hold.shares or hold.withheld:
            self._recount(at)

    def release(self, uid: str) -> Hold:
        """Give back what a pod held."""
        at = self._holders.pop(uid)
        hold = self._row(at).holds.pop(uid)
        self._use(at, hold.amounts, -1)
        if hold.shares or hold.withheld:
            self._recount(at)
        self._vacate_if_idle(at)
        return hold

    def _use(self, at: int, amounts: facts.Amounts, sign: int) -> None:
        used = self._row(at).used
        for name, amount in amounts:
            used[name] = used.get(name, 0) + sign * amount
            column = self._column(name)  # First, for it may widen the table.
            self.used[at, column] = min(used[name], facts.LARGEST)  # Exact sums may exceed 64 bits.

    # ------------------------------------------------------------ rows, columns, slots

    def _row(self, at: int) -> Row:
        row = self.rows[at]
        assert row is not None, "a row in use"  # noqa: S101
        return row

    def _at(self, name: str) -> int:
        at = self.index.get(name)
        if at is None:
            at = self._vacant.pop() if self._vacant else self._append()
            self.rows[at] = Row(name)
            self.index[name] = at
            self._rank = None
            self._spots.clear()
        return at

    def _append(self) -> int:
        self.rows.append(None)
        if len(self.rows) > len(self.known):
            self._double_rows()
        return len(self.rows) - 1

    def _vacate_if_idle(self, at: int) -> None:
        row = self._row(at)
        if row.idle:
            del self.index[row.name]
            self.rows[at] = None
            self.used[at] = 0
            self._vacant.append(at)
            self._rank = None
            self._spots.clear()

    def _double_rows(self) -> None:
        more = len(self.known)
        self.known = np.pad(self.known, (0, more))
        self.withheld = np.pad(self.withheld, (0, more))
        self.free_cards = np.pad(self.free_cards, (0, more))
        self.free = np.pad(self.free, ((0, more), (0, 0)))
        self.used = np.pad(self.used, ((0, more), (0, 0)))
        self.model = np.pad(self.model, ((0, more), (0, 0)), constant_values=ABSENT)
        self.allocatable = np.pad(self.allocatable, ((0, more), (0, 0)), constant_values=ABSENT)

    def _widen_slots(self, count: int) -> None:
        more = count - self.free.shape[1]
        if more > 0:
            self.free = np.pad(self.free, ((0, 0), (0, more)))
            self.model = np.pad(self.model, ((0, 0), (0, more)), constant_values=ABSENT)

    def _column(self, name: str) -> int:
        at = self.columns.get(name)
        if at is None:
            at = self.columns[name] = len(self.columns)
            self.used = np.pad(self.used, ((0, 0), (0, 1)))
            self.allocatable = np.pad(self.allocatable, ((0, 0), (0, 1)), constant_values=ABSENT)
        return at

    def _recount(self, at: int) -> None:
        """Work out anew which cards of one node are free: few, so no bookkeeping can go astray."""
        row = self._row(at)
        self.free[at] = False
        self.withheld[at] = sum(hold.withheld for hold in row.holds.values())
        if row.device is not None and row.takes_cards:
            held = held_uuids(row)
            for slot, card in enumerate(row.device.cards):
                self.free[at, slot] = card.trouble is None and card.uuid not in held
        self.free_cards[at] = max(0, int(self.free[at].sum()) - int(self.withheld[at]))


def held_uuids(row: Row) -> set[str]:
    """Name the cards of a node that somebody holds."""
    return {share.uuid for hold in row.holds.values() for share in hold.shares}


def accepts(node: facts.Node, where: facts.Where) -> bool:
    """Tell whether a node's labels, name and taints suit a pod."""
    return (
        taints.may_schedule(node, where.tolerations)
        and taints.untolerated(node, where.tolerations) is None
        and affinity.matches(where, node)
    )
