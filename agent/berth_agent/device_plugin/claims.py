"""Who holds or was promised a card, and by which name of a resource. Pure.

Berth promises by the annotation of the bind, and the kubelet lists what it gave. A pod that asks the
scheduler for a part of a card asks the kubelet for nothing: its name is empty, and the card is kept from
every resource.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from berth_agent.device_plugin import offers
from berth_agent.gpupods import watched_pod
from berth_agent.kubelet import device_ids, podresources
from berth_crds import allocation, names, vocabulary

PodKey = device_ids.PodKey


class Claim(NamedTuple):
    """A container's claim on a card or an instance, by a resource of the kubelet's; empty for none.

    `meaning` is as what it is claimed: a whole card, a replica, or an instance, by the resource that asks for
    such a thing everywhere; empty for a part. A card may have been given as one when it counts as another.
    """

    pod: PodKey
    container: str
    uuid: str
    resource: str
    meaning: str


def promised(pod: watched_pod.Pod, resources: Mapping[str, str]) -> Iterator[Claim]:
    """Yield what a pod was promised by its bind. `resources` names the resource that counts each uuid."""
    text = pod.metadata.annotations.get(names.ALLOCATION)
    decoded = allocation.decode(text) if text is not None else None
    if isinstance(decoded, allocation.Unreadable):
        # It may have any card, so each is kept from every resource, as the scheduler does.
        yield from (Claim(key_of(pod), "", uuid, "", "") for uuid in resources)
    if not isinstance(decoded, allocation.Allocation):
        return
    asked = {container.name: watched_pod.amounts(container) for container in watched_pod.containers(pod)}
    for entry in decoded.entries():
        if entry.type == vocabulary.DeviceType.GPU:
            resource = resources.get(entry.share.uuid, "")
            by_name = resource if resource in asked.get(entry.container, {}) else ""
            meaning = _meaning(entry.share) if by_name else ""
            yield Claim(key_of(pod), entry.container, entry.share.uuid, by_name, meaning)


def _meaning(share: allocation.Share) -> str:
    if share.profile:
        return names.of_instances(share.profile)
    return names.NVIDIA_GPU_SHARED if share.replicas else names.NVIDIA_GPU


def given(
    listed: Iterable[podresources.ListedPod], countable: Collection[offers.Countable]
) -> Iterator[Claim]:
    """Yield which of these cards and instances the kubelet lists as given, by whatever resource."""
    known = {device.uuid: device.meaning for device in countable}
    for pod in listed:
        for container in pod.containers:
            for devices in container.devices:
                for one in devices.ids:
                    uuid = device_ids.uuid_of(one)
                    if uuid in known:
                        meaning = _given_as(one, devices.resource, known[uuid])
                        key = pod.namespace, pod.name
                        yield Claim(key, container.name, uuid, devices.resource, meaning)


def _given_as(device: str, resource: str, meaning: str) -> str:
    """Return as what a device was given, whatever its card counts as now: by the form of its id."""
    if resource != names.NVIDIA_GPU:
        return resource
    if device_ids.REPLICA in device:
        return names.NVIDIA_GPU_SHARED
    return meaning if meaning.startswith(names.NVIDIA_MIG_PREFIX) else names.NVIDIA_GPU


def resources_of(devices: Iterable[offers.Countable]) -> Mapping[str, str]:
    """Return the resource that counts each card or instance."""
    return {device.uuid: device.resource for device in devices}


def meanings_of(claims: Iterable[Claim]) -> Mapping[str, Collection[str]]:
    """Return as what each card or instance is claimed."""
    found: dict[str, set[str]] = {}
    for claim in claims:
        found.setdefault(claim.uuid, set()).add(claim.meaning)
    return found


def key_of(pod: watched_pod.Pod) -> PodKey:
    """Return namespace and name of a pod."""
    return pod.metadata.namespace, pod.metadata.name
