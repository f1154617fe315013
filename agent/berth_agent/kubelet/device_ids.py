"""Which card or MIG instance a device id of the kubelet means. Pure.

The kubelet knows devices by the ids that their plugin chose. NVIDIA's plugin uses the uuid of the
card or of the MIG instance, followed by `::` and a number where several pods share it. Drivers
before R470 named an instance by its card and its place on it. Other plugins use other resource
names for GPUs, so these can be set.

Cards also come by claims, whose devices have the names that `claimed_devices` reads. Where a number is the
minor of one card and the index of another, both cards count: one is kept from others without need, and none
is given twice. Where no MIG instance begins at the slice in a name, all instances of the card count.

An unknown id is kept as it is: without it, the container would seem to hold less than it does.
"""

import dataclasses
import fnmatch
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from berth_agent.kubelet import claimed_devices, podresources
from berth_crds import card_part, names, vocabulary, wire

REPLICA: Final = "::"  # Before the number of a replica, or of a percent.
CLAIMED: Final = ""  # In place of a resource, for what claims brought.

PodKey = tuple[str, str]  # Namespace and name of a pod.


@dataclasses.dataclass(frozen=True, slots=True)
class AllocatableDevice:
    """A card, or a MIG instance of one: what the kubelet gives to a container.

    `index` is that of its card, and `start` the first slice of an instance, as far as they are known.
    """

    uuid: str
    card: str
    minor: int
    memory: int
    profile: str = ""
    replicas: int = 1
    index: int | None = None
    start: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """How much of a device: so many of its equal parts."""

    count: int
    of: int

    def share(self) -> float:
        """Return it as a number up to one."""
        return self.count / self.of

    def times(self, amount: int) -> int:
        """Return as much of an amount, rounded down."""
        return amount * self.count // self.of


ALL: Final = Part(1, 1)


@dataclasses.dataclass(frozen=True, slots=True)
class HeldDevice:
    """A device that a container holds, and how much of it; `device` is None for an unknown uuid."""

    uuid: str
    device: AllocatableDevice | None
    part: Part = ALL


Holdings = Mapping[PodKey, Mapping[str, tuple[HeldDevice, ...]]]  # By pod, then by container.
AllocatableDevices = Mapping[str, AllocatableDevice]  # By each of its ids.


def allocatable_devices(cards: Iterable[wire.Card]) -> AllocatableDevices:
    """Return the node's GPUs and MIG instances by each id that the kubelet may use."""
    found = (_of_card(card) for card in cards if card.type == vocabulary.DeviceType.GPU)
    return dict(pair for pairs in found for pair in pairs)


def _of_card(card: wire.Card) -> Iterator[tuple[str, AllocatableDevice]]:
    replicas = card.sharing.replicas if card.sharing else 1
    yield (
        card.uuid,
        AllocatableDevice(
            card.uuid, card.uuid, card.minor, card.memory or 0, replicas=replicas, index=card.index
        ),
    )
    for instance in card.mig.instances if card.mig else ():
        device = AllocatableDevice(
            instance.uuid,
            card.uuid,
            card.minor,
            instance.memory,
            instance.profile,
            index=card.index,
            start=instance.placement.start if instance.placement else None,
        )
        yield instance.uuid, device
        if instance.gi is not None and instance.ci is not None:
            yield f"MIG-{card.uuid}/{instance.gi}/{instance.ci}", device


def uuid_of(device_id: str) -> str:
    """Return the uuid in a device id, which may be that of a replica or of a percent."""
    return device_id.partition(REPLICA)[0]


def numbered(uuid: str, count: int) -> tuple[str, ...]:
    """Return the device ids of so many replicas or percents of a card."""
    return tuple(f"{uuid}{REPLICA}{number}" for number in range(count))


def is_gpu_resource(resource: str, patterns: Iterable[str]) -> bool:
    """Whether a resource is a kind of GPU."""
    return any(fnmatch.fnmatchcase(resource, pattern) for pattern in patterns)


