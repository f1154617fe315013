"""Which nodes would take a changed pod: by sums where they suffice, else by a search on each.

The same two steps as the search takes, but for all nodes and without ranking them. For a
simple request on plain cards sums are enough, and one of the nodes is searched all the
same, so that nothing is claimed which the allocator would not do. For the rest there is a
limit of searches, and the answer says when it was met.
"""

import dataclasses
import functools
from typing import Final

import numpy as np

from berth_operator.scheduling import changes, node_info, node_table, questions
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.what_if import budget


@dataclasses.dataclass(frozen=True, slots=True)
class FeasibleNodes:
    """The nodes that would take the pod, by row, in the order of their names.

    `exact` tells that no node which might was left unasked.
    """

    rows: tuple[int, ...]
    exact: bool = True


NONE: Final = FeasibleNodes((), exact=False)


class Feasibility:
    """Asks the nodes of one inventory, within a budget."""

    def __init__(self, inventory: Inventory, left: budget.Budget) -> None:
        self._inventory = inventory
        self._budget = left

    def nodes(self, situation: changes.Situation, among: node_table.Mask | None = None) -> FeasibleNodes:
        """Return which of these nodes would take the pod; without a budget none is asked."""
        if self._budget.exhausted:
            return NONE
        inventory, request = self._inventory, situation.request
        self._budget.spend_on_question(inventory.size)
        question = questions.ask(request, situation.demand)
        mask = registry.able(Query(inventory, inventory.everything, question))
        able = np.flatnonzero(mask if among is None else mask & among)
        able = able[np.argsort(inventory.rank()[able])]
        if not question.need.asked:
            return FeasibleNodes(tuple(able.tolist()))
        doubtful = self._left_mig_mode[able] if question.need.simple else np.ones(len(able), dtype=np.bool_)
        sure = able[~doubtful].tolist()
        while sure and not self._fits(request, sure[0]):
            del sure[0]
        return self._with_doubtful(request, sure, able[doubtful].tolist())

    def _with_doubtful(
        self, request: requests.Request, sure: list[int], doubtful: list[int]
    ) -> FeasibleNodes:
        searched, found, left = 0, list(sure), self._budget
        for row in doubtful if left.whole else doubtful[: budget.SEARCHES_EACH]:
            if left.exhausted or not (left.searches or left.whole):
                break
            left.searches -= 1
            searched += 1
            if self._fits(request, row, left.effort):
                found.append(row)
        rank = self._inventory.rank()
        exact = searched == len(doubtful) and not left.exhausted
        return FeasibleNodes(tuple(sorted(found, key=lambda row: int(rank[row]))), exact)

    def _fits(self, request: requests.Request, row: int, effort: allocator.Effort | None = None) -> bool:
        info = self._inventory.infos[row]
        return info is not None and allocator.find(info.view(), request, effort=effort) is not None

    @functools.cached_property
    def _left_mig_mode(self) -> node_table.Mask:
        if not len(self._inventory.table.profiles):
            return np.zeros(self._inventory.size, dtype=np.bool_)
        return np.array([left_mig_mode(info) for info in self._inventory.infos], dtype=np.bool_)


def left_mig_mode(info: node_info.NodeInfo | None) -> bool:
    """Whether a card has left its MIG mode while instances are held: sums take it for free."""
    device = info.device if info is not None else None
    return device is not None and any(card.instances and not card.mig for card in device.cards)
