"""Traces: timed events, one in each line, in JSON.

    {"at": 0, "add": POD}                     a pod arrives; POD is a manifest, or the name of a file of them
    {"at": 0, "add": POD, "for": 3600}        ... and finishes so many seconds after it was placed
    {"at": 60, "finish": "ml/train-0"}        a pod ends and gives its devices back
    {"at": 60, "delete": "ml/train-0"}        a pod is deleted, whether it was placed or waits
    {"at": 90, "apply": OBJECT}               a Node, Device, ... is new or changed; or the name of a file
    {"at": 95, "remove": {"kind": "Node", "name": "n1"}}    an object is gone, and with a Node its pods

Times are seconds since the start. Lines need not be in order; those of one time are applied in the
order of the lines, and then the pods are decided on. Names of files are relative to the trace.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from berth_operator.simulation import files, input_errors
from berth_operator.simulation.input_errors import InputError
from berth_operator.simulation.manifests import DEFAULT_NAMESPACE, Key, Manifest, ManifestReader, pod_key

MAX_SECONDS: Final = 1e12


@dataclasses.dataclass(frozen=True, slots=True)
class Add:
    """Pods arrive; with a `duration` they finish so long after they were placed."""

    manifests: tuple[Manifest, ...]
    duration: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Apply:
    """Objects are new or changed."""

    manifests: tuple[Manifest, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Remove:
    """An object that is not a pod is gone."""

    key: Key


@dataclasses.dataclass(frozen=True, slots=True)
class End:
    """A pod finishes, or is deleted."""

    key: Key
    deleted: bool = False


Action = Add | Apply | Remove | End


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One line: its time, its place in the file and its action."""

    time: float
    place: str
    action: Action


def read(name: str, reader: ManifestReader) -> list[Event]:
    """Return all events of a trace, in the order of their times."""
    shown = "stdin" if name == files.STDIN else name
    folder = Path() if name == files.STDIN else Path(name).parent
    events = []
    for number, line in enumerate(files.text(name).splitlines(), start=1):
        if line.strip():
            events.append(
                _event(
                    line,
                    f"{shown}: line {number}",
                    lambda value, where: _manifests(value, where, folder, reader),
                )
            )
    return sorted(events, key=lambda event: event.time)


ReadManifests = Callable[[Any, str], tuple[Manifest, ...]]


def _event(line: str, place: str, read_manifests: ReadManifests) -> Event:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{place}: it is not JSON") from None
    if not isinstance(fields, dict):
        raise InputError(f"{place}: expected an object, found {input_errors.shown(fields)}")
    named = [key for key in fields if key in ACTIONS]
    if len(named) != 1:
        raise InputError(
            f"{place}: expected one of {', '.join(ACTIONS)}, found {', '.join(named) or 'none of them'}"
        )
    (verb,) = named
    allowed = {"at", verb, *OPTIONS.get(verb, ())}
    for key in fields:
        if key not in allowed:
            raise InputError(f"{place}: {input_errors.shown(key)} is not known beside {verb}")
    return Event(_seconds(fields, "at", place), place, ACTIONS[verb](fields, place, read_manifests))


def _seconds(fields: dict[str, Any], key: str, place: str) -> float:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_SECONDS:
        raise InputError(
            f"{place}: {key}: expected seconds since the start, found {input_errors.shown(value)}"
        )
    return float(value)


def _manifests(value: Any, place: str, folder: Path, reader: ManifestReader) -> tuple[Manifest, ...]:
    """Return the objects in the line, or in the file that it names."""
    if not isinstance(value, str):
        return tuple(reader.read([files.Document(place, 1, value)]))
    try:
        return tuple(reader.read(files.read([str(folder / value)])))
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


# ---------------------------------------------------------------- actions


def _add(fields: dict[str, Any], place: str, read_manifests: ReadManifests) -> Action:
    found = read_manifests(fields["add"], place)
    for manifest in found:
        if manifest.kind != "Pod":
            raise InputError(f"{place}: add is for pods; write apply for {manifest.kind} {manifest.title}")
    return Add(found, _seconds(fields, "for", place) if "for" in fields else None)


def _remove(fields: dict[str, Any], place: str, _read_manifests: ReadManifests) -> Action:
    value = fields["remove"]
    known = {"kind", "namespace", "name"}
    if not isinstance(value, dict) or not {"kind", "name"} <= set(value) <= known:
        raise InputError(
            f'{place}: remove: expected {{"kind": ..., "name": ...}}, found {input_errors.shown(value)}'
        )
    kind, namespace, name = (value.get(key, "") for key in ("kind", "namespace", "name"))
    if not all(isinstance(one, str) for one in (kind, namespace, name)):
        raise InputError(f"{place}: remove: kind and name must be strings")
    if kind == "Pod":
        return End((kind, namespace or DEFAULT_NAMESPACE, name), deleted=True)
    if kind not in REMOVABLE:
        raise InputError(f"{place}: remove: {input_errors.shown(kind)} is none of {', '.join(REMOVABLE)}")
    return Remove((kind, namespace or REMOVABLE[kind], name))


def _pod(value: Any, place: str) -> Key:
    if not isinstance(value, str) or not value:
        raise InputError(
            f"{place}: expected the name of a pod, such as ml/train-0, found {input_errors.shown(value)}"
        )
    return pod_key(value)


ACTIONS: Final[dict[str, Callable[[dict[str, Any], str, ReadManifests], Action]]] = {
    "add": _add,
    "finish": lambda fields, place, _: End(_pod(fields["finish"], place)),
    "delete": lambda fields, place, _: End(_pod(fields["delete"], place), deleted=True),
    "apply": lambda fields, place, read_manifests: Apply(read_manifests(fields["apply"], place)),
    "remove": _remove,
}
OPTIONS: Final = {"add": ("for",)}
# The kinds that can be removed, and the namespace where each is, if it is in one.
REMOVABLE: Final = {
    "Node": "",
    "Device": "",
    "GpuPod": DEFAULT_NAMESPACE,
    "Lease": "berth-nodes",
    "PlacementPolicy": "",
    "PriorityClass": "",
}
