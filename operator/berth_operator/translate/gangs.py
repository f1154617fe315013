"""Whether a pod is one of a group that must start as a whole.

Berth binds pods one by one. It would bind as many pods of a group as there is room for, and these
would keep their cards while they wait for the others, perhaps for cards that another such group
keeps. So a pod that declares itself a member of a group is refused, under the keys of any project
or of Kubernetes. If the pod declares that one member is enough, there is no group.
"""

from collections.abc import Iterator
from typing import Final

from berth_crds import aliases
from berth_operator.scheduling.decisions import Reason, Refusal
from berth_operator.translate import raw

ONE_BY_ONE: Final = "Berth binds pods one by one and does not wait for a whole group"


def faults(pod: raw.Pod) -> Iterator[Refusal]:
    """Yield a fault for each project by whose keys a pod is a member of a group."""
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
    """Return the place of the key that makes a pod a member of this kind of group; empty if none does."""
    found = {key: where for key in gang.keys if (where := _where(pod, key))}
    if not found or (gang.size in found and _is_one(_text(pod, gang.size))):
        return ""
    key = next(iter(found))
    return f"{found[key]} {key}"


def _where(pod: raw.Pod, key: str) -> str:
    """Return whether a key with a value is an annotation or a label; empty if neither."""
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
