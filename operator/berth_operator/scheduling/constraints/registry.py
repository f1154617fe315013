"""All constraints, in the order in which nodes are asked for their reasons.

`constraint` tells what the parts of one are for; the words of its reasons stand in its own file. To add one,
write a file that ends with its `CONSTRAINT`, and name it here. Besides, it may need

- a reason of its own: a `decisions.Reason`, which stands in `decisions.LIFTED_BY` with the events after which
  pods are tried again. If a change of the Node object lifts it, it stands in
  `node_survey.NODE_OBJECT_REASONS` as well, if repairing the node does, in `advice.REPAIRABLE`, and if such a
  node gives out no device at all, in `node_table.NO_DEVICES_REASONS`. `explain.phrases` has the exceptions in
  how reasons are put (`FOLLOWED`, `LASTING`);
- a fact that nobody has read so far: of a Node, a field in `nodes.facts`, filled by `translate.nodes`; of a
  Device, one in `devices.device_facts`, filled by `translate.devices`;
- a column of `node_table`, if a filter reads that fact of all nodes at once.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from berth_operator.scheduling import gpu_units, node_table, signatures
from berth_operator.scheduling.changes import ProposedChange, Scenario
from berth_operator.scheduling.constraints import (
    agent_state,
    arrangement,
    card_memory,
    cards,
    claims,
    constraint,
    counted_devices,
    delivery,
    device_state,
    disks,
    evaluation,
    free_memory,
    host_ports,
    namespace_quarantine,
    partition_policy,
    pod_affinity,
    replicas_each,
    resources,
    taints_and_affinity,
    topology_spread,
    volume_limits,
    volume_provisioning,
    volume_topology,
)
from berth_operator.scheduling.constraints.constraint import Constraint, DependsOn, FailedPlacement
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.wording import Words

CONSTRAINTS: Final[tuple[Constraint, ...]] = (
    claims.CONSTRAINT,  # The same for all nodes, so that it alone is reported.
    taints_and_affinity.CONSTRAINT,
    volume_topology.CONSTRAINT,
    volume_provisioning.CONSTRAINT,
    agent_state.CONSTRAINT,
    namespace_quarantine.CONSTRAINT,
    delivery.CONSTRAINT,
    device_state.CONSTRAINT,
    cards.CONSTRAINT,
    free_memory.CONSTRAINT,
    card_memory.CONSTRAINT,
    replicas_each.CONSTRAINT,
    counted_devices.CONSTRAINT,
    resources.CONSTRAINT,
    host_ports.CONSTRAINT,
    disks.CONSTRAINT,
    topology_spread.CONSTRAINT,
    pod_affinity.CONSTRAINT,
    volume_limits.CONSTRAINT,
    partition_policy.CONSTRAINT,
    arrangement.CONSTRAINT,
    evaluation.CONSTRAINT,  # No check: the words of reasons that belong to no constraint.
)
WORDS: Final[Mapping[Reason, Words]] = {
    reason: words for one in CONSTRAINTS for reason, words in one.words.items()
}
BRIEF: Final[Mapping[Reason, str]] = {
    reason: words for one in CONSTRAINTS for reason, words in one.brief.items()
}
# Asked apart from the others (`passes_node_filters`): the first makes the mask that the others narrow, the
# second is left out on clusters without partitions.
_APART: Final = (resources.CONSTRAINT, partition_policy.CONSTRAINT)
_NODE_CONSTRAINTS: Final = tuple(
    one for one in CONSTRAINTS if one not in _APART and one.depends_on is not DependsOn.OTHER_PODS
)
_INTER_POD_FILTERS: Final = tuple(
    (one.applies_to, one.feasible)
    for one in CONSTRAINTS
    if one.feasible and one.depends_on is DependsOn.OTHER_PODS
)

# Constraints other than resources that may be lifted when a pod without devices ends, such as host ports.
_LIFTED_BY_ANY_POD: Final = tuple(
    one.applies_to
    for one in CONSTRAINTS
    if one.resolvable is not constraint.nothing
    and not one.only_device_pods_lift_it
    and one.depends_on is not DependsOn.OTHER_PODS  # Each pod that changes is an event for these.
    and one is not resources.CONSTRAINT
)


def lifted_by_pods_without_devices(signature: signatures.Signature) -> bool:
    """Whether the end of a pod without devices may lift more than the shortage of a resource."""
    return any(applies(signature) for applies in _LIFTED_BY_ANY_POD)


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes that pass the filters; only a device search shows whether the devices suffice."""
    mask = passes_node_filters(query, filters_of(query.signature))
    others = passes_inter_pod_filters(query)
    return mask if others is None else mask & others


