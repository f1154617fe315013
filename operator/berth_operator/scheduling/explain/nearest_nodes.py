"""Which node comes nearest: the one that lacks the smallest part, or that has the fewest obstacles.

A node that has nothing at all of what is missing is not near, and neither is one that could
never take the pod or whose devices are given to no pod just now.
"""

import dataclasses
from collections.abc import Iterable, Iterator

from berth_operator.scheduling import gpu_units, signatures
from berth_operator.scheduling.changes import Scenario
from berth_operator.scheduling.constraints import cards, reason_counts, registry, taints_and_affinity
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import NodeReason, Reason
from berth_operator.scheduling.devices import allocator, device_facts, requests
from berth_operator.scheduling.explain import diagnosis, findings
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.what_if import node_survey, trials


def find_nearest(found: Iterable[findings.Finding]) -> findings.Nearest | None:
    """Return what lacks the smallest part, then the lower name and minor."""
    known = (one for one in found if (one.deficits or one.shortfall) and not one.never_fits)
    near = (one for finding in known for one in _candidates(finding) if one.lack < 1)
    return min(near, key=lambda one: (round(one.lack, 6), one.node, one.minor), default=None)


def _candidates(found: findings.Finding) -> Iterator[findings.Nearest]:
    """Yield what may be near on one node: its cards one by one if one is wanted, else their number."""
    near = findings.Nearest(found.node, found.reason, found.detail, found.deficits)
    shortfall = found.shortfall
    cards_ = [] if shortfall is None or shortfall.wanted != 1 else list(_near_cards(near, shortfall))
    yield from cards_ or ([near] if found.deficits else [])


def _near_cards(near: findings.Nearest, shortfall: allocator.Shortfall) -> Iterator[findings.Nearest]:
    for verdict in shortfall.verdicts:
        missing = tuple(cards.missing(verdict))
        if verdict.reason in cards.USED and not verdict.never_fits and missing:
            yield dataclasses.replace(
                near, deficits=missing, device=verdict.device, minor=verdict.minor, type=verdict.type
            )


# ---------------------------------------------------------------- all that is in the way


def with_obstacles(survey: node_survey.NodeSurvey) -> list[tuple[int, tuple[NodeReason, ...]]]:
    """Return the nodes that come nearest with all that is in their way, the fewest obstacles first."""
    found = []
    for row in dict.fromkeys(diagnosis.worth_diagnosing(survey)):
        known = survey.node(row).node and trials.can_be_tried(survey, row)
        if known and not survey.budget.exhausted:
            before = trials.scenario_of(survey, row)
            survey.budget.spend_on_trial(before)
            found.append((row, tuple(dict.fromkeys(_obstacles(survey, row, before)))))
    return sorted(found, key=lambda one: len(one[1]))


def _of_agent(before: Scenario, device: device_facts.Device) -> Iterator[NodeReason]:
    """Yield why a node gives out none of its devices, if so."""
    if before.agent_not_ready:
        yield Reason.SILENT, ""
    elif device.failed:
        yield Reason.SOURCE_FAILED, device.failed
    if before.quarantine:
        yield Reason.QUARANTINED, before.quarantine


def _obstacles(survey: node_survey.NodeSurvey, row: int, before: Scenario) -> Iterator[NodeReason]:
    """Yield what is wrong with a node: its taints and labels, its agent, its devices, its resources."""
    whys = taints_and_affinity.obstacles(before.node, survey.demand.node_selection).values()
    yield from sorted(whys, key=lambda why: why[1])
    if survey.request and before.device is not None:
        yield from _of_agent(before, before.device)
    yield from _of_devices(survey, before)
    elsewhere = dataclasses.replace(survey.demand, node_selection=facts.ANYWHERE)
    rows = slice(row, row + 1)
    query = Query(survey.inventory, rows, signatures.of(requests.NO_DEVICES, elsewhere))
    for constraint in registry.CONSTRAINTS:
        if constraint is not taints_and_affinity.CONSTRAINT and constraint.applies_to(query.signature):
            for rejection in (*constraint.unresolvable(query), *constraint.resolvable(query)):
                if rejection.nodes[0]:
                    yield rejection.reason, rejection.detail


def _of_devices(survey: node_survey.NodeSurvey, before: Scenario) -> Iterator[NodeReason]:
    """Yield what is wrong with a node's devices, as if all else were well."""
    if not survey.request:
        return
    device = dataclasses.replace(before.device, failed="") if before.device else None
    well = dataclasses.replace(
        before, node=facts.Node(before.node.name), device=device, agent_not_ready=False, quarantine=""
    )
    copy = trials.inventory_of(survey, well)
    by_name = facts.NodeDemand(device_resources=survey.demand.device_resources)
    query = Query.for_all_nodes(copy, signatures.of(survey.request, by_name))
    table = reason_counts.evaluate(query, {})
    info = copy.infos[0]
    if table.reason_index[0]:
        yield list(table.node_reasons)[int(table.reason_index[0]) - 1]
    elif info is not None and not survey.budget.exhausted:
        request = gpu_units.request_on_unit(survey.request, survey.demand, info.view().device.gpu_unit)
        found = node_survey.search_node(info.view(), request, survey.budget)
        if isinstance(found, allocator.Shortfall):
            yield found.reason, found.detail
