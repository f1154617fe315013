"""What a GpuPod says that its containers were given, beside what they were to have."""

from collections.abc import Iterable

from berth_crds import wire
from berth_crds.vocabulary import GrantSource


def otherwise(spec: wire.GpuPodSpec, granted: Iterable[wire.Grant]) -> frozenset[str]:
    """Return the devices that the kubelet gave to containers which were to have others."""
    given = {uuid for grant in granted if grant.source == GrantSource.POD_RESOURCES for uuid in grant.uuids}
    return frozenset(given - {held.uuid for container in spec.containers for held in container.devices})
