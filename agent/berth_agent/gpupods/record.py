"""What a GpuPod should say, given its pod. Pure.

The allocation on the pod says what was given; a source says what is held. Where no
source is configured nothing is said of grants at all. An allocation that cannot be read
becomes `Unclear`, and what then happens to the record is for the keeper to decide.
"""

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Final

from berth_crds import allocation, names, vocabulary, wire
from berth_crds.client import lease


class PodSpec(wire.Struct, frozen=True):
    """Where a pod runs."""

    node_name: str = ""


class PodStatus(wire.Struct, frozen=True):
    """How far a pod has come."""

    phase: str = ""


class Pod(wire.Struct, frozen=True):
    """A pod, as much of it as matters here."""

    metadata: wire.Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


@dataclasses.dataclass(frozen=True, slots=True)
class Unclear:
    """A pod that was given something, but not in words that can be trusted."""

    detail: str


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """Through which eyes pods are seen: the node, the models of its cards, who tells of grants."""

    node: str
    models: Mapping[int, str]
    source: vocabulary.GrantSource | None


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
    """Say who was given what."""
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


def status(
    pod: Pod, told: allocation.Allocation, before: wire.GpuPodStatus, view: View, *, now: dt.datetime
) -> wire.GpuPodStatus:
    """Say how far the pod is, and what its containers hold as far as a source can tell."""
    phase = pod.status.phase
    running = phase == vocabulary.PodPhase.RUNNING
    return wire.GpuPodStatus(
        phase=phase,
        minors=allocation.gpu_minors(told),
        granted=_grants(told, view.source) if running and view.source else (),
        conditions=(_verified(phase, before, now=now),) if view.source else (),
    )


def _grants(told: allocation.Allocation, source: vocabulary.GrantSource) -> tuple[wire.Grant, ...]:
    return tuple(
        wire.Grant(name, tuple(share.uuid for _, shares in types for share in shares), source)
        for name, types in told.containers
    )


# Status, reason and message of the condition Verified, by the pod's phase. Where no real
# source is asked, what runs holds by definition what it was given, and the reason says so.
VERIFIED: Final[Mapping[str, tuple[vocabulary.Truth, str, str]]] = {
    vocabulary.PodPhase.RUNNING: (
        vocabulary.Truth.TRUE,
        "Simulated",
        "The cards are simulated: what was given is granted.",
    ),
    vocabulary.PodPhase.PENDING: (
        vocabulary.Truth.UNKNOWN,
        "NotRunning",
        "The pod does not run yet, so it holds nothing.",
    ),
    vocabulary.PodPhase.SUCCEEDED: (
        vocabulary.Truth.UNKNOWN,
        "Finished",
        "The pod has ended and holds nothing.",
    ),
    vocabulary.PodPhase.FAILED: (
        vocabulary.Truth.UNKNOWN,
        "Finished",
        "The pod has ended and holds nothing.",
    ),
}
UNSEEN: Final = (vocabulary.Truth.UNKNOWN, "PhaseUnknown", "The kubelet does not tell whether the pod runs.")


def _verified(phase: str, before: wire.GpuPodStatus, *, now: dt.datetime) -> wire.Condition:
    truth, reason, message = VERIFIED.get(phase, UNSEEN)
    kind = vocabulary.GpuPodCondition.VERIFIED
    earlier = next((each for each in before.conditions if each.type == kind), None)
    since = earlier.last_transition_time if earlier and earlier.status == truth else ""
    return wire.Condition(
        type=kind,
        status=truth,
        reason=reason,
        message=message,
        last_transition_time=since or lease.second(now),
    )


def models(cards: Iterable[wire.Card]) -> Mapping[int, str]:
    """Index the models of a node's GPUs by minor, which MIG instances share with their card."""
    return {card.minor: card.model for card in cards if card.type == vocabulary.DeviceType.GPU}
