"""For which container the kubelet asks. Pure.

The kubelet admits one pod at a time and its containers in order, and lists a pod from then on. So the one
that is admitted is the only listed pod with a container that asks for the resource and has no device of it
yet.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from berth_agent.device_plugin.claims import key_of
from berth_agent.gpupods import watched_pod
from berth_agent.kubelet import podresources


class Admitted(NamedTuple):
    """A container that is being admitted."""

    pod: watched_pod.Pod
    container: str


# What was allocated by this process, by container and resource: the kubelet lists no init containers, and a
# container not at once.
Allocated = Mapping[tuple[str, str], tuple[str, ...]]
Remembered = Mapping[str, Allocated]  # By the uid of the pod.


def admitted(
    resource: str,
    size: int,
    pods: Iterable[watched_pod.Pod],
    listed: Iterable[podresources.ListedPod],
    remembered: Remembered,
) -> Admitted | None:
    """Return the container that asks for so many devices; None if that is not one container alone."""
    entries = {(pod.namespace, pod.name): pod for pod in listed}
    found = [
        Admitted(pod, container)
        for pod in pods
        if (entry := entries.get(key_of(pod))) is not None
        if (container := _next(resource, size, pod, entry, remembered.get(pod.metadata.uid, {})))
    ]
    return found[0] if len(found) == 1 else None


def _next(
    resource: str,
    size: int,
    pod: watched_pod.Pod,
    entry: podresources.ListedPod,
    remembered: Allocated,
) -> str:
    """Return the container of a pod that lacks its devices, if it asks for that many; empty for none."""
    name, amount = next(_lacking(resource, pod, entry, remembered), ("", 0))
    return name if amount == size else ""


def is_awaited(
    resources: Iterable[str],
    pod: watched_pod.Pod,
    entry: podresources.ListedPod | None,
    remembered: Allocated,
) -> bool:
    """Whether a container of a pod lacks its devices of any of these resources."""
    return any(any(_lacking(resource, pod, entry, remembered)) for resource in resources)


def _lacking(
    resource: str, pod: watched_pod.Pod, entry: podresources.ListedPod | None, remembered: Allocated
) -> Iterator[tuple[str, int]]:
    """Yield the containers of a pod that lack their devices, and how many they ask for.

    All containers are admitted before the first one is made. Those before one that has its devices were
    admitted, too, though an init container among them is not listed.
    """
    if any(watched_pod.container_ids(pod)):
        return
    served = {*_served(resource, entry), *(name for name, of in remembered if of == resource)}
    asking = [
        (container.name, amount)
        for container in watched_pod.containers(pod)
        if (amount := watched_pod.amounts(container).get(resource, 0))
    ]
    last = max((at for at, (name, _) in enumerate(asking) if name in served), default=-1)
    yield from asking[last + 1 :]


def _served(resource: str, entry: podresources.ListedPod | None) -> Iterator[str]:
    for container in entry.containers if entry else ():
        if any(devices.resource == resource and devices.ids for devices in container.devices):
            yield container.name
