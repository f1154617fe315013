"""Devices as the core knows them: cards in the order of their minors with their troubles, and the topology.

The topology is built from the links and partitions that the agent published. Equal topologies are one
object, because the core caches results by topology. An agent may publish a topology that no hardware
has: links and partitions of a topology with too many NVLink cliques are left out.
"""

import collections
import dataclasses
import datetime as dt
import functools
import itertools
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from berth_crds import catalog, link_worths, named_cards, names, text, vocabulary, wire
from berth_crds.vocabulary import LinkKind, Scope
from berth_operator.scheduling import uuid_records
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts, node_topology, nvlink_cliques
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.translate import delivery, device_size, partition_tables

# A source that is not configured has no condition; only one that says so is down.
NEARNESS: Final = {
    Scope.PCIE: link_worths.PATHS[LinkKind.PCIE_SWITCH],
    Scope.NUMA: link_worths.PATHS[LinkKind.NUMA],
}
_RECOVERIES: Final[dict[str, vocabulary.Recovery]] = {one.value: one for one in vocabulary.Recovery}
KUBELET: Final = vocabulary.DeviceCondition.POD_RESOURCES_READY
PLUGIN: Final = vocabulary.DeviceCondition.DEVICE_PLUGIN_READY
FEW_LABELS: Final = 8  # As agents write them of their own accord.
FATAL_SOURCES: Final = (vocabulary.DeviceCondition.NVML_READY,)


def read(device: wire.Device, fault: str | None = None) -> device_facts.Device:
    """Return the Device that an agent published; one that is too large counts as failed.

    `fault` is what it has too much of, if that is known already.
    """
    fault = device_size.too_large(device) or device_size.excess(device.spec) if fault is None else fault
    spec = device_size.without_details(device.spec) if fault else device.spec
    verdicts = {one.uuid: one for one in device.status.devices}
    duplicates = _duplicate_uuids(spec.devices)
    cordoned_by_word = {word: named_cards.uuids_named(word.strip(), spec.devices) for word in spec.cordon}
    cordoned = frozenset().union(*cordoned_by_word.values())
    ordered = sorted(spec.devices, key=lambda card: (card.type, card.minor, card.uuid))
    gpus = [card for card in ordered if card.type == vocabulary.DeviceType.GPU]
    table = partition_tables.read(device, spec, gpus)
    kubelet_served = any(one.type == PLUGIN for one in device.status.conditions)
    return device_facts.Device(
        node=device.metadata.name,
        cards=tuple(_card(card, verdicts.get(card.uuid), cordoned, duplicates) for card in gpus),
        others=tuple(
            _card(card, verdicts.get(card.uuid), cordoned)
            for card in ordered
            if card.type != vocabulary.DeviceType.GPU
        ),
        topology=topology(gpus, table),
        failed=fault or failed_source(device.status.conditions),
        kubelet_read=any(one.type == KUBELET for one in device.status.conditions),
        kubelet_served=kubelet_served,
        astray=tuple(sorted(text.line(word) for word, cards in cordoned_by_word.items() if not cards)),
        large=bool(device_size.too_large(device)),
        delivery=delivery.of_node(device.status.conditions),
        gpu_unit=_gpu_unit(spec, kubelet_served=kubelet_served),
        one_replica_each=any(card.sharing.one_per_container for card in gpus if card.sharing),
        isolation=delivery.isolation(device.status.conditions),
        honors_partitions=bool(partition_tables.honored(device.metadata.labels)),
        table_fault=table.fault,
    )


def _gpu_unit(spec: wire.DeviceSpec, *, kubelet_served: bool) -> str:
    """Return what nvidia.com/gpu asks for on the node; a whole card where nothing else is known for sure."""
    if not spec.gpu_stands_for and kubelet_served:
        return device_facts.COUNTED_CARD
    if spec.gpu_stands_for == names.NVIDIA_GPU_SHARED:
        return device_facts.REPLICA
    profiles = {one.profile for card in spec.devices if card.mig for one in card.mig.instances}
    return next((one for one in profiles if names.of_instances(one) == spec.gpu_stands_for), "")


def read_record(status: wire.DeviceStatus) -> uuid_records.Record:
    """Return what the status of a Device records of the ownership of its uuids."""
    return uuid_records.Record(
        claims=frozenset(status.claims),
        disputed=frozenset(status.disputed),
        origins={one.uuid: uuid_records.Origin(one.node, _since(one.since)) for one in status.origins},
    )