def holdings(
    listed: Iterable[podresources.ListedPod],
    patterns: tuple[str, ...],
    allocatable: AllocatableDevices,
    drivers: tuple[str, ...] = (),
) -> Holdings:
    """Return which containers hold which devices, as the kubelet lists them; those without any are left out.

    Counted are the devices of resources with these patterns, and those of claims of these drivers.

    A pod that is listed twice (one that has ended, and the next of the same name) holds what either
    entry says: the kubelet gives no uid to distinguish them.
    """
    counted = functools.cache(lambda resource: is_gpu_resource(resource, patterns))
    found: dict[PodKey, dict[str, dict[str, Part]]] = {}
    for pod in listed:
        for container in pod.containers:
            claimed = _claimed(container, drivers, allocatable) if container.claims else {}
            if parts := _parts({**_ids(container, counted), **claimed}, allocatable):
                containers = found.setdefault((pod.namespace, pod.name), {})
                _keep_most(containers.setdefault(container.name, {}), parts)
    return {
        key: {name: _held(parts, allocatable) for name, parts in containers.items()}
        for key, containers in found.items()
    }


def _parts(ids: Mapping[str, str], allocatable: AllocatableDevices) -> Mapping[str, Part]:
    """Return how much of each device these ids are, given each id's resource."""
    found: dict[str, Part] = {}
    for one, resource in ids.items():
        uuid = uuid_of(one)
        part = _part(one, resource, allocatable.get(uuid))
        before = found.get(uuid, Part(0, part.of))
        # Of two kinds of parts of a device the larger counts.
        if before.of == part.of:
            found[uuid] = Part(min(before.count + part.count, part.of), part.of)
        else:
            found[uuid] = max(before, part, key=Part.share)
    return found


def _part(device_id: str, resource: str, device: AllocatableDevice | None) -> Part:
    """Return how much of its device an id is.

    By nvidia.com/gpu an id without a number is all of its card, however that is shared now. Where the number
    of replicas of a card is not known, each counts as the whole card.
    """
    if resource == names.GPU:
        return Part(1, card_part.WHOLE)
    if device is None or resource == CLAIMED or (resource == names.NVIDIA_GPU and REPLICA not in device_id):
        return ALL
    return Part(1, device.replicas)


def _keep_most(into: dict[str, Part], parts: Mapping[str, Part]) -> None:
    for one, part in parts.items():
        into[one] = max(part, into.get(one, part), key=Part.share)


def _ids(container: podresources.ListedContainer, counted: Callable[[str], bool]) -> Mapping[str, str]:
    """Return each device id once, with its resource: the kubelet repeats a device for each NUMA node."""
    return {one: each.resource for each in container.devices if counted(each.resource) for one in each.ids}


def _claimed(
    container: podresources.ListedContainer, drivers: Iterable[str], allocatable: AllocatableDevices
) -> Mapping[str, str]:
    """Return the uuid of each device that claims brought to a container; what is unknown keeps its name."""
    found = claimed_devices.of_container(container, drivers)
    return dict.fromkeys((uuid for name in found for uuid in claimed_uuids(name, allocatable)), CLAIMED)


def claimed_uuids(name: str, allocatable: AllocatableDevices) -> tuple[str, ...]:
    """Return the uuids of the devices that a driver may call by this name, or the name if there is none."""
    numbered = claimed_devices.numbered(name)
    if name in allocatable or numbered is None:
        return (name,)
    there = [one for one in allocatable.values() if numbered.number in (one.minor, one.index)]
    cards = dict.fromkeys(one.card for one in there)
    return tuple(dict.fromkeys(uuid for card in cards for uuid in _pieces(card, there, numbered.start))) or (
        name,
    )


def _pieces(card: str, devices: Iterable[AllocatableDevice], start: int | None) -> list[str]:
    """Return the instances of a card that begin at a slice, or else all; without any, the card itself."""
    instances = [one for one in devices if one.card == card and one.uuid != card]
    at_start = [one.uuid for one in instances if one.start == start and start is not None]
    return at_start or [one.uuid for one in instances] or [card]


def _held(parts: Mapping[str, Part], allocatable: AllocatableDevices) -> tuple[HeldDevice, ...]:
    """Return the devices in the order of their cards: that of the ids is random, and may change."""
    found = (
        HeldDevice(allocatable[one].uuid if one in allocatable else one, allocatable.get(one), part)
        for one, part in parts.items()
    )
    return tuple(sorted(found, key=lambda one: (one.device.minor if one.device else -1, one.uuid)))
