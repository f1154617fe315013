"""The victims: pods of a node that would have to end for the waiting pod to fit.

Nothing is preempted: this is advice, and priority plays no part in it. The pods are taken in the order of
`trials.victims_in_order`, so a smaller set of other pods might do; `advice` leaves out those that need
not end. If freeing only the devices that the waiting pod would get is enough, that is proposed instead, for
the victims may hold more.
"""

from collections.abc import Iterator

from berth_operator.scheduling import changes
from berth_operator.scheduling.changes import DeviceRef, ProposedChange, Scenario
from berth_operator.scheduling.what_if import explanation_budget, trials
from berth_operator.scheduling.what_if.node_survey import NodeSurvey


def remedies(scenario: Scenario) -> Iterator[ProposedChange]:
    """Yield a proposal to end pods, first those that share their devices with the fewest others."""
    return changes.removing_pods(scenario.node.name, scenario.holds[: explanation_budget.MOST_VICTIMS])


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
