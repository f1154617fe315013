"""What the kubelet counts: the devices of each resource, with their health and NUMA node. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from berth_agent.kubelet import device_ids
from berth_agent.kubelet.plugin_messages import OfferedDevice
from berth_crds import names, vocabulary, wire

Offer = tuple[OfferedDevice, ...]


class Countable(NamedTuple):
    """A card, an instance or a replica, as one device of a resource."""

    resource: str
    id: str
    uuid: str  # Of the card or the instance.
    card: wire.Card


# Kubernetes has no plus in the names of resources.
REPLACED: Final = str.maketrans("+", ".")


def countable(cards: Sequence[wire.Card]) -> Iterator[Countable]:
    """Yield each device that the kubelet counts: MIG cards by instances, shared ones by replicas."""
    for card in cards:
        if card.type != vocabulary.DeviceType.GPU:
            continue
        if card.mig and card.mig.enabled:
            for instance in card.mig.instances:
                resource = f"{names.NVIDIA_MIG_PREFIX}{instance.profile.translate(REPLACED)}"
                yield Countable(resource, instance.uuid, instance.uuid, card)
        elif card.sharing:
            for number in range(card.sharing.replicas):
                replica = f"{card.uuid}{device_ids.REPLICA}{number}"
                yield Countable(names.NVIDIA_GPU_SHARED, replica, card.uuid, card)
        else:
            yield Countable(names.NVIDIA_GPU, card.uuid, card.uuid, card)


def offers(
    cards: Sequence[wire.Card], sick: Collection[str], names_of: Mapping[str, Collection[str]]
) -> Mapping[str, Offer]:
    """Return the devices of each resource; what is sick, or held or promised by another name, is unhealthy.

    `names_of` says by which resources each card or instance is held or promised.
    """
    found: dict[str, list[OfferedDevice]] = {}
    for device in countable(cards):
        elsewhere = any(name != device.resource for name in names_of.get(device.uuid, ()))
        is_healthy = device.card.uuid not in sick and not elsewhere
        numa_node = device.card.topology.numa_node if device.card.topology else None
        found.setdefault(device.resource, []).append(OfferedDevice(device.id, is_healthy, numa_node))
    return {resource: tuple(devices) for resource, devices in found.items()}
