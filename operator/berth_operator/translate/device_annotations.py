"""Which devices a pod selects, and how they belong together: annotations become conditions.

All keys, Berth's own and those of other projects (`berth_crds.aliases` lists them), are first converted to
the text of Berth's own keys and then read by one table. Two keys with the same meaning must have the same
value; otherwise the refusal names both. `device_requests` checks at the end whether the selection fits what
the containers request: a condition on a card that no container requests is most likely a mistake.
"""

import dataclasses
import enum
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from berth_crds import aliases, device_types, names, schema_limits
from berth_crds.vocabulary import DeviceType, PartitionChoice, Scope, ScopePolicy, Strategy
from berth_operator.scheduling.decisions import Refusal
from berth_operator.scheduling.devices import patterns, requests
from berth_operator.translate import converters, label_selectors, pod_limits, quantities, raw, refusals
from berth_operator.translate.container_asks import Mode
from berth_operator.translate.refusals import RefusalError

UNSERVED: Final = (names.GANG, names.GANG_SIZE)


@dataclasses.dataclass(frozen=True, slots=True)
class MetadataEntry:
    """One annotation or label: its place, the key and text of Berth it means; `own` if it is Berth's own."""

    place: str
    key: str
    text: str
    own: bool


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceSelection:
    """What a pod's annotations and labels select; `entries` has the first entry of each of Berth's keys.

    Unless `joint_required`, the joint devices of the grouping are only a wish.
    """

    conditions: requests.Conditions
    grouping: requests.Grouping
    modes: Mapping[str, Mode]
    entries: Mapping[str, MetadataEntry]
    joint_required: bool = True


NO_SELECTION: Final = DeviceSelection(requests.ANY_CARD, requests.NO_GROUPING, {}, {})


def read(pod: raw.Pod) -> tuple[DeviceSelection, list[Refusal]]:
    """Return the selection of a pod, and what is wrong with it."""
    if KEYS.isdisjoint(pod.metadata.annotations) and ALIASES.isdisjoint(pod.metadata.labels):
        return NO_SELECTION, []
    found, faults = _collect(pod)
    values: dict[str, Any] = {}
    for key, entries in found.items():
        try:
            values[key] = _agreed(entries)
        except RefusalError as error:
            faults.append(error.refusal)
    return _selection(values, {key: entries[0] for key, entries in found.items()}), faults


def _collect(pod: raw.Pod) -> tuple[dict[str, list[MetadataEntry]], list[Refusal]]:
    """Return the entries of each of Berth's keys; the own key comes first."""
    meta = pod.metadata
    found: dict[str, list[MetadataEntry]] = {}
    faults = [
        refusals.unsupported(f"annotation {key} is not served yet")
        for key in UNSERVED
        if key in meta.annotations
    ]
    for key in READERS:
        if key in meta.annotations:
            found[key] = [MetadataEntry(f"annotation {key}", key, meta.annotations[key], own=True)]
    if ALIASES.isdisjoint(meta.annotations) and ALIASES.isdisjoint(meta.labels):
        return found, faults
    for row in aliases.OPTIONS:
        text = (meta.labels if row.where is aliases.Where.LABEL else meta.annotations).get(row.key)
        if text is None:
            continue
        place = f"{row.where} {row.key}"
        try:
            pod_limits.check_length(place, text, pod_limits.MAX_LIST_TEXT)
            for key, own_text in converters.own_texts(row, place, text):
                found.setdefault(key, []).append(MetadataEntry(place, key, own_text, own=False))
        except RefusalError as error:
            faults.append(error.refusal)
    return found, faults


def _agreed(entries: Sequence[MetadataEntry]) -> Any:
    """Return the value of a key; all its entries must have the same."""
    first = _value(entries[0])
    for other in entries[1:]:
        if _value(other) != first:
            refusals.refuse(
                f"{entries[0].place} and {other.place} mean the same and disagree; write one of them"
            )
    return first


def _value(entry: MetadataEntry) -> Any:
    reader = READERS[entry.key]
    return reader.read(entry.place, pod_limits.check_length(entry.place, entry.text, reader.max_length))


def _selection(values: Mapping[str, Any], entries: Mapping[str, MetadataEntry]) -> DeviceSelection:
    def fields_of(record: type) -> dict[str, Any]:
        return {READERS[key].field: value for key, value in values.items() if READERS[key].record is record}

    selectors: tuple[requests.LabelSelector, ...] = values.get(names.LABELS, ())
    of_cards = tuple(one for one in selectors if one.type == DeviceType.GPU)
    of_others = tuple(one for one in selectors if one.type != DeviceType.GPU)
    return DeviceSelection(
        requests.Conditions(
            **fields_of(requests.Conditions), card_labels=of_cards, spelt=_spelt(entries, values)
        ),
        requests.Grouping(**fields_of(requests.Grouping), labels=of_others),
        values.get(names.APPLY, {}),
        entries,
        joint_required=values.get(names.JOINT_POLICY, True),
    )


