"""The diagnosis of a few nodes: what is wrong with each of their devices, and how much is missing.

Diagnosed are the nearest nodes and one node of each of the most frequent reasons; all of them if that is
wanted. Devices are examined where the reason is about devices.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np

from berth_operator.scheduling import node_info
from berth_operator.scheduling.constraints import resources
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import CARDS, REPLICAS, Deficit, Unit
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.explain.findings import Finding
from berth_operator.scheduling.what_if import explanation_budget, node_survey


def findings_of(survey: node_survey.NodeSurvey) -> tuple[Finding, ...]:
    """Return for each refusing node, by name, why it refuses."""
    found = dict(zip(survey.refusing_rows, _from_survey(survey), strict=True))
    with survey.budget.fraction(explanation_budget.DIAGNOSIS_FRACTION) as budget:
        # The nearest come first: where the budget does not suffice for all, some examples are not diagnosed.
        for row in (
            survey.refusing_rows if budget.unlimited_nodes else dict.fromkeys(worth_diagnosing(survey))
        ):
            if not budget.exhausted:
                found[row] = _diagnosed(survey, row, found[row], budget)
    return tuple(found.values())


def _from_survey(survey: node_survey.NodeSurvey) -> Iterator[Finding]:
    """Yield what the survey shows of each node; plain lists, because there may be thousands."""
    codes, never, found = survey.reason_index.tolist(), survey.never_fits.tolist(), survey.inventory.infos
    whys = [why or (Reason.UNDECIDED, "") for why in survey.node_reasons]
    asks_devices = survey.request.need.any_device
    for at in survey.refusing_rows:
        info, (reason, detail) = found[at], whys[codes[at]]
        is_known = not asks_devices or (info is not None and info.device is not None)
        yield Finding(info.name if info else "", reason, detail, never[at], is_known=is_known)


def worth_diagnosing(survey: node_survey.NodeSurvey) -> Iterator[int]:
    """Yield the nodes to diagnose: the nearest, and an example of each of the most frequent reasons."""
    yield from survey.nearest()[: explanation_budget.MOST_NEAREST_NODES]
    codes, first = np.unique(survey.reason_index[survey.refusing_rows], return_index=True)
    examples = {
        survey.node_reasons[code]: survey.refusing_rows[at]
        for code, at in zip(codes.tolist(), first.tolist(), strict=True)
    }
    counts = [one for one in survey.counts if one.reason is not Reason.UNDECIDED]
    yield from (examples[one.reason, one.detail] for one in counts[: explanation_budget.MOST_NEAREST_NODES])


def _diagnosed(
    survey: node_survey.NodeSurvey, row: int, seen: Finding, budget: explanation_budget.ExplanationBudget
) -> Finding:
    """Return the finding on a node with what is missing and what is wrong with each device."""
    info = survey.node(row)
    if seen.reason is Reason.INSUFFICIENT_RESOURCE and info.node is not None:
        found = resources.deficits(survey.demand, info.node, info.amounts)
        return dataclasses.replace(seen, diagnosed=True, deficits=tuple(found))
    if seen.reason in node_survey.NODE_OBJECT_REASONS | node_survey.NO_DEVICE_AT_ALL:
        return dataclasses.replace(seen, diagnosed=True)
    seen = dataclasses.replace(seen, withholding_pods=tuple(_withholding(info, seen)))
    request = survey.request_on(row)
    shortfall = node_survey.search_node(info.view(), request, budget)
    if not isinstance(shortfall, allocator.Shortfall):
        # The filters are stricter than the allocator where cards are withheld.
        return dataclasses.replace(seen, diagnosed=True)
    return dataclasses.replace(
        seen,
        never_fits=seen.never_fits or shortfall.never_fits,
        diagnosed=True,
        deficits=tuple(_missing_devices(request, shortfall)),
        shortfall=shortfall,
    )


def _withholding(info: node_info.NodeInfo, seen: Finding) -> list[str]:
    """Return the pods that may have any card of the node, or any device of the type that is lacking."""
    if seen.reason is Reason.WITHHELD:
        return sorted(hold.title for hold in info.holds.values() if hold.withheld)
    if seen.reason is Reason.INVALID_ALLOCATION:
        return sorted(hold.title for hold in info.holds.values() if seen.detail in hold.withheld_types)
    return []


def _missing_devices(request: requests.DeviceRequest, shortfall: allocator.Shortfall) -> Iterator[Deficit]:
    if shortfall.found < shortfall.wanted:
        yield Deficit(_name(request, shortfall), Unit.PIECES, shortfall.wanted, shortfall.found)


def _name(request: requests.DeviceRequest, shortfall: allocator.Shortfall) -> str:
    """Return the name of what is lacking, as the counted reasons spell it."""
    asks = {type(ask) for one in request.containers if one.name == shortfall.container for ask in one.asks}
    if not shortfall.detail:
        return REPLICAS if asks == {requests.Replicas} else CARDS
    profiles = {one.profile for one in request.need.instances}
    return f"MIG {shortfall.detail}" if shortfall.detail in profiles else shortfall.detail