def _since(moment: str) -> float | None:
    """Return when a card left its node; an unreadable time counts as long ago."""
    if not moment:
        return None
    try:
        return dt.datetime.fromisoformat(moment).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _duplicate_uuids(cards: Iterable[wire.Card]) -> frozenset[str]:
    """Return the uuids that a Device lists twice: which of the two a pod has is unknown."""
    uuids = [uuid for card in cards for uuid in uuids_of(card)]
    if len(set(uuids)) == len(uuids):
        return frozenset()
    return frozenset(uuid for uuid, count in collections.Counter(uuids).items() if count > 1)


def uuids_of(card: wire.Card) -> list[str]:
    """Return the uuids of a card and of its MIG instances."""
    return [card.uuid, *(one.uuid for one in card.mig.instances)] if card.mig else [card.uuid]


def _card(
    card: wire.Card,
    verdict: wire.CardStatus | None,
    cordoned: frozenset[str],
    duplicates: frozenset[str] = frozenset(),
) -> PhysicalDevice:
    place = card.topology or wire.Topology()
    return PhysicalDevice(
        uuid=card.uuid,
        minor=card.minor,
        model=text.line(catalog.normal_model(card.model)),
        memory=card.memory or 0,
        trouble=trouble(card, verdict, cordoned) or _ambiguous(card, duplicates),
        numa=place.numa_node,
        root=place.pcie_root,
        mig=card.mig is not None and card.mig.enabled,
        instances=_instances(card.mig),
        replicas=card.sharing.replicas if card.sharing else 0,
        labels=_labels(card.labels),
        functions=_functions(card),
        type=card.type,
        recovery=_recovery(verdict),
        occupants=_occupants(verdict),
    )


def _labels(labels: Mapping[str, str]) -> nodes.Labels:
    """Return labels in their order; equal ones are one object, for most cards of a cluster have the same."""
    listed = tuple(sorted(labels.items()))
    return _same_labels(listed) if len(listed) <= FEW_LABELS else listed


@functools.lru_cache(maxsize=256)
def _same_labels(labels: nodes.Labels) -> nodes.Labels:
    return labels


def _occupants(verdict: wire.CardStatus | None) -> tuple[device_facts.Occupant, ...]:
    """Return the processes that close a card; those that use too little of it do not count."""
    if verdict is None or not verdict.occupants:
        return ()
    return tuple(
        device_facts.Occupant(
            one.pid, text.line(one.command), text.line(f"{one.namespace}/{one.pod}") if one.pod else ""
        )
        for one in verdict.occupants
        if not one.small
    )


def _instances(mig: wire.Mig | None) -> tuple[device_facts.Instance, ...]:
    if mig is None or not mig.enabled:
        return ()
    found = (
        device_facts.Instance(
            one.uuid,
            one.profile,
            one.memory,
            one.placement.start if one.placement else 0,
            one.placement.size if one.placement else 1,
        )
        for one in mig.instances
    )
    return tuple(sorted(found, key=lambda one: (one.start, one.uuid)))


def _functions(card: wire.Card) -> tuple[device_facts.Function, ...]:
    """Return the virtual functions that can be allocated: those with an address."""
    labelled = ((group.vfs, _labels(group.labels)) for group in card.vf_groups)
    found = (
        device_facts.Function(one.bus_id, one.minor, labels)
        for vfs, labels in labelled
        for one in vfs
        if one.bus_id
    )
    return tuple(sorted(found, key=lambda one: one.bus))


def trouble(card: wire.Card, verdict: wire.CardStatus | None, cordoned: frozenset[str]) -> Reason | None:
    """Return why a card takes no new pod; an unknown health word counts as unhealthy."""
    if card.uuid in cordoned:
        return Reason.CARD_CORDONED
    if verdict is not None and verdict.health != vocabulary.Health.HEALTHY:
        return Reason.UNHEALTHY
    return Reason.OCCUPIED if _occupants(verdict) else None


def _recovery(verdict: wire.CardStatus | None) -> vocabulary.Recovery | None:
    """Return what brings a sick card back; None for one that is not sick, or where that is not known."""
    if verdict is None or verdict.health != vocabulary.Health.UNHEALTHY:
        return None
    return _RECOVERIES.get(verdict.recovery)


