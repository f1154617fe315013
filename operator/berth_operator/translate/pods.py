"""Pods as the core knows them: candidates while they wait, holds once they are bound.

What a bound pod holds is what its allocation says, put together by the same function that
said what a placed pod holds, so that the two are equal.
A bound, unfinished pod that asks for cards and whose allocation is missing, damaged or
of another node withholds as many cards as it asks for; if even that cannot be read, it
withholds all that nobody else holds by name. What its GpuPod needs to speak for it is read
here as well.
"""

import dataclasses
from collections.abc import Callable
from typing import Final

import msgspec

from berth_crds import allocation, names
from berth_crds.client import errors, watch
from berth_crds.vocabulary import DeviceType
from berth_operator.scheduling import backlog, decisions, holds, naming, workload
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import asks, demands, raw, recall, resources

FINISHED = frozenset({"Succeeded", "Failed"})


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A pod of ours that is not bound; a gated one is not to be tried."""

    candidate: backlog.Candidate
    gated: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """A pod on a node, what it holds there, and what its request teaches.

    `fault` says what is wrong with its record; `nameless` is there where that cannot be read.
    """

    hold: holds.Hold
    fault: str = ""
    teaches: workload.Sample | None = None
    nameless: naming.Nameless | None = None


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


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What a waiting pod asks for, apart from which pod it is."""

    request: requests.Request
    faults: tuple[decisions.Refusal, ...]
    demand: facts.Demand
    priority: int


def wanted(pod: raw.Pod) -> Wanted:
    """Read what a waiting pod asks for."""
    request, faults = asks.request(pod)
    return Wanted(request, faults, demands.demand(pod.spec), asks.priority(pod))


def candidate(pod: raw.Pod) -> backlog.Candidate:
    """Read a waiting pod."""
    wants = _wanted(pod, recall.of_waiting(pod))
    return backlog.Candidate(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        request=wants.request,
        demand=wants.demand,
        priority=wants.priority,
        created=pod.metadata.creation_timestamp,
        faults=wants.faults,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """What a bound pod asked for (None where that cannot be read), takes of its node, and teaches."""

    asked: requests.Request | None
    amounts: facts.Amounts
    teaches: workload.Sample | None


def taken(pod: raw.Pod) -> Taken:
    """Read what a bound pod asked for."""
    asked = asked_of(pod)
    teaches = workload.sample(asked, demands.demand(pod.spec)) if asked else None
    return Taken(asked, demands.amounts(pod.spec), teaches)


def bound(pod: raw.Pod) -> Bound:
    """Read a bound pod."""
    takes = _taken(pod, recall.of_bound(pod))
    shares, withheld, fault = holding(pod, takes.asked)
    return Bound(
        holds.Hold(
            uid=pod.metadata.uid,
            title=f"{pod.metadata.namespace}/{pod.metadata.name}",
            node=pod.spec.node_name,
            amounts=takes.amounts,
            shares=shares,
            withheld=withheld,
        ),
        fault,
        takes.teaches,
        # A record that can be read names at least one device.
        nameless(pod.spec, takes.asked) if fault and not shares else None,
    )


_wanted: Final = recall.Recall(wanted)
_taken: Final = recall.Recall(taken)


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


def holding(pod: raw.Pod, asked: requests.Request | None) -> tuple[tuple[decisions.Share, ...], int, str]:
    """Say which devices a bound pod holds, how many cards it withholds, and what is wrong with its record."""
    text = pod.metadata.annotations.get(names.ALLOCATION)
    record = allocation.decode(text) if text is not None else None
    if isinstance(record, allocation.Allocation) and record.node == pod.spec.node_name:
        shares = allocator.held(grants_of(record, pod.spec))
        return shares, *_missing(shares, asked)
    if asked is None:
        return (), holds.ALL_CARDS, _fault(record, "cards")
    if not asked:
        return (), 0, ""
    what = "cards" if DeviceType.GPU in asks.types_asked(asked.containers) else "devices"
    return (), most_cards(asked), _fault(record, what)


def asked_of(pod: raw.Pod) -> requests.Request | None:
    """Read how much a pod asks for, or None where that cannot be read."""
    request, faults = asks.containers_of(pod)
    return None if faults else request


# ---------------------------------------------------------------- what a record says


def grants_of(record: allocation.Allocation, spec: raw.PodSpec) -> tuple[decisions.Grant, ...]:
    """Give what a record grants, in the order in which the containers start."""
    return naming.in_turn(granted(record), starts(spec))


def granted(record: allocation.Allocation) -> tuple[decisions.Grant, ...]:
    """Give what a record grants, as it is written there."""
    return tuple(
        decisions.Grant(name, tuple(_share(kind, share) for kind, shares in types for share in shares))
        for name, types in record.containers
    )


def starts(spec: raw.PodSpec) -> tuple[tuple[str, bool], ...]:
    """Give the containers in the order in which they start, and whether each keeps running."""
    return tuple((container.name, runs) for container, runs in resources.each_container(spec))


def _share(kind: str, share: allocation.Share) -> decisions.Share:
    return decisions.Share(share.uuid, share.minor, share.core, share.memory, kind, share.profile, share.vf)


# ---------------------------------------------------------------- what it does not say


def nameless(spec: raw.PodSpec, asked: requests.Request | None) -> naming.Nameless:
    """Give what must be known of a pod for its GpuPod to speak for it."""
    return naming.Nameless(starts(spec), naming.SURELY_ONE if asked is None else fewest_cards(asked))


def _missing(shares: tuple[decisions.Share, ...], asked: requests.Request | None) -> tuple[int, str]:
    """Count the cards that a record should name and does not; a request of another time is not asked."""
    if asked is None:
        return 0, ""
    named = len({share.uuid for share in shares if share.type == DeviceType.GPU})
    surely = fewest_cards(asked)
    if named < surely:
        return surely - named, f"its allocation names {named} of {surely} cards"
    others = asks.types_asked(asked.containers) - {share.type for share in shares} - {DeviceType.GPU}
    return 0, f"its allocation names no {', '.join(sorted(others))}" if others else ""


def most_cards(request: requests.Request) -> int:
    """Count the cards that a pod may have: each whole card, share, replica and instance for one."""
    return _at_most(request, lambda asks_: sum(_cards(ask) for ask in asks_))


def fewest_cards(request: requests.Request) -> int:
    """Count the uuids that a record of the pod has at least: shares may lie on one and the same card."""
    return _at_most(request, _distinct)


def _at_most(request: requests.Request, count: Callable[[list[requests.Ask]], int]) -> int:
    """Count for all that run at one time, and take the most of it."""
    return max(count([ask for one in phase for ask in one.asks]) for phase in requests.phases(request))


def _cards(ask: requests.Ask) -> int:
    return 0 if isinstance(ask, requests.Parts) else ask.count


def _distinct(asked: list[requests.Ask]) -> int:
    alone = sum(_cards(ask) for ask in asked if isinstance(ask, requests.Instances) or _whole(ask))
    shares = [ask.count for ask in asked if isinstance(ask, requests.Gpus) and not ask.whole]
    replicas = [1 for ask in asked if isinstance(ask, requests.Replicas)]
    return alone + max([0, *shares, *replicas])


def _whole(ask: requests.Ask) -> bool:
    return isinstance(ask, requests.Gpus) and ask.whole


def _fault(record: allocation.Allocation | allocation.Unreadable | None, what: str) -> str:
    match record:
        case None:
            return f"it asks for {what} and has no allocation"
        case allocation.Unreadable():
            return f"its allocation cannot be read: {record.detail}"
        case allocation.Allocation():
            return f"its allocation is of node {record.node}"
