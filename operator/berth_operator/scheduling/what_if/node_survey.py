"""Why each node refuses one pod, before `explain.diagnosis` looks at the devices of a few.

For each row of the inventory a NodeSurvey has the number of the node's first reason, whether the node could
never take the pod, even with no pods and all devices well, and what fraction of the request it lacks, as far
as the filters show. That decides which few nodes are diagnosed.
"""

import dataclasses
import enum
import functools
from collections.abc import Hashable
from typing import Final

import numpy as np

from berth_operator.scheduling import (
    decisions,
    gpu_units,
    node_info,
    node_table,
    queued_pods,
    signatures,
)
from berth_operator.scheduling.changes import Scenario
from berth_operator.scheduling.constraints import reason_counts, registry
from berth_operator.scheduling.constraints.constraint import Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Count, NodeReason, Reason
from berth_operator.scheduling.devices import allocator, device_view, requests
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from berth_operator.scheduling.what_if import explanation_budget
from berth_operator.scheduling.what_if.explanation_budget import ExplanationBudget
from berth_operator.scheduling.what_if.feasibility import FeasibilityChecker

# Lifted by a change of the Node object: its labels, taints, cordon or kubelet.
NODE_OBJECT_REASONS: Final = frozenset(
    {
        Reason.NODE_CORDONED,
        Reason.TAINTED,
        Reason.FEATURE_MISSING,
        Reason.SELECTOR_MISMATCH,
        Reason.SPREAD_LABEL_MISSING,
    }
)
# The reasons why a node gives out no device at all (`node_table` has None for a node that gives out some).
NO_DEVICE_AT_ALL: Final = frozenset(one for one in node_table.NO_DEVICES_REASONS if one is not None)

SearchedReasons = dict[Hashable, NodeReason | None]  # Of nodes that are equal in all that matters to the pod.


class ChangeNeeded(enum.IntEnum):
    """What would have to change for a node to take the pod, from the easiest."""

    PODS_OR_DEVICE_STATE = 0
    NODE_OR_AGENT = 1
    HARDWARE = 2


@dataclasses.dataclass(frozen=True)
class NodeSurvey:
    """The reasons of all nodes, by row; masks and numbers are as long as the inventory has rows.

    `reason_index` is the place of a node's reason in `node_reasons`. It is 0 where the node fits, or the row
    has no node (`has_node`): the first of `node_reasons` is None.
    """

    inventory: Inventory
    policy: Policy
    request: requests.DeviceRequest
    demand: facts.NodeDemand
    counts: tuple[Count, ...]
    node_reasons: tuple[NodeReason | None, ...]
    reason_index: node_table.Numbers
    has_node: node_table.Mask
    never_fits: node_table.Mask
    gap: node_table.Scores
    budget: ExplanationBudget
    query: Query  # Of the pod over all nodes: one, so that nothing is worked out twice.

    @functools.cached_property
    def feasibility(self) -> FeasibilityChecker:
        """Which nodes would take a changed pod."""
        return FeasibilityChecker(self.inventory, self.budget)

    def node(self, row: int) -> node_info.NodeInfo:
        """Return a node in full."""
        info = self.inventory.infos[row]
        assert info is not None, "no node has this row"  # noqa: S101
        return info

    def request_on(self, row: int) -> requests.DeviceRequest:
        """Return what the pod's request means on a node."""
        return gpu_units.request_on_unit(self.request, self.demand, self.node(row).view().device.gpu_unit)

    def reason(self, row: int) -> NodeReason:
        """Return the reason of a node that has one."""
        reason = self.node_reasons[int(self.reason_index[row])]
        assert reason is not None, "the node fits"  # noqa: S101
        return reason

    def nodes_with_reason(self, among: frozenset[Reason]) -> node_table.Mask:
        """Return which nodes have one of these reasons."""
        indexes = [at for at, found in enumerate(self.node_reasons) if found and found[0] in among]
        return np.isin(self.reason_index, indexes)

    @functools.cached_property
    def refusing_rows(self) -> list[int]:
        """The rows of all nodes that refuse, in the order of their names."""
        found = np.flatnonzero(self.reason_index)
        rows: list[int] = found[np.argsort(self.inventory.name_positions()[found])].tolist()
        return rows

    @functools.cached_property
    def change_needed(self) -> node_table.Numbers:
        """The hardest change that each node needs."""
        node_or_agent = self.nodes_with_reason(NODE_OBJECT_REASONS | NO_DEVICE_AT_ALL)
        apart_from_hardware = np.where(
            node_or_agent, ChangeNeeded.NODE_OR_AGENT, ChangeNeeded.PODS_OR_DEVICE_STATE
        )
        needed: node_table.Numbers = np.where(self.never_fits, ChangeNeeded.HARDWARE, apart_from_hardware)
        return needed

    def nearest(self, among: node_table.Mask | None = None) -> list[int]:
        """Return refusing nodes by the change that they need, then by what part is missing, then by name.

        An undecided node may take the pod as it is, so it is no example of what is wrong.
        """
        refusing = (self.reason_index > 0) & ~self.nodes_with_reason(frozenset({Reason.UNDECIDED}))
        found = np.flatnonzero(refusing if among is None else among & refusing)
        keys = (self.inventory.name_positions()[found], self.gap[found], self.change_needed[found])
        nearest: list[int] = found[np.lexsort(keys)].tolist()
        return nearest


