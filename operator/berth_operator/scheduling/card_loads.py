"""The measured load of cards, written into the node table as long as it counts.

It is reported every few seconds by the minors of cards. A report counts until it is too old; then the cards
are as if nothing was measured. The load has a log of its own in the table, because only few pods
read it: for all others, remembered scores stay what they are.
"""

import collections
from collections.abc import Iterable, Mapping
from typing import Final

from berth_crds.card_load import NOTHING, CardLoad
from berth_operator.scheduling import node_info, node_table
from berth_operator.scheduling.devices import verdicts
from berth_operator.scheduling.inventory import Inventory

Loads = Mapping[int, CardLoad]  # By minor.
NO_LOADS: Final[Loads] = {}


class CardLoads:
    """What was reported last of each node, and when."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._loads: dict[str, Loads] = {}
        self._reported: collections.OrderedDict[str, float] = collections.OrderedDict()  # The oldest first.

    def __len__(self) -> int:
        """Count the nodes whose load counts."""
        return len(self._loads)

    @property
    def cards(self) -> int:
        """The number of cards of which a load counts."""
        return sum(map(len, self._loads.values()))

    def of(self, node: str) -> Loads:
        """Return what counts of a node."""
        return self._loads.get(node, NO_LOADS)

    def report(self, node: str, loads: Loads, now: float) -> bool:
        """Record what was measured of a node; return whether more memory of a card is free than before."""
        if not loads:
            return self.forget(node)
        self._loads[node] = loads
        self._confirm(node, now)
        return self.write(node)

    def confirm(self, node: str, now: float) -> bool:
        """Record that the same was measured again; return whether anything of the node counts at all."""
        if node not in self._loads:
            return False
        self._confirm(node, now)
        return True

    def _confirm(self, node: str, now: float) -> None:
        self._reported[node] = now
        self._reported.move_to_end(node)

    def forget(self, node: str) -> bool:
        """Let nothing count that was measured of a node; return what `report` does."""
        if self._loads.pop(node, None) is None:
            return False
        del self._reported[node]
        return self.write(node)

    def forget_all(self) -> bool:
        """Let nothing count that was measured of any node; return what `report` does."""
        freed = [self.forget(node) for node in list(self._loads)]
        return any(freed)

    def expire(self, before: float) -> bool:
        """Let nothing count that was reported before this time; return what `report` does."""
        freed = False
        while self._reported and (oldest := next(iter(self._reported.items())))[1] < before:
            freed |= self.forget(oldest[0])
        return freed

    def write(self, node: str) -> bool:
        """Write what counts of a node into the table, as after a change of its devices."""
        info = self._inventory.node(node)
        if info is None or info.device is None:
            return False
        found = self.of(node)
        loads = [found.get(one.minor, NOTHING) for one in info.device.cards]
        freed = _write(self._inventory.table, info, loads)
        _show(info, (one.free_memory for one in loads))
        return freed


def _write(table: node_table.NodeTable, info: node_info.NodeInfo, loads: list[CardLoad]) -> bool:
    """Write the load of each slot; return whether more memory of a card counts as free than before."""
    row, count = info.row, len(loads)
    *percents, free = zip(*loads, strict=True) if loads else [()] * len(node_table.LOAD_TABLES)
    changed = False
    for name, figures in zip(node_table.LOAD_TABLES, percents, strict=False):
        known = getattr(table, name)[row, :count]
        if tuple(known.tolist()) != figures:
            known[:] = figures
            changed = True
    freed = _write_free(table, row, free)
    if changed or freed is not None:
        table.load_log.touch(row)
    return bool(freed)


def _show(info: node_info.NodeInfo, figures: Iterable[int]) -> None:
    """Have the node's views say what is measured free of each card."""
    cards = info.device.cards if info.device is not None else ()
    info.measured_free = {
        card.uuid: free for card, free in zip(cards, figures, strict=True) if free != node_table.ABSENT
    }


def _write_free(table: node_table.NodeTable, row: int, figures: tuple[int, ...]) -> bool | None:
    """Write the free memory of each slot; return whether more counts than before, None if it is equal."""
    known = table.measured_free[row, : len(figures)]
    if tuple(known.tolist()) == figures:
        return None
    rows = slice(row, row + 1)
    before = table.free_memory_of_all(rows)
    known[:] = figures
    return bool((table.free_memory_of_all(rows) > before).any())


def copy_unallocated_use(source: Inventory, copy: Inventory, node: str) -> None:
    """Have a copy of a node count what was measured in use of its cards beyond what is promised of them.

    The copy may promise less or more of a card; what others use of it stays the same.
    """
    there, here = source.node(node), copy.node(node)
    if there is None or there.device is None or here is None or here.device is None:
        return
    before, after = there.view(), here.view()
    not_measured = before._replace(measured_free={})
    used = {
        card.uuid: verdicts.free_now(not_measured, card) - verdicts.free_now(before, card)
        for card in there.device.cards
    }
    for slot, card in enumerate(here.device.cards):
        if other := used.get(card.uuid, 0):
            free = max(0, verdicts.free_now(after, card) - other)
            copy.table.measured_free[here.row, slot] = here.measured_free[card.uuid] = free
