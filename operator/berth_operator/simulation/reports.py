"""What is printed: text for people, JSON Lines for programs, manifests to be read again."""

import collections
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, assert_never

import yaml

from berth_operator.scheduling import decisions
from berth_operator.simulation import (
    holdings,
    placing,
    records,
    replaying,
    scenario,
    tables,
    usage,
    whys,
    yamls,
)

HEAD: Final = ("POD", "NODE", "MINORS", "WHAT")

# ---------------------------------------------------------------- JSON


def as_json(outcomes: Iterable[placing.Outcome]) -> Iterator[str]:
    """Write one object for each pod, in the order placed."""
    return (line(in_fields(outcome)) for outcome in outcomes)


def line(fields: dict[str, Any]) -> str:
    """Write one object on one line."""
    return json.dumps(fields) + "\n"


def in_fields(outcome: placing.Outcome) -> dict[str, Any]:
    """Return what became of a pod."""
    told: dict[str, Any] = {
        "pod": outcome.title,
        "node": None,
        "allocation": None,
        "refusals": [],
        "nearest": None,
    }
    match outcome:
        case placing.Placed(_, placement):
            told |= {"node": placement.node, "allocation": records.allocated(placement)}
        case placing.Refused(_, why):
            told |= {"refusals": list(map(_refusal, why.refusals)), "nearest": why.help or None}
        case placing.Aside(_, word, message):
            told["refusals"] = [{"node": None, "device": None, "reason": word, "message": message}]
        case _:
            assert_never(outcome)
    return told


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
    """Lay out what became of each pod, and sum up."""
    if outcomes:
        yield from (f"{row}\n" for row in tables.table(HEAD, map(_row, outcomes)))
        yield "\n"
    if explained:
        yield from _explained(outcomes)
    yield f"{_summary(outcomes)}; {_cards(before, after)}\n"


def _row(outcome: placing.Outcome) -> tuple[tables.Cells, Sequence[str]]:
    match outcome:
        case placing.Placed(_, placement):
            minors, what = holdings.minors(placement), holdings.words(placement)
            return (outcome.title, placement.node, minors, what), ()
        case placing.Refused(_, why):
            return (outcome.title, tables.NOTHING, tables.NOTHING, refused(why)), below(why)
        case placing.Aside(title, _, message):
            return (title, tables.NOTHING, tables.NOTHING, f"not placed: {message}"), ()
    assert_never(outcome)


def refused(why: whys.Why) -> str:
    """Return whether a pod waits or can never be served, and why."""
    return f"{'refused' if why.rejected else 'waits'}: {why.sentence}"


def below(why: whys.Why) -> list[str]:
    """Return what comes nearest and what would help."""
    nearest = f"nearest: {why.nearest}" if why.nearest else ""
    return [said for said in (nearest, why.change) if said]


def _explained(outcomes: Iterable[placing.Outcome]) -> Iterator[str]:
    for outcome in outcomes:
        if isinstance(outcome, placing.Refused) and outcome.why.table:
            yield f"{outcome.title}: {outcome.why.sentence}\n{outcome.why.table}\n"


WORDS: Final = ("placed", "waiting", "refused", "not tried")


def _word(outcome: placing.Outcome) -> str:
    match outcome:
        case placing.Placed():
            return "placed"
        case placing.Refused(_, why):
            return "refused" if why.rejected else "waiting"
        case placing.Aside():
            return "not tried"
    assert_never(outcome)


def _summary(outcomes: Sequence[placing.Outcome]) -> str:
    counts = collections.Counter(map(_word, outcomes))
    parts = [f"{counts[word]} {word}" for word in WORDS if counts[word]]
    pods = tables.counted(len(outcomes), "pod")
    return f"{pods} to place: {', '.join(parts)}" if parts else "no pods to place"


def _cards(before: usage.Usage, after: usage.Usage) -> str:
    cards = tables.counted(after.cards, "card")
    return f"of {cards} {before.touched} were in use and {after.touched} are now"


# ---------------------------------------------------------------- manifests


