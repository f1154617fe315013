"""What the GpuPod of a pod should be. Pure.

The allocation in the pod's annotation says what it was given, the evidence of the sources what it
holds. Without a source, nothing is published about grants. An allocation that cannot be read is an
`UnusableAllocation`. A pod without a usable allocation that has cards from the kubelet was given
just those, so its GpuPod names them and the operator does not give them out. Whether there is to be
a GpuPod, `reconciler` decides.
"""

import dataclasses
import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from berth_agent import device_status
from berth_agent.gpupods import verification, watched_pod
from berth_agent.kubelet import device_ids
from berth_crds import allocation, card_part, names, schema_limits, vocabulary, wire

WHOLE: Final = f"{card_part.WHOLE} %"


@dataclasses.dataclass(frozen=True, slots=True)
class UnusableAllocation:
    """A pod with an allocation that cannot be read, or is not for this node."""

    detail: str


@dataclasses.dataclass(frozen=True, slots=True)
class NodeCards:
    """The node, its GPUs by minor, and the devices that pods can hold.

    `source` is the source named in grants of simulated cards; None for real ones.
    """

    node: str
    gpus: Mapping[int, wire.Card] = dataclasses.field(default_factory=dict)
    source: vocabulary.GrantSource | None = None
    allocatable: device_ids.AllocatableDevices = dataclasses.field(default_factory=dict)


def decode_allocation(pod: watched_pod.Pod, node: str) -> allocation.Allocation | UnusableAllocation | None:
    """Return what a pod was given on this node; None for a pod without an allocation."""
    if (text := pod.metadata.annotations.get(names.ALLOCATION)) is None:
        return None
    found = allocation.decode(text)
    if isinstance(found, allocation.Unreadable):
        return UnusableAllocation(f"{found.reason}: {found.detail}")
    if found.node != node:
        return UnusableAllocation(f"it names the node {found.node}, and the pod is bound to {node}")
    return found


def spec(pod: watched_pod.Pod, allocated: allocation.Allocation, node_cards: NodeCards) -> wire.GpuPodSpec:
    """Return the spec: which container was given which cards."""
    return wire.GpuPodSpec(
        node=node_cards.node,
        pod_uid=pod.metadata.uid,
        containers=tuple(
            wire.HoldingContainer(
                name, tuple(_held(kind, share, node_cards) for kind, shares in types for share in shares)
            )
            for name, types in allocated.containers
        ),
    )


def _held(kind: str, share: allocation.Share, node_cards: NodeCards) -> wire.HeldCard:
    card = node_cards.gpus.get(share.minor) if kind == vocabulary.DeviceType.GPU else None
    return wire.HeldCard(
        uuid=share.uuid,
        minor=share.minor,
        type=kind,
        core=share.core,
        memory=share.memory,
        model=card.model if card else "",
        profile=share.profile,
        vf=share.vf,
        limit=share.limit or None,
    )


def allocation_by_kubelet(
    node: str, holdings: Mapping[str, Iterable[device_ids.HeldDevice]]
) -> allocation.Allocation:
    """Return as an allocation what the kubelet gave to a pod.

    Unknown devices are left out: a wrong minor would name a wrong card, and the operator withholds
    what the GpuPod does not name.
    """
    shares = {
        name: [_share(one.device, one.part) for one in held if one.device] for name, held in holdings.items()
    }
    return allocation.of(
        node, {name: {vocabulary.DeviceType.GPU: found} for name, found in shares.items() if found}
    )


def _share(device: device_ids.AllocatableDevice, part: device_ids.Part) -> allocation.Share:
    # A MIG instance has compute of its own, and holds all of that.
    core, memory = part.times(card_part.WHOLE), part.times(device.memory)
    return allocation.Share(device.uuid, device.minor, core, memory, device.profile)


def merged(published: wire.GpuPodSpec, found: wire.GpuPodSpec) -> wire.GpuPodSpec:
    """Return the published containers, and the found ones that are not published yet.

    The published ones were copied while the allocation could be read, and nothing else may know them.
    """
    named = {one.name for one in published.containers if one.devices}
    more = (one for one in found.containers if one.name not in named)
    return msgspec.structs.replace(
        found, containers=(*(one for one in published.containers if one.devices), *more)
    )


def within_limits(spec: wire.GpuPodSpec) -> wire.GpuPodSpec:
    """Return a spec that the server takes: of too many containers the last ones stand there as one.

    What it names is the same, so that no other card of the node has to be kept back.
    """
    listed = spec.containers[: schema_limits.MOST_ENTRIES - 1]
    rest = spec.containers[schema_limits.MOST_ENTRIES - 1 :]
    if len(rest) <= 1:
        return spec
    together: dict[tuple[str, str, str], wire.HeldCard] = {}
    for held in (one for container in rest for one in container.devices):
        key = held.type, held.uuid, held.vf
        together[key] = _added(together[key], held) if key in together else held
    last = wire.HoldingContainer(rest[0].name, tuple(together.values())[: schema_limits.MOST_ENTRIES])
    return msgspec.structs.replace(spec, containers=(*listed, last))


def _added(one: wire.HeldCard, other: wire.HeldCard) -> wire.HeldCard:
    """Return two parts of a device as one."""
    core = min(one.core + other.core, card_part.WHOLE)
    return msgspec.structs.replace(one, core=core, memory=one.memory + other.memory)


