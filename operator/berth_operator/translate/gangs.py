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


def _refusal(place: str) -> Refusal:
    return Refusal(
        Reason.UNSUPPORTED_CONSTRAINT,
        detail=f"{place} makes the pod one of a group that starts as a whole, but {ONE_BY_ONE}; "
        f"leave it out if the pods may start one by one",
    )