def as_yaml(given: scenario.Scenario, outcomes: Iterable[placing.Outcome]) -> Iterator[str]:
    """Write all pods as they would be bound, in the order given; read again they say the same."""
    placed = {one.title: one.placement for one in outcomes if isinstance(one, placing.Placed)}
    for thing in given.of("Pod"):
        meta = {**thing.body.get("metadata", {}), "name": thing.name, "namespace": thing.namespace}
        body = {**thing.body, "metadata": meta}
        if thing.title in placed:
            body = records.bound(body, placed[thing.title])
        yield manifest(body)


def manifest(body: dict[str, Any]) -> str:
    """Write one object as a document of YAML."""
    text: str = yaml.dump(
        body, Dumper=_Dumper, sort_keys=False, explicit_start=True, allow_unicode=True, width=1 << 20
    )
    return text


_BASE: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BASE):  # type: ignore[misc]  # PyYAML's classes have no types of ours.
    """Writes strings so that they are read as strings, by Go's YAML too, and repeats what is repeated."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Write everything in full."""
        return True


def _string(dumper: Any, text: str) -> Any:
    plain = "\n" not in text and not isinstance(yamls.plain(text), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if plain or text in _GO else None)


_GO: Final = frozenset("yYnN")  # Go takes these for true and false.
_Dumper.add_representer(str, _string)

# ---------------------------------------------------------------- replays


def told_json(told: replaying.Told) -> str:
    """Write one thing that happened."""
    at = {"at": round(told.at, 6)}
    match told.what:
        case replaying.News(word, kind, title):
            return line(at | {"event": word, "kind": kind, "name": title})
        case outcome:
            return line(at | {"event": _word(outcome)} | in_fields(outcome))


def told_text(told: replaying.Told) -> str:
    """Return one thing that happened."""
    return f"[{told.at:10.1f} s] {_told(told.what)}\n"


def _told(what: placing.Outcome | replaying.News) -> str:
    match what:
        case replaying.News(word, kind, title):
            return f"{title} {word}" if kind == "Pod" else f"{kind} {title} {word}"
        case placing.Placed(_, placement):
            minors = holdings.minors(placement)
            which = f" {minors}" if minors != tables.NOTHING else ""
            return f"{what.title} placed on {placement.node}{which}: {holdings.words(placement)}"
        case placing.Refused(_, why):
            return f"{what.title} {'; '.join([refused(why), *below(why)])}"
        case placing.Aside(title, _, message):
            return f"{title} not placed: {message}"
    assert_never(what)


def final_json(tally: replaying.Tally) -> Iterator[str]:
    """Write what became of all."""
    meter, waits = tally.meter, tally.waits
    yield line(
        {
            "at": round(tally.end, 6),
            "event": "summary",
            "pods": {word: tally.counts[word] for word in replaying.SUMMED},
            "cards": {
                "mean": round(meter.given_seconds / tally.end, 6) if tally.end else meter.total.given,
                "peak": round(meter.peak, 6),
                "now": round(meter.total.given, 6),
                "there": meter.total.cards,
                "utilisation": round(meter.mean, 6),
            },
            "waited": {
                "mean": round(sum(waits) / len(waits), 6) if waits else None,
                "longest": round(max(waits), 6) if waits else None,
            },
        }
    )


def final_text(tally: replaying.Tally) -> Iterator[str]:
    """Sum up what became of all."""
    meter, waits = tally.meter, tally.waits
    counts = ", ".join(f"{tally.counts[word]} {word}" for word in replaying.SUMMED)
    yield f"\npods: {counts}\n"
    if waits:
        mean, longest = sum(waits) / len(waits), max(waits)
        yield f"waited until placed: {mean:.1f} s on average, {longest:.1f} s at most\n"
    given = f"{meter.total.given:.1f} of {tables.counted(meter.total.cards, 'card')} at the end"
    yield f"given out: {100 * meter.mean:.1f} % over {tally.end:.1f} s, {meter.peak:.1f} at most, {given}\n"
