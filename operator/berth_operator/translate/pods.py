"""Pods as the core knows them: candidates while they wait, holds once they are bound.

A bound, unfinished pod that asks for cards and whose allocation is missing, damaged or
of another node withholds as many cards as it asks for; if even that cannot be read, it
withholds all that nobody else holds by name.
"""

import dataclasses
from typing import Final

import msgspec

from berth_crds import allocation, names, vocabulary
from berth_crds.client import errors, watch
from berth_operator.scheduling import backlog, decisions, holds
from berth_operator.translate import asks, demands, raw

FINISHED = frozenset({"Succeeded", "Failed"})


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A pod of ours that is not bound; a gated one is not to be tried."""

    candidate: backlog.Candidate
    gated: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """A pod on a node, and what it holds there; `fault` says what is wrong with its record."""

    hold: holds.Hold
    fault: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Over:
    """A pod that holds nothing and wants nothing of us."""

    uid: str


View = Waiting | Bound | Over


def view(pod: raw.Pod) -> View:
    """Tell what a pod is to us."""
    if pod.status.phase in FINISHED:
        return Over(pod.metadata.uid)
    if pod.spec.node_name:
        return bound(pod)
    if pod.spec.scheduler_name != names.SCHEDULER_NAME or pod.metadata.deletion_timestamp:
        return Over(pod.metadata.uid)
    return Waiting(candidate(pod), gated=bool(pod.spec.scheduling_gates))


def candidate(pod: raw.Pod) -> backlog.Candidate:
    """Read a waiting pod."""
    request, faults = asks.request(pod)
    return backlog.Candidate(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        request=request,
        demand=demands.demand(pod.spec),
        priority=pod.spec.priority or 0,
        created=pod.metadata.creation_timestamp,
        faults=faults,
    )


def bound(pod: raw.Pod) -> Bound:
    """Read a bound pod."""
    shares, withheld, fault = holding(pod)
    return Bound(
        holds.Hold(
            uid=pod.metadata.uid,
            title=f"{pod.metadata.namespace}/{pod.metadata.name}",
            node=pod.spec.node_name,
            amounts=demands.amounts(pod.spec),
            shares=shares,
            withheld=withheld,
        ),
        fault,
    )


def remains(thing: watch.Unreadable) -> holds.Hold | None:
    """Say what a pod that cannot be read withholds: all cards of its node, where even that is readable."""
    try:
        pod = _remains.decode(thing.body)
    except errors.ODD:
        return None
    if pod.status.phase in FINISHED or not pod.spec.node_name:
        return None
    meta = thing.metadata
    return holds.Hold(
        uid=meta.uid,
        title=f"{meta.namespace}/{meta.name}",
        node=pod.spec.node_name,
        withheld=holds.ALL_CARDS,
    )


_remains: Final = msgspec.json.Decoder(raw.PodRemains)


def holding(pod: raw.Pod) -> tuple[tuple[decisions.Share, ...], int, str]:
    """Say which cards a bound pod holds, how many it withholds, and what is wrong with its record."""
    text = pod.metadata.annotations.get(names.ALLOCATION)
    record = allocation.decode(text) if text is not None else None
    count = cards_asked(pod)
    if isinstance(record, allocation.Allocation) and record.node == pod.spec.node_name:
        shares = shares_of(record)
        if count == holds.ALL_CARDS or count <= len(shares):
            return shares, 0, ""
        return shares, count - len(shares), f"its allocation names {len(shares)} of {count} cards"
    return (), count, _fault(record) if count else ""


def shares_of(record: allocation.Allocation) -> tuple[decisions.Share, ...]:
    """Give each GPU of a record once, whichever containers use it."""
    gpus = (entry.share for entry in record.entries() if entry.type == vocabulary.DeviceType.GPU)
    unique = {share.uuid: share for share in gpus}
    return tuple(decisions.Share(one.uuid, one.minor, one.core, one.memory) for one in unique.values())


def cards_asked(pod: raw.Pod) -> int:
    """Count the cards a pod surely has; all of them where its request cannot be read."""
    containers = list(asks.each_container(pod.spec))
    if not any(asks.served(name) for container, _ in containers for name in asks.asked(container.resources)):
        return 0
    if any(isinstance(asks.cards(container), decisions.Refusal) for container, _ in containers):
        return holds.ALL_CARDS
    return asks.request(pod)[0].cards


def _fault(record: allocation.Allocation | allocation.Unreadable | None) -> str:
    match record:
        case None:
            return "it asks for cards and has no allocation"
        case allocation.Unreadable():
            return f"its allocation cannot be read: {record.detail}"
        case allocation.Allocation():
            return f"its allocation is of node {record.node}"
