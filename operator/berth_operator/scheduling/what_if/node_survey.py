"""The answers of all nodes to one pod, before any of them is diagnosed.

Three things must hold on a node: its place suits, its resources suffice, its devices do.
A NodeSurvey has a mask for each of the three over all rows, so that "only this one thing
stands in the way" is a question to masks. It also says which nodes could never take the
pod, and how near each of the others comes, as far as sums can tell: that decides which
few are diagnosed.
"""

import dataclasses
import functools
from collections.abc import Hashable
from typing import Final

import numpy as np

from berth_operator.scheduling import (
    decisions,
    node_info,
    node_table,
    questions,
    queued_pods,
)
from berth_operator.scheduling.changes import Situation
from berth_operator.scheduling.constraints import reasons, registry
from berth_operator.scheduling.constraints.constraint import Why
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.devices import allocator, device_view, equivalence, requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from berth_operator.scheduling.what_if import budget
from berth_operator.scheduling.what_if.feasibility import Feasibility

PLACES: Final = frozenset({Reason.UNSCHEDULABLE, Reason.TAINTED, Reason.SELECTOR_MISMATCH, Reason.NO_NODES})
STATES: Final = frozenset(reason for reason in node_table.STATES if reason is not None)


@dataclasses.dataclass(frozen=True)
class NodeSurvey:
    """What all nodes say, by row; masks and numbers are as long as the inventory has rows.

    `code` is the number of a node's reason in `whys`, of which the first is that there is none.
    """

    inventory: Inventory
    policy: Policy
    request: requests.Request
    demand: facts.Demand
    counts: tuple[Count, ...]
    whys: tuple[Why | None, ...]
    code: node_table.Numbers
    known: node_table.Mask
    never: node_table.Mask
    gap: node_table.Scores
    budget: budget.Budget

    @property
    def query(self) -> Query:
        """The question of the pod to all nodes."""
        return Query(self.inventory, self.inventory.everything, questions.ask(self.request, self.demand))

    @functools.cached_property
    def feasibility(self) -> Feasibility:
        """What tells which nodes would take a changed pod."""
        return Feasibility(self.inventory, self.budget)

    def row(self, at: int) -> node_info.NodeInfo:
        """Return a node in full."""
        info = self.inventory.infos[at]
        assert info is not None, "a node that spoke"  # noqa: S101
        return info

    def why(self, at: int) -> Why:
        """Return the reason of a node that has one."""
        why = self.whys[int(self.code[at])]
        assert why is not None, "a node that refuses"  # noqa: S101
        return why

    def saying(self, among: frozenset[Reason]) -> node_table.Mask:
        """Return which nodes give one of these reasons."""
        codes = [code for code, why in enumerate(self.whys) if why is not None and why[0] in among]
        return np.isin(self.code, codes)

    @functools.cached_property
    def refusing(self) -> list[int]:
        """The rows of all nodes that refuse, by name."""
        found = np.flatnonzero(self.code)
        refusing: list[int] = found[np.argsort(self.inventory.rank()[found])].tolist()
        return refusing

    @functools.cached_property
    def remoteness(self) -> node_table.Numbers:
        """What a node would need: 0 for room, 1 for another state, 2 for other hardware."""
        remote: node_table.Numbers = np.where(self.never, 2, self.saying(PLACES | STATES))
        return remote

    def nearest(self, among: node_table.Mask | None = None) -> list[int]:
        """Return refusing nodes in order, the nearest first, those before others that need less of a change.

        One that was not fully evaluated may take the pod as it is, so it is no example of what is wrong.
        """
        there = (self.code > 0) & ~self.saying(frozenset({Reason.UNDECIDED}))
        found = np.flatnonzero(there if among is None else among & there)
        keys = (self.inventory.rank()[found], self.gap[found], self.remoteness[found])
        nearest: list[int] = found[np.lexsort(keys)].tolist()
        return nearest


def take(search: Search, candidate: queued_pods.Candidate, policy: Policy, left: budget.Budget) -> NodeSurvey:
    """Ask all nodes; those that are not searched when the budget is spent say that they are undecided."""
    inventory, request, demand = search.inventory, candidate.request, candidate.demand
    question = questions.ask(request, demand)
    table = reasons.evaluate(inventory, question, search.searched_now(question, policy))
    query = Query(inventory, inventory.everything, question)
    known = inventory.table.known[: inventory.size].copy()
    _search_silent_nodes(table, inventory, candidate, known & (table.code == 0), left)
    return NodeSurvey(
        inventory,
        policy,
        request,
        demand,
        counts=table.counts(),
        whys=(None, *table.whys),
        code=table.code,
        known=known,
        never=table.never(),
        gap=registry.gaps(query),
        budget=left,
    )


def _search_silent_nodes(
    table: reasons.ReasonTable,
    inventory: Inventory,
    candidate: queued_pods.Candidate,
    silent: node_table.Mask,
    left: budget.Budget,
) -> None:
    """Search the nodes that gave no reason, and add one for those that should have."""
    request, rank = candidate.request, inventory.rank()
    unsure = set(np.flatnonzero(silent).tolist())
    if request.need.simple or not request.need.asked:
        # One of them is searched for all that are alike: this costs no budget.
        unlimited = budget.Budget(allocator.Effort(budget.NO_LIMIT, left.effort.expired), whole=True)
        pod = Situation(request, candidate.demand)
        unsure -= set(Feasibility(inventory, unlimited).nodes(pod, silent).rows)
    alike: Alike = {}
    with left.part(budget.SURVEY_PART) as mine:
        for row in sorted(unsure, key=lambda row: int(rank[row])):
            why = _asked(inventory, row, request, mine, alike)
            if why is not None:
                table.add(row, why)


Alike = dict[Hashable, Why | None]  # Answers of nodes, by all that they depend on.


def _asked(
    inventory: Inventory, row: int, request: requests.Request, left: budget.Budget, alike: Alike
) -> Why | None:
    """Return the reason of one node, if it has one; where no budget is left it is not asked."""
    info = inventory.infos[row]
    if info is None or left.exhausted:
        return Reason.UNDECIDED, ""
    view = info.view()
    kind = equivalence.of(view, request)
    if kind is None or kind not in alike:
        found = look(view, request, left)
        why = (found.reason, found.detail) if isinstance(found, allocator.Shortfall) else None
        if left.effort.spent or kind is None:
            return why
        alike[kind] = why
    left.effort.spend(1)
    return alike[kind]


def look(
    view: device_view.View, request: requests.Request, left: budget.Budget
) -> tuple[decisions.Grant, ...] | allocator.Shortfall:
    """Search one node, as long as the search for a place does at most."""
    with left.search() as effort:
        return allocator.place(view, request, effort=effort)
