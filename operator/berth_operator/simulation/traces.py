"""Traces: what happens when, one event for each line, in JSON.

    {"at": 0, "add": POD}                     a pod arrives; POD is a manifest, or the name of a file of them
    {"at": 0, "add": POD, "for": 3600}        ... and finishes so many seconds after it was placed
    {"at": 60, "finish": "ml/train-0"}        a pod ends and gives its devices back
    {"at": 60, "delete": "ml/train-0"}        a pod is deleted, whether it was placed or waits
    {"at": 90, "apply": OBJECT}               a Node, Device, ... is new or changed; or the name of a file
    {"at": 95, "remove": {"kind": "Node", "name": "n1"}}    an object is gone, and with a Node its pods

Times are seconds since the start. Lines need not be in order; those of one moment happen
in the order of the lines, and then the pods are looked at. Names of files are relative to
the trace.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from berth_operator.simulation import files, manifests, mistakes, scenario
from berth_operator.simulation.mistakes import Mistake

MOST_SECONDS: Final = 1e12


@dataclasses.dataclass(frozen=True, slots=True)
class Add:
    """Pods arrive; with `lasts` they finish so long after they were placed."""

    things: tuple[manifests.Thing, ...]
    lasts: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Apply:
    """Objects are new or changed."""

    things: tuple[manifests.Thing, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Remove:
    """An object that is not a pod is gone."""

    kind: str
    namespace: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Finish:
    """A pod ends."""

    key: scenario.Key


@dataclasses.dataclass(frozen=True, slots=True)
class Delete:
    """A pod is deleted."""

    key: scenario.Key


Act = Add | Apply | Remove | Finish | Delete


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One line: when, what, and where it stands."""

    at: float
    place: str
    act: Act


def read(name: str, reader: manifests.Reader) -> list[Event]:
    """Read a whole trace, in the order in which it happens."""
    shown = "stdin" if name == files.STDIN else name
    folder = Path() if name == files.STDIN else Path(name).parent
    events = []
    for number, line in enumerate(files.text(name).splitlines(), start=1):
        if line.strip():
            place = f"{shown}: line {number}"
            events.append(_event(line, place, lambda value, at: _things(value, at, folder, reader)))
    return sorted(events, key=lambda event: event.at)


Things = Callable[[Any, str], tuple[manifests.Thing, ...]]


def _event(line: str, place: str, things: Things) -> Event:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise Mistake(f"{place}: it is not JSON") from None
    if not isinstance(fields, dict):
        raise Mistake(f"{place}: expected an object, found {mistakes.shown(fields)}")
    named = [key for key in fields if key in ACTS]
    if len(named) != 1:
        raise Mistake(
            f"{place}: expected one of {', '.join(ACTS)}, found {', '.join(named) or 'none of them'}"
        )
    (verb,) = named
    allowed = {"at", verb, *OPTIONS.get(verb, ())}
    for key in fields:
        if key not in allowed:
            raise Mistake(f"{place}: {mistakes.shown(key)} is not known beside {verb}")
    return Event(_seconds(fields, "at", place), place, ACTS[verb](fields, place, things))


def _seconds(fields: dict[str, Any], key: str, place: str) -> float:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_SECONDS:
        raise Mistake(f"{place}: {key}: expected seconds since the start, found {mistakes.shown(value)}")
    return float(value)


def _things(value: Any, place: str, folder: Path, reader: manifests.Reader) -> tuple[manifests.Thing, ...]:
    """Read objects that stand in the line, or in the file that it names."""
    if not isinstance(value, str):
        return tuple(reader.read([files.Document(place, 1, value)]))
    try:
        return tuple(reader.read(files.read([str(folder / value)])))
    except Mistake as mistake:
        raise Mistake(f"{place}: {mistake}") from None


# ---------------------------------------------------------------- acts


def _add(fields: dict[str, Any], place: str, things: Things) -> Act:
    found = things(fields["add"], place)
    for thing in found:
        if thing.kind != "Pod":
            raise Mistake(f"{place}: add is for pods; write apply for {thing.kind} {thing.title}")
    return Add(found, _seconds(fields, "for", place) if "for" in fields else None)


def _apply(fields: dict[str, Any], place: str, things: Things) -> Act:
    return Apply(things(fields["apply"], place))


def _remove(fields: dict[str, Any], place: str, _things: Things) -> Act:
    value = fields["remove"]
    known = {"kind", "namespace", "name"}
    if not isinstance(value, dict) or not {"kind", "name"} <= set(value) <= known:
        raise Mistake(
            f'{place}: remove: expected {{"kind": ..., "name": ...}}, found {mistakes.shown(value)}'
        )
    kind, namespace, name = (value.get(key, "") for key in ("kind", "namespace", "name"))
    if not all(isinstance(one, str) for one in (kind, namespace, name)):
        raise Mistake(f"{place}: remove: kind and name must be strings")
    if kind == "Pod":
        return Delete((kind, namespace or manifests.DEFAULT_NAMESPACE, name))
    if kind not in REMOVABLE:
        raise Mistake(f"{place}: remove: {mistakes.shown(kind)} is none of {', '.join(REMOVABLE)}")
    return Remove(kind, namespace or REMOVABLE[kind], name)


def _finish(fields: dict[str, Any], place: str, _things: Things) -> Act:
    return Finish(_pod(fields["finish"], place))


def _delete(fields: dict[str, Any], place: str, _things: Things) -> Act:
    return Delete(_pod(fields["delete"], place))


def _pod(value: Any, place: str) -> scenario.Key:
    if not isinstance(value, str) or not value:
        raise Mistake(
            f"{place}: expected the name of a pod, such as ml/train-0, found {mistakes.shown(value)}"
        )
    return scenario.pod_key(value)


ACTS: Final[dict[str, Callable[[dict[str, Any], str, Things], Act]]] = {
    "add": _add,
    "finish": _finish,
    "delete": _delete,
    "apply": _apply,
    "remove": _remove,
}
OPTIONS: Final = {"add": ("for",)}
# The kinds that can be removed, and the namespace where each is, if it is in one.
REMOVABLE: Final = {
    "Node": "",
    "Device": "",
    "GpuPod": manifests.DEFAULT_NAMESPACE,
    "Lease": "berth-nodes",
    "PlacementPolicy": "",
    "PriorityClass": "",
}
