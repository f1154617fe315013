"""What a pod requires by keys of other projects or of Kubernetes, and Berth does not serve.

Berth binds pods one by one. It would bind as many pods of a group as there is room for, and these
would keep their cards while they wait for the others, perhaps for cards that another such group
keeps. So a pod that declares itself a member of a group is refused. If the pod declares that one member
is enough, there is no group.

The other keys, and the values of each that require nothing, are data of the contract.
"""

from collections.abc import Iterator
from typing import Final

from berth_crds import aliases, requirements
from berth_crds.text import line
from berth_operator.scheduling.decisions import Reason, Refusal
from berth_operator.translate import json_objects, raw, refusals
from berth_operator.translate.refusals import RefusalError

ONE_BY_ONE: Final = "Berth binds pods one by one and does not wait for a whole group"


def of_gangs(pod: raw.Pod) -> Iterator[Refusal]:
    """Yield a fault for each project by whose keys a pod is a member of a group."""
    if pod.spec.scheduling_group is not None:
        yield _gang_refusal("spec.schedulingGroup")
    if pod.spec.workload_ref is not None:
        yield _gang_refusal("spec.workloadRef")
    meta = pod.metadata
    if aliases.GANG_KEYS.isdisjoint(meta.annotations) and aliases.GANG_KEYS.isdisjoint(meta.labels):
        return
    for gang in aliases.GANGS:
        if place := _place(pod, gang):
            yield _gang_refusal(place)


def _place(pod: raw.Pod, gang: aliases.Gang) -> str:
    """Return the place of the key that makes a pod a member of this kind of group; empty if none does."""
    found: dict[str, tuple[str, str]] = {}
    for key in gang.keys:
        for where, texts in (
            (aliases.Where.ANNOTATION, pod.metadata.annotations),
            (aliases.Where.LABEL, pod.metadata.labels),
        ):
            if text := texts.get(key, "").strip():
                found.setdefault(key, (f"{where} {key}", text))
    if not found or (gang.size in found and found[gang.size][1] in {"0", "1"}):
        return ""
    return next(iter(found.values()))[0]


def _gang_refusal(place: str) -> Refusal:
    return Refusal(
        Reason.UNSUPPORTED_CONSTRAINT,
        detail=f"{place} makes the pod one of a group that starts as a whole, but {ONE_BY_ONE}; "
        f"leave it out if the pods may start one by one",
    )


# ---------------------------------------------------------------- other requirements

NOTHING: Final[tuple[object, ...]] = ("", None, [], {})


def of_requirements(pod: raw.Pod) -> Iterator[Refusal]:
    """Yield a fault for each key that requires what Berth does not serve."""
    meta = pod.metadata
    if requirements.KEYS.isdisjoint(meta.annotations) and requirements.KEYS.isdisjoint(meta.labels):
        return
    for row in requirements.REQUIREMENTS:
        texts = meta.labels if row.where is aliases.Where.LABEL else meta.annotations
        try:
            refusal = _required(row, texts.get(row.key, "").strip())
        except RefusalError as error:
            refusal = error.refusal
        if refusal:
            yield refusal


def _required(row: requirements.Requirement, text: str) -> Refusal | None:
    place = f"{row.where} {row.key}"
    required = _field(row, place, text) if row.fields else _word(row, text)
    if not text or not required:
        return None
    detail = f"{place}: {required} is required, which Berth does not serve; {row.instead}"
    return Refusal(Reason.UNSUPPORTED_CONSTRAINT, detail=line(detail))


def _word(row: requirements.Requirement, text: str) -> str:
    return "" if text in row.harmless else refusals.shown(text)


def _field(row: requirements.Requirement, place: str, text: str) -> str:
    """Return the first field of an object in JSON that requires something."""
    fields = json_objects.json_object(place, text) if text else {}
    for name, value in sorted(fields.items()):
        harmless = row.fields.get(name, frozenset())
        if value in NOTHING or harmless is requirements.ANYTHING:
            continue
        if not isinstance(value, str):
            return refusals.shown(name)
        if value not in harmless:
            return f"{refusals.shown(name)} {refusals.shown(value)}"
    return ""
