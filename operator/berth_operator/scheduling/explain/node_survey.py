"""What all nodes say to one pod, before any of them is looked at closely.

Three things must hold on a node: its place suits, its resources suffice, its devices do.
A NodeSurvey has a mask for each of the three over all rows, so that "only this one thing
stands in the way" is a question to masks. It also says which nodes could never take the
pod, and how near each of the others comes, as far as sums can tell: that decides which
few are worth a closer look.
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
    search,
)
from berth_operator.scheduling.constraints import host_ports, place, reasons, registry, resources
from berth_operator.scheduling.constraints.constraint import Why
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.devices import allocator, device_view, equivalence, requests
from berth_operator.scheduling.explain import feasibility
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search

# Looking at a node has a price of its own, besides the steps of the search on it.
STEPS_TO_LOOK: Final = 20
# Of all the steps there are, this part may go into finding out which nodes fit, and why others do not.
PART_FOR_SURVEY: Final = 0.4

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
    place: node_table.Mask
    room: node_table.Mask
    never: node_table.Mask
    gap: node_table.Scores
    effort: allocator.Effort

    @property
    def exhausted(self) -> bool:
        """Whether the steps for this pod are used up, so that whatever is tried now is given up."""
        return self.effort.left <= 0

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


def take(
    search: Search, candidate: queued_pods.Candidate, policy: Policy, effort: allocator.Effort
) -> NodeSurvey:
    """Ask all nodes; those that nobody has looked at when the effort is spent say that they are undecided."""
    inventory, request, demand = search.inventory, candidate.request, candidate.demand
    question = questions.ask(request, demand)
    table = reasons.evaluate(inventory, question, search.searched_now(question, policy))
    query = Query(inventory, inventory.everything, question)
    known = inventory.table.known[: inventory.size].copy()
    _search_silent_nodes(table, inventory, candidate, known & (table.code == 0), effort)
    return NodeSurvey(
        inventory,
        policy,
        request,
        demand,
        counts=table.counts(),
        whys=(None, *table.whys),
        code=table.code,
        known=known,
        place=known & place.able(query),
        room=resources.able(query) & host_ports.able(query),
        never=table.never(),
        gap=registry.gaps(query),
        effort=effort,
    )


def _search_silent_nodes(
    table: reasons.ReasonTable,
    inventory: Inventory,
    candidate: queued_pods.Candidate,
    quiet: node_table.Mask,
    effort: allocator.Effort,
) -> None:
    """Look at the nodes that gave no reason, and write one down for those that should have."""
    request, rank = candidate.request, inventory.rank()
    left = set(np.flatnonzero(quiet).tolist())
    if request.need.simple or not request.need.asked:
        # One of them is looked at for all that are alike: this costs no search.
        patience = allocator.Effort(feasibility.NO_LIMIT, effort.expired)
        asking = feasibility.Feasibility(
            inventory, each=feasibility.NO_LIMIT, in_all=feasibility.NO_LIMIT, effort=patience
        )
        left -= set(asking.nodes(request, candidate.demand, quiet).nodes)
    most = int(effort.left * PART_FOR_SURVEY)
    mine = effort.part(most)
    alike: Alike = {}
    for at in sorted(left, key=lambda at: int(rank[at])):
        why = _asked(inventory, at, request, mine, alike)
        if why is not None:
            table.add(at, why)
    effort.use(most, mine)


Alike = dict[Hashable, Why | None]  # What nodes have said, by what that depends on.


def _asked(
    inventory: Inventory, at: int, request: requests.Request, effort: allocator.Effort, alike: Alike
) -> Why | None:
    """Ask one node for its reason, if it has one; where no effort is left it is not asked."""
    info = inventory.infos[at]
    if info is None or effort.left <= 0:
        return Reason.UNDECIDED, ""
    view = info.view()
    kind = equivalence.of(view, request)
    if kind is None or kind not in alike:
        found = look(view, request, effort)
        why = (found.reason, found.detail) if isinstance(found, allocator.Shortfall) else None
        if effort.spent or kind is None:
            return why
        alike[kind] = why
    effort.spend(1)
    return alike[kind]


def look(
    view: device_view.View, request: requests.Request, effort: allocator.Effort
) -> tuple[decisions.Grant, ...] | allocator.Shortfall:
    """Search one node, as long as the search for a place does at most."""
    effort.spend(STEPS_TO_LOOK)  # From the first of these on time counts, what is read for it included.
    part = effort.part(search.STEPS_A_NODE)
    found = allocator.place(view, request, effort=part)
    effort.use(search.STEPS_A_NODE, part)
    return found
