"""A closer look at a few nodes: what is wrong with each of their devices, and how much is missing.

Which nodes are looked at: the nearest ones, and one of each reason, so that every reason
has an example with its devices; all of them if that is wanted.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.constraints import resources
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import CARDS, CORE, REPLICAS, Deficit, Unit, unit_of
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.explain import findings, node_survey
from berth_operator.scheduling.explain.findings import Finding

NEAREST_LOOKED_AT: Final = 8
EXAMPLES: Final = 8


def findings_of(survey: node_survey.NodeSurvey, *, whole: bool) -> tuple[Finding, ...]:
    """Return for each refusing node, by name, why it refuses."""
    told = dict(zip(survey.refusing, _from_afar(survey), strict=True))
    most = max(survey.effort.left, 0) // 2
    mine = survey.effort.part(most)
    # The nearest first: where the effort does not suffice for all, it is the examples that go without.
    for at in survey.refusing if whole else dict.fromkeys(worth_telling(survey)):
        if mine.left > 0:
            told[at] = _diagnosed(survey, at, told[at], mine)
    survey.effort.use(most, mine)
    return tuple(told.values())


def _from_afar(survey: node_survey.NodeSurvey) -> Iterator[Finding]:
    """Yield what the sums said; plain lists, because there may be thousands."""
    codes, never, found = survey.code.tolist(), survey.never.tolist(), survey.inventory.infos
    whys = [why or (Reason.UNDECIDED, "") for why in survey.whys]
    for at in survey.refusing:
        info, (reason, detail) = found[at], whys[codes[at]]
        published = info is not None and info.device is not None
        yield Finding(info.name if info else "", reason, detail, never[at], published=published)


def worth_telling(survey: node_survey.NodeSurvey) -> Iterator[int]:
    """Choose the nodes to look at."""
    yield from survey.nearest()[:NEAREST_LOOKED_AT]
    codes, first = np.unique(survey.code[survey.refusing], return_index=True)
    examples = {
        survey.whys[code]: survey.refusing[at]
        for code, at in zip(codes.tolist(), first.tolist(), strict=True)
    }
    counts = [one for one in survey.counts if one.reason is not Reason.UNDECIDED]
    yield from (examples[one.reason, one.detail] for one in counts[:EXAMPLES])


def _diagnosed(survey: node_survey.NodeSurvey, at: int, seen: Finding, effort: allocator.Effort) -> Finding:
    """Add to what the sums said of a node what is missing, and what is wrong with each device."""
    if seen.reason is Reason.INSUFFICIENT_RESOURCE:
        return dataclasses.replace(seen, looked=True, measures=tuple(lacking_resources(survey, at)))
    if seen.reason in node_survey.PLACES | node_survey.STATES:
        return dataclasses.replace(seen, looked=True)
    if seen.reason is Reason.WITHHELD:
        holders = sorted(hold.title for hold in survey.row(at).holds.values() if hold.withheld)
        seen = dataclasses.replace(seen, holders=tuple(holders))
    shortfall = node_survey.look(survey.row(at).view(), survey.request, effort)
    if not isinstance(shortfall, allocator.Shortfall):
        # The sums are stricter than the allocator where cards are withheld.
        return dataclasses.replace(seen, looked=True)
    return dataclasses.replace(
        seen,
        never=seen.never or shortfall.never,
        looked=True,
        measures=tuple(_missing_devices(survey.request, shortfall)),
        shortfall=shortfall,
    )


def _missing_devices(request: requests.Request, shortfall: allocator.Shortfall) -> Iterator[Deficit]:
    if shortfall.found < shortfall.wanted:
        yield Deficit(_name(request, shortfall), Unit.PIECES, shortfall.wanted, shortfall.found)


def _name(request: requests.Request, shortfall: allocator.Shortfall) -> str:
    """Return what is counted, as the counted reasons do."""
    asks = {type(ask) for one in request.containers if one.name == shortfall.container for ask in one.asks}
    if not shortfall.detail:
        return REPLICAS if asks == {requests.Replicas} else CARDS
    profiles = {one.profile for one in request.need.instances}
    return f"MIG {shortfall.detail}" if shortfall.detail in profiles else shortfall.detail


def lacking_resources(survey: node_survey.NodeSurvey, at: int) -> Iterator[Deficit]:
    """List the resources that a node has too little of; what it has may be less than nothing."""
    table, one = survey.inventory.table, np.array([at])
    for name, amount in (*survey.demand.amounts, *survey.demand.served):
        given = int(resources.allocatable(table, one, name)[0])
        if given == node_table.ABSENT and (name, amount) in survey.demand.served:
            continue
        used = survey.row(at).amounts.get(name, 0)
        if max(given, 0) - used < amount:
            yield Deficit(name, unit_of(name), amount, max(given, 0) - used)


# ---------------------------------------------------------------- the nearest

# Reasons that are about how much is left: only these can be nearly enough.
USED: Final = frozenset({Reason.FULL, Reason.IN_USE, Reason.PARTLY_USED})


def nearest(found: Iterable[Finding]) -> findings.Nearest | None:
    """Choose what comes closest: what lacks the smallest part, then the lower name and minor.

    One that has nothing at all of what is missing is near nothing, and neither is one that
    could never take the pod or whose devices nobody may have just now.
    """
    near = (one for finding_ in found if not finding_.never for one in candidates(finding_))
    near = (one for one in near if one.lack < 1)
    return min(near, key=lambda one: (round(one.lack, 6), one.node, one.minor), default=None)


def candidates(found: Finding) -> Iterator[findings.Nearest]:
    """Return what may be near on one node: its cards one by one if one is wanted, else their number."""
    cards = [] if found.shortfall is None else list(_near_cards(found, found.shortfall))
    if cards:
        yield from cards
    elif found.measures:
        yield findings.Nearest(found.node, found.reason, found.detail, found.measures)


def _near_cards(found: Finding, shortfall: allocator.Shortfall) -> Iterator[findings.Nearest]:
    for verdict in shortfall.against:
        measures = tuple(missing(verdict))
        if shortfall.wanted == 1 and verdict.reason in USED and not verdict.never and measures:
            yield findings.Nearest(
                found.node, found.reason, found.detail, measures, verdict.device, verdict.minor, verdict.type
            )


def missing(verdict: allocator.Verdict) -> Iterator[Deficit]:
    """List what of a device is too little."""
    wanted, free = verdict.wanted, verdict.free
    if free.core < wanted.core:
        yield Deficit(core_of(verdict.type), Unit.PERCENT, wanted.core, free.core)
    if free.memory < wanted.memory:
        yield Deficit("", Unit.BYTES, wanted.memory, free.memory)


def core_of(kind: str) -> str:
    """Return what a part of a device is a part of: cards have cores, others are just shared."""
    return CORE if kind == devices.GPU else ""
