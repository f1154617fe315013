"""Which devices a pod wants, and how they belong together: annotations become conditions.

All keys, Berth's own and those of other projects, are first brought to Berth's own text and
then read by one table. Two keys that mean the same may say the same; where they do not,
both are named. Whether the wishes fit what the containers ask for is judged at the end: a
condition on a card that nobody asks for is most likely a mistake, and would be passed over
without a word.
"""

import dataclasses
import enum
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from berth_crds import aliases, names, schema_limits
from berth_crds.vocabulary import DeviceType, Scope, ScopePolicy, Strategy
from berth_operator.scheduling.decisions import Refusal
from berth_operator.scheduling.devices import patterns, requests
from berth_operator.translate import converters, pod_limits, quantities, raw, refusals
from berth_operator.translate.container_asks import MOST_MEMORY, PARTS, Mode
from berth_operator.translate.refusals import Refused

UNSERVED: Final = (names.GANG, names.GANG_SIZE)


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """One thing that people wrote: where, in the text of which of Berth's keys; `own` if in that very key."""

    place: str
    key: str
    text: str
    own: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Wishes:
    """All that the annotations of a pod say; `said` is who said it first, by Berth's keys."""

    conditions: requests.Conditions
    manner: requests.Manner
    modes: Mapping[str, Mode]
    said: Mapping[str, Said]


NO_WISHES: Final = Wishes(requests.ANY_CARD, requests.ANY_MANNER, {}, {})


def read(pod: raw.Pod) -> tuple[Wishes, list[Refusal]]:
    """Read all wishes of a pod, and what is wrong with them."""
    if KEYS.isdisjoint(pod.metadata.annotations) and ALIASES.isdisjoint(pod.metadata.labels):
        return NO_WISHES, []
    found, faults = _collect(pod)
    values: dict[str, Any] = {}
    for key, same in found.items():
        try:
            values[key] = _agreed(same)
        except Refused as error:
            faults.append(error.refusal)
    return _wishes(values, {key: same[0] for key, same in found.items()}), faults


def _collect(pod: raw.Pod) -> tuple[dict[str, list[Said]], list[Refusal]]:
    """Gather what is said of each of Berth's keys; Berth's own text comes first."""
    meta = pod.metadata
    found: dict[str, list[Said]] = {}
    faults = [
        refusals.unsupported(f"annotation {key} is not served yet")
        for key in UNSERVED
        if key in meta.annotations
    ]
    for key in READERS:
        if key in meta.annotations:
            found[key] = [Said(f"annotation {key}", key, meta.annotations[key], own=True)]
    if ALIASES.isdisjoint(meta.annotations) and ALIASES.isdisjoint(meta.labels):
        return found, faults
    for row in aliases.OPTIONS:
        texts = meta.labels if row.where is aliases.Where.LABEL else meta.annotations
        try:
            for said in _converted(row, texts.get(row.key)):
                found.setdefault(said.key, []).append(said)
        except Refused as error:
            faults.append(error.refusal)
    return found, faults


def _converted(row: aliases.Option, text: str | None) -> Iterator[Said]:
    place = f"{row.where} {row.key}"
    short = None if text is None else pod_limits.short(place, text, pod_limits.LIST)
    for key, meant in converters.pairs(row, short) if short is not None else ():
        yield Said(place, key, meant, own=False)


def _agreed(same: Sequence[Said]) -> Any:
    """Read a key once for each who said it; all must have meant the same."""
    first = _value(same[0])
    for other in same[1:]:
        if _value(other) != first:
            refusals.refuse(
                f"{same[0].place} and {other.place} mean the same and disagree; write one of them"
            )
    return first


def _value(said: Said) -> Any:
    reader = READERS[said.key]
    return reader.read(said.place, pod_limits.short(said.place, said.text, reader.longest))


