"""The output: text for people, JSON Lines for programs, manifests that can be read again."""

import collections
import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, assert_never

import yaml

from berth_crds import allocation, card_part, names, text, vocabulary
from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import allocator
from berth_operator.simulation import (
    placing,
    pod_explanations,
    replaying,
    usage,
    yamls,
)
from berth_operator.simulation.scenario import Scenario
from berth_operator.translate import bind_annotations

MAX_CELL_LENGTH: Final = 4000
GAP: Final = "   "
EMPTY_CELL: Final = "-"
SCHEDULED: Final = "PodScheduled"
HEAD: Final = ("POD", "NODE", "MINORS", "WHAT")

Cells = Sequence[str]

# ---------------------------------------------------------------- JSON


def as_json(outcomes: Iterable[placing.Outcome]) -> Iterator[str]:
    """Return one line of JSON for each pod, in the order placed."""
    return (line(outcome_fields(outcome)) for outcome in outcomes)


def line(fields: dict[str, Any]) -> str:
    """Return one object on one line."""
    return json.dumps(fields) + "\n"


def outcome_fields(outcome: placing.Outcome) -> dict[str, Any]:
    """Return the outcome of a pod as JSON has it."""
    fields: dict[str, Any] = {
        "pod": outcome.title,
        "node": None,
        "allocation": None,
        "refusals": [],
        "nearest": None,
    }
    match outcome:
        case placing.Placed(_, placement):
            fields |= {"node": placement.node, "allocation": _allocation_json(placement)}
        case pod_explanations.PodExplanation() as explanation:
            fields |= {
                "refusals": list(map(_refusal, explanation.refusals)),
                "nearest": "; ".join(filter(None, (explanation.nearest, explanation.change))) or None,
            }
        case placing.Skipped(_, reason, message):
            fields["refusals"] = [{"node": None, "device": None, "reason": reason, "message": message}]
        case _:
            assert_never(outcome)
    return fields


def _refusal(refusal: decisions.Refusal) -> dict[str, str | None]:
    return {
        "node": refusal.node or None,
        "device": refusal.device or None,
        "reason": refusal.reason,
        "message": refusal.detail,
    }


def _allocation_json(placement: decisions.Placement) -> dict[str, Any] | None:
    """Return the allocation as in JSON; None for a pod without devices."""
    if not placement.grants:
        return None
    found: dict[str, Any] = json.loads(allocation.encode(bind_annotations.allocation_of(placement)))
    return found


# ---------------------------------------------------------------- text


def as_text(
    outcomes: Sequence[placing.Outcome], before: usage.Usage, after: usage.Usage, *, explained: bool = False
) -> Iterator[str]:
    """Return a table of the outcomes, and a summary."""
    if outcomes:
        yield from (f"{row}\n" for row in _table(HEAD, map(_row, outcomes)))
        yield "\n"
    if explained:
        yield from _explained(outcomes)
    yield f"{_summary(outcomes)}; {_cards(before, after)}\n"


def _row(outcome: placing.Outcome) -> tuple[Cells, Sequence[str]]:
    """Return the cells of an outcome, and below them the nearest node and the change that would help."""
    match outcome:
        case placing.Placed(_, placement):
            return (outcome.title, placement.node, _minors(placement), _devices(placement)), ()
        case pod_explanations.PodExplanation() as explanation:
            what = f"{'refused' if explanation.rejected else 'waits'}: {explanation.sentence}"
            nearest = f"nearest: {explanation.nearest}" if explanation.nearest else ""
            details = [part for part in (nearest, explanation.change) if part]
            return (outcome.title, EMPTY_CELL, EMPTY_CELL, what), details
        case placing.Skipped(title, _, message):
            return (title, EMPTY_CELL, EMPTY_CELL, f"not placed: {message}"), ()
    assert_never(outcome)


