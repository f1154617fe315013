"""Who holds or was promised a card, and by which name of a resource. Pure.

Berth promises by the annotation of the bind, and the kubelet lists what it gave. A pod may ask the scheduler
for a part of a card by names that ask the kubelet for nothing; then the name is empty.
"""

import collections
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from berth_agent.device_plugin import offers
from berth_agent.gpupods import watched_pod
from berth_agent.kubelet import device_ids, podresources
from berth_crds import allocation, card_part, names, vocabulary

PodKey = device_ids.PodKey
Counted = Mapping[str, offers.Countable]  # By uuid, as what it counts apart from its parts.

PERCENT_OF_MEMORY: Final = 10**6
WHOLE_MEMORY: Final = card_part.WHOLE * PERCENT_OF_MEMORY


class Claim(NamedTuple):
    """A container's claim on a card or an instance, by a resource of the kubelet's; empty for none.

    `meaning` is as what it is claimed: a whole card, a part, a replica, or an instance, by the resource that
    asks for such a thing everywhere; empty if that is unknown. A card may have been given as one when it
    counts as another. `amount` is how many replicas are claimed, or how many percent of the card's compute;
    `memory` is the part of its memory, in units of which a card has `WHOLE_MEMORY`.
    """

    pod: PodKey
    container: str
    uuid: str
    resource: str
    meaning: str
    amount: int = 1
    memory: int = 0


def promised(pod: watched_pod.Pod, counted: Counted) -> Iterator[Claim]:
    """Yield what a pod was promised by its bind."""
    text = pod.metadata.annotations.get(names.ALLOCATION)
    decoded = allocation.decode(text) if text is not None else None
    if isinstance(decoded, allocation.Unreadable):
        # It may have any card, so each is kept from every resource, as the scheduler does.
        yield from (Claim(key_of(pod), "", uuid, "", "") for uuid in counted)
    if not isinstance(decoded, allocation.Allocation):
        return
    asked = {container.name: watched_pod.amounts(container) for container in watched_pod.containers(pod)}
    for entry in decoded.entries():
        if entry.type == vocabulary.DeviceType.GPU:
            share, one = entry.share, counted.get(entry.share.uuid)
            resource = _asked_by(one, asked.get(entry.container, {})) if one else ""
            place = key_of(pod), entry.container, share.uuid, resource
            if resource in {"", names.GPU} and not (share.profile or share.replicas):
                yield Claim(*place, names.GPU, share.core, _memory(share, one))
            else:
                yield Claim(*place, _meaning(share), max(share.replicas, 1))


def _asked_by(counted: offers.Countable, asked: Collection[str]) -> str:
    """Return by which resource the kubelet was asked for a card or an instance; empty for none."""
    if counted.resource in asked:
        return counted.resource
    return names.GPU if names.GPU in asked and counted.meaning == names.NVIDIA_GPU else ""


def _meaning(share: allocation.Share) -> str:
    if share.profile:
        return names.of_instances(share.profile)
    return names.NVIDIA_GPU_SHARED if share.replicas else names.NVIDIA_GPU


def _memory(share: allocation.Share, counted: offers.Countable | None) -> int:
    """Return which part of its card's memory a share is. It was rounded up to bytes, and is not once more."""
    total = counted.card.memory if counted else None
    return max(0, share.memory - 1) * WHOLE_MEMORY // total if total else 0


def given(listed: Iterable[podresources.ListedPod], counted: Counted) -> Iterator[Claim]:
    """Yield which of these cards and instances the kubelet lists as given, by whatever resource."""
    for pod in listed:
        for container in pod.containers:
            for devices in container.devices:
                found = collections.Counter[tuple[str, str]]()
                for device in set(devices.ids):  # The kubelet repeats a device for each NUMA node.
                    if one := counted.get(device_ids.uuid_of(device)):
                        found[one.uuid, _given_as(device, devices.resource, one.meaning)] += 1
                for (uuid, meaning), amount in found.items():
                    key = pod.namespace, pod.name
                    memory = amount * PERCENT_OF_MEMORY
                    yield Claim(key, container.name, uuid, devices.resource, meaning, amount, memory)


def _given_as(device: str, resource: str, meaning: str) -> str:
    """Return as what a device was given, whatever its card counts as now: by the form of its id."""
    if resource != names.NVIDIA_GPU:
        return resource
    if device_ids.REPLICA in device:
        return names.NVIDIA_GPU_SHARED
    return meaning if meaning.startswith(names.NVIDIA_MIG_PREFIX) else names.NVIDIA_GPU


def counted(devices: Iterable[offers.Countable]) -> Counted:
    """Return as what each card or instance counts, apart from its parts."""
    return {one.uuid: one for one in devices if one.resource != names.GPU}


def meanings_of(claims: Iterable[Claim]) -> Mapping[str, Collection[str]]:
    """Return as what each card or instance is claimed."""
    found: dict[str, set[str]] = {}
    for claim in claims:
        found.setdefault(claim.uuid, set()).add(claim.meaning)
    return found


def key_of(pod: watched_pod.Pod) -> PodKey:
    """Return namespace and name of a pod."""
    return pod.metadata.namespace, pod.metadata.name
