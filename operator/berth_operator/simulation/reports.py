"""The output: text for people, JSON Lines for programs, manifests that can be read again."""

import collections
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, assert_never

import yaml

from berth_crds import card_part, vocabulary
from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import allocator
from berth_operator.simulation import (
    placing,
    pod_explanations,
    records,
    replaying,
    tables,
    usage,
    yamls,
)
from berth_operator.simulation.scenario import Scenario

HEAD: Final = ("POD", "NODE", "MINORS", "WHAT")

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
            fields |= {"node": placement.node, "allocation": records.allocation_json(placement)}
        case pod_explanations.PodExplanation() as explanation:
            fields |= {
                "refusals": list(map(_refusal, explanation.refusals)),
                "nearest": explanation.advice or None,
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


# ---------------------------------------------------------------- text


def as_text(
    outcomes: Sequence[placing.Outcome], before: usage.Usage, after: usage.Usage, *, explained: bool = False
) -> Iterator[str]:
    """Return a table of the outcomes, and a summary."""
    if outcomes:
        yield from (f"{row}\n" for row in tables.table(HEAD, map(_row, outcomes)))
        yield "\n"
    if explained:
        yield from _explained(outcomes)
    yield f"{_summary(outcomes)}; {_cards(before, after)}\n"


def _row(outcome: placing.Outcome) -> tuple[tables.Cells, Sequence[str]]:
    """Return the cells of an outcome, and below them the nearest node and the change that would help."""
    match outcome:
        case placing.Placed(_, placement):
            return (outcome.title, placement.node, _minors(placement), _devices(placement)), ()
        case pod_explanations.PodExplanation() as explanation:
            what = f"{'refused' if explanation.rejected else 'waits'}: {explanation.sentence}"
            nearest = f"nearest: {explanation.nearest}" if explanation.nearest else ""
            details = [part for part in (nearest, explanation.change) if part]
            return (outcome.title, tables.EMPTY_CELL, tables.EMPTY_CELL, what), details
        case placing.Skipped(title, _, message):
            return (title, tables.EMPTY_CELL, tables.EMPTY_CELL, f"not placed: {message}"), ()
    assert_never(outcome)


def _explained(outcomes: Iterable[placing.Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        if isinstance(outcome, pod_explanations.PodExplanation) and outcome.table:
            yield f"{outcome.title}: {outcome.sentence}\n{outcome.table}\n"


WORDS: Final = ("placed", "waiting", "refused", "not tried")


def _word(outcome: placing.Outcome) -> str:
    match outcome:
        case placing.Placed():
            return "placed"
        case pod_explanations.PodExplanation() as explanation:
            return "refused" if explanation.rejected else "waiting"
        case placing.Skipped():
            return "not tried"
    assert_never(outcome)


def _summary(outcomes: Sequence[placing.Outcome]) -> str:
    counts = collections.Counter(map(_word, outcomes))
    parts = [f"{counts[word]} {word}" for word in WORDS if counts[word]]
    pods = tables.counted(len(outcomes), "pod")
    return f"{pods} to place: {', '.join(parts)}" if parts else "no pods to place"


def _cards(before: usage.Usage, after: usage.Usage) -> str:
    cards = tables.counted(after.cards, "card")
    return f"of {cards} {before.used_cards} were in use and {after.used_cards} are now"


def _minors(placement: decisions.Placement) -> str:
    """Return the minors of the GPUs, as the annotation `berth.dev/minors` has them."""
    found = {
        share.minor for share in allocator.held(placement.grants) if share.type == vocabulary.DeviceType.GPU
    }
    return ",".join(map(str, sorted(found))) or tables.EMPTY_CELL


def _devices(placement: decisions.Placement) -> str:
    """Return the devices in a few words: `2 cards`, `25 % of a card`, `1 MIG 1g.10gb, 1 rdma`."""
    counts = collections.Counter(_device(share) for share in allocator.held(placement.grants))
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
        return tables.counted(count, word)
    if word.endswith(" of a card"):
        return word if count == 1 else f"{count} times {word}"
    return f"{count} {word}"


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
            body = records.bound_manifest(body, placed[manifest.title])
        yield document(body)


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
            return line(at | {"event": _word(outcome)} | outcome_fields(outcome))


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
        which = f" {minors}" if minors != tables.EMPTY_CELL else ""
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
    at_end = f"{meter.total.allocated:.1f} of {tables.counted(meter.total.cards, 'card')} at the end"
    yield f"given out: {100 * meter.mean:.1f} % over {summary.end:.1f} s, {meter.peak:.1f} at most, "
    yield f"{at_end}\n"
