"""Whether a pod is one of a group that must start as a whole.

Berth binds pods one by one. Of a group of four it would bind as many as there is room for, and
these would keep their cards while they wait for the others, perhaps for those that another such
group keeps. So a pod that says that it belongs to a group is refused, in whichever project's
words, or in those of Kubernetes. Where the pod itself says that one is enough there is no group.
"""

from collections.abc import Iterator
from typing import Final

from berth_crds import aliases
from berth_operator.scheduling.decisions import Reason, Refusal
from berth_operator.translate import raw

ONE_BY_ONE: Final = "Berth binds pods one by one and does not wait for a whole group"


def of(pod: raw.Pod) -> Iterator[Refusal]:
    """Find what makes a pod one of a group, the first key of each project's way to say so."""
    if pod.spec.scheduling_group is not None:
        yield _refusal("spec.schedulingGroup")
    if pod.spec.workload_ref is not None:
        yield _refusal("spec.workloadRef")
    meta = pod.metadata
    if aliases.GANG_KEYS.isdisjoint(meta.annotations) and aliases.GANG_KEYS.isdisjoint(meta.labels):
        return
    for gang in aliases.GANGS:
        place = _place(pod, gang)
        if place:
            yield _refusal(place)


def _place(pod: raw.Pod, gang: aliases.Gang) -> str:
    """Name the key that makes a pod one of a group of this kind; nothing where none does."""
    said = {key: where for key in gang.keys if (where := _where(pod, key))}
    if not said or (gang.size in said and _is_one(_text(pod, gang.size))):
        return ""
    key = next(iter(said))
    return f"{said[key]} {key}"


def _where(pod: raw.Pod, key: str) -> str:
    """Return where a key stands with something behind it."""
    if pod.metadata.annotations.get(key, "").strip():
        return aliases.Where.ANNOTATION
    return aliases.Where.LABEL if pod.metadata.labels.get(key, "").strip() else ""


def _text(pod: raw.Pod, key: str) -> str:
    return pod.metadata.annotations.get(key, "").strip() or pod.metadata.labels.get(key, "").strip()


def _is_one(text: str) -> bool:
    return text in {"0", "1"}


def _refusal(place: str) -> Refusal:
    return Refusal(
        Reason.UNSUPPORTED_CONSTRAINT,
        detail=f"{place} makes the pod one of a group that starts as a whole, but {ONE_BY_ONE}; "
        f"leave it out if the pods may start one by one",
    )
