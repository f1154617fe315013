"""The victims: pods of a node that would have to end for the waiting pod to fit.

Nothing is preempted: this is advice, and priority plays no part in it. The pods are taken in the order of
`trials.holds_in_victim_order`, so a smaller set of other pods might do; `advice` leaves out those that need
not end. Where single pods stand in the way of a constraint, such as a host port, its own `remedies` propose
to end them, and are tried first. If freeing only the devices that the waiting pod would get is enough, that
is proposed instead, for the victims may hold more.
"""

from collections.abc import Iterator

from berth_operator.scheduling import changes
from berth_operator.scheduling.changes import DeviceRef, ProposedChange, Scenario
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.pod_index import label_matcher
from berth_operator.scheduling.what_if import explanation_budget, trials
from berth_operator.scheduling.what_if.node_survey import NodeSurvey


def remedies(scenario: Scenario) -> Iterator[ProposedChange]:
    """Yield proposals to end pods, first those that share their devices with the fewest others.

    The waiting pod may require one of them to be near, by affinity. Then ending all but that one is proposed
    first: `advice.cheapest_variant` assumes that ending more pods does no harm, which would be wrong here.
    """
    node, holds = scenario.node.name, scenario.holds
    if (needed := _last_needed(scenario)) is not None:
        others = [hold for hold in holds if hold is not needed]
        yield from changes.removing_pods(node, others[: explanation_budget.MOST_VICTIMS])
    yield from changes.removing_pods(node, holds[: explanation_budget.MOST_VICTIMS])


def _last_needed(scenario: Scenario) -> Hold | None:
    """Return the last of the node's pods that all terms of the waiting pod's affinity may select."""
    rules = scenario.demand.inter_pod_rules
    selectors = [term.selector for term in rules.affinity] if rules is not None else []
    tests = [(one, label_matcher(one.expressions)) for one in selectors]
    needed = (
        hold
        for hold in reversed(scenario.holds if tests else ())
        if all(_perhaps_in(selector, hold) and test(dict(hold.labels)) for selector, test in tests)
    )
    return next(needed, None)


def _perhaps_in(selector: facts.PodSelector, hold: Hold) -> bool:
    """Whether a selector may mean pods of the namespace of this one."""
    return selector.namespace_selector is not None or hold.namespace in selector.namespaces


def freeing_devices_instead(
    survey: NodeSurvey, row: int, change: changes.RemovePods
) -> changes.RemovePods | changes.FreeDevices:
    """Return a change that frees only the devices the pod would get, if that is enough; else this one.

    Freeing them is not proposed if a pod that stays has a part of one of them.
    """
    before = trials.scenario_of(survey, row)
    after = change.apply(before)
    granted = trials.granted_devices(survey, after)
    shares = {share.uuid: share for hold in change.holds for share in hold.shares if share.uuid in granted}
    if not shares or any(share.uuid in shares for hold in after.holds for share in hold.shares):
        return change
    devices = [DeviceRef(share.uuid, share.minor, type=share.type) for share in shares.values()]
    freed = changes.FreeDevices(
        node=change.node,
        cost=len(devices) / len(granted),
        holds=change.holds,
        devices=tuple(sorted(devices, key=lambda one: (one.minor, one.uuid))),
    )
    return freed if trials.fits(survey, freed.apply(before)) else change
