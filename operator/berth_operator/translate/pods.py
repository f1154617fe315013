"""Pods as the core knows them: candidates while they wait, holds once they are bound.

What a bound pod holds is read by `holdings`, and put together by the same function that
said what a placed pod holds, so that the two are equal. Of a pod that cannot be read at all
only its node counts: it withholds all that nobody else holds by name there.
"""

import dataclasses
from collections.abc import Collection
from typing import Final

import msgspec

from berth_crds import allocation, names
from berth_crds.client import decoding, errors, watch
from berth_crds.vocabulary import PodPhase
from berth_operator.scheduling import allocation_recovery, decisions, holds, queued_pods, workload
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import (
    demands,
    device_requests,
    holdings,
    many_containers,
    memory_estimates,
    pod_limits,
    raw,
    read_memory,
    small_amounts,
)

ANSWERING: Final = frozenset({names.SCHEDULER_NAME})  # To whose pods Berth answers, unless told otherwise.
FINISHED = frozenset({"Succeeded", "Failed"})
NOT_STARTED = frozenset({"", PodPhase.PENDING})
MIRROR = "kubernetes.io/config.mirror"  # A kubelet shows by it a pod that a file on its node asks for.


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A pod of ours that is not bound; a gated one is not to be tried. What it asks weighs so many bytes."""

    candidate: queued_pods.Candidate
    gated: bool
    weight: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """A pod on a node, what it holds there, and what its request teaches.

    `fault` says what is wrong with its record; `nameless` is there where that cannot be read.
    `unadmitted` says where it may run, as long as it depends on the kubelet whether it is admitted.
    What is known of it and may be much weighs so many bytes.
    """

    hold: holds.Hold
    fault: str = ""
    teaches: workload.Sample | None = None
    nameless: allocation_recovery.Nameless | None = None
    unadmitted: facts.Where | None = None
    weight: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Over:
    """A pod that holds nothing and wants nothing of us."""

    uid: str


View = Waiting | Bound | Over


def ours(pod: raw.Pod) -> raw.Pod:
    """Return a pod as one that asks for Berth, whichever scheduler it names."""
    spec = msgspec.structs.replace(pod.spec, scheduler_name=names.SCHEDULER_NAME)
    return msgspec.structs.replace(pod, spec=spec)


def adopted(pod: raw.Pod, schedulers: Collection[str] = ANSWERING) -> raw.Pod:
    """Return a pod of one of the schedulers for which Berth answers as its own, and any other as it is."""
    named = pod.spec.scheduler_name
    return ours(pod) if named != names.SCHEDULER_NAME and named in schedulers else pod


def view(pod: raw.Pod) -> View:
    """Return what a pod is to us."""
    if pod.status.phase in FINISHED:
        return Over(pod.metadata.uid)
    if pod.length:
        pod = read_memory.pared(pod)
    if pod.spec.node_name:
        return bound(pod)
    if pod.spec.scheduler_name != names.SCHEDULER_NAME or pod.metadata.deletion_timestamp:
        return Over(pod.metadata.uid)
    wants = read(pod)
    return Waiting(_candidate(pod, wants), gated=bool(pod.spec.scheduling_gates), weight=wants.weight)


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """What a waiting pod asks for, apart from which pod it is."""

    request: requests.Request
    faults: tuple[decisions.Refusal, ...]
    demand: facts.Demand
    priority: int
    label: int
    small: tuple[requests.SmallAmount, ...] = ()
    weight: int = 0


def wanted(pod: raw.Pod) -> Wanted:
    """Read what a waiting pod asks for; nothing is kept of one that says too much."""
    too_much = pod_limits.exceeded(pod.spec)
    if too_much is not None:
        return _nothing(pod, too_much)
    request, faults = device_requests.request(pod)
    demand = demands.demand(pod.spec)
    small = small_amounts.of(pod, request)
    weight = memory_estimates.of(request, demand, small)
    return Wanted(
        request, faults, demand, device_requests.priority(pod), device_requests.label(pod), small, weight
    )


def _nothing(pod: raw.Pod, fault: decisions.Refusal) -> Wanted:
    return Wanted(
        requests.NO_DEVICES,
        (fault,),
        facts.NO_DEMAND,
        device_requests.priority(pod),
        device_requests.label(pod),
    )


def read(pod: raw.Pod) -> Wanted:
    """Read what a waiting pod asks for, or remember it."""
    too_long = pod_limits.too_long(pod.length)
    return _nothing(pod, too_long) if too_long else _wanted(pod, read_memory.of_waiting(pod))


def candidate(pod: raw.Pod) -> queued_pods.Candidate:
    """Read a waiting pod."""
    return _candidate(pod, read(pod))


def _candidate(pod: raw.Pod, wants: Wanted) -> queued_pods.Candidate:
    return queued_pods.Candidate(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        request=wants.request,
        demand=wants.demand,
        priority=wants.priority,
        label=wants.label,
        created=pod.metadata.creation_timestamp,
        faults=wants.faults,
        small=wants.small,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Taken:
    """What a bound pod asked for, takes of its node, and teaches."""

    asked: holdings.Asked
    amounts: facts.Amounts
    teaches: workload.Sample | None
    host_ports: tuple[facts.HostPort, ...] = ()

    @property
    def weight(self) -> int:
        """How many bytes it takes."""
        return memory_estimates.of_taken(self.amounts, self.asked, self.host_ports)


def taken(pod: raw.Pod) -> Taken:
    """Read what a bound pod asked for."""
    amounts, ports = demands.amounts(pod.spec), demands.host_ports(pod.spec)
    pod = many_containers.without_others(pod)
    if pod_limits.many_devices(pod.spec):
        return Taken(holdings.anything(pod.spec), amounts, None, ports)
    whole = asked_of(pod)
    teaches = workload.sample(whole, facts.Demand(amounts)) if whole else None
    return Taken(holdings.asked(pod, whole), amounts, teaches, ports)


def bound(pod: raw.Pod) -> Bound:
    """Read a bound pod."""
    takes = _taken(pod, read_memory.of_bound(pod))
    found = holdings.holding(pod, takes.asked)
    hold = holds.Hold(
        uid=pod.metadata.uid,
        title=f"{pod.metadata.namespace}/{pod.metadata.name}",
        node=pod.spec.node_name,
        amounts=takes.amounts,
        shares=found.shares,
        withheld=found.withheld,
        marked=found.marked,
        host_ports=takes.host_ports,
    )
    # A record that can be read names at least one device.
    nameless = holdings.nameless(pod, takes.asked) if found.fault and not found.shares else None
    where = _unadmitted(pod)
    much = where is not None or nameless is not None
    weight = memory_estimates.of_bound(hold, nameless, where) if much else 0
    return Bound(hold, found.fault, takes.teaches, nameless, where, weight)


def _unadmitted(pod: raw.Pod) -> facts.Where | None:
    """Return where a pod may run that somebody else bound and whose kubelet has not admitted it yet.

    Of one that says too much nothing is kept, and one that is said to mirror a file on its node may mirror
    nothing, which only its kubelet knows: both count once they are admitted.
    """
    status = pod.status
    if status.start_time or status.phase not in NOT_STARTED or holdings.answered(pod.metadata.annotations):
        return None
    if MIRROR in pod.metadata.annotations or pod_limits.exceeded(pod.spec) is not None:
        return facts.NOWHERE
    return demands.where(pod.spec)


_wanted: Final = read_memory.Recall(wanted, lambda found: found.weight)
_taken: Final = read_memory.Recall(taken, lambda found: found.weight)


def remains(thing: watch.Undecodable) -> holds.Hold | None:
    """Return what a pod that cannot be read withholds: all cards of its node, where even that is readable."""
    meta, node = thing.metadata, _whereabouts(thing)
    if not node:
        return None
    return holds.Hold(
        uid=meta.uid, title=f"{meta.namespace}/{meta.name}", node=node, withheld=holds.ALL_CARDS
    )


def _whereabouts(thing: watch.Undecodable) -> str:
    """Return the node that a pod is on; of a pod too large to be read only its metadata tell that."""
    try:
        pod = decoding.decode(_remains, thing.body)
    except errors.DECODE_ERRORS:
        found = allocation.decode(thing.metadata.annotations.get(names.ALLOCATION, ""))
        return found.node if isinstance(found, allocation.Allocation) else ""
    return "" if pod.status.phase in FINISHED else pod.spec.node_name


_remains: Final = msgspec.json.Decoder(raw.PodRemains)


def asked_of(pod: raw.Pod) -> requests.Request | None:
    """Read how much a pod asks for, or None where that cannot be read."""
    request, faults = device_requests.containers_of(pod)
    return None if faults else request
