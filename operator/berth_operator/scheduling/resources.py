"""What nodes have left of cpu, memory and whatever else they advertise, asked of many of them at once."""

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts


def room(inventory: Inventory, rows: node_table.Rows, demand: facts.Demand) -> node_table.Mask:
    """Return which nodes have the resources left."""
    table = inventory.table
    able: node_table.Mask = table.known[rows].copy()
    for name, amount in demand.amounts:
        able &= has(table, rows, name, amount)
    for name, amount in demand.served:
        able &= _served_room(table, rows, name, amount)
    return able


def left(table: node_table.Columns, rows: node_table.Rows, name: str) -> node_table.Numbers:
    """Return how much of a resource the nodes have left; ABSENT where they do not advertise it."""
    at = table.resources.get(name)
    if at is None:
        return np.full(table.height(rows), node_table.ABSENT, dtype=np.int64)
    some = table.allocatable[rows, at] >= 0
    found: node_table.Numbers = np.where(some, np.maximum(table.left[rows, at], 0), node_table.ABSENT)
    return found


def has(table: node_table.Columns, rows: node_table.Rows, name: str, amount: int) -> node_table.Mask:
    """Return which nodes have so much of a resource left; what is absent is less than any demand."""
    at = table.resources.get(name)
    if at is None:
        return np.zeros(table.height(rows), dtype=np.bool_)
    able: node_table.Mask = table.left[rows, at] >= amount
    return able


def _served_room(table: node_table.Columns, rows: node_table.Rows, name: str, amount: int) -> node_table.Mask:
    """Judge a name that Berth serves: only where the node advertises it too does it count."""
    at = table.resources.get(name)
    if at is None:
        return np.ones(table.height(rows), dtype=np.bool_)
    room_: node_table.Mask = (table.left[rows, at] >= amount) | (table.allocatable[rows, at] < 0)
    return room_
