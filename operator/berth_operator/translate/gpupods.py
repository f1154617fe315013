"""GpuPods as the core knows them: whose devices they name, and which.

A GpuPod copies the allocation of its pod, so it is held to the same rules: what would make
that record unreadable makes this one unreadable too, for a share that is misread would
look free and be promised twice.
"""

import collections
from collections.abc import Iterator

from berth_crds import allocation, schema_limits, wire
from berth_crds.vocabulary import GrantSource, PodPhase
from berth_operator.scheduling import allocation_recovery
from berth_operator.translate import holdings

KUBELET = GrantSource.POD_RESOURCES


def title(meta: wire.Meta) -> str:
    """Name the pod that a GpuPod speaks of: it has the name of its pod."""
    return f"{meta.namespace}/{meta.name}"


def named(thing: wire.GpuPod) -> allocation_recovery.Named | str:
    """Read which devices a GpuPod names, or say why it names nothing."""
    spec = thing.spec
    if (count := sum(len(one.devices) for one in spec.containers)) > schema_limits.TOTAL_POD_DEVICES:
        return f"it lists {count} devices; {schema_limits.TOTAL_POD_DEVICES} are the most"
    if twice := next(_twice(spec), ""):
        return f"container {twice} is given twice"
    if not any(one.devices for one in spec.containers):
        return allocation_recovery.Named(
            title(thing.metadata), spec.pod_uid, spec.node, bare=_bare(thing.status)
        )
    record = allocation.checked(copied(spec))
    if isinstance(record, allocation.Unreadable):
        return record.detail
    return allocation_recovery.Named(title(thing.metadata), spec.pod_uid, spec.node, holdings.granted(record))


def _bare(status: wire.GpuPodStatus) -> bool:
    """Whether the kubelet says of a pod that runs that none of its containers has a device."""
    runs = status.phase == PodPhase.RUNNING
    return (
        runs
        and KUBELET in {one.source for one in status.granted}
        and not any(one.uuids for one in status.granted)
    )


def _twice(spec: wire.GpuPodSpec) -> Iterator[str]:
    counts = collections.Counter(one.name for one in spec.containers)
    return (name for name, count in counts.items() if count > 1)


def copied(spec: wire.GpuPodSpec) -> allocation.Allocation:
    """Return the allocation that a GpuPod is a copy of."""
    return allocation.of(spec.node, {one.name: _by_type(one.devices) for one in spec.containers})


def _by_type(cards: tuple[wire.HeldCard, ...]) -> dict[str, list[allocation.Share]]:
    found: dict[str, list[allocation.Share]] = {}
    for one in cards:
        share = allocation.Share(one.uuid, one.minor, one.core, one.memory, one.profile, one.vf)
        found.setdefault(one.type, []).append(share)
    return found
