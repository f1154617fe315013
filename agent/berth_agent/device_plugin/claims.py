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
    """A container's claim on a card or an instance, by a resource of the kubelet's; empty for none."""

    pod: PodKey
    container: str
    uuid: str
    resource: str


def promised(pod: watched_pod.Pod, resources: Mapping[str, str]) -> Iterator[Claim]:
    """Yield what a pod was promised by its bind. `resources` names the resource that counts each uuid."""
    text = pod.metadata.annotations.get(names.ALLOCATION)
    decoded = allocation.decode(text) if text is not None else None
    if isinstance(decoded, allocation.Unreadable):
        # It may have any card, so each is kept from every resource, as the scheduler does.
        yield from (Claim(key_of(pod), "", uuid, "") for uuid in resources)
    if not isinstance(decoded, allocation.Allocation):
        return
    asked = {container.name: watched_pod.amounts(container) for container in watched_pod.containers(pod)}
    for entry in decoded.entries():
        if entry.type == vocabulary.DeviceType.GPU:
            resource = resources.get(entry.share.uuid, "")
            by_name = resource if resource in asked.get(entry.container, {}) else ""
            yield Claim(key_of(pod), entry.container, entry.share.uuid, by_name)


def given(listed: Iterable[podresources.ListedPod], uuids: Collection[str]) -> Iterator[Claim]:
    """Yield which of these cards and instances the kubelet lists as given, by whatever resource."""
    known = set(uuids)
    for pod in listed:
        for container in pod.containers:
            for devices in container.devices:
                for uuid in known.intersection(map(device_ids.uuid_of, devices.ids)):
                    yield Claim((pod.namespace, pod.name), container.name, uuid, devices.resource)


def resources_of(devices: Iterable[offers.Countable]) -> Mapping[str, str]:
    """Return the resource that counts each card or instance."""
    return {device.uuid: device.resource for device in devices}


def names_of(claims: Iterable[Claim]) -> Mapping[str, Collection[str]]:
    """Return by which resources each card or instance is claimed."""
    found: dict[str, set[str]] = {}
    for claim in claims:
        found.setdefault(claim.uuid, set()).add(claim.resource)
    return found


def key_of(pod: watched_pod.Pod) -> PodKey:
    """Return namespace and name of a pod."""
    return pod.metadata.namespace, pod.metadata.name