def status(
    pod: watched_pod.Pod,
    spec: wire.GpuPodSpec,
    before: wire.GpuPodStatus,
    node_cards: NodeCards,
    *,
    evidence: verification.Evidence | None,
    now: dt.datetime,
) -> wire.GpuPodStatus:
    """Return the status: the phase, what the containers hold, and the condition Verified."""
    phase = pod.status.phase
    if evidence is not None:
        seen = _seen_by_driver(pod, before)
        evidence = verification.with_earlier(evidence, seen, gpus(spec), node_cards.allocatable)
    found = _verdict(pod, spec, node_cards, evidence)
    return wire.GpuPodStatus(
        phase=phase,
        minors=_minors(spec),
        share=_parts_of_cards(pod.spec, spec, node_cards.gpus),
        granted=_granted(pod, spec, node_cards, evidence),
        conditions=(device_status.transition(found, before.conditions, now=now),) if found else (),
    )


def _minors(spec: wire.GpuPodSpec) -> str:
    gpus = sorted({one.minor for each in spec.containers for one in each.devices if _is_gpu(one)})
    return ",".join(map(str, gpus))


def _parts_of_cards(pod: watched_pod.PodSpec, spec: wire.GpuPodSpec, gpus: Mapping[int, wire.Card]) -> str:
    """Return the largest part of each GPU that a pod has at one time; empty where it has all of each."""
    most: dict[int, list[wire.HeldCard]] = {}
    for running in watched_pod.at_one_time(pod, (one.name for one in spec.containers)):
        for minor, parts in _parts(spec, running).items():
            most[minor] = max(parts, most.get(minor, []), key=_size)
    words = {minor: " + ".join(_part(one, gpus.get(minor)) for one in most[minor]) for minor in sorted(most)}
    if all(each == WHOLE for each in words.values()):
        return ""
    return ",".join(words.values())[: schema_limits.LONGEST_SHARE]


def _parts(spec: wire.GpuPodSpec, running: frozenset[str]) -> Mapping[int, list[wire.HeldCard]]:
    parts: dict[int, list[wire.HeldCard]] = {}
    for container in spec.containers:
        for device in filter(_is_gpu, container.devices if container.name in running else ()):
            parts.setdefault(device.minor, []).append(device)
    return parts


def _size(parts: Collection[wire.HeldCard]) -> tuple[int, int]:
    return sum(one.core for one in parts), sum(one.memory for one in parts)


def _part(one: wire.HeldCard, card: wire.Card | None) -> str:
    card_memory = (card.memory if card else None) or 0
    return one.profile or card_part.describe(one.core, one.memory, card_memory) or WHOLE


def _is_gpu(one: wire.HeldCard) -> bool:
    return one.type == vocabulary.DeviceType.GPU


def gpus(spec: wire.GpuPodSpec) -> verification.ByContainer:
    """Return the GPUs that each container was given, by uuid."""
    found = {each.name: tuple(one.uuid for one in each.devices if _is_gpu(one)) for each in spec.containers}
    return {name: uuids for name, uuids in found.items() if uuids}


def _granted(
    pod: watched_pod.Pod, spec: wire.GpuPodSpec, node_cards: NodeCards, evidence: verification.Evidence | None
) -> tuple[wire.Grant, ...]:
    if evidence is not None:
        return () if watched_pod.has_ended(pod) else tuple(_grants(evidence))[: schema_limits.MOST_GRANTS]
    if node_cards.source is None or pod.status.phase != vocabulary.PodPhase.RUNNING:
        return ()
    return tuple(
        wire.Grant(each.name, tuple(one.uuid for one in each.devices), node_cards.source)
        for each in spec.containers
    )


def _seen_by_driver(pod: watched_pod.Pod, before: wire.GpuPodStatus) -> verification.ByContainer:
    """Return on which devices the driver has seen those containers that still run."""
    stopped = watched_pod.stopped(pod)
    return {
        one.container: one.uuids
        for one in before.granted
        if one.source == verification.NVML and one.container not in stopped
    }


def _grants(evidence: verification.Evidence) -> Iterator[wire.Grant]:
    """Yield the grants of named containers; ids that the schema does not take are in the condition only."""
    for source, spec in ((verification.PODRESOURCES, evidence.kubelet), (verification.NVML, evidence.driver)):
        for name in sorted(filter(None, spec)):
            uuids = tuple(filter(schema_limits.UUID.matches, spec[name]))[: schema_limits.MOST_GRANTED]
            if uuids or not spec[name]:
                yield wire.Grant(name, uuids, source)


def _verdict(
    pod: watched_pod.Pod,
    spec: wire.GpuPodSpec,
    node_cards: NodeCards,
    evidence: verification.Evidence | None,
) -> wire.Condition | None:
    phase = pod.status.phase
    if evidence is not None:
        given = gpus(spec)
        passed_on = [uuid for name in watched_pod.temporary(pod.spec) for uuid in given.get(name, ())]
        return verification.verify(phase, given, evidence, node_cards.allocatable, passed_on=passed_on)
    return (verification.by_phase(phase) or verification.SIMULATED) if node_cards.source else None


def gpus_by_minor(cards: Iterable[wire.Card]) -> Mapping[int, wire.Card]:
    """Return the GPUs of the node by minor, which MIG instances share with their card."""
    return {card.minor: card for card in cards if card.type == vocabulary.DeviceType.GPU}
