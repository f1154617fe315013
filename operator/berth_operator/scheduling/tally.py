"""Why not, counted over all nodes at once: enough to say it in a sentence, and cheap.

Each node gives its first reason, in a fixed order: its place, its devices as a whole, its
cards, its other resources, and last what only a closer look showed. Which card of which
node, and what would have to change, is told by `explain`, which looks at each.

About its devices a node is asked ever more closely: whether there are enough of them at
all, enough that meet the conditions, enough that are large enough, enough that are well,
enough that are free. So what no patience can cure is said before what it can, and a node
that could never take the pod never says that it is full.
"""

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, questions, resources, search
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts

Why = tuple[Reason, str]
# Which cards are there, and which of them meet one condition after the other.
Fitting = tuple[tuple[Reason, node_table.Mask], ...]
OF_CARDS: Final = tuple(reason for reason in node_table.TROUBLES if reason is not None)
# The conditions on each card, in the order in which the judgement of one card asks them.
CONDITIONS: Final = (
    (Reason.MODEL_MISMATCH, ("models", "pattern", "avoid_models", "avoid_pattern")),
    (Reason.NOT_INCLUDED, ("uuids",)),
    (Reason.EXCLUDED, ("avoid_uuids",)),
    (Reason.TOO_SMALL, ("memory_at_least",)),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Pile:
    """Devices counted in pieces, and how many are asked: by node, in the order of `columns.PILES`."""

    wanted: int
    detail: str
    none: Why  # What is said where there are too few of them, used or not.
    left: node_table.Numbers
    well: node_table.Numbers
    in_all: node_table.Numbers
    trouble: node_table.Numbers


class NodeReasons:
    """One reason for each node, written once; 0 where there is none."""

    def __init__(self, size: int) -> None:
        self.code = np.zeros(size, dtype=np.int64)
        self.whys: dict[Why, int] = {}

    def mark(self, nodes: node_table.Mask, why: Why) -> None:
        """Add a reason for those of these nodes that have none yet."""
        fresh = nodes & (self.code == 0)
        if fresh.any():
            self.code[fresh] = self._number(why)

    def note(self, at: int, why: Why) -> None:
        """Add a reason for one node, if it has none yet."""
        if not self.code[at]:
            self.code[at] = self._number(why)

    def counts(self) -> tuple[Count, ...]:
        """Count the nodes of each reason, the most frequent first, and last those that may have no cards."""
        found = np.bincount(self.code, minlength=len(self.whys) + 1)[1:].tolist()
        counts = (Count(*why, nodes) for why, nodes in zip(self.whys, found, strict=True) if nodes)
        return tuple(sorted(counts, key=_importance))

    def _number(self, why: Why) -> int:
        return self.whys.setdefault(why, len(self.whys) + 1)


def _importance(count: Count) -> tuple[bool, int, str, str]:
    return count.reason is Reason.NOT_PUBLISHED, -count.nodes, count.reason, count.detail


def tally(inventory: Inventory, question: questions.Question, closer: Mapping[int, Why]) -> tuple[Count, ...]:
    """Count why each known node refuses; `closer` has what a closer look showed, by row.

    Nothing was found, so a node that gives no reason was not looked at for want of time.
    """
    reasons = judge(inventory, question, closer)
    reasons.mark(inventory.table.known[: inventory.size], (Reason.UNDECIDED, ""))
    return reasons.counts() or (Count(Reason.NO_NODES, "", 0),)


def judge(inventory: Inventory, question: questions.Question, closer: Mapping[int, Why]) -> NodeReasons:
    """Write down the first reason of each known node."""
    reasons = NodeReasons(inventory.size)
    rows = inventory.everything
    _about_place(reasons, inventory, question)
    if question.need.asked:
        _about_states(reasons, inventory, rows)
    fitting: Fitting = ()
    if counted_asks(question.need):
        fitting = tuple(fitting_cards(inventory, rows, question.conditions))
    _about_never(reasons, inventory, question, fitting)
    if question.need.asked:
        _about_devices(reasons, inventory, question, fitting)
    _about_resources(reasons, inventory, rows, question)
    for at, why in closer.items():
        reasons.note(at, why)
    reasons.code[~inventory.table.known[: inventory.size]] = 0
    return reasons


def _about_place(reasons: NodeReasons, inventory: Inventory, question: questions.Question) -> None:
    places = inventory.places(question.demand.where)
    for at, why in enumerate(places.reasons, start=1):
        reasons.mark(places.code == at, why)


def _about_states(reasons: NodeReasons, inventory: Inventory, rows: node_table.Rows) -> None:
    state = inventory.table.state[rows]
    for at, reason in enumerate(node_table.STATES):
        if reason is Reason.SOURCE_FAILED:
            _about_sources(reasons, inventory, state == at)
        elif reason is not None:
            reasons.mark(state == at, (reason, ""))


def _about_sources(reasons: NodeReasons, inventory: Inventory, failed: node_table.Mask) -> None:
    """Record which source failed; these nodes are few."""
    for at in np.flatnonzero(failed).tolist():
        device = inventory.device_at(at)
        reasons.note(at, (Reason.SOURCE_FAILED, device.failed if device else ""))


# ---------------------------------------------------------------- what there is at all


def _about_never(
    reasons: NodeReasons, inventory: Inventory, question: questions.Question, fitting: Fitting
) -> None:
    """Record what a node has too little of even with nothing used and nothing wrong."""
    table, rows = inventory.table, inventory.everything
    if fitting:
        _about_kinds_of_cards(reasons, table, rows, question.need, fitting)
    for pile in piles(table, rows, question.need):
        reasons.mark(pile.in_all < pile.wanted, pile.none)
    for name, short in never_enough(table, rows, question.demand):
        reasons.mark(short, (Reason.INSUFFICIENT_RESOURCE, name))


def piles(table: node_table.Columns, rows: node_table.Rows, need: requests.Need) -> Iterator[Pile]:
    """Count what is asked in pieces: replicas, MIG instances, and other devices of each type."""
    if need.replicas:
        counts = [getattr(table, name)[rows] for name in node_table.REPLICA_TABLES]
        yield Pile(need.replicas, "replicas", (Reason.TOO_FEW_CARDS, "replicas"), *counts)
    for one in need.instances:
        counts = _counts(table, rows, node_table.INSTANCE_TABLES, table.profiles.get(one.profile))
        yield Pile(one.count, f"MIG {one.profile}", (Reason.PROFILE_MISMATCH, one.profile), *counts)
    for name in need.parts:
        counts = _counts(table, rows, node_table.OTHER_TABLES, table.types.get(name))
        yield Pile(1, name, (Reason.NO_DEVICE, name), *counts)


def _counts(
    table: node_table.Columns, rows: node_table.Rows, names: tuple[str, ...], at: int | None
) -> list[node_table.Numbers]:
    if at is None:
        return [np.zeros(table.height(rows), dtype=np.int64) for _ in names]
    return [getattr(table, name)[rows, at] for name in names]


def never_enough(
    table: node_table.Columns, rows: node_table.Rows, demand: facts.Demand
) -> Iterator[tuple[str, node_table.Mask]]:
    """Yield for each resource which nodes have less in all than is asked."""
    for name, amount in demand.amounts:
        yield name, allocatable(table, rows, name) < amount
    for name, amount in demand.served:
        given = allocatable(table, rows, name)
        yield name, (given != node_table.ABSENT) & (given < amount)


def allocatable(table: node_table.Columns, at: node_table.Rows, name: str) -> node_table.Numbers:
    """Return how much of a resource nodes have in all; ABSENT where they do not advertise it."""
    column = table.resources.get(name)
    if column is None:
        return np.full(table.height(at), node_table.ABSENT, dtype=np.int64)
    given: node_table.Numbers = table.allocatable[at, column]
    return given


# ---------------------------------------------------------------- what is well, and what is left


def _about_devices(
    reasons: NodeReasons, inventory: Inventory, question: questions.Question, fitting: Fitting
) -> None:
    table, rows = inventory.table, inventory.everything
    counted = list(piles(table, rows, question.need))
    for pile in counted:
        _about_ill(reasons, pile)
    if fitting:
        _about_cards(reasons, table, rows, question.need, fitting[-1][1])
    for pile in counted:
        reasons.mark(pile.left < pile.wanted, (Reason.FULL, pile.detail))


def _about_ill(reasons: NodeReasons, pile: Pile) -> None:
    few = pile.well < pile.wanted
    for reason in OF_CARDS if few.any() else ():
        reasons.mark(few & (pile.trouble == node_table.TROUBLES.index(reason)), (reason, pile.detail))


# ---------------------------------------------------------------- cards


def fitting_cards(
    inventory: Inventory, rows: node_table.Rows, asked: requests.Conditions
) -> Iterator[tuple[Reason, node_table.Mask]]:
    """Yield which cards are there, and which of them meet one condition after the other."""
    there = inventory.table.model[rows] != node_table.ABSENT
    yield Reason.TOO_FEW_CARDS, there
    kept: dict[str, object] = {}
    for reason, fields in CONDITIONS:
        asked_here = {field: getattr(asked, field) for field in fields}
        if not any(asked_here.values()):
            continue
        kept |= asked_here
        part = dataclasses.replace(requests.ANY_CARD, **kept)  # type: ignore[arg-type]  # fields of its own
        meets = search.matching_cards(inventory, rows, part, among=there)
        yield reason, there if meets is None else meets


def counted_asks(need: requests.Need) -> list[requests.Gpus]:
    """List what is asked of the cards that are given out whole or by shares."""
    return [*([requests.cards(need.whole)] if need.whole else []), *need.largest]


def large_cards(table: node_table.Columns, rows: node_table.Rows, ask: requests.Gpus) -> node_table.Mask:
    """Return which cards could take one unit of an ask if nobody used them; a whole card is always whole."""
    total = table.total[rows]
    if ask.core > requests.WHOLE or ask.ratio > requests.WHOLE:
        return np.zeros(total.shape, dtype=np.bool_)
    least = 0 if ask.whole else 1 if ask.ratio else ask.memory
    large: node_table.Mask = total >= least
    return large


def _about_kinds_of_cards(
    reasons: NodeReasons,
    table: node_table.Columns,
    rows: node_table.Rows,
    need: requests.Need,
    fitting: Fitting,
) -> None:
    for reason, right in (*fitting, *undivided_cards(table, rows, fitting[-1][1])):
        reasons.mark(node_table.count(right) < need.least, (reason, ""))
    for short in too_small(table, rows, need, fitting[-1][1]):
        reasons.mark(short, (Reason.TOO_SMALL, ""))


def undivided_cards(
    table: node_table.Columns, rows: node_table.Rows, right: node_table.Mask
) -> Iterator[tuple[Reason, node_table.Mask]]:
    """Yield which of these cards are left without those of one mode after the other."""
    trouble = table.trouble[rows]
    if trouble.any():
        for mode in node_table.MODES:
            right = right & (trouble != node_table.TROUBLES.index(mode))
            yield mode, right


def too_small(
    table: node_table.Columns, rows: node_table.Rows, need: requests.Need, right: node_table.Mask
) -> Iterator[node_table.Mask]:
    """Yield which nodes have too few cards that are large enough: for each share, and for all together."""
    for ask in need.largest:  # A whole card is whole whatever its size.
        yield node_table.count(right & large_cards(table, rows, ask)) < ask.count
    if len(need.shares) > 1 and need.memory:
        yield node_table.total(table.total[rows] * right) < need.memory


def _about_cards(
    reasons: NodeReasons,
    table: node_table.Columns,
    rows: node_table.Rows,
    need: requests.Need,
    right: node_table.Mask,
) -> None:
    if table.trouble[rows].any():
        for ask in counted_asks(need):
            _about_trouble(reasons, table, rows, ask.count, right & large_cards(table, rows, ask))
    if need.whole:
        free = node_table.count(right & table.whole[rows])
        reasons.mark(free < need.whole, (Reason.FULL, ""))
        reasons.mark(free - table.withheld[rows] < need.whole, (Reason.WITHHELD, ""))
    for ask in need.largest:
        _about_room(reasons, table, rows, ask, right)
    if len(need.shares) > 1:
        together = search.room_together(table, rows, need, right & table.open[rows])
        reasons.mark(~together, (Reason.FULL, ""))


def _about_room(
    reasons: NodeReasons,
    table: node_table.Columns,
    rows: node_table.Rows,
    ask: requests.Gpus,
    right: node_table.Mask,
) -> None:
    few = node_table.count(search.share_room(table, rows, ask, right)) < ask.count
    if (few & (table.withheld[rows] > 0)).any():
        named = copy.copy(table)  # The same tables, but for the one that is put in place of withheld.
        named.withheld = np.zeros_like(table.withheld)
        room = node_table.count(search.share_room(named, rows, ask, right))
        reasons.mark(few & (room >= ask.count), (Reason.WITHHELD, ""))
    reasons.mark(few, (Reason.FULL, ""))


def _about_trouble(
    reasons: NodeReasons, table: node_table.Columns, rows: node_table.Rows, count: int, cards: node_table.Mask
) -> None:
    trouble = table.trouble[rows]
    few = (node_table.count(cards & (trouble == 0)) < count) & (reasons.code == 0)
    for reason in OF_CARDS if few.any() else ():
        troubled = (cards & (trouble == node_table.TROUBLES.index(reason))).any(axis=1)
        reasons.mark(few & troubled, (reason, ""))


# ---------------------------------------------------------------- other resources


def _about_resources(
    reasons: NodeReasons, inventory: Inventory, rows: node_table.Rows, question: questions.Question
) -> None:
    table = inventory.table
    for name, amount in question.demand.amounts:
        reasons.mark(~resources.has(table, rows, name, amount), (Reason.INSUFFICIENT_RESOURCE, name))
    for name, amount in question.demand.served:
        left = resources.left(table, rows, name)
        reasons.mark((left != node_table.ABSENT) & (left < amount), (Reason.INSUFFICIENT_RESOURCE, name))
