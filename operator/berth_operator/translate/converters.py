"""Other projects' annotations and labels, turned into the text of Berth's own.

Each function is named in the table of aliases and reads one key. It returns the keys of Berth
with the same meaning and their texts, which are then read and checked like any other. So every
alias has an equivalent in Berth's own keys. What has no meaning in Berth and cannot be ignored
is refused.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from berth_crds import aliases, catalog, names
from berth_crds.vocabulary import DeviceType, PartitionChoice, Scope, ScopePolicy
from berth_operator.translate import kubegpu_record, label_selectors, quantities, refusals
from berth_operator.translate.container_asks import Mode
from berth_operator.translate.json_objects import as_mapping, json_object

OwnTexts = Sequence[tuple[str, str]]
Converter = Callable[[aliases.Option, str, str], OwnTexts]


def own_texts(row: aliases.Option, place: str, text: str) -> OwnTexts:
    """Return the keys and texts of Berth that one alias means; raise RefusalError if there are none."""
    return CONVERTERS[row.converter](row, place, text)


def _as_it_is(row: aliases.Option, _place: str, text: str) -> OwnTexts:
    return ((row.means[0], text),)


def _list(row: aliases.Option, _place: str, text: str) -> OwnTexts:
    """Return no condition for an empty list, as HAMi and Volcano do."""
    return ((row.means[0], text),) if text.strip(" ,") else ()


def _any_part(row: aliases.Option, _place: str, text: str) -> OwnTexts:
    """Return a pattern that finds any of the parts, as HAMi does, in upper or lower case."""
    pattern = _one_of(text)
    return ((row.means[0], pattern),) if pattern else ()


def _one_of(text: str) -> str:
    parts = (catalog.normal_model(part.strip()) for part in text.split(","))
    return "|".join(re.escape(part) for part in parts if part)


TRUTHS: Final = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


def _numa(row: aliases.Option, place: str, text: str) -> OwnTexts:
    if (truth := TRUTHS.get(text.lower())) is None:
        refusals.refuse(f"{place}: {refusals.shown(text)} is neither true nor false")
    return ((row.means[0], Scope.NUMA.value),) if truth else ()


def _nothing_but(unserved: Callable[[str], str], instead: str) -> Converter:
    """Return a converter to no condition; a value that is not served is declined, with what to do instead."""

    def convert(_row: aliases.Option, place: str, text: str) -> OwnTexts:
        if value := unserved(text):
            refusals.decline(f"{place}: {refusals.shown(value)} is not served{instead}")
        return ()

    return convert


MIB_COUNT: Final = re.compile(r"\d{1,12}", re.ASCII)


def _more_mib_than(row: aliases.Option, place: str, text: str) -> OwnTexts:
    if not MIB_COUNT.fullmatch(text):
        refusals.refuse(f"{place}: {refusals.shown(text)} is not a number of MiB")
    return ((row.means[0], f"{int(text) + 1}Mi"),)


def _mib(row: aliases.Option, place: str, text: str) -> OwnTexts:
    """Return so much; none is no condition."""
    if not MIB_COUNT.fullmatch(text):
        refusals.refuse(f"{place}: {refusals.shown(text)} is not a number of MiB")
    return ((row.means[0], f"{int(text)}Mi"),) if int(text) else ()


def priority(text: str) -> int | None:
    """Return Genius' priority; None if it is no number that Kubernetes accepts as one."""
    match = re.fullmatch(r"[+-]?\d{1,10}", text, re.ASCII)
    number = int(text) if match else None
    return number if number is not None and abs(number) <= MAX_PRIORITY else None


MAX_PRIORITY: Final = 1_000_000_000  # The most that Kubernetes lets people give.


def _priority(_row: aliases.Option, place: str, text: str) -> OwnTexts:
    if priority(text) is None:
        refusals.refuse(
            f"{place}: {refusals.shown(text)} is not a whole number from -{MAX_PRIORITY} to {MAX_PRIORITY}"
        )
    return ()


