"""What an inventory says, as plain values: two that say the same are as good as equal.

Which row a node has, in which order columns and models came, how wide the tables grew:
none of that is knowledge, so none of it is told.
"""

from typing import Any

import numpy as np

from berth_operator.scheduling import inventory


def told(picture: inventory.Inventory) -> dict[str, dict[str, Any]]:
    """Tell all that an inventory knows, node by node."""
    return {row.name: _node(picture, row) for row in picture.each()}


def _node(picture: inventory.Inventory, row: inventory.Row) -> dict[str, Any]:
    at = picture.index[row.name]
    cards = row.device.cards if row.device is not None else ()
    numbers = {
        what: {name: int(table[at, column]) for name, column in picture.columns.items()}
        for what, table in (("allocatable", picture.allocatable), ("used", picture.used))
    }
    return {
        "node": row.node,
        "device": row.device,
        "silent": row.silent,
        "holds": dict(row.holds),
        "found by uid": {uid: picture.hold(uid) for uid in row.holds},
        "known": bool(picture.known[at]),
        "allocatable": {name: n for name, n in numbers["allocatable"].items() if n != inventory.ABSENT},
        "used": {name: n for name, n in numbers["used"].items() if n},
        "free": [card.uuid for slot, card in enumerate(cards) if picture.free[at, slot]],
        "free beyond the cards": int(picture.free[at, len(cards) :].sum()),
        "withheld": int(picture.withheld[at]),
        "free cards": int(picture.free_cards[at]),
    }


def leftovers(picture: inventory.Inventory) -> list[str]:
    """Name what is left in rows that belong to no node: it should be nothing."""
    tables: dict[str, tuple[Any, int]] = {
        "known": (picture.known, 0),
        "allocatable": (picture.allocatable, inventory.ABSENT),
        "used": (picture.used, 0),
        "free": (picture.free, 0),
        "model": (picture.model, inventory.ABSENT),
        "withheld": (picture.withheld, 0),
        "free cards": (picture.free_cards, 0),
    }
    vacant = [at for at in range(len(picture.known)) if at >= picture.size or picture.rows[at] is None]
    return [name for name, (table, empty) in tables.items() if np.any(table[vacant] != empty)]
