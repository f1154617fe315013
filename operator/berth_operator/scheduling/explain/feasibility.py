"""Which nodes have the devices for a request: by sums where they suffice, else by looking closely.

The same two steps as the search takes, but for all nodes and without ranking them. For a
simple request on plain cards sums are enough, and one of the nodes is looked at all the
same, so that nothing is claimed which the allocator would not do. For the rest a closer
look costs a search for each node, so there is a limit, and a Reach says when it was met.
"""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Final

import numpy as np

from berth_operator.scheduling import node_info, node_table, questions
from berth_operator.scheduling.constraints import cards, pools
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts

# A question to all nodes is worth so many steps, and one more for each so many nodes.
STEPS_TO_ASK: Final = 5
NODES_A_STEP: Final = 256
SEARCHES_EACH: Final = 8  # For one question.
SEARCHES_IN_ALL: Final = 96
NO_LIMIT: Final = 1 << 40


@dataclasses.dataclass(frozen=True, slots=True)
class FeasibleNodes:
    """The nodes that have the devices, by row, in the order of their names.

    `exact` tells that no node which might have them was left unasked.
    """

    nodes: tuple[int, ...]
    exact: bool = True


class Feasibility:
    """Asks the nodes of one inventory, and counts the closer looks: for one question and in all."""

    def __init__(
        self,
        inventory: Inventory,
        *,
        each: int = SEARCHES_EACH,
        in_all: int = SEARCHES_IN_ALL,
        effort: allocator.Effort | None = None,
    ) -> None:
        self.inventory = inventory
        self.effort = allocator.Effort(NO_LIMIT) if effort is None else effort
        self.each = each
        self.left = in_all

    def nodes(self, request: requests.Request, demand: facts.Demand, among: node_table.Mask) -> FeasibleNodes:
        """Find out which of these nodes have the devices for a request; without effort none is asked."""
        if self.effort.left <= 0:
            return FeasibleNodes((), exact=False)
        self.effort.spend(STEPS_TO_ASK + self.inventory.size // NODES_A_STEP)
        question = questions.ask(request, demand)
        able = np.flatnonzero(among)
        able = able[enough(self.inventory, able, question)]
        able = able[np.argsort(self.inventory.rank()[able])]
        if not question.need.asked:
            return FeasibleNodes(tuple(able.tolist()))
        doubtful = self._odd[able] if question.need.simple else np.ones(len(able), dtype=np.bool_)
        sure = able[~doubtful].tolist()
        while sure and not fits(self.inventory, request, sure[0]):
            del sure[0]
        return self._with_doubtful(request, sure, able[doubtful].tolist())

    def _with_doubtful(
        self, request: requests.Request, sure: list[int], doubtful: list[int]
    ) -> FeasibleNodes:
        asked, found = 0, []
        for at in self._while_allowed(doubtful):
            asked += 1
            if fits(self.inventory, request, at, self.effort):
                found.append(at)
        rank = self.inventory.rank()
        together = sorted([*sure, *found], key=lambda at: int(rank[at])) if found else sure
        return FeasibleNodes(tuple(together), exact=asked == len(doubtful) and self.effort.left > 0)

    def _while_allowed(self, rows_: list[int]) -> Iterator[int]:
        for at in rows_[: self.each]:
            if self.left <= 0 or self.effort.left <= 0:
                return
            self.left -= 1
            yield at

    @functools.cached_property
    def _odd(self) -> node_table.Mask:
        if not len(self.inventory.table.profiles):
            return np.zeros(self.inventory.size, dtype=np.bool_)
        return np.array([left_mig_mode(info) for info in self.inventory.infos], dtype=np.bool_)


def enough(inventory: Inventory, at: node_table.Numbers, question: questions.Question) -> node_table.Mask:
    """Return which nodes have enough devices as far as sums can tell."""
    query = Query(inventory, at, question)
    mask = inventory.table.known[at]
    if cards.CONSTRAINT.asked(question):
        mask = mask & cards.able(query)
    return mask & pools.able(query)


def left_mig_mode(info: node_info.NodeInfo | None) -> bool:
    """Return whether a card has left its MIG mode while instances are held: sums take it for free."""
    device = info.device if info is not None else None
    return device is not None and any(card.instances and not card.mig for card in device.cards)


def fits(
    inventory: Inventory, request: requests.Request, at: int, effort: allocator.Effort | None = None
) -> bool:
    """Search one node, and return whether the request fits."""
    info = inventory.infos[at]
    return info is not None and allocator.find(info.view(), request, effort=effort) is not None
