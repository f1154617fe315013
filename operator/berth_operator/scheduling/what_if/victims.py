"""The victims: pods of a node whose end would let the waiting pod in, none of them superfluous.

Nothing is preempted: this is advice, and priority plays no part in it. The pods are taken in the order of
`trials.order_of_victims`, so a smaller set of other pods might do. If freeing only the devices that the
waiting pod would get is enough, that is proposed instead, for the victims may hold more.
"""

from collections.abc import Iterator

from berth_operator.scheduling import changes
from berth_operator.scheduling.changes import DeviceRef, ProposedChange, Scenario
from berth_operator.scheduling.what_if import trials, work_budget
from berth_operator.scheduling.what_if.node_survey import NodeSurvey


def remedies(scenario: Scenario) -> Iterator[ProposedChange]:
    """Yield a proposal to end pods, first those that share their devices with the fewest others."""
    holds = scenario.holds[: work_budget.PODS_TRIED]
    if holds:
        name = scenario.node.name
        yield ProposedChange(
            [changes.EndPods(node=name, holds=holds[:count]) for count in range(1, len(holds) + 1)]
        )


def freeing_devices_instead(
    survey: NodeSurvey, row: int, change: changes.EndPods
) -> changes.EndPods | changes.FreeDevices:
    """Return a change that frees only the devices the pod would get, if that is enough; else this one."""
    before = trials.scenario(survey, row)
    granted = trials.granted_devices(survey, change.apply(before))
    held = {share.uuid: share for hold in change.holds for share in hold.shares if share.uuid in granted}
    shares = [DeviceRef(uuid, one.minor, one.core, one.memory, one.type) for uuid, one in held.items()]
    shares.sort(key=lambda share: (share.minor, share.uuid))
    cost = len(shares) / max(1, len(granted))
    freed = changes.FreeDevices(node=change.node, cost=cost, holds=change.holds, devices=tuple(shares))
    return freed if shares and trials.fits(survey, freed.apply(before)) else change
