"""One node as it would be after a change, and whether the pod then fits there.

The node alone is copied and asked by a search of its own, so a trial can neither damage the
inventory nor be confused by what is remembered of it, and what it shows is what the real
search would do. Trials are paid for, because each costs as much as placing a pod.
"""

from berth_operator.scheduling import decisions, node_info
from berth_operator.scheduling.changes import Situation
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.search import Search
from berth_operator.scheduling.what_if.node_survey import NodeSurvey


def situation(survey: NodeSurvey, row: int) -> Situation:
    """Return the pod and a node as they are."""
    info = survey.row(row)
    assert info.node is not None, "a node that refuses is known"  # noqa: S101
    holds = tuple(eviction_order(info))
    return Situation(survey.request, survey.demand, info.node, info.owned, info.silent, holds)


def eviction_order(info: node_info.NodeInfo) -> list[Hold]:
    """Return the pods of a node in order: those first whose end would soonest leave a device unused."""
    pods: dict[str, int] = {}
    for hold in info.holds.values():
        for share in hold.shares:
            pods[share.uuid] = pods.get(share.uuid, 0) + 1

    def key(hold: Hold) -> tuple[object, ...]:
        crowd = min((pods[share.uuid] for share in hold.shares), default=0)
        memory = sum(share.memory for share in hold.shares)
        first = min((share.minor for share in hold.shares), default=0)
        return not hold.shares, crowd, len(hold.shares), memory, first, hold.title, hold.uid

    return sorted(info.holds.values(), key=key)


def copied(survey: NodeSurvey, tried: Situation) -> Inventory:
    """Return an inventory of the node alone."""
    copy = Inventory(one_pod_a_card=survey.inventory.one_pod_a_card)
    copy.put_node(tried.node)
    if tried.device is not None:
        copy.put_device(tried.device)
        copy.set_silent(tried.device.node, tried.silent)
    for hold in tried.holds:
        copy.charge(hold)
    return copy


def place(survey: NodeSurvey, tried: Situation) -> decisions.Placement | None:
    """Return where the pod finds its place; nowhere if no budget is left to try it."""
    if survey.budget.exhausted:
        return None
    survey.budget.spend_on_trial(tried)
    search = Search(copied(survey, tried))
    return search.place(tried.request, tried.demand, policy=survey.policy, effort=survey.budget.effort)


def fits(survey: NodeSurvey, tried: Situation) -> bool:
    """Whether the pod finds its place."""
    return place(survey, tried) is not None


def devices(survey: NodeSurvey, tried: Situation) -> set[str]:
    """Return the devices that the pod would get."""
    found = place(survey, tried)
    return {share.uuid for share in allocator.held(found.grants)} if found is not None else set()
