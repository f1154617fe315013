"""Whether the node has the cpu, memory, pods and other resources left that the pod asks for.

Resources in `demand.device_resources`, such as nvidia.com/gpu, are allocated from the Device. Here they are
checked only on nodes whose `status.allocatable` has them, too.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

import numpy as np

from berth_crds import aliases
from berth_operator.scheduling import changes, node_table, queued_pods
from berth_operator.scheduling.changes import ProposedChange, Scenario
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.gaps import gap
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import Deficit, unit_of
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.wording import amount as amount_with_unit
from berth_operator.scheduling.wording import asked_for_less, clipped, have

LISTED: Final = "(nodes list it if the policy has nodeNames: koordinator)"


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes that have enough of all resources left."""
    return have_enough(query.inventory, query.rows, query.signature.demand)


def have_enough(inventory: Inventory, rows: node_table.Rows, demand: facts.NodeDemand) -> node_table.Mask:
    """Return which of these nodes have enough of all resources left."""
    table, columns = inventory.table, inventory.table.resources.of
    mask: node_table.Mask = table.has_node[rows].copy()
    for name, amount in demand.amounts:
        if (column := columns.get(name)) is None:
            return np.zeros(len(mask), dtype=np.bool_)
        mask &= table.left[rows, column] >= amount
    for name, amount in demand.device_resources:
        if (column := table.resources.get(name)) is not None:
            mask &= (table.left[rows, column] >= amount) | (
                table.allocatable[rows, column] == node_table.ABSENT
            )
    return mask


def _has(table: node_table.NodeTable, rows: node_table.Rows, name: str, amount: int) -> node_table.Mask:
    """Return which of these nodes have this amount left; what is absent is less than any amount."""
    if (column := table.resources.get(name)) is None:
        return np.zeros(table.row_count(rows), dtype=np.bool_)
    mask: node_table.Mask = table.left[rows, column] >= amount
    return mask


def free_amounts(table: node_table.NodeTable, rows: node_table.Rows, name: str) -> node_table.Numbers:
    """Return how much of a resource the nodes have left; ABSENT where they do not advertise it."""
    total = allocatable(table, rows, name)
    if (column := table.resources.get(name)) is None:
        return total
    found: node_table.Numbers = np.where(total >= 0, np.maximum(table.left[rows, column], 0), total)
    return found


def allocatable(table: node_table.NodeTable, rows: node_table.Rows, name: str) -> node_table.Numbers:
    """Return how much of a resource the nodes have in all; ABSENT where they do not advertise it."""
    if (column := table.resources.get(name)) is None:
        return np.full(table.row_count(rows), node_table.ABSENT, dtype=np.int64)
    total: node_table.Numbers = table.allocatable[rows, column]
    return total


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that have less in all than is asked."""
    demand = query.signature.demand
    for name, amount in demand.amounts:
        total = allocatable(query.table, query.rows, name)
        yield Rejection(total < amount, Reason.INSUFFICIENT_RESOURCE, name, never_fits=True)
    for name, amount in demand.device_resources:
        total = allocatable(query.table, query.rows, name)
        too_small = (total != node_table.ABSENT) & (total < amount)
        yield Rejection(too_small, Reason.INSUFFICIENT_RESOURCE, name, never_fits=True)


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that have too little left."""
    demand = query.signature.demand
    for name, amount in demand.amounts:
        yield Rejection(~_has(query.table, query.rows, name, amount), Reason.INSUFFICIENT_RESOURCE, name)
    for name, amount in demand.device_resources:
        free = free_amounts(query.table, query.rows, name)
        yield Rejection((free != node_table.ABSENT) & (free < amount), Reason.INSUFFICIENT_RESOURCE, name)


def gaps(query: Query) -> Iterator[node_table.Scores]:
    """Yield which fraction of each resource is missing; a node without it is `never_fits` and comes last."""
    demand = query.signature.demand
    for name, amount in demand.amounts + demand.device_resources:
        free = free_amounts(query.table, query.rows, name)
        yield np.where(free == node_table.ABSENT, 0, gap(free, amount))


# ---------------------------------------------------------------- what would lift it


def deficits(demand: facts.NodeDemand, node: facts.Node, held: Mapping[str, int]) -> Iterator[Deficit]:
    """Yield the resources of which a node has too little left, given what its pods hold.

    An overcommitted node has less than zero left.
    """
    total = dict(node.allocatable)
    for name, amount in demand.amounts + tuple(one for one in demand.device_resources if one[0] in total):
        free = max(total.get(name, 0), 0) - held.get(name, 0)
        if free < amount:
            yield Deficit(name, unit_of(name), amount, free)


