"""What the kubelet counts: the devices of each resource, with their health and NUMA node. Pure."""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from berth_agent.kubelet import device_ids
from berth_agent.kubelet.plugin_messages import OfferedDevice
from berth_crds import card_part, names, vocabulary, wire

Offer = tuple[OfferedDevice, ...]


class Countable(NamedTuple):
    """A card or an instance as a resource counts it: by one device, by its replicas, or by its percents.

    `meaning` is the resource that would ask for it elsewhere (`gpuStandsFor`).
    """

    resource: str
    ids: tuple[str, ...]
    uuid: str  # Of the card or the instance.
    card: wire.Card
    meaning: str


def countable(cards: Sequence[wire.Card], gpu_stands_for: str = "") -> Iterator[Countable]:
    """Yield what the kubelet counts: MIG instances, replicas of shared cards, others whole and in parts.

    What `nvidia.com/gpu` stands for is counted by that name.
    """
    for one in _by_own_names(cards):
        yield one._replace(resource=names.NVIDIA_GPU) if one.resource == gpu_stands_for else one


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
                yield Countable(resource, (instance.uuid,), instance.uuid, card, resource)
        elif card.sharing:
            replicas = device_ids.numbered(card.uuid, card.sharing.replicas)
            yield Countable(names.NVIDIA_GPU_SHARED, replicas, card.uuid, card, names.NVIDIA_GPU_SHARED)
        else:
            yield Countable(names.NVIDIA_GPU, (card.uuid,), card.uuid, card, names.NVIDIA_GPU)
            yield Countable(names.GPU, percents(card.uuid), card.uuid, card, names.GPU)


@functools.lru_cache(maxsize=256)
def percents(uuid: str) -> tuple[str, ...]:
    """Return the devices by which parts of a card are counted, one for each percent."""
    return device_ids.numbered(uuid, card_part.WHOLE)


def offers(
    countable: Iterable[Countable],
    sick: Collection[str],
    meanings_of: Mapping[str, Collection[str]],
    withdrawn: Collection[str] = (),
) -> Mapping[str, Offer]:
    """Return the devices of each resource; what is sick, or held or promised as something else, is unhealthy.

    `meanings_of` says as what each card or instance is held or promised, and `withdrawn` are further devices
    that the kubelet may give to nobody.
    """
    found: dict[str, list[OfferedDevice]] = {}
    for one in countable:
        elsewhere = any(held != one.meaning for held in meanings_of.get(one.uuid, ()))
        may_be_given = one.card.uuid not in sick and not elsewhere
        found.setdefault(one.resource, []).extend(
            OfferedDevice(device, may_be_given and device not in withdrawn, _numa_node(one))
            for device in one.ids
        )
    return {resource: tuple(devices) for resource, devices in found.items()}


def _numa_node(one: Countable) -> int | None:
    """Return where a device is; nowhere for parts: a kubelet that aligns devices would take another card."""
    return one.card.topology.numa_node if one.card.topology and one.meaning != names.GPU else None
