"""What a GpuPod should say, given its pod. Pure.

The allocation on the pod says what was given; the sources say what is held. Where there
is no source nothing is said of grants at all. An allocation that cannot be read becomes
`Unclear`. A pod that has none that is of use, but has cards from the kubelet, was given
just those: so the record names them, and the operator knows which ones it must not give
out. Whether there is to be a record is for the keeper to decide.
"""

import dataclasses
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from berth_agent.gpupods import verdict
from berth_agent.kubelet import ids
from berth_crds import aliases, allocation, card_part, names, schema_limits, vocabulary, wire
from berth_crds.client import lease

WHOLE: Final = f"{card_part.WHOLE} %"
ALWAYS: Final = "Always"  # What a container restarts that prepares a pod and stays beside it.


class Resources(wire.Struct, frozen=True):
    """What a container asks for."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class Container(wire.Struct, frozen=True):
    """A container, and what it asks for."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None


class PodSpec(wire.Struct, frozen=True):
    """Where a pod runs, and what its containers ask for."""

    node_name: str = ""
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None


class ContainerStatus(wire.Struct, frozen=True):
    """A container that was started, and the runtime's id of it."""

    name: str = ""
    container_id: str = msgspec.field(default="", name="containerID")


class PodStatus(wire.Struct, frozen=True):
    """How far a pod has come."""

    phase: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(wire.Struct, frozen=True):
    """A pod, as much of it as matters here."""

    metadata: wire.Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def runs(self) -> bool:
        """Whether its containers were started."""
        return self.status.phase == vocabulary.PodPhase.RUNNING


@dataclasses.dataclass(frozen=True, slots=True)
class Unclear:
    """A pod that was given something, but not in words that can be trusted."""

    detail: str


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """Through which eyes pods are seen: the node, its cards' models and memory, and what can be held.

    `source` stands for those who tell of grants without being asked: the simulated cards, or nobody.
    """

    node: str
    models: Mapping[int, str]
    source: vocabulary.GrantSource | None
    pieces: ids.Pieces = dataclasses.field(default_factory=dict)
    memory: Mapping[int, int] = dataclasses.field(default_factory=dict)


