"""A closer look at a few nodes: what is wrong with each of their devices, and how much is missing.

Which nodes are looked at: the nearest ones, and one of each reason, so that every reason
has an example with its devices; all of them if that is wanted.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from berth_operator.scheduling import columns, tally
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.explain import findings, hearing
from berth_operator.scheduling.explain.findings import Finding, Measure, Unit
from berth_operator.scheduling.nodes import facts

NEAREST_LOOKED_AT: Final = 8
EXAMPLES: Final = 8
CARDS: Final = "cards"
REPLICAS: Final = "replicas"
CORE: Final = "core"
UNITS: Final = {
    facts.CPU: Unit.THOUSANDTHS,
    facts.MEMORY: Unit.BYTES,
    "ephemeral-storage": Unit.BYTES,
}


def findings_of(heard: hearing.Hearing, *, whole: bool) -> tuple[Finding, ...]:
    """Say of each refusing node, by name, why it refuses."""
    told = dict(zip(heard.refusing, _from_afar(heard), strict=True))
    most = max(heard.effort.left, 0) // 2
    mine = heard.effort.part(most)
    # The nearest first: where the effort does not suffice for all, it is the examples that go without.
    for at in heard.refusing if whole else dict.fromkeys(worth_telling(heard)):
        if mine.left > 0:
            told[at] = _closely(heard, at, told[at], mine)
    heard.effort.use(most, mine)
    return tuple(told.values())


def _from_afar(heard: hearing.Hearing) -> Iterator[Finding]:
    """Say what the sums said; plain lists, because there may be thousands."""
    codes, never, found = heard.code.tolist(), heard.never.tolist(), heard.picture.rows
    whys = [why or (Reason.UNDECIDED, "") for why in heard.whys]
    for at in heard.refusing:
        row, (reason, detail) = found[at], whys[codes[at]]
        yield Finding(row.name if row else "", reason, detail, never[at])


def worth_telling(heard: hearing.Hearing) -> Iterator[int]:
    """Choose the nodes to look at."""
    yield from heard.nearest()[:NEAREST_LOOKED_AT]
    codes, first = np.unique(heard.code[heard.refusing], return_index=True)
    examples = {
        heard.whys[code]: heard.refusing[at] for code, at in zip(codes.tolist(), first.tolist(), strict=True)
    }
    counts = [one for one in heard.counts if one.reason is not Reason.UNDECIDED]
    yield from (examples[one.reason, one.detail] for one in counts[:EXAMPLES])


def _closely(heard: hearing.Hearing, at: int, seen: Finding, effort: allocator.Effort) -> Finding:
    """Add to what the sums said of a node what is missing, and what is wrong with each device."""
    if seen.reason is Reason.INSUFFICIENT_RESOURCE:
        return dataclasses.replace(seen, looked=True, measures=tuple(lacking_resources(heard, at)))
    if seen.reason in hearing.PLACES | hearing.STATES:
        return dataclasses.replace(seen, looked=True)
    if seen.reason is Reason.WITHHELD:
        holders = sorted(hold.title for hold in heard.row(at).holds.values() if hold.withheld)
        seen = dataclasses.replace(seen, holders=tuple(holders))
    shortfall = hearing.look(heard.row(at).view(), heard.request, effort)
    if not isinstance(shortfall, allocator.Shortfall):
        # The sums are stricter than the allocator where cards are withheld.
        return dataclasses.replace(seen, looked=True)
    return dataclasses.replace(
        seen,
        never=seen.never or shortfall.never,
        looked=True,
        measures=tuple(_missing_devices(heard.request, shortfall)),
        shortfall=shortfall,
    )


def _missing_devices(request: requests.Request, shortfall: allocator.Shortfall) -> Iterator[Measure]:
    if shortfall.found < shortfall.wanted:
        yield Measure(_name(request, shortfall), Unit.PIECES, shortfall.wanted, shortfall.found)


def _name(request: requests.Request, shortfall: allocator.Shortfall) -> str:
    """Name what is counted, in the words of `tally`."""
    asks = {type(ask) for one in request.containers if one.name == shortfall.container for ask in one.asks}
    if not shortfall.detail:
        return REPLICAS if asks == {requests.Replicas} else CARDS
    profiles = {one.profile for one in request.need.instances}
    return f"MIG {shortfall.detail}" if shortfall.detail in profiles else shortfall.detail


def lacking_resources(heard: hearing.Hearing, at: int) -> Iterator[Measure]:
    """List the resources that a node has too little of; what it has may be less than nothing."""
    table, one = heard.picture.columns, np.array([at])
    for name, amount in (*heard.demand.amounts, *heard.demand.served):
        given = int(tally.allocatable(table, one, name)[0])
        if given == columns.ABSENT and (name, amount) in heard.demand.served:
            continue
        used = heard.row(at).amounts.get(name, 0)
        if max(given, 0) - used < amount:
            yield Measure(name, unit(name), amount, max(given, 0) - used)


def unit(name: str) -> Unit:
    """Say what a resource is counted in."""
    return Unit.BYTES if name.startswith("hugepages-") else UNITS.get(name, Unit.PIECES)


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
    """Name what may be near on one node: its cards one by one if one is wanted, else their number."""
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


def missing(verdict: allocator.Verdict) -> Iterator[Measure]:
    """List what of a device is too little."""
    wanted, free = verdict.wanted, verdict.free
    if free.core < wanted.core:
        yield Measure(core_of(verdict.type), Unit.PERCENT, wanted.core, free.core)
    if free.memory < wanted.memory:
        yield Measure("", Unit.BYTES, wanted.memory, free.memory)


def core_of(kind: str) -> str:
    """Name what a part of a device is a part of: cards have cores, others are just shared."""
    return CORE if kind == devices.GPU else ""