def _ambiguous(card: wire.Card, duplicates: frozenset[str]) -> Reason | None:
    return Reason.DUPLICATE_UUID if duplicates and not duplicates.isdisjoint(uuids_of(card)) else None


def found_silent(device: wire.Device) -> bool:
    """Whether the Device says that its agent was found silent."""
    return any(
        one.type == vocabulary.DeviceCondition.READY
        and one.status == vocabulary.Truth.FALSE
        and one.reason != vocabulary.ReadyReason.SOURCE_FAILED
        for one in device.status.conditions
    )


def failed_source(conditions: tuple[wire.Condition, ...]) -> str:
    """Return the first required source of the agent that failed; empty if none did."""
    for condition in conditions:
        if condition.type in FATAL_SOURCES and condition.status != vocabulary.Truth.TRUE:
            return text.line(condition.reason or condition.type)
    return ""


# ---------------------------------------------------------------- the topology

Worths = tuple[tuple[tuple[int, int], ...], ...]
Groups = tuple[tuple[Scope, tuple[int, ...]], ...]


def topology(gpus: Sequence[wire.Card], table: partition_tables.Table) -> node_topology.NodeTopology:
    """Return the topology of a node's cards, which are in the order of their slots."""
    slot = {card.uuid: at for at, card in enumerate(gpus)}
    key = (
        tuple(tuple(_worths(card, slot)) for card in gpus),
        tuple(_groups(gpus)),
        table.partitions,
        table.by_model,
    )
    if (found := _TOPOLOGIES.get(key)) is None:
        found = _TOPOLOGIES[key] = _checked_topology(*key)
    return found


# A topology is forgotten with the last Device that has it.
_TOPOLOGIES: Final = weakref.WeakValueDictionary[
    tuple[Worths, Groups, tuple[node_topology.Partition, ...], bool], node_topology.NodeTopology
]()


def _checked_topology(
    worths: Worths,
    groups: Groups,
    partitions: tuple[node_topology.Partition, ...],
    by_model: bool,  # noqa: FBT001  part of the key
) -> node_topology.NodeTopology:
    """Return a topology; if it has more NVLink cliques than any hardware, only NUMA and PCIe places count."""
    topology = dataclasses.replace(_topology(worths, groups, partitions), by_model=by_model)
    if nvlink_cliques.find(topology) is not None:
        return topology
    return dataclasses.replace(_topology(((),) * len(worths), groups, ()), tangled=True)


def _topology(
    worths: Worths, groups: Groups, partitions: tuple[node_topology.Partition, ...]
) -> node_topology.NodeTopology:
    size = len(worths)
    links = [[0] * size for _ in range(size)]
    for a, row in enumerate(worths):
        for b, worth in row:
            # Either end may have reported the link; the better report counts.
            links[a][b] = links[b][a] = max(links[a][b], worth)
    near = _nearness(size, groups)
    matrix = tuple(
        tuple(link_worths.of_pair(link, near[a][b]) if a != b else 0 for b, link in enumerate(row))
        for a, row in enumerate(links)
    )
    return node_topology.NodeTopology(size, matrix, groups, partitions)


def _nearness(size: int, groups: Groups) -> list[list[int]]:
    """Return what the NUMA and PCIe places of each two cards are worth; their PCIe path may be unknown."""
    near = [[0] * size for _ in range(size)]
    for scope, masks in groups:
        worth = NEARNESS.get(scope, 0)
        for mask in masks:
            for a, b in itertools.product(node_topology.slots(mask), repeat=2):
                near[a][b] = max(near[a][b], worth)
    return near


def _worths(card: wire.Card, slot: Mapping[str, int]) -> Iterable[tuple[int, int]]:
    return (
        (slot[link.peer], link_worths.of_link(link.kind, link.count))
        for link in card.links
        if link.peer in slot
    )


def _groups(gpus: Sequence[wire.Card]) -> Iterable[tuple[Scope, tuple[int, ...]]]:
    places = [card.topology or wire.Topology() for card in gpus]
    yield Scope.NUMA, _alike([place.numa_node for place in places])
    yield Scope.PCIE, _alike([place.pcie_root for place in places])


def _alike(values: Sequence[object]) -> tuple[int, ...]:
    """Return the slots of equal values as masks; an unknown value is in no group."""
    groups: dict[object, int] = {}
    for at, value in enumerate(values):
        if value is not None:
            groups[value] = groups.get(value, 0) | 1 << at
    return tuple(sorted(groups.values()))
