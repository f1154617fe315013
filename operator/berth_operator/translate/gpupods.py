"""GpuPods as the core knows them: whose devices they name, and which.

A GpuPod copies the allocation of its pod, so the same rules apply: what makes that record
unreadable makes this one unreadable too, because a misread share would look free and be
allocated twice.
"""

import collections
from collections.abc import Iterator

from berth_crds import allocation, granted, schema_limits, wire
from berth_crds.vocabulary import GrantSource, PodPhase
from berth_operator.scheduling import allocation_recovery
from berth_operator.translate import held_devices

KUBELET = GrantSource.POD_RESOURCES


def title(meta: wire.Meta) -> str:
    """Return the title of the pod that a GpuPod describes: it has the name of its pod."""
    return f"{meta.namespace}/{meta.name}"


def read(gpupod: wire.GpuPod) -> allocation_recovery.NamedDevices | str:
    """Return the devices that a GpuPod names, or a sentence that says why it names none."""
    spec = gpupod.spec
    if (count := sum(len(one.devices) for one in spec.containers)) > schema_limits.TOTAL_POD_DEVICES:
        return f"it lists {count} devices; {schema_limits.TOTAL_POD_DEVICES} are the most"
    if duplicate := next(_duplicate_names(spec), ""):
        return f"container {duplicate} is given twice"
    if not any(one.devices for one in spec.containers):
        return allocation_recovery.NamedDevices(
            title(gpupod.metadata), spec.pod_uid, spec.node, bare=_has_no_devices(gpupod.status)
        )
    record = allocation.checked(allocation_of(spec))
    if isinstance(record, allocation.Unreadable):
        return record.detail
    return allocation_recovery.NamedDevices(
        title(gpupod.metadata),
        spec.pod_uid,
        spec.node,
        held_devices.granted(record),
        given_otherwise=granted.otherwise(spec, gpupod.status.granted),
    )


def _has_no_devices(status: wire.GpuPodStatus) -> bool:
    """Whether the kubelet reports that a running pod has no device in any container."""
    return (
        status.phase == PodPhase.RUNNING
        and KUBELET in {one.source for one in status.granted}
        and not any(one.uuids for one in status.granted)
    )


def _duplicate_names(spec: wire.GpuPodSpec) -> Iterator[str]:
    return (
        name for name, count in collections.Counter(one.name for one in spec.containers).items() if count > 1
    )


def allocation_of(spec: wire.GpuPodSpec) -> allocation.Allocation:
    """Return the allocation that a GpuPod is a copy of."""
    return allocation.of(
        spec.node,
        {
            container.name: allocation.by_type((one.type, _share(one)) for one in container.devices)
            for container in spec.containers
        },
    )


def _share(held: wire.HeldCard) -> allocation.Share:
    return allocation.Share(
        held.uuid, held.minor, held.core, held.memory, held.profile, held.vf, limit=held.limit or 0
    )