def _held(scenario: Scenario) -> Mapping[str, int]:
    """Return what the pods of a scenario hold, all together, of each resource that is asked for."""
    asked = {name for name, _ in scenario.demand.amounts + scenario.demand.device_resources}
    held = collections.Counter[str]()
    for hold in scenario.holds:
        for name, amount in hold.amounts:
            if name in asked:
                held[name] += amount
    return held


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FreeResource(changes.Change):
    """Pods of the node give up what is missing of a resource."""

    precedence: ClassVar = changes.Precedence.FREE_RESOURCE
    deficit: Deficit

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario in which pods give up all that they have of it, until it is enough."""
        return dataclasses.replace(scenario, holds=tuple(self._reduced(scenario.holds)))

    def _reduced(self, holds: Iterable[Hold]) -> Iterator[Hold]:
        missing = self.deficit.missing
        for hold in holds:
            held = dict(hold.amounts)
            taken = min(held.get(self.deficit.name, 0), missing)
            missing -= taken
            if taken:
                held[self.deficit.name] -= taken
            yield dataclasses.replace(hold, amounts=tuple(held.items())) if taken else hold

    def clause(self) -> str:
        """Return how much would have to be freed, or how many pods would have to terminate."""
        missing, node = self.deficit.missing, clipped(self.node)
        if self.deficit.name == facts.PODS:
            return f"{missing} {'pod' if missing == 1 else 'pods'} on {node} terminated"
        amount = amount_with_unit(self.deficit.unit, missing)
        return f"{amount} {clipped(self.deficit.name)} were freed on {node}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AskLessResource(changes.Change):
    """The pod asks for less of a resource of the node."""

    precedence: ClassVar = changes.Precedence.ASK_LESS
    deficit: Deficit

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario in which the pod asks for what there is."""
        amounts = dict(scenario.demand.amounts) | {self.deficit.name: self.deficit.free}
        demand = dataclasses.replace(scenario.demand, amounts=tuple(amounts.items()))
        return dataclasses.replace(scenario, demand=demand)

    def clause(self) -> str:
        """Return how much it would ask for."""
        return asked_for_less(self.deficit)


def relaxations(failed: FailedPlacement) -> Iterator[ProposedChange]:
    """Yield the options to ask for no more of a resource than some node has left."""
    rows = np.array(failed.rows_blocked_by_this_alone(), dtype=np.int64)
    for name, amount in failed.query.signature.demand.amounts:
        free = free_amounts(failed.query.table, rows, name)
        amounts = np.unique(free[(free > 0) & (free < amount)])[::-1].tolist()
        if name != facts.PODS and amounts:  # A pod cannot be less than one pod.
            found = [Deficit(name, unit_of(name), amount, one) for one in amounts]
            variants = [AskLessResource(deficit=one, cost=one.missing_fraction) for one in found]
            yield ProposedChange(variants)


def remedies(scenario: Scenario, _shortfall: object) -> Iterator[ProposedChange]:
    """Yield for each resource the option that pods give up what is missing, if they hold that much.

    It is not proposed that some number of pods ends where it depends on which of them whether the waiting pod
    then fits.
    """
    held = _held(scenario)
    for deficit in deficits(scenario.demand, scenario.node, held):
        unsure = deficit.name == facts.PODS and _matters_which_pod_ends(scenario)
        if held.get(deficit.name, 0) >= deficit.missing and not unsure:
            cost = min(1.0, deficit.missing_fraction)
            yield ProposedChange([FreeResource(node=scenario.node.name, deficit=deficit, cost=cost)])


def _matters_which_pod_ends(scenario: Scenario) -> bool:
    """Whether a pod of the node may have cards that its record does not name, or be one that is required.

    The end of a pod never takes the waiting one further from what its anti-affinity and its spread allow.
    """
    rules = scenario.demand.inter_pod_rules
    return (rules is not None and bool(rules.affinity)) or any(hold.withheld for hold in scenario.holds)


def _lacking(nodes: int, _pod: queued_pods.PodInfo, detail: str) -> str:
    if detail == facts.PODS:
        return f"{have(nodes)} too many pods"
    if detail.startswith(aliases.LISTED_OR_REFUSED):
        return f"{have(nodes)} insufficient {clipped(detail)} {LISTED}"
    meant = aliases.closest_nvidia_name(detail)
    hint = f" (did you mean {meant}?)" if meant else ""
    return f"{have(nodes)} insufficient {clipped(detail)}{hint}"


CONSTRAINT = Constraint(
    feasible=feasible,
    unresolvable=unresolvable,
    resolvable=resolvable,
    gaps=gaps,
    relaxations=relaxations,
    remedies=remedies,
    words={Reason.INSUFFICIENT_RESOURCE: _lacking},
    brief={Reason.INSUFFICIENT_RESOURCE: "insufficient"},
)