# ---------------------------------------------------------------- Koordinator

HINTS: Final = frozenset(
    {"selector", "vfSelector", "allocateStrategy", "requiredTopologyScope", "exclusivePolicy"}
)
MODES: Final = {"ApplyForAll": Mode.EVERY, "RequestsAsCount": Mode.COUNT}
EXCLUSIVE: Final = {"DeviceLevel": Scope.DEVICE, "PCIeLevel": Scope.PCIE}
SCOPES: Final = {"Device": Scope.DEVICE, "Node": Scope.NODE, "NUMANode": Scope.NUMA, "PCIe": Scope.PCIE}


def _allocate_hint(_row: aliases.Option, place: str, text: str) -> OwnTexts:
    hints = {kind: as_mapping(place, hint) for kind, hint in json_object(place, text).items()}
    found: list[tuple[str, str]] = []
    modes: list[str] = []
    exclusive: list[str] = []
    selectors: dict[str, list[str]] = {}
    for kind, hint in hints.items():
        where = f"{place}: {refusals.shown(kind)}"
        _check_fields(where, hint, HINTS)
        for key, selector in _selected(where, kind, hint):
            selectors.setdefault(key, []).append(selector)
        found.extend(_scope(where, kind, hint))
        modes.extend(_modes(where, kind, hint))
        exclusive.extend(_exclusive(where, kind, hint))
    found.extend((key, "; ".join(texts)) for key, texts in selectors.items())
    lists = ((names.APPLY, ",".join(modes)), (names.EXCLUSIVE, ",".join(exclusive)))
    return (*found, *((key, text) for key, text in lists if text))