def passes_inter_pod_filters(query: Query) -> node_table.Mask | None:
    """Return the nodes that pass the filters that depend on pods elsewhere; None where the pod has none."""
    if query.signature.demand.inter_pod_rules is None:
        return None
    mask = np.ones(query.node_count, dtype=np.bool_)
    for applies, passing in _INTER_POD_FILTERS:
        if applies(query.signature):
            mask &= passing(query)
    return mask


def filters_of(signature: signatures.Signature) -> tuple[constraint.Filter, ...]:
    """Return the filters that apply to a signature and depend on nothing but the node and the pods on it."""
    return tuple(one.feasible for one in _NODE_CONSTRAINTS if one.feasible and one.applies_to(signature))


def passes_node_filters(query: Query, filters: tuple[constraint.Filter, ...]) -> node_table.Mask:
    """Return the nodes that pass the filters of their signature (`filters_of`)."""
    mask = resources.feasible(query)  # A new mask, without rows that have no Node object.
    if (of_unit := gpu_units.nodes_meant(query.table, query.rows, query.signature)) is not None:
        mask &= of_unit
    for passing in filters:
        mask &= passing(query)
    # On most clusters no node insists on partitions, so this is left out.
    if query.table.honoring and partition_policy.asked(query.signature):
        mask &= partition_policy.feasible(query)
    return mask


Masks = list[tuple[Constraint, node_table.Mask]]


def relaxations(
    request: requests.DeviceRequest, query: Query, shortfalls: Sequence[allocator.Shortfall]
) -> Iterator[ProposedChange]:
    """Yield the changes of the pod that would lift a constraint, on these nodes or on one of them."""
    masks = functools.cache(lambda: _masks(query))  # Where several ask, the same ones; and perhaps none asks.
    for one in CONSTRAINTS:
        only_blocked = functools.partial(_only_blocked_by, one, query, masks)
        yield from one.relaxations(FailedPlacement(request, query, shortfalls, only_blocked))


def blocked_by_one(query: Query) -> node_table.Mask:
    """Return the nodes that one constraint blocks, and no other: perhaps one change is enough there."""
    masks = [passing for _, passing in _masks(query)]
    mask: node_table.Mask = np.sum(masks, axis=0) == len(masks) - 1
    return mask


def _masks(query: Query) -> Masks:
    """Return which nodes pass each constraint that the signature has."""
    found = ((one, one.feasible) for one in CONSTRAINTS if one.applies_to(query.signature))
    return [(one, passing(query)) for one, passing in found if passing is not None]


def _only_blocked_by(blocking: Constraint, query: Query, masks: Callable[[], Masks]) -> list[int]:
    """Return the rows of the nodes that only this constraint blocks; of a single node asked, that one."""
    mask = query.table.has_node[query.rows].copy()
    for one, passing in masks() if query.node_count > 1 else ():
        mask &= ~passing if one is blocking else passing
    found: list[int] = np.arange(query.inventory.size)[query.rows][mask].tolist()
    return found


def remedies(scenario: Scenario, shortfall: allocator.Shortfall | None) -> Iterator[ProposedChange]:
    """Yield the changes of one node that would lift a constraint."""
    for one in CONSTRAINTS:
        yield from one.remedies(scenario, shortfall)


def gaps(query: Query) -> node_table.Scores:
    """Return for each node what part is missing of what it lacks most, apart from other pods (0 to 1)."""
    return _largest_gaps(query, (one for one in CONSTRAINTS if one.depends_on is not DependsOn.OTHER_PODS))


def inter_pod_gaps(query: Query) -> node_table.Scores:
    """Return for each node what part is missing most of what is required of other pods (0 to 1)."""
    return _largest_gaps(query, (one for one in CONSTRAINTS if one.depends_on is DependsOn.OTHER_PODS))


def _largest_gaps(query: Query, constraints: Iterable[Constraint]) -> node_table.Scores:
    found = np.zeros(query.node_count)
    for one in constraints:
        for gap in one.gaps(query):
            found = np.maximum(found, gap)
    return found
