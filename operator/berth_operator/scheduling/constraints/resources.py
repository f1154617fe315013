"""Whether the node has the cpu, memory, pods and other resources left that the pod asks for.

Of the names that Berth serves by the Device only those count that the node advertises too.
"""

from collections.abc import Iterator

import numpy as np

from berth_crds import aliases
from berth_operator.scheduling import node_table, queued_pods
from berth_operator.scheduling.constraints.constraint import Constraint, Objection
from berth_operator.scheduling.constraints.gaps import gap
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.wording import have, short


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
    words={Reason.INSUFFICIENT_RESOURCE: _lacking},
    brief={Reason.INSUFFICIENT_RESOURCE: "lacks"},
)
