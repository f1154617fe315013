"""Which nodes would take a changed pod: by the filters where they suffice, else by a search on each node.

These are the two steps of a search for a placement, without scores. For a simple request on plain cards
the filters suffice; one of the nodes is searched all the same, so that nothing is proposed which the
allocator would not do. For the rest the number of searches is limited, and the answer says whether the
limit was reached.
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
from berth_operator.scheduling.what_if import work_budget
from berth_operator.scheduling.what_if.work_budget import Budget


@dataclasses.dataclass(frozen=True, slots=True)
class FeasibleNodes:
    """The nodes that would take the pod, by row, in the order of their names.

    `exact` is whether every node that might take it was checked.
    """

    rows: tuple[int, ...]
    exact: bool = True


NOT_CHECKED: Final = FeasibleNodes((), exact=False)


class Feasibility:
    """Checks the nodes of one inventory, within a budget."""

    def __init__(self, inventory: Inventory, budget: Budget) -> None:
        self._inventory = inventory
        self._budget = budget

    def feasible_nodes(
        self, scenario: changes.Scenario, among: node_table.Mask | None = None
    ) -> FeasibleNodes:
        """Return which of these nodes would take the pod; once the budget is exhausted none is checked."""
        if self._budget.exhausted:
            return NOT_CHECKED
        inventory, request = self._inventory, scenario.request
        self._budget.spend_on_filters(inventory.size)
        question = questions.of(request, scenario.demand)
        mask = registry.able(Query(inventory, inventory.everything, question))
        able = np.flatnonzero(mask if among is None else mask & among)
        able = able[np.argsort(inventory.name_order()[able])]
        if not question.need.asked:
            return FeasibleNodes(tuple(able.tolist()))
        if question.need.simple:
            to_search = self._leaving_mig_mode[able]
        else:
            to_search = np.ones(len(able), dtype=np.bool_)
        fitting = able[~to_search].tolist()
        # The filters suffice for these; the first of them is searched to be sure of that.
        while fitting and not self._fits(request, fitting[0]):
            del fitting[0]
        return self._with_searched(request, fitting, able[to_search].tolist())

    def _with_searched(
        self, request: requests.Request, fitting: list[int], to_search: list[int]
    ) -> FeasibleNodes:
        searched, found, budget = 0, list(fitting), self._budget
        for row in to_search if budget.all_nodes else to_search[: work_budget.SEARCHES_EACH]:
            if budget.exhausted or not (budget.searches or budget.all_nodes):
                break
            budget.searches -= 1
            searched += 1
            if self._fits(request, row, budget.effort):
                found.append(row)
        order = self._inventory.name_order()
        exact = searched == len(to_search) and not budget.exhausted
        return FeasibleNodes(tuple(sorted(found, key=lambda row: int(order[row]))), exact)

    def _fits(self, request: requests.Request, row: int, effort: allocator.Effort | None = None) -> bool:
        info = self._inventory.infos[row]
        return info is not None and allocator.find(info.view(), request, effort=effort) is not None

    @functools.cached_property
    def _leaving_mig_mode(self) -> node_table.Mask:
        if not len(self._inventory.table.profiles):
            return np.zeros(self._inventory.size, dtype=np.bool_)
        return np.array([is_leaving_mig_mode(info) for info in self._inventory.infos], dtype=np.bool_)


def is_leaving_mig_mode(info: node_info.NodeInfo | None) -> bool:
    """Whether a card is out of MIG mode while pods hold instances of it: the filters take it for free."""
    device = info.device if info is not None else None
    return device is not None and any(card.instances and not card.mig for card in device.cards)