def _explained(outcomes: Iterable[placing.Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        if isinstance(outcome, pod_explanations.PodExplanation) and outcome.table:
            yield f"{outcome.title}: {outcome.sentence}\n{outcome.table}\n"


WORDS: Final = ("placed", "waiting", "refused", "not tried")


def _summary(outcomes: Sequence[placing.Outcome]) -> str:
    counts = collections.Counter(outcome.word for outcome in outcomes)
    parts = [f"{counts[word]} {word}" for word in WORDS if counts[word]]
    pods = _count_of(len(outcomes), "pod")
    return f"{pods} to place: {', '.join(parts)}" if parts else "no pods to place"


def _cards(before: usage.Usage, after: usage.Usage) -> str:
    cards = _count_of(after.cards, "card")
    return f"of {cards} {before.used_cards} were in use and {after.used_cards} are now"


def _minors(placement: decisions.Placement) -> str:
    """Return the minors of the GPUs, as the annotation `berth.dev/minors` has them."""
    found = {
        share.minor
        for share in allocator.peak_shares(placement.grants)
        if share.type == vocabulary.DeviceType.GPU
    }
    return ",".join(map(str, sorted(found))) or EMPTY_CELL


def _devices(placement: decisions.Placement) -> str:
    """Return the devices in a few words: `2 cards`, `25 % of a card`, `1 MIG 1g.10gb, 1 rdma`."""
    counts = collections.Counter(_device(share) for share in allocator.peak_shares(placement.grants))
    return ", ".join(_counted(word, count) for word, count in counts.items()) or "no devices"


def _device(share: decisions.Share) -> str:
    if share.type != vocabulary.DeviceType.GPU:
        part = "" if share.core == card_part.WHOLE else f" ({share.core} %)"
        return f"{share.type}{part}"
    if share.profile:
        return f"MIG {share.profile}"
    if not card_part.describe(share.core, share.memory, share.card_memory):
        return "card"
    return f"{card_part.describe_both(share.core, share.memory)} of a card"


def _counted(word: str, count: int) -> str:
    if word == "card":
        return _count_of(count, word)
    if word.endswith(" of a card"):
        return word if count == 1 else f"{count} times {word}"
    return f"{count} {word}"


def _table(head: Cells, rows: Iterable[tuple[Cells, Sequence[str]]]) -> Iterator[str]:
    """Return the lines of a table; further lines of a row stand below its last cell."""
    listed = [(head, ()), *((tuple(map(_clean, cells)), details) for cells, details in rows)]
    widths = [max(len(cells[at]) for cells, _ in listed) for at in range(len(head) - 1)]
    margin = " " * (sum(widths) + len(GAP) * len(widths))
    for cells, details in listed:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=False)]
        yield GAP.join([*padded, cells[-1]]).rstrip()
        yield from (f"{margin}{_clean(line)}".rstrip() for line in details)


def _clean(cell: str) -> str:
    return text.line(cell, most=MAX_CELL_LENGTH)


def _count_of(count: int, noun: str) -> str:
    """Return a count with its noun: `1 pod`, `2 pods`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


# ---------------------------------------------------------------- manifests


def as_yaml(scenario: Scenario, outcomes: Iterable[placing.Outcome]) -> Iterator[str]:
    """Return all pods as they would be bound, in the order given; read again they are the same."""
    placed = {one.title: one.placement for one in outcomes if isinstance(one, placing.Placed)}
    for manifest in scenario.of("Pod"):
        body = {
            **manifest.body,
            "metadata": {
                **manifest.body.get("metadata", {}),
                "name": manifest.name,
                "namespace": manifest.namespace,
            },
        }
        if manifest.title in placed:
            body = _bound_manifest(body, placed[manifest.title])
        yield document(body)


def _bound_manifest(body: dict[str, Any], placement: decisions.Placement) -> dict[str, Any]:
    """Return a pod's manifest as it would be once it is bound."""
    body = copy.deepcopy(body)
    meta, spec, status = (body.get(part) or {} for part in ("metadata", "spec", "status"))
    containers = [one["name"] for part in ("initContainers", "containers") for one in spec.get(part) or ()]
    result = bind_annotations.of(placement, term=placing.TERM, containers=containers)
    meta["annotations"] = {**(meta.get("annotations") or {}), **result}
    meta["labels"] = {**(meta.get("labels") or {}), names.FENCED_LABEL: "true"}
    spec["nodeName"] = placement.node
    if status.get("conditions"):
        status["conditions"] = [_scheduled(one) for one in status["conditions"]]
    return body | {"metadata": meta, "spec": spec} | ({"status": status} if status else {})


