"""Which nodes would take a changed pod: by the filters where they suffice, else by a search on each node.

These are the two steps of placing a pod, without scores. The filters suffice for a pod without devices, and
(`need.filters_suffice`) for one container that asks for whole cards or for one share of a card, unless the
cards must lie together, be a partition that the node's Device lists, or be unshared
(`Grouping.restricts_sets`). Where devices are asked for, the allocator confirms one of these nodes all the
same, so that every proposal is one that it accepts. Where the filters do not suffice, the number of searches
is limited, and the answer says whether the limit was reached.
"""

import dataclasses
from typing import Final

import numpy as np

from berth_operator.scheduling import changes, gpu_units, node_table, signatures
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.what_if import explanation_budget
from berth_operator.scheduling.what_if.explanation_budget import ExplanationBudget


@dataclasses.dataclass(frozen=True, slots=True)
class FeasibleNodes:
    """The nodes that would take the pod, by row, in the order of their names.

    `exact` is whether none was left out because the limit of searches was reached.
    """

    rows: tuple[int, ...]
    exact: bool = True


NOT_CHECKED: Final = FeasibleNodes((), exact=False)


class FeasibilityChecker:
    """Checks the nodes of one inventory, within a budget."""

    def __init__(self, inventory: Inventory, budget: ExplanationBudget) -> None:
        self._inventory = inventory
        self._budget = budget

    def feasible_nodes(
        self, scenario: changes.Scenario, among: node_table.Mask | None = None
    ) -> FeasibleNodes:
        """Return which of these nodes would take the pod; once the budget is exhausted none is checked."""
        if self._budget.exhausted:
            return NOT_CHECKED
        inventory = self._inventory
        self._budget.spend_on_filters(scenario, inventory.size)
        signature = signatures.of(scenario.request, scenario.demand)
        others = registry.passes_inter_pod_filters(Query.for_all_nodes(inventory, signature))
        if others is not None:  # They pass or not whatever the request means on a node.
            among = others if among is None else others & among
            signature = signatures.without_inter_pod_rules(signature)
        found = self._feasible_for(signature, among)
        for other in gpu_units.signatures_by_unit(inventory.table, signature):
            more = self._feasible_for(other, among)
            rows = sorted(found.rows + more.rows, key=inventory.name_positions().__getitem__)
            found = FeasibleNodes(tuple(rows), found.exact and more.exact)
        return found

    def _feasible_for(self, signature: signatures.Signature, among: node_table.Mask | None) -> FeasibleNodes:
        """Return which of these nodes would take the pod, with one signature."""
        inventory, request = self._inventory, signature.request
        mask = registry.feasible(Query.for_all_nodes(inventory, signature))
        feasible = np.flatnonzero(mask if among is None else mask & among)
        rows = feasible[np.argsort(inventory.name_positions()[feasible])].tolist()
        if signature.need.any_device and not signature.need.filters_suffice:
            return self._feasible_by_search(request, rows)
        # Once the allocator has confirmed one node, the filters are trusted for the rest.
        while signature.need.any_device and rows and not self._fits(request, rows[0]):
            del rows[0]
        return FeasibleNodes(tuple(rows))

    def _feasible_by_search(self, request: requests.DeviceRequest, rows: list[int]) -> FeasibleNodes:
        searched, found, budget = 0, list[int](), self._budget
        for row in rows if budget.unlimited_nodes else rows[: explanation_budget.MOST_SEARCHES_PER_CHANGE]:
            if budget.exhausted or not (budget.searches_left or budget.unlimited_nodes):
                break
            budget.searches_left -= 1
            searched += 1
            if self._fits(request, row, budget.effort):
                found.append(row)
        return FeasibleNodes(tuple(found), exact=searched == len(rows) and not budget.exhausted)

    def _fits(self, request: requests.DeviceRequest, row: int, effort: Effort | None = None) -> bool:
        """Whether the allocator finds devices; without `effort` it has its own limit, and is not charged."""
        info = self._inventory.infos[row]
        return info is not None and allocator.allocate(info.view(), request, effort=effort) is not None
