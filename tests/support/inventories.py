"""The contents of an inventory as plain values: two with equal contents are equivalent.

The row of a node, the order of columns and models, and the size of the tables do not count.
"""

from typing import Any, Final

import numpy as np

from berth_operator.scheduling import holds, node_info, node_table, workload_model
from berth_operator.scheduling.constraints import resources
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts

# The values of each table in a row of no node.
EMPTY: Final = {
    "has_node": 0,
    "allocatable": node_table.ABSENT,
    "left": node_table.ABSENT,
    "model": node_table.ABSENT,
    "state": 1,
    "withheld": 0,
    "replicas": 0,
    "instances": 0,
    "others": 0,
    "pieces_memory": 0,
    **dict.fromkeys(node_table.CARD_TABLES, 0),
    **dict.fromkeys(node_table.LOAD_TABLES, node_table.ABSENT),
}


def contents(inventory: Inventory) -> dict[str, dict[str, Any]]:
    """Return all that an inventory knows, by node."""
    return {info.name: _node(inventory, info) for info in inventory.each()}


def _node(inventory: Inventory, info: node_info.NodeInfo) -> dict[str, Any]:
    named = {
        "node": info.node,
        "device": info.device,
        "silent": info.agent_not_ready,
        "holds": dict(info.holds),
        "found by uid": {uid: inventory.hold(uid) for uid in info.holds},
        "view": info.view(),
    }
    return named | (_row(inventory, info) if info.present else {})


def _row(inventory: Inventory, info: node_info.NodeInfo) -> dict[str, Any]:
    at, table = inventory.index[info.name], inventory.table
    cards = info.device.cards if info.device is not None else ()
    whole = table.unused[at]
    return {
        "has_node": bool(table.has_node[at]),
        "allocatable": _named(table.allocatable[at], table.resources, empty=node_table.ABSENT),
        "left": _named(table.left[at], table.resources, empty=node_table.ABSENT),
        "cards": {card.uuid: _card(table, at, slot) for slot, card in enumerate(cards)},
        "beyond the cards": [
            name for name in node_table.CARD_TABLES if getattr(table, name)[at, len(cards) :].any()
        ],
        "state": node_table.NO_DEVICES_REASONS[table.state[at]],
        "replicas": int(table.replicas[at]),
        "instances": _named(table.instances[at], table.profiles),
        "others": _named(table.others[at], table.types),
        "free": [card.uuid for slot, card in enumerate(cards) if whole[slot]],
        "withheld": int(table.withheld[at]),
        "free cards": max(0, int(whole.sum()) - int(table.withheld[at])),
    }


def _named(numbers: node_table.Numbers, names: node_table.Names, *, empty: int = 0) -> dict[str, int]:
    return {name: int(numbers[at]) for name, at in names.of.items() if numbers[at] != empty}


def _card(table: node_table.NodeTable, at: int, slot: int) -> dict[str, Any]:
    models = {number: name for name, number in table.models.of.items()}
    numbers = {name: getattr(table, name)[at, slot].item() for name in node_table.CARD_TABLES}
    return numbers | {"model": models[int(table.model[at, slot])]}


def workload(inventory: Inventory) -> dict[str, Any]:
    """Return the recorded workload, and the workload model that results from it."""
    known, supplies = inventory.workload, inventory._cluster_supply
    return {
        "pods": len(known),
        "sizes": {size: int(count) for size, count in enumerate(known.sizes) if count},
        "asked": (known.cpu, known.memory, known.percent, dict(known.by_models)),
        "workload_model": workload_model.learn(known, workload_model.supply_of(supplies._kinds)),
        "largest": (max(supplies._cards, default=1), max(supplies._memory, default=1)),
    }


def free_cards(inventory: Inventory, at: str = "n1") -> int:
    """Return the number of free cards of a node."""
    found: int = contents(inventory)[at]["free cards"]
    return found


def open_cards(inventory: Inventory, at: str = "n1") -> list[str]:
    """Return the free cards of a node that accept new pods; none while the node is closed."""
    info = inventory.node(at)
    if info is None or info.device is None or not info.in_service or info.withheld >= holds.ALL_CARDS:
        return []
    return [one.uuid for one in info.device.cards if one.trouble is None and one.uuid not in info.used]


def room(inventory: Inventory, demand: facts.NodeDemand) -> list[bool]:
    """Return which rows have the resources left."""
    found: list[bool] = resources.have_enough(inventory, np.arange(inventory.size), demand).tolist()
    return found


def leftovers(inventory: Inventory) -> list[str]:
    """Return the tables with values in rows of no node: there should be none."""
    table = inventory.table
    vacant = [at for at in range(len(table.has_node)) if at >= inventory.size or inventory.infos[at] is None]
    return [name for name, empty in EMPTY.items() if np.any(getattr(table, name)[vacant] != empty)]