def survey(
    search: Search, pod_info: queued_pods.PodInfo, policy: Policy, budget: ExplanationBudget
) -> NodeSurvey:
    """Return the reasons of all nodes; those not searched when the budget is exhausted are undecided."""
    inventory, request, demand = search.inventory, pod_info.request, pod_info.demand
    signature = signatures.of(request, demand)
    query = Query.for_all_nodes(inventory, signature)
    reason_table = reason_counts.evaluate(query, search.current_reasons_by_row(signature, policy))
    has_node = inventory.table.has_node[: inventory.size].copy()
    _add_reasons_of_searched_nodes(
        reason_table, inventory, pod_info, has_node & (reason_table.reason_index == 0), budget
    )
    return NodeSurvey(
        inventory,
        policy,
        request,
        demand,
        counts=reason_table.counts(),
        node_reasons=(None, *reason_table.node_reasons),
        reason_index=reason_table.reason_index,
        has_node=has_node,
        never_fits=reason_table.never_fits(),
        gap=_gaps(query),
        budget=budget,
        query=query,
    )


def _gaps(query: Query) -> node_table.Scores:
    """Return for each node its largest shortage of what the request means there."""
    found = registry.gaps(query)
    for other in gpu_units.signatures_by_unit(query.table, query.signature):
        gaps = registry.gaps(Query(query.inventory, query.rows, other))
        among = gpu_units.nodes_meant(query.table, query.rows, other)
        found = gaps if among is None else np.where(among, gaps, found)
    return np.maximum(found, registry.inter_pod_gaps(query))


def _add_reasons_of_searched_nodes(
    reason_table: reason_counts.ReasonTable,
    inventory: Inventory,
    pod_info: queued_pods.PodInfo,
    passing: node_table.Mask,
    budget: ExplanationBudget,
) -> None:
    """Search the nodes that passed the filters, and add the reasons of those that do not fit.

    Those that the budget does not suffice for are undecided.
    """
    request, order = pod_info.request, inventory.name_positions().tolist()
    unsure = set(np.flatnonzero(passing).tolist())
    if request.need.filters_suffice or not request.need.any_device:
        # The filters decide here. (For a pod that names a scope but asks for no device `filters_suffice` is
        # false, though they do.) If the pod asks for devices, the search of one node confirms what the
        # filters say: that is so cheap that it is not charged.
        unlimited_budget = ExplanationBudget(
            Effort(explanation_budget.NO_LIMIT, budget.effort.expired), unlimited_nodes=True
        )
        pod = Scenario(request, pod_info.demand)
        unsure -= set(FeasibilityChecker(inventory, unlimited_budget).feasible_nodes(pod, passing).rows)
    searched_reasons: SearchedReasons = {}
    with budget.fraction(explanation_budget.SURVEY_FRACTION) as survey_budget:
        rows = sorted(unsure, key=order.__getitem__)
        for count, row in enumerate(rows):
            if survey_budget.exhausted:
                left = np.zeros(inventory.size, dtype=np.bool_)
                left[rows[count:]] = True
                reason_table.reject(Rejection(left, Reason.UNDECIDED))
                return
            reason = _searched_reason(inventory, row, pod_info, survey_budget, searched_reasons)
            if reason is not None:
                reason_table.add(row, reason)


def _searched_reason(
    inventory: Inventory,
    row: int,
    pod_info: queued_pods.PodInfo,
    budget: ExplanationBudget,
    searched_reasons: SearchedReasons,
) -> NodeReason | None:
    """Return why one node does not fit, None if it does."""
    info = inventory.infos[row]
    assert info is not None, "no node has this row"  # noqa: S101
    view = info.view()
    request = gpu_units.request_on_unit(pod_info.request, pod_info.demand, view.device.gpu_unit)
    equivalence_class = allocator.equivalence_class(view, request)
    if equivalence_class not in searched_reasons:
        found = search_node(view, request, budget)
        reason = (found.reason, found.detail) if isinstance(found, allocator.Shortfall) else None
        if budget.effort.cut_short:
            return reason
        searched_reasons[equivalence_class] = reason
    budget.effort.spend(1)
    return searched_reasons[equivalence_class]


def search_node(
    view: device_view.View, request: requests.DeviceRequest, budget: ExplanationBudget
) -> tuple[decisions.Grant, ...] | allocator.Shortfall:
    """Return the devices of one node for the pod or what is short, with the effort of a usual search."""
    with budget.device_search() as effort:
        return allocator.allocate_or_explain(view, request, effort=effort)