def _wishes(values: Mapping[str, Any], said: Mapping[str, Said]) -> Wishes:
    fields: dict[Part, dict[str, Any]] = {part: {} for part in Part}
    for key, value in values.items():
        reader = READERS[key]
        fields[reader.part][reader.field] = value
    return Wishes(
        requests.Conditions(**fields[Part.CONDITIONS], spelt=_spelt(said, values)),
        requests.Manner(**fields[Part.MANNER]),
        values.get(names.APPLY, {}),
        said,
    )


def _spelt(said: Mapping[str, Said], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the models as they were written, of those that compare in another spelling."""
    texts = (said[key].text for key in (names.MODEL, names.AVOID_MODEL) if key in values)
    written = {part.strip() for text in texts for part in text.split(",")}
    return tuple(sorted(one for one in written if one != one.casefold()))


# ---------------------------------------------------------------- readers of single keys

OF_GPU: Final = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
LABEL: Final = re.compile(r"(?P<key>[A-Za-z0-9_./-]+)=(?P<value>[A-Za-z0-9_.-]*)")


def _parts(place: str, text: str, what: str, most: int) -> Sequence[str]:
    """Split a list, and refuse one that is too long."""
    parts = [part.strip() for part in text.split(",")]
    return pod_limits.few(place, what, [part for part in parts if part], most)


def _models(place: str, text: str) -> frozenset[str]:
    parts = _parts(place, text, "models", pod_limits.MODELS)
    models = frozenset(
        pod_limits.short(f"{place}: a model", part.casefold(), pod_limits.WORD) for part in parts
    )
    return models or refusals.refuse(f"{place} names no model; write one or several, such as A100-SXM4-80GB")


def _pattern(place: str, text: str) -> str:
    fault = patterns.fault(text) if text else "is empty"
    return refusals.refuse(f"{place} {fault}") if fault else text


def _uuids(place: str, text: str) -> frozenset[str]:
    uuids = frozenset(map(_as_reported, _parts(place, text, "uuids", pod_limits.UUIDS)))
    odd = sorted(
        one for one in uuids if one.isdecimal() or one.isalpha() or not schema_limits.UUID.matches(one)
    )
    if odd or not uuids:
        what = f"'{refusals.shown(odd[0])}' is no uuid" if odd else "no card is named"
        refusals.refuse(
            f"{place}: {what}; write one or several, such as GPU-6cf3bbc0-7726-46d2-816f-525511292b61"
        )
    return uuids


def _as_reported(uuid: str) -> str:
    """Return the uuid of a GPU as drivers write it, whatever the case; others stay as they are."""
    return f"GPU-{uuid[4:].lower()}" if OF_GPU.fullmatch(uuid) else uuid


def _memory(place: str, text: str) -> int:
    try:
        memory = math.ceil(quantities.exact(text.strip()))
    except ValueError:
        memory = 0
    if not 0 < memory <= MOST_MEMORY:
        refusals.refuse(f"{place}: {refusals.shown(text)} is not an amount of memory, such as 40Gi")
    return memory


def _word(known: type[enum.StrEnum]) -> Callable[[str, str], Any]:
    def read_word(place: str, text: str) -> enum.StrEnum:
        word = text.strip().lower()
        if not word:
            refusals.refuse(f"{place} is empty; write one of {', '.join(known)}")
        if word not in set(known):
            refusals.refuse(f"{place}: {refusals.shown(text)} is not known; write one of {', '.join(known)}")
        return known(word)

    return read_word


def _required(place: str, text: str) -> bool:
    return bool(_word(ScopePolicy)(place, text) is ScopePolicy.REQUIRED)


class Replicas(enum.StrEnum):
    """Whether replicas of a container go to different cards as far as possible, or to as few as possible."""

    DISTRIBUTED = "distributed"
    PACKED = "packed"


def _spread(place: str, text: str) -> bool:
    return bool(_word(Replicas)(place, text) is Replicas.DISTRIBUTED)


def _joint(place: str, text: str) -> tuple[str, ...]:
    types = tuple(dict.fromkeys(part.lower() for part in _parts(place, text, "types", pod_limits.LABELS)))
    odd = [one for one in types if one not in set(DeviceType)]
    if odd or len(types) < 2:  # noqa: PLR2004  one device is joined with nothing
        what = f"{refusals.shown(odd[0])} is no type of device" if odd else "fewer than two types are named"
        refusals.refuse(f"{place}: {what}; write two or more of {', '.join(DeviceType)}")
    return types


def _labels(place: str, text: str) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for part in _parts(place, text, "labels", pod_limits.LABELS):
        match = LABEL.fullmatch(pod_limits.short(f"{place}: a label", part, pod_limits.LABEL))
        if match is None:
            refusals.refuse(f"{place}: '{refusals.shown(part)}' is no label; write for instance fabric=a")
        if found.setdefault(match["key"], match["value"]) != match["value"]:
            refusals.refuse(
                f"{place} gives the label {refusals.shown(match['key'])} two values; no device has both"
            )
    return tuple(sorted(found.items())) or refusals.refuse(
        f"{place} names no label; write for instance fabric=a"
    )


def _modes(place: str, text: str) -> dict[str, Mode]:
    found: dict[str, Mode] = {}
    for part in _parts(place, text, "types", pod_limits.LABELS):
        kind, _, mode = part.lower().partition("=")
        if kind not in PARTS.values() or mode not in set(Mode):
            refusals.refuse(
                f"{place}: '{refusals.shown(part)}' is not known; write for instance rdma=every "
                f"(types: {', '.join(PARTS.values())}; ways: {', '.join(Mode)})"
            )
        if found.setdefault(kind, Mode(mode)) != mode:
            refusals.refuse(f"{place} says two things of {kind}; write one of them")
    return found or refusals.refuse(f"{place} is empty; write for instance rdma=every")


class Part(enum.Enum):
    """Where a value belongs."""

    CONDITIONS = enum.auto()
    MANNER = enum.auto()
    ELSEWHERE = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True)
class Reader:
    """How the text of one of Berth's keys is read, and which field it fills."""

    part: Part
    field: str
    read: Callable[[str, str], Any]
    longest: int = pod_limits.TEXT


READERS: Final[Mapping[str, Reader]] = {
    names.MODEL: Reader(Part.CONDITIONS, "models", _models, pod_limits.LIST),
    names.MODEL_PATTERN: Reader(Part.CONDITIONS, "pattern", _pattern),
    names.AVOID_MODEL: Reader(Part.CONDITIONS, "avoid_models", _models, pod_limits.LIST),
    names.AVOID_MODEL_PATTERN: Reader(Part.CONDITIONS, "avoid_pattern", _pattern),
    names.UUIDS: Reader(Part.CONDITIONS, "uuids", _uuids, pod_limits.LIST),
    names.AVOID_UUIDS: Reader(Part.CONDITIONS, "avoid_uuids", _uuids, pod_limits.LIST),
    names.MEMORY_AT_LEAST: Reader(Part.CONDITIONS, "memory_at_least", _memory),
    names.SCOPE: Reader(Part.MANNER, "scope", _word(Scope)),
    names.SCOPE_POLICY: Reader(Part.MANNER, "required", _required),
    names.STRATEGY: Reader(Part.MANNER, "strategy", _word(Strategy)),
    names.JOINT: Reader(Part.MANNER, "joint", _joint),
    names.LABELS: Reader(Part.MANNER, "labels", _labels, pod_limits.LIST),
    names.FUNCTION_LABELS: Reader(Part.MANNER, "function_labels", _labels, pod_limits.LIST),
    names.REPLICAS: Reader(Part.MANNER, "spread_replicas", _spread),
    names.APPLY: Reader(Part.ELSEWHERE, "", _modes),
}
ALIASES: Final = frozenset(row.key for row in aliases.OPTIONS)
KEYS: Final = frozenset({*READERS, *UNSERVED, *ALIASES})