def _selected(where: str, kind: str, hint: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the selectors of devices and of their virtual functions.

    One that selects every device asks for nothing. One that selects every function still asks for a function,
    of a whole device, too, so a device without functions does not do.
    """
    if selected := _text_of(where, "selector", hint):
        yield names.LABELS, f"{kind}: {selected}"
    if hint.get("vfSelector") is None:
        return
    if kind == DeviceType.GPU:
        refusals.decline(f"{where}.vfSelector is not served: cards have no virtual functions")
    functions = _text_of(where, "vfSelector", hint) or label_selectors.ANY_FUNCTION
    yield names.FUNCTION_LABELS, f"{kind}: {functions}"


def _text_of(where: str, field: str, hint: Mapping[str, object]) -> str:
    return label_selectors.text_of(f"{where}.{field}", as_mapping(where, hint.get(field)))


def _scope(where: str, kind: str, hint: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    if not (wanted := _text(hint, "requiredTopologyScope")):
        return
    if kind != DeviceType.GPU or wanted not in SCOPES:
        refusals.decline(f"{where}.requiredTopologyScope: {refusals.shown(wanted)} is not served")
    yield names.SCOPE, SCOPES[wanted].value


def _modes(where: str, kind: str, hint: Mapping[str, object]) -> Iterator[str]:
    if not (strategy := _text(hint, "allocateStrategy")):
        return
    if (mode := MODES.get(strategy)) is None or kind == DeviceType.GPU:
        refusals.decline(f"{where}: {refusals.shown(strategy)} is not served; see {names.APPLY} for what is")
    yield f"{kind}={Mode.WHOLE if _are_whole(hint) else mode}"


def _are_whole(hint: Mapping[str, object]) -> bool:
    """Whether a number of devices is asked for of which nobody else has anything, before or afterwards."""
    return (_text(hint, "allocateStrategy"), _text(hint, "exclusivePolicy")) == (
        "RequestsAsCount",
        "DeviceLevel",
    )


def _exclusive(where: str, kind: str, hint: Mapping[str, object]) -> Iterator[str]:
    if not (policy := _text(hint, "exclusivePolicy")):
        return
    if (scope := EXCLUSIVE.get(policy)) is None:
        refusals.decline(f"{where}.exclusivePolicy: {refusals.shown(policy)} is not served")
    if not _are_whole(hint):
        yield f"{kind}={scope}"


def _joint_allocate(_row: aliases.Option, place: str, text: str) -> OwnTexts:
    joint = json_object(place, text)
    _check_fields(place, joint, {"deviceTypes", "requiredScope"})
    types = joint.get("deviceTypes") or []
    if not isinstance(types, list) or not all(isinstance(one, str) for one in types):
        refusals.refuse(f"{place}: deviceTypes is not a list of types")
    if len(set(types)) < 2:  # noqa: PLR2004  one device is joined with nothing
        return ()
    if (scope := _text(joint, "requiredScope")) not in {"", "SamePCIe"}:
        refusals.decline(f"{place}.requiredScope: {refusals.shown(scope)} is not served; write SamePCIe")
    policy = ScopePolicy.REQUIRED if scope else ScopePolicy.PREFERRED
    return (names.JOINT, ",".join(types)), (names.JOINT_POLICY, policy.value)


CHOICES: Final = {
    "": PartitionChoice.BEST_EFFORT,
    "BestEffort": PartitionChoice.BEST_EFFORT,
    "Restricted": PartitionChoice.RESTRICTED,
}


def _partition_spec(_row: aliases.Option, place: str, text: str) -> OwnTexts:
    spec = json_object(place, text)
    _check_fields(place, spec, {"allocatePolicy", "ringBusBandwidth"})
    policy, bandwidth = _text(spec, "allocatePolicy"), _text(spec, "ringBusBandwidth")
    if (choice := CHOICES.get(policy)) is None:
        refusals.decline(f"{place}: {refusals.shown(policy)} is not served; write Restricted or BestEffort")
    # A bandwidth of nothing is none. What is no quantity is refused where Berth's own key is read.
    if bandwidth and quantities.supply(bandwidth, unreadable=1):
        return (names.PARTITION, choice.value), (names.RING_BANDWIDTH, bandwidth)
    return ((names.PARTITION, choice.value),)


def _paths(row: aliases.Option, place: str, text: str) -> OwnTexts:
    grouped = False
    # What is wrong with a record, those who read its amounts say.
    with contextlib.suppress(refusals.RefusalError):
        containers = kubegpu_record.asking(place, json_object(place, text))
        grouped = kubegpu_record.is_grouped(place, containers)
    return ((row.means[0], Scope.PCIE.value),) if grouped else ()


def _check_fields(where: str, fields: Mapping[str, object], known: frozenset[str] | set[str]) -> None:
    """Refuse a field that Berth would otherwise ignore silently."""
    unknown = sorted(field for field in fields if field not in known)
    if unknown:
        refusals.decline(f"{where}: {refusals.shown(unknown[0])} is not served")


def _text(fields: Mapping[str, object], field: str) -> str:
    value = fields.get(field)
    return "" if value is None else str(value)


CONVERTERS: Final[Mapping[str, Converter]] = {
    "as it is": _as_it_is,
    "list of uuids": _list,
    "any part": _any_part,
    "numa": _numa,
    "mode": _nothing_but(
        lambda text: "" if text == "hami-core" else text, "; for MIG ask for nvidia.com/mig-<profile>"
    ),
    "card policy": _nothing_but(
        lambda text: "mutex" if "mutex" in map(str.strip, text.split(",")) else "",
        "; ask for whole cards to have them alone",
    ),
    "group policy": _nothing_but(
        lambda text: "spread" if text == "spread" else "",
        ": Berth does not keep the pods of a group apart",
    ),
    "more MiB than": _more_mib_than,
    "MiB": _mib,
    "priority": _priority,
    "allocate hint": _allocate_hint,
    "joint allocate": _joint_allocate,
    "partition spec": _partition_spec,
    "paths": _paths,
}