def containers(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield the ids of a pod's containers, without the runtime's name before them, and whose they are."""
    status = pod.status
    started = (
        *status.container_statuses,
        *status.init_container_statuses,
        *status.ephemeral_container_statuses,
    )
    return ((one.container_id.rpartition("://")[2], one.name) for one in started if one.container_id)


def askers(pod: Pod) -> tuple[Container, ...]:
    """Return the containers that ask for devices by a resource that Berth serves."""
    every = *(pod.spec.init_containers or ()), *(pod.spec.containers or ())
    return tuple(one for one in every if _asks(one.resources or Resources()))


def _asks(resources: Resources) -> bool:
    amounts = (resources.requests or {}) | (resources.limits or {})
    return any(aliases.served(name) and str(amount) != "0" for name, amount in amounts.items())


def finished(pod: Pod) -> bool:
    """Return whether a pod has ended, and so holds nothing, whatever an old kubelet lists."""
    return pod.status.phase in {vocabulary.PodPhase.SUCCEEDED, vocabulary.PodPhase.FAILED}


def given(pod: Pod, node: str) -> allocation.Allocation | Unclear | None:
    """Read what a pod was given on this node; None means nothing at all."""
    text = pod.metadata.annotations.get(names.ALLOCATION)
    if text is None:
        return None
    found = allocation.decode(text)
    if isinstance(found, allocation.Unreadable):
        return Unclear(f"{found.reason}: {found.detail}")
    if found.node != node:
        return Unclear(f"it names the node {found.node}, and the pod is bound to {node}")
    return found


def spec(pod: Pod, told: allocation.Allocation, view: View) -> wire.GpuPodSpec:
    """Return who was given what."""
    return wire.GpuPodSpec(
        node=view.node,
        pod_uid=pod.metadata.uid,
        containers=tuple(
            wire.HoldingContainer(
                name, tuple(_held(kind, share, view) for kind, shares in types for share in shares)
            )
            for name, types in told.containers
        ),
    )


def _held(kind: str, share: allocation.Share, view: View) -> wire.HeldCard:
    return wire.HeldCard(
        uuid=share.uuid,
        minor=share.minor,
        type=kind,
        core=share.core,
        memory=share.memory,
        model=view.models.get(share.minor, "") if kind == vocabulary.DeviceType.GPU else "",
        profile=share.profile,
        vf=share.vf,
    )


def handed(node: str, holdings: Mapping[str, Iterable[ids.Held]]) -> allocation.Allocation:
    """Read what a pod was given off what the kubelet gave it.

    What is no piece of the node is left out: a wrong minor would name a wrong card, and what the
    record leaves open the operator withholds.
    """
    shares = {
        name: [_share(one.piece, one.count) for one in held if one.piece] for name, held in holdings.items()
    }
    return allocation.of(
        node, {name: {vocabulary.DeviceType.GPU: found} for name, found in shares.items() if found}
    )


def _share(piece: ids.Piece, count: int) -> allocation.Share:
    # Where the node does not tell into how many replicas a card is cut, each counts as the whole.
    part = min(count, piece.replicas)
    core, memory = ids.WHOLE * part // piece.replicas, piece.memory * part // piece.replicas
    return allocation.Share(piece.uuid, piece.minor, core, memory, piece.profile)


def kept(seen: wire.GpuPodSpec, found: wire.GpuPodSpec) -> wire.GpuPodSpec:
    """Keep what a record says of containers, and add those that it does not name yet.

    What stands there was copied while the allocation could be read: it may be the only word on it.
    """
    named = {one.name for one in seen.containers if one.devices}
    more = (one for one in found.containers if one.name not in named)
    return msgspec.structs.replace(
        found, containers=(*(one for one in seen.containers if one.devices), *more)
    )


def status(
    pod: Pod,
    said: wire.GpuPodSpec,
    before: wire.GpuPodStatus,
    view: View,
    *,
    evidence: verdict.Evidence | None,
    now: dt.datetime,
) -> wire.GpuPodStatus:
    """Return how far the pod is, and what its containers hold as far as a source can tell."""
    phase = pod.status.phase
    found = _verdict(phase, said, view, evidence)
    return wire.GpuPodStatus(
        phase=phase,
        minors=_minors(said),
        share=_shares_of(pod.spec, said, view.memory),
        granted=_granted(pod, said, view, evidence),
        conditions=(_dated(found, before, now=now),) if found else (),
    )


def _minors(said: wire.GpuPodSpec) -> str:
    gpus = {one.minor for each in said.containers for one in each.devices if _is_gpu(one)}
    return ",".join(map(str, sorted(gpus)))


def _shares_of(pod: PodSpec, said: wire.GpuPodSpec, memory: Mapping[int, int]) -> str:
    """Return how much of each GPU a pod has at most at one time; nothing where it has all of each."""
    most: dict[int, list[wire.HeldCard]] = {}
    for names_ in _at_one_time(pod, said):
        for minor, parts in _parts(said, names_).items():
            most[minor] = max(parts, most.get(minor, []), key=_size)
    words = {
        minor: " + ".join(_part(one, memory.get(minor, 0)) for one in most[minor]) for minor in sorted(most)
    }
    if all(each == WHOLE for each in words.values()):
        return ""
    return ",".join(words.values())[: schema_limits.LONGEST_SHARE]


def _at_one_time(pod: PodSpec, said: wire.GpuPodSpec) -> Iterator[frozenset[str]]:
    """Yield which containers run together: each that prepares the pod, and at last those that stay.

    One of which the pod says nothing runs all the time, as one does that prepares the pod and stays.
    """
    passing = frozenset(one.name for one in pod.init_containers or () if one.restart_policy != ALWAYS)
    last = frozenset(one.name for one in said.containers) - passing
    main = frozenset(one.name for one in pod.containers or ())
    staying = last - main
    for one in pod.init_containers or ():
        if one.name in passing:
            yield (staying - _later(pod, one)) | {one.name}
    yield last


def _later(pod: PodSpec, than: Container) -> frozenset[str]:
    """Return the containers that start after one that prepares the pod."""
    every = pod.init_containers or ()
    return frozenset(one.name for one in every[every.index(than) + 1 :])


def _parts(said: wire.GpuPodSpec, running: frozenset[str]) -> Mapping[int, list[wire.HeldCard]]:
    parts: dict[int, list[wire.HeldCard]] = {}
    for each in said.containers:
        for one in filter(_is_gpu, each.devices if each.name in running else ()):
            parts.setdefault(one.minor, []).append(one)
    return parts


def _size(parts: Iterable[wire.HeldCard]) -> tuple[int, int]:
    held = tuple(parts)
    return sum(one.core for one in held), sum(one.memory for one in held)


def _part(one: wire.HeldCard, card_memory: int) -> str:
    return one.profile or card_part.words(one.core, one.memory, card_memory) or WHOLE


def _is_gpu(one: wire.HeldCard) -> bool:
    return one.type == vocabulary.DeviceType.GPU


def gpus(said: wire.GpuPodSpec) -> verdict.ByContainer:
    """Return the GPUs that each container was given, by uuid."""
    found = {each.name: tuple(one.uuid for one in each.devices if _is_gpu(one)) for each in said.containers}
    return {name: uuids for name, uuids in found.items() if uuids}


def _granted(
    pod: Pod, said: wire.GpuPodSpec, view: View, evidence: verdict.Evidence | None
) -> tuple[wire.Grant, ...]:
    if evidence is not None:
        return () if finished(pod) else tuple(_grants(evidence))[: schema_limits.MOST_GRANTS]
    if view.source is None or pod.status.phase != vocabulary.PodPhase.RUNNING:
        return ()
    return tuple(
        wire.Grant(each.name, tuple(one.uuid for one in each.devices), view.source)
        for each in said.containers
    )


def _grants(evidence: verdict.Evidence) -> Iterator[wire.Grant]:
    """Yield the grants of named containers; what is no uuid to the schema stands in the condition."""
    for source, said in ((verdict.PODRESOURCES, evidence.kubelet), (verdict.NVML, evidence.driver)):
        for name in sorted(filter(None, said)):
            uuids = tuple(filter(schema_limits.UUID.matches, said[name]))[: schema_limits.MOST_GRANTED]
            if uuids or not said[name]:
                yield wire.Grant(name, uuids, source)


def _verdict(
    phase: str, said: wire.GpuPodSpec, view: View, evidence: verdict.Evidence | None
) -> verdict.Verdict | None:
    if evidence is not None:
        return verdict.judge(phase, gpus(said), evidence, view.pieces)
    return (verdict.by_phase(phase) or verdict.SIMULATED) if view.source else None


def _dated(found: verdict.Verdict, before: wire.GpuPodStatus, *, now: dt.datetime) -> wire.Condition:
    kind = vocabulary.GpuPodCondition.VERIFIED
    earlier = next((each for each in before.conditions if each.type == kind), None)
    since = earlier.last_transition_time if earlier and earlier.status == found.truth else ""
    return wire.Condition(
        type=kind,
        status=found.truth,
        reason=found.reason,
        message=found.message,
        last_transition_time=since or lease.second(now),
    )


def models(cards: Iterable[wire.Card]) -> Mapping[int, str]:
    """Index the models of a node's GPUs by minor, which MIG instances share with their card."""
    return {card.minor: card.model for card in cards if card.type == vocabulary.DeviceType.GPU}


def memory(cards: Iterable[wire.Card]) -> Mapping[int, int]:
    """Index by minor how much memory a node's GPUs have."""
    return {card.minor: card.memory or 0 for card in cards if card.type == vocabulary.DeviceType.GPU}
