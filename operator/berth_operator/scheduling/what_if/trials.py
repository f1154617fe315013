"""One node as it would be after a change, and whether the pod then fits there.

Only this node and its pods are copied, and searched by a Search of their own. So a trial remembers nothing,
and shows what the real search would do. What the pod requires of other pods is asked of the real inventory;
for that time the pods that end are taken out of its index. Each trial is charged to the budget, because it
costs as much as placing a pod.
"""

import collections
import dataclasses

from berth_operator.scheduling import card_loads, decisions, node_info, signatures
from berth_operator.scheduling.changes import Scenario
from berth_operator.scheduling.constraints import registry
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.search import Search
from berth_operator.scheduling.what_if import explanation_budget
from berth_operator.scheduling.what_if.node_survey import NodeSurvey


def can_be_tried(survey: NodeSurvey, row: int) -> bool:
    """Whether a node has so few pods that a change can be tried there."""
    return len(survey.node(row).holds) <= explanation_budget.MOST_PODS_ON_A_NODE


def scenario_of(survey: NodeSurvey, row: int) -> Scenario:
    """Return the pod and a node as they are."""
    info = survey.node(row)
    assert info.node is not None, "the node has no Node object"  # noqa: S101
    holds = tuple(holds_in_victim_order(info))
    # A quarantine for the pod's namespace is treated as one of the node, so that the same change lifts both.
    quarantined = dict(survey.demand.quarantined_nodes).get(info.name, "")
    demand = dataclasses.replace(survey.demand, quarantined_nodes=frozenset())
    # `info.device` has cards out of service for pods whose allocations are invalid. The change may end such a
    # pod, so this is the Device before that; if the pod stays, `charge` takes the cards out of service again.
    return Scenario(
        survey.request,
        demand,
        node=info.node,
        device=info.device_before_holds,
        agent_not_ready=info.agent_not_ready,
        holds=holds,
        quarantine=info.quarantine or quarantined,
    )


def holds_in_victim_order(info: node_info.NodeInfo) -> list[Hold]:
    """Return the pods of a node as they are proposed as victims, in this order.

    First come the pods whose devices have the fewest other holders. Pods without devices come last.
    """
    holders = collections.Counter(share.uuid for hold in info.holds.values() for share in hold.shares)

    def key(hold: Hold) -> tuple[object, ...]:
        fewest_holders = min((holders[share.uuid] for share in hold.shares), default=0)
        memory = sum(share.memory for share in hold.shares)
        minor = min((share.minor for share in hold.shares), default=0)
        return not hold.shares, fewest_holders, len(hold.shares), memory, minor, hold.title, hold.uid

    return sorted(info.holds.values(), key=key)


def inventory_of(survey: NodeSurvey, scenario: Scenario) -> Inventory:
    """Return an inventory of the one node of a scenario."""
    copy = Inventory(exclusive_replicas=survey.inventory.exclusive_replicas)
    if scenario.demand.claims:
        copy.volumes = survey.inventory.volumes.copy_for_trial(scenario.demand.claims, scenario.node.name)
    copy.put_node(scenario.node)
    if scenario.device is not None:
        copy.put_device(scenario.device)
        copy.set_agent_not_ready(scenario.device.node, scenario.agent_not_ready)
        copy.set_quarantine(scenario.device.node, scenario.quarantine)
    for hold in scenario.holds:
        # Where the cluster does not show a pod's bind yet, its volumes are assumed, as in the real inventory.
        copy.charge(hold, assume_volumes=survey.inventory.volumes.assumes(hold.uid, hold.claims))
    if signatures.needs_free_memory(scenario.request):
        card_loads.copy_unallocated_use(survey.inventory, copy, scenario.node.name)
    return copy


def place(survey: NodeSurvey, scenario: Scenario) -> decisions.Placement | None:
    """Return the placement of the pod, if it fits; None once the budget is exhausted.

    What the pod requires of other pods is asked of the real inventory, since the copy has one node only.
    """
    signature = signatures.of(scenario.request, scenario.demand)
    if survey.budget.exhausted:
        return None
    survey.budget.spend_on_trial(scenario)
    if survey.budget.effort.cut_short:
        return None  # A node whose pods hold very much takes longer to copy than there is time.
    if scenario.demand.inter_pod_rules is not None:
        if not inter_pod_rules_hold(survey, scenario, signature):
            return None
        scenario = dataclasses.replace(
            scenario, demand=dataclasses.replace(scenario.demand, inter_pod_rules=None)
        )
        signature = signatures.of(scenario.request, scenario.demand)
    inventory = inventory_of(survey, scenario)
    return Search(inventory).place(
        scenario.request,
        scenario.demand,
        policy=survey.policy,
        effort=survey.budget.effort,
        query=Query.for_all_nodes(inventory, signature),
    )


def inter_pod_rules_hold(survey: NodeSurvey, scenario: Scenario, signature: signatures.Signature) -> bool:
    """Whether the pod's inter-pod rules hold on the node, once the pods that end in the scenario are gone."""
    inventory = survey.inventory
    info = inventory.node(scenario.node.name)
    assert info is not None, "the node of a scenario is there"  # noqa: S101
    stay = {hold.uid for hold in scenario.holds}
    ended = [hold for hold in info.holds.values() if hold.uid not in stay]
    with inventory.pods.without(ended):
        query = Query(inventory, slice(info.row, info.row + 1), signature)
        found = registry.passes_inter_pod_filters(query)
    return found is None or bool(found[0])


def fits(survey: NodeSurvey, scenario: Scenario) -> bool:
    """Whether the pod fits."""
    return place(survey, scenario) is not None


def granted_devices(survey: NodeSurvey, scenario: Scenario) -> set[str]:
    """Return the uuids of the devices that the pod would get."""
    found = place(survey, scenario)
    return {share.uuid for share in allocator.peak_shares(found.grants)} if found is not None else set()
