"""Whether the node has the cpu, memory, pods and other resources left that the pod asks for.

Of the names that Berth serves by the Device only those count that the node advertises too.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import ClassVar

import numpy as np

from berth_crds import aliases
from berth_operator.scheduling import changes, node_table, queued_pods
from berth_operator.scheduling.changes import Option, Situation
from berth_operator.scheduling.constraints.constraint import Attempt, Constraint, Objection
from berth_operator.scheduling.constraints.gaps import gap
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import Deficit, unit_of
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.wording import amount as written
from berth_operator.scheduling.wording import have, less, short


def able(query: Query) -> node_table.Mask:
    """Return the nodes that have the resources left."""
    return room(query.inventory, query.rows, query.question.demand)


def room(inventory: Inventory, rows: node_table.Rows, demand: facts.Demand) -> node_table.Mask:
    """Return the nodes that have left what is demanded."""
    table = inventory.table
    mask: node_table.Mask = table.known[rows].copy()
    for name, amount in demand.amounts:
        mask &= _has(table, rows, name, amount)
    for name, amount in demand.served:
        if (column := table.resources.get(name)) is not None:
            mask &= (table.left[rows, column] >= amount) | (table.allocatable[rows, column] < 0)
    return mask


def _has(table: node_table.NodeTable, rows: node_table.Rows, name: str, amount: int) -> node_table.Mask:
    """Return the nodes that have so much left; what is absent is less than any demand."""
    column = table.resources.get(name)
    if column is None:
        return np.zeros(table.height(rows), dtype=np.bool_)
    mask: node_table.Mask = table.left[rows, column] >= amount
    return mask


def left(table: node_table.NodeTable, rows: node_table.Rows, name: str) -> node_table.Numbers:
    """Return how much of a resource the nodes have left; ABSENT where they do not advertise it."""
    given = allocatable(table, rows, name)
    column = table.resources.get(name)
    if column is None:
        return given
    found: node_table.Numbers = np.where(given >= 0, np.maximum(table.left[rows, column], 0), given)
    return found


def allocatable(table: node_table.NodeTable, rows: node_table.Rows, name: str) -> node_table.Numbers:
    """Return how much of a resource the nodes have in all; ABSENT where they do not advertise it."""
    column = table.resources.get(name)
    if column is None:
        return np.full(table.height(rows), node_table.ABSENT, dtype=np.int64)
    given: node_table.Numbers = table.allocatable[rows, column]
    return given


def standing(query: Query) -> Iterator[Objection]:
    """Yield the nodes that have less in all than is asked."""
    demand = query.question.demand
    for name, amount in demand.amounts:
        given = allocatable(query.table, query.rows, name)
        yield Objection(given < amount, Reason.INSUFFICIENT_RESOURCE, name, never=True)
    for name, amount in demand.served:
        given = allocatable(query.table, query.rows, name)
        short_ = (given != node_table.ABSENT) & (given < amount)
        yield Objection(short_, Reason.INSUFFICIENT_RESOURCE, name, never=True)


def passing(query: Query) -> Iterator[Objection]:
    """Yield the nodes that have too little left."""
    demand = query.question.demand
    for name, amount in demand.amounts:
        yield Objection(~_has(query.table, query.rows, name, amount), Reason.INSUFFICIENT_RESOURCE, name)
    for name, amount in demand.served:
        there = left(query.table, query.rows, name)
        yield Objection((there != node_table.ABSENT) & (there < amount), Reason.INSUFFICIENT_RESOURCE, name)


def gaps(query: Query) -> Iterator[node_table.Scores]:
    """Yield what part of each resource is missing."""
    demand = query.question.demand
    for name, amount in demand.amounts + demand.served:
        there = left(query.table, query.rows, name)
        yield np.where(there == node_table.ABSENT, 0, gap(there, amount))


# ---------------------------------------------------------------- what would lift it


def deficits(situation: Situation) -> Iterator[Deficit]:
    """Yield the resources of which a node has too little left, which may be less than nothing."""
    demand, given = situation.demand, dict(situation.node.allocatable)
    for name, amount in demand.amounts + tuple(one for one in demand.served if one[0] in given):
        left = max(given.get(name, 0), 0) - sum(dict(hold.amounts).get(name, 0) for hold in situation.holds)
        if left < amount:
            yield Deficit(name, unit_of(name), amount, left)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FreeResource(changes.Change):
    """Pods of the node give up what is missing of a resource."""

    rank: ClassVar = changes.Rank.FREE_RESOURCE
    deficit: Deficit

    def apply(self, situation: Situation) -> Situation:
        """Return the situation in which pods hold less, in their order as much as they can."""
        return dataclasses.replace(situation, holds=tuple(self._reduced(situation.holds)))

    def _reduced(self, holds: Iterable[Hold]) -> Iterator[Hold]:
        missing = self.deficit.missing
        for hold in holds:
            held = dict(hold.amounts)
            taken = min(held.get(self.deficit.name, 0), missing)
            missing -= taken
            if taken:
                held[self.deficit.name] -= taken
            yield dataclasses.replace(hold, amounts=tuple(held.items())) if taken else hold

    def clause(self) -> str:
        """Return how much would have to be freed; of the room for pods, how many pods would have to end."""
        missing, node = self.deficit.missing, short(self.node)
        if self.deficit.name == facts.PODS:
            return f"{missing} {'pod' if missing == 1 else 'pods'} ended on {node}"
        return f"{written(self.deficit.unit, missing)} {short(self.deficit.name)} were freed on {node}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AskLessResource(changes.Change):
    """The pod asks for less of a resource of the node."""

    rank: ClassVar = changes.Rank.ASK_LESS
    deficit: Deficit

    def apply(self, situation: Situation) -> Situation:
        """Return the situation in which the pod asks for what there is."""
        amounts = dict(situation.demand.amounts) | {self.deficit.name: self.deficit.free}
        demand = dataclasses.replace(situation.demand, amounts=tuple(amounts.items()))
        return dataclasses.replace(situation, demand=demand)

    def clause(self) -> str:
        """Return how much it would ask for."""
        return less(self.deficit)


def relaxations(attempt: Attempt) -> Iterator[Option]:
    """Yield that the pod asks for no more of a resource than some node has left; it is always one pod."""
    for name, amount in attempt.query.question.demand.amounts:
        there = left(attempt.query.table, np.array(attempt.alone(), dtype=np.int64), name)
        amounts = np.unique(there[(there > 0) & (there < amount)])[::-1].tolist()
        lacking = [Deficit(name, unit_of(name), amount, one) for one in amounts if name != facts.PODS]
        if lacking:
            yield Option([AskLessResource(deficit=one, size=one.part) for one in lacking])


def remedies(situation: Situation, _: object) -> Iterator[Option]:
    """Yield for each resource that pods give up what is missing, where they hold so much.

    Which pods end matters where cards are withheld: a free one may be one that must be left alone.
    """
    for lacking in deficits(situation):
        held = sum(dict(hold.amounts).get(lacking.name, 0) for hold in situation.holds)
        unsure = lacking.name == facts.PODS and any(hold.withheld for hold in situation.holds)
        if held >= lacking.missing and not unsure:
            freed = FreeResource(node=situation.node.name, deficit=lacking, size=min(1.0, lacking.part))
            yield Option([freed])


def _lacking(nodes: int, _pod: queued_pods.Candidate, detail: str) -> str:
    if detail == facts.PODS:
        return f"{have(nodes)} no room for another pod"
    meant = aliases.closest_nvidia_name(detail)
    hint = f" (did you mean {meant}?)" if meant else ""
    return f"{nodes} {'lacks' if nodes == 1 else 'lack'} {short(detail)}{hint}"


CONSTRAINT = Constraint(
    name="resources",
    able=able,
    standing=standing,
    passing=passing,
    gaps=gaps,
    relaxations=relaxations,
    remedies=remedies,
    words={Reason.INSUFFICIENT_RESOURCE: _lacking},
    brief={Reason.INSUFFICIENT_RESOURCE: "lacks"},
)
