"""A table for people: each node, each of its devices, why it does not serve, and the figures.

Under it stand what is nearest and what would help, one line each. Nodes that were not
diagnosed are only counted, so the table stays readable in a large cluster.
"""

import collections
from collections.abc import Iterator
from typing import Final

from berth_crds import text
from berth_operator.scheduling import wording
from berth_operator.scheduling.changes import Change, FreeDevices, RemovePods
from berth_operator.scheduling.constraints import cards, registry
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import Unit
from berth_operator.scheduling.devices import allocator, verdicts
from berth_operator.scheduling.explain import findings, phrases, sentences
from berth_operator.scheduling.explain.findings import Finding

HEAD: Final = ("NODE", "DEVICE", "UUID", "REASON", "WANTED", "FREE")
NONE: Final = "-"
GAP: Final = "  "
PODS_NAMED: Final = 8

Line = tuple[str, ...]


def table(explanation: findings.Explanation) -> str:
    """Return an explanation as a table."""
    lines = [line for finding in explanation.nodes if finding.diagnosed for line in _lines(finding)]
    return "\n".join([*_aligned(lines), *_below(explanation)]) + "\n"


def _aligned(lines: list[Line]) -> Iterator[str]:
    lines = [HEAD, *(tuple(map(text.line, line)) for line in lines)] if lines else []
    widths = [max((len(line[at]) for line in lines), default=0) for at in range(len(HEAD))]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield GAP.join(cells).rstrip()


def _lines(finding: Finding) -> Iterator[Line]:
    wanted = [_count(one.unit, one.name, one.wanted) for one in finding.deficits]
    free = [_count(one.unit, one.name, max(0, one.free)) for one in finding.deficits]
    detail = finding.detail or wording.listed(finding.withholding_pods)
    reason = finding.reason
    if finding.never_fits and reason in cards.USED and finding.shortfall is not None:
        # Sums call it full, and only the diagnosis showed what keeps a pod from it even when it is empty.
        reason, detail = finding.shortfall.reason, finding.shortfall.detail
    why = phrases.briefly(reason, detail)
    if finding.never_fits:
        why = phrases.unsuitable(why)
    yield finding.node, NONE, NONE, why, ", ".join(wanted) or NONE, ", ".join(free) or NONE
    for verdict in finding.shortfall.verdicts if finding.shortfall else ():
        yield _device_line(verdict)


def _device_line(verdict: allocator.Verdict) -> Line:
    reason = registry.BRIEF[verdict.reason]
    return (
        "",
        phrases.device(verdict.type, verdict.minor),
        verdict.device,
        phrases.unsuitable(reason) if verdict.never_fits else reason,
        _amounts(verdict.wanted, verdict.wanted, up=True),
        _amounts(verdict.free, verdict.wanted, up=False),
    )


def _count(unit: Unit, name: str, count: int) -> str:
    if unit is Unit.PIECES:
        return f"{count} {wording.noun(name, count)}"
    return f"{wording.amount(unit, count, up=False)} {name}".strip()


def _amounts(given: verdicts.Amount, wanted: verdicts.Amount, *, up: bool) -> str:
    """Write of an amount what is asked for; what suffices must not look smaller than what is wanted."""
    up = up or given.memory >= wanted.memory
    parts = []
    if wanted.core:
        parts.append(wording.amount(Unit.PERCENT, given.core))
    if wanted.memory:
        parts.append(wording.amount(Unit.BYTES, given.memory, up=up))
    if wanted.pieces:
        parts.append(str(given.pieces))
    return ", ".join(parts) or NONE


# ---------------------------------------------------------------- below it


def _below(explanation: findings.Explanation) -> Iterator[str]:
    rest = collections.Counter(registry.BRIEF[one.reason] for one in explanation.nodes if not one.diagnosed)
    if rest:
        parts = ", ".join(f"{count} {reason}" for reason, count in sorted(rest.items()))
        nodes = "1 more node" if rest.total() == 1 else f"{rest.total()} more nodes"
        yield f"and {nodes}, not analyzed: {parts}"
    if not explanation.total:
        yield registry.BRIEF[Reason.NO_NODES]
    if explanation.fits:
        unsure = any(count.reason is Reason.UNDECIDED for count in explanation.counts)
        yield f"fits on {'at least ' if unsure else ''}{explanation.fits} of {explanation.total} nodes"
    if limit := sentences.core_limit(explanation):
        yield f"{limit[0].lower()}{limit[1:]}"
    if explanation.nearest is not None:
        yield f"nearest: {sentences.nearest_sentence(explanation.nearest)}"
    for one in explanation.advice:
        yield f"{sentences.would_fit(one)}{''.join(map(_holders, one.changes))}"


def _holders(change: Change) -> str:
    """Return what a clause leaves out: which pods hold what is to be freed."""
    match change:
        case cards.MakeRoom(holders=holders) | FreeDevices(titles=holders):
            return f" (held by {wording.listed(holders, most=PODS_NAMED)})"
        case RemovePods(titles=holders):
            return f" ({wording.listed(holders, most=PODS_NAMED)})"
    return ""
