"""What the kubelet counts: the devices of each resource, with their health and NUMA node. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from berth_agent.kubelet import device_ids
from berth_agent.kubelet.plugin_messages import OfferedDevice
from berth_crds import names, vocabulary, wire

Offer = tuple[OfferedDevice, ...]


class Countable(NamedTuple):
    """A card, an instance or a replica, as one device of a resource.

    `meaning` is the resource that would ask for it elsewhere (`gpuStandsFor`).
    """

    resource: str
    id: str
    uuid: str  # Of the card or the instance.
    card: wire.Card
    meaning: str


def countable(cards: Sequence[wire.Card], gpu_stands_for: str = "") -> Iterator[Countable]:
    """Yield each device that the kubelet counts: MIG cards by instances, shared ones by replicas.

    What `nvidia.com/gpu` stands for is counted by that name.
    """
    for device in _by_own_names(cards):
        stood_for = device.resource == gpu_stands_for
        yield device._replace(resource=names.NVIDIA_GPU) if stood_for else device


def meaning(resource: str, gpu_stands_for: str) -> str:
    """Return which resource would ask elsewhere for what this one asks for on the node."""
    return gpu_stands_for or resource if resource == names.NVIDIA_GPU else resource


def _by_own_names(cards: Sequence[wire.Card]) -> Iterator[Countable]:
    for card in cards:
        if card.type != vocabulary.DeviceType.GPU:
            continue
        if card.mig and card.mig.enabled:
            for instance in card.mig.instances:
                resource = names.of_instances(instance.profile)
                yield Countable(resource, instance.uuid, instance.uuid, card, resource)
        elif card.sharing:
            for number in range(card.sharing.replicas):
                replica = f"{card.uuid}{device_ids.REPLICA}{number}"
                yield Countable(names.NVIDIA_GPU_SHARED, replica, card.uuid, card, names.NVIDIA_GPU_SHARED)
        else:
            yield Countable(names.NVIDIA_GPU, card.uuid, card.uuid, card, names.NVIDIA_GPU)


def offers(
    devices: Iterable[Countable], sick: Collection[str], meanings_of: Mapping[str, Collection[str]]
) -> Mapping[str, Offer]:
    """Return the devices of each resource; what is sick, or held or promised as something else, is unhealthy.

    `meanings_of` says as what each card or instance is held or promised.
    """
    found: dict[str, list[OfferedDevice]] = {}
    for device in devices:
        elsewhere = any(held != device.meaning for held in meanings_of.get(device.uuid, ()))
        is_healthy = device.card.uuid not in sick and not elsewhere
        numa_node = device.card.topology.numa_node if device.card.topology else None
        found.setdefault(device.resource, []).append(OfferedDevice(device.id, is_healthy, numa_node))
    return {resource: tuple(devices) for resource, devices in found.items()}