def _spelt(entries: Mapping[str, MetadataEntry], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the models whose written form differs from the form in which they are compared."""
    texts = (entries[key].text for key in (names.MODEL, names.AVOID_MODEL) if key in values)
    written = {part.strip() for text in texts for part in text.split(",")}
    return tuple(sorted(model for model in written if model != model.casefold()))


# ---------------------------------------------------------------- readers of single keys

OF_GPU: Final = re.compile(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


def _parts(place: str, text: str, what: str, most: int) -> Sequence[str]:
    """Return the parts of a list; refuse one that is too long."""
    parts = [part.strip() for part in text.split(",")]
    return pod_limits.check_count(place, what, [part for part in parts if part], most)


def _models(place: str, text: str) -> frozenset[str]:
    models = frozenset(
        pod_limits.check_length(f"{place}: a model", part.casefold(), pod_limits.MAX_ITEM_TEXT)
        for part in _parts(place, text, "models", pod_limits.MAX_MODELS)
    )
    return models or refusals.refuse(f"{place} names no model; write one or several, such as A100-SXM4-80GB")


def _pattern(place: str, text: str) -> str:
    fault = patterns.fault(text) if text else "is empty"
    return refusals.refuse(f"{place} {fault}") if fault else text


def _uuids(place: str, text: str) -> frozenset[str]:
    uuids = frozenset(map(_as_reported, _parts(place, text, "uuids", pod_limits.MAX_UUIDS)))
    invalid = sorted(
        one for one in uuids if one.isdecimal() or one.isalpha() or not schema_limits.UUID.matches(one)
    )
    if invalid or not uuids:
        what = f"'{refusals.shown(invalid[0])}' is no uuid" if invalid else "no card is named"
        refusals.refuse(
            f"{place}: {what}; write one or several, such as GPU-6cf3bbc0-7726-46d2-816f-525511292b61"
        )
    return uuids


def _as_reported(uuid: str) -> str:
    """Return the uuid of a GPU in the case that drivers use; other uuids stay as they are."""
    return f"GPU-{uuid[4:].lower()}" if OF_GPU.fullmatch(uuid) else uuid


def _memory(place: str, text: str) -> int:
    memory = _amount(text)
    if not 0 < memory <= schema_limits.LARGEST_MEMORY:
        refusals.refuse(f"{place}: {refusals.shown(text)} is not an amount of memory, such as 40Gi")
    return memory


def _bandwidth(place: str, text: str) -> int:
    if not 0 < (bandwidth := _amount(text)) <= schema_limits.LARGEST_MEMORY:
        refusals.refuse(
            f"{place}: {refusals.shown(text)} is not a bandwidth in bytes a second, such as 400Gi"
        )
    return bandwidth


def _memory_of_node(place: str, text: str) -> int:
    memory = _amount(text)
    if not 0 < memory <= schema_limits.LARGEST_MEMORY * schema_limits.MOST_DEVICES:
        refusals.refuse(f"{place}: {refusals.shown(text)} is not an amount of memory, such as 160Gi")
    return memory


def _amount(text: str) -> int:
    """Return an amount in bytes, 0 for what is none."""
    try:
        return math.ceil(quantities.exact(text.strip()))
    except ValueError:
        return 0


def _word(known: type[enum.StrEnum]) -> Callable[[str, str], Any]:
    def read_word(place: str, text: str) -> enum.StrEnum:
        if not (word := text.strip().lower()):
            refusals.refuse(f"{place} is empty; write one of {', '.join(known)}")
        if word not in set(known):
            refusals.refuse(f"{place}: {refusals.shown(text)} is not known; write one of {', '.join(known)}")
        return known(word)

    return read_word


def _is(word: enum.StrEnum) -> Callable[[str, str], bool]:
    """Return a reader of whether this word was written rather than another of its enum."""
    read_word = _word(type(word))
    return lambda place, text: read_word(place, text) is word


class ReplicaSpread(enum.StrEnum):
    """Whether replicas of a container go to as many different cards as possible, or to as few."""

    DISTRIBUTED = "distributed"
    PACKED = "packed"


def _joint(place: str, text: str) -> tuple[str, ...]:
    types = tuple(dict.fromkeys(part.lower() for part in _parts(place, text, "types", pod_limits.MAX_LABELS)))
    known = dict.fromkeys([one.value for one in DeviceType] + list(device_types.BY_NAME))
    unknown = [one for one in types if one not in known]
    if unknown or len(types) < 2:  # noqa: PLR2004  one device is joined with nothing
        what = (
            f"{refusals.shown(unknown[0])} is no type of device"
            if unknown
            else "fewer than two types are named"
        )
        refusals.refuse(f"{place}: {what}; write two or more of {', '.join(known)}")
    return types


EXCLUSIVE_SCOPES: Final = (Scope.DEVICE, Scope.PCIE)


def _modes(place: str, text: str) -> dict[str, Mode]:
    found: dict[str, Mode] = {}
    types = [one.name for one in device_types.BY_NAME.values() if one.shared]
    for part in _parts(place, text, "types", pod_limits.MAX_LABELS):
        kind, _, mode = part.lower().partition("=")
        if kind not in types or mode not in set(Mode):
            refusals.refuse(
                f"{place}: '{refusals.shown(part)}' is not known; write for instance rdma=every "
                f"(types: {', '.join(types)}; ways: {', '.join(Mode)})"
            )
        if found.setdefault(kind, Mode(mode)) != mode:
            refusals.refuse(f"{place} says two things of {kind}; write one of them")
    return found or refusals.refuse(f"{place} is empty; write for instance rdma=every")


def _exclusive(place: str, text: str) -> tuple[requests.Exclusive, ...]:
    found: dict[str, Scope] = {}
    types = [DeviceType.GPU.value, *device_types.BY_NAME]
    for part in _parts(place, text, "types", pod_limits.MAX_LABELS):
        kind, _, scope = part.lower().partition("=")
        if kind not in types or scope not in EXCLUSIVE_SCOPES:
            refusals.refuse(
                f"{place}: '{refusals.shown(part)}' is not known; write for instance rdma=pcie "
                f"(types: {', '.join(types)}; scopes: {', '.join(EXCLUSIVE_SCOPES)})"
            )
        if found.setdefault(kind, Scope(scope)) != scope:
            refusals.refuse(f"{place} says two things of {kind}; write one of them")
    if not found:
        refusals.refuse(f"{place} is empty; write for instance rdma=pcie")
    return tuple(sorted(found.items()))


@dataclasses.dataclass(frozen=True, slots=True)
class KeyReader:
    """How the text of one of Berth's keys is read, and which field of which record it sets."""

    record: type
    field: str
    read: Callable[[str, str], Any]
    max_length: int = pod_limits.MAX_TEXT


READERS: Final[Mapping[str, KeyReader]] = {
    names.MODEL: KeyReader(requests.Conditions, "models", _models, pod_limits.MAX_LIST_TEXT),
    names.MODEL_PATTERN: KeyReader(requests.Conditions, "pattern", _pattern),
    names.AVOID_MODEL: KeyReader(requests.Conditions, "avoid_models", _models, pod_limits.MAX_LIST_TEXT),
    names.AVOID_MODEL_PATTERN: KeyReader(requests.Conditions, "avoid_pattern", _pattern),
    names.UUIDS: KeyReader(requests.Conditions, "uuids", _uuids, pod_limits.MAX_LIST_TEXT),
    names.AVOID_UUIDS: KeyReader(requests.Conditions, "avoid_uuids", _uuids, pod_limits.MAX_LIST_TEXT),
    names.MEMORY_AT_LEAST: KeyReader(requests.Conditions, "memory_at_least", _memory),
    names.FREE_MEMORY_AT_LEAST: KeyReader(requests.Conditions, "free_memory_at_least", _memory),
    names.MEMORY_TOTAL_AT_LEAST: KeyReader(requests.Grouping, "memory_together", _memory_of_node),
    names.SCOPE: KeyReader(requests.Grouping, "scope", _word(Scope)),
    names.SCOPE_POLICY: KeyReader(requests.Grouping, "required", _is(ScopePolicy.REQUIRED)),
    names.PARTITION: KeyReader(requests.Grouping, "partition", _word(PartitionChoice)),
    names.RING_BANDWIDTH: KeyReader(requests.Grouping, "ring_bandwidth", _bandwidth),
    names.STRATEGY: KeyReader(requests.Grouping, "strategy", _word(Strategy)),
    names.JOINT: KeyReader(requests.Grouping, "joint", _joint),
    names.JOINT_POLICY: KeyReader(DeviceSelection, "joint_required", _is(ScopePolicy.REQUIRED)),
    names.LABELS: KeyReader(DeviceSelection, "labels", label_selectors.parse, pod_limits.MAX_LIST_TEXT),
    names.FUNCTION_LABELS: KeyReader(
        requests.Grouping, "function_labels", label_selectors.parse_functions, pod_limits.MAX_LIST_TEXT
    ),
    names.REPLICAS: KeyReader(requests.Grouping, "spread_replicas", _is(ReplicaSpread.DISTRIBUTED)),
    names.EXCLUSIVE: KeyReader(requests.Grouping, "exclusive", _exclusive),
    names.APPLY: KeyReader(DeviceSelection, "modes", _modes),
}
ALIASES: Final = frozenset(row.key for row in aliases.OPTIONS)
KEYS: Final = frozenset({*READERS, *UNSERVED, *ALIASES})