def _scheduled(condition: dict[str, Any]) -> dict[str, Any]:
    """Return a condition; PodScheduled becomes true."""
    return {"type": SCHEDULED, "status": "True"} if condition.get("type") == SCHEDULED else condition


def document(body: dict[str, Any]) -> str:
    """Return one object as a document of YAML."""
    text: str = yaml.dump(
        body, Dumper=_Dumper, sort_keys=False, explicit_start=True, allow_unicode=True, width=1 << 20
    )
    return text


_BASE: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE):  # type: ignore[misc]  # PyYAML's classes have no types of ours.
    """Writes strings so that they are read as strings, by Go's YAML too, and uses no aliases."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Whether a value is written in full: always."""
        return True


def _string(dumper: Any, text: str) -> Any:
    plain = "\n" not in text and not isinstance(yamls.plain(text), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if plain or text in _GO else None)


_GO: Final = frozenset("yYnN")  # Go reads these as true and false.
_Dumper.add_representer(str, _string)

# ---------------------------------------------------------------- replays


def event_json(event: replaying.ReplayEvent) -> str:
    """Return one event as a line of JSON."""
    at = {"at": round(event.time, 6)}
    match event.event:
        case replaying.ObjectEvent(word, kind, title):
            return line(at | {"event": word, "kind": kind, "name": title})
        case outcome:
            return line(at | {"event": outcome.word} | outcome_fields(outcome))


def event_text(event: replaying.ReplayEvent) -> str:
    """Return one event as a line of text."""
    return f"[{event.time:10.1f} s] {_event_words(event.event)}\n"


def _event_words(event: placing.Outcome | replaying.ObjectEvent) -> str:
    if isinstance(event, replaying.ObjectEvent):
        return (
            f"{event.title} {event.word}"
            if event.kind == "Pod"
            else f"{event.kind} {event.title} {event.word}"
        )
    (title, node, minors, what), details = _row(event)
    if isinstance(event, placing.Placed):
        which = f" {minors}" if minors != EMPTY_CELL else ""
        return f"{title} placed on {node}{which}: {what}"
    return f"{title} {'; '.join([what, *details])}"


def summary_json(summary: replaying.Summary) -> Iterator[str]:
    """Return the summary of a replay as JSON."""
    meter, waits = summary.meter, summary.waits
    yield line(
        {
            "at": round(summary.end, 6),
            "event": "summary",
            "pods": {word: summary.counts[word] for word in replaying.COUNTED},
            "cards": {
                "mean": round(meter.allocated_seconds / summary.end, 6)
                if summary.end
                else meter.total.allocated,
                "peak": round(meter.peak, 6),
                "now": round(meter.total.allocated, 6),
                "there": meter.total.cards,
                "utilisation": round(meter.mean, 6),
            },
            "waited": {
                "mean": round(sum(waits) / len(waits), 6) if waits else None,
                "longest": round(max(waits), 6) if waits else None,
            },
        }
    )


def summary_text(summary: replaying.Summary) -> Iterator[str]:
    """Return the summary of a replay as text."""
    meter, waits = summary.meter, summary.waits
    counts = ", ".join(f"{summary.counts[word]} {word}" for word in replaying.COUNTED)
    yield f"\npods: {counts}\n"
    if waits:
        mean, longest = sum(waits) / len(waits), max(waits)
        yield f"waited until placed: {mean:.1f} s on average, {longest:.1f} s at most\n"
    at_end = f"{meter.total.allocated:.1f} of {_count_of(meter.total.cards, 'card')} at the end"
    yield f"given out: {100 * meter.mean:.1f} % over {summary.end:.1f} s, {meter.peak:.1f} at most, "
    yield f"{at_end}\n"
