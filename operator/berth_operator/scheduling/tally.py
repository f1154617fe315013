"""Why not, counted over all nodes at once: enough to say it in a sentence, and cheap.

Each node gives its first reason, in a fixed order: its place, its devices as a whole, its
cards, its other resources, and last what only a closer look showed. Which card of which
node, and what would have to change, is told by `explain`, which looks at each.
"""

import collections
from collections.abc import Mapping
from typing import Final

import numpy as np

from berth_operator.scheduling import columns, inventory, search
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.devices import requests

Why = tuple[Reason, str]
OF_CARDS: Final = tuple(reason for reason in columns.TROUBLES if reason is not None)


class Sheet:
    """One reason for each node, written once."""

    def __init__(self, size: int) -> None:
        self.code = np.zeros(size, dtype=np.int64)
        self.whys: list[Why] = []

    def mark(self, nodes: columns.Mask, why: Why) -> None:
        """Give a reason to those of these nodes that have none yet."""
        fresh = nodes & (self.code == 0)
        if fresh.any():
            self.whys.append(why)
            self.code[fresh] = len(self.whys)

    def counts(self) -> tuple[Count, ...]:
        """Count the nodes of each reason, the most frequent first."""
        found: collections.Counter[Why] = collections.Counter()
        for at, nodes in enumerate(np.bincount(self.code, minlength=len(self.whys) + 1)[1:].tolist()):
            found[self.whys[at]] += nodes
        ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
        return tuple(Count(reason, detail, nodes) for (reason, detail), nodes in ordered if nodes)


def tally(
    picture: inventory.Inventory, question: search.Question, closer: Mapping[int, Why]
) -> tuple[Count, ...]:
    """Count why each known node refuses; `closer` has what a closer look showed, by row."""
    sheet = Sheet(picture.size)
    rows = np.arange(picture.size)
    known = picture.columns.known[: picture.size]
    _about_place(sheet, picture, question)
    if question.need.asked:
        _about_devices(sheet, picture, rows, question)
    _about_resources(sheet, picture, rows, question)
    for at, why in closer.items():
        sheet.mark(rows == at, why)
    sheet.code[~known] = 0
    return sheet.counts() or (Count(Reason.NO_NODES, "", 0),)


def _about_place(sheet: Sheet, picture: inventory.Inventory, question: search.Question) -> None:
    places = picture.places(question.demand.where)
    for at, why in enumerate(places.reasons, start=1):
        sheet.mark(places.code == at, why)


def _about_devices(
    sheet: Sheet, picture: inventory.Inventory, rows: columns.Numbers, question: search.Question
) -> None:
    table, need = picture.columns, question.need
    for at, reason in enumerate(columns.STATES):
        if reason is not None:
            sheet.mark(table.state[rows] == at, (reason, ""))
    meets = search.matching_cards(
        picture, rows, question.conditions, among=table.model[rows] != columns.ABSENT
    )
    if need.whole or need.shares:
        _about_cards(sheet, picture, rows, need, meets)
    if need.replicas:
        sheet.mark(table.replicas[rows] < need.replicas, (Reason.FULL, "replicas"))
    for instances in need.instances:
        left = table.instances[rows, table.profile(instances.profile)]
        sheet.mark(left < instances.count, (Reason.FULL, f"MIG {instances.profile}"))
    for name in need.parts:
        sheet.mark(table.others[rows, table.type(name)] == 0, (Reason.NO_DEVICE, name))


def _about_cards(
    sheet: Sheet,
    picture: inventory.Inventory,
    rows: columns.Numbers,
    need: requests.Need,
    meets: columns.Mask | None,
) -> None:
    """Ask, ever more closely, whether the node has enough cards: at all, of the kind, well, free."""
    table = picture.columns
    wanted = max([need.whole, *(ask.count for ask in need.shares)])
    there = table.model[rows] != columns.ABSENT
    sheet.mark(there.sum(axis=1) < wanted, (Reason.TOO_FEW_CARDS, ""))
    right = there if meets is None else meets
    sheet.mark(right.sum(axis=1) < wanted, (Reason.MODEL_MISMATCH, ""))
    large = np.logical_and.reduce([right, *(_large(table, rows, ask) for ask in need.shares)])
    sheet.mark(large.sum(axis=1) < wanted, (Reason.TOO_SMALL, ""))
    few = (large & (table.trouble[rows] == 0)).sum(axis=1) < wanted
    for reason in OF_CARDS:
        troubled = (large & (table.trouble[rows] == columns.TROUBLES.index(reason))).any(axis=1)
        sheet.mark(few & troubled, (reason, ""))
    free = (right & table.whole[rows]).sum(axis=1)
    sheet.mark(free < need.whole, (Reason.FULL, ""))
    sheet.mark(free - table.withheld[rows] < need.whole, (Reason.WITHHELD, ""))
    for ask in need.shares:
        fits = search.share_room(table, rows, ask, meets)
        sheet.mark(fits.sum(axis=1) < ask.count, (Reason.FULL, ""))


def _large(table: columns.Columns, rows: columns.Numbers, ask: requests.Gpus) -> columns.Mask:
    wanted = 1 if ask.ratio else ask.memory
    large: columns.Mask = table.total[rows] >= wanted
    return large


def _about_resources(
    sheet: Sheet, picture: inventory.Inventory, rows: columns.Numbers, question: search.Question
) -> None:
    table = picture.columns
    for name, amount in question.demand.amounts:
        sheet.mark(search.left(table, rows, name) < amount, (Reason.INSUFFICIENT_RESOURCE, name))
    for name, amount in question.demand.served:
        left = search.left(table, rows, name)
        sheet.mark((left != columns.ABSENT) & (left < amount), (Reason.INSUFFICIENT_RESOURCE, name))
