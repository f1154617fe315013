"""Pods as the core knows them: a PodInfo while they wait, a Hold once they are bound.

`held_devices` reads what a bound pod holds; the same function computes what a placed pod holds,
so the two are equal. A pod that cannot be read at all withholds every card of its node that no
other pod holds by name.
"""

import dataclasses
import itertools
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from berth_crds import aliases, allocation, device_types, names
from berth_crds.client import decoding, errors, watch
from berth_operator.scheduling import allocation_recovery, decisions, holds, queued_pods, values, workload
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import (
    claims,
    controllers,
    delivery,
    demands,
    device_requests,
    disks,
    held_devices,
    inter_pod_rules,
    memory_estimates,
    node_images,
    pod_cache,
    pod_limits,
    preferred_pods,
    raw,
    resizing,
    resources,
    shared_labels,
    small_amounts,
)

DEFAULT_SCHEDULERS: Final = frozenset(
    {names.SCHEDULER_NAME}
)  # The schedulerNames that Berth serves by default.
FINISHED = frozenset({"Succeeded", "Failed"})
WORD: Final = re.compile(r"[a-z0-9-]+", re.ASCII)
NONE: Final = frozenset({"0", 0})
# So many names of containers that ask for no device are kept; the server takes 256 KiB of annotations in all.
MOST_WITHOUT_DEVICES: Final = 256
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"  # Kubelets set it on the mirror pods of static pods.


@values.quickly_made
@dataclasses.dataclass(frozen=True, slots=True)
class WaitingPod:
    """A pod of Berth that is not bound; a gated one is not tried. `byte_size` is that of its request."""

    pod_info: queued_pods.PodInfo
    gated: bool
    byte_size: int = dataclasses.field(default=0, compare=False)


@values.quickly_made
@dataclasses.dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on a node, what it holds there, and its request as a sample of the workload.

    `fault` says what is wrong with its allocation; `nameless` is set if that cannot be read.
    `unadmitted_selection` says where the pod may run, until its kubelet has admitted it.
    `byte_size` is that of the parts that may be large.
    """

    hold: holds.Hold
    fault: str = ""
    sample: workload.Sample | None = None
    nameless: allocation_recovery.UnreadableAllocation | None = None
    unadmitted_selection: facts.NodeSelection | None = None
    byte_size: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class IgnoredPod:
    """A pod that neither holds devices nor waits for Berth."""

    uid: str


ClassifiedPod = WaitingPod | BoundPod | IgnoredPod


def as_berth_pod(pod: raw.Pod) -> raw.Pod:
    """Return a pod as one for Berth, whatever its schedulerName."""
    spec = msgspec.structs.replace(pod.spec, scheduler_name=names.SCHEDULER_NAME)
    return msgspec.structs.replace(pod, spec=spec, adopted_from=pod.spec.scheduler_name)


def adopt(pod: raw.Pod, schedulers: Collection[str] = DEFAULT_SCHEDULERS) -> raw.Pod:
    """Return a pod of one of these schedulers as one for Berth, and any other unchanged."""
    scheduler = pod.spec.scheduler_name
    return as_berth_pod(pod) if scheduler != names.SCHEDULER_NAME and scheduler in schedulers else pod


def classify(pod: raw.Pod) -> ClassifiedPod:
    """Return a pod as waiting, bound or ignored."""
    if pod.status.phase in FINISHED:
        return IgnoredPod(pod.metadata.uid)
    if pod.length:
        pod = pod_cache.without_foreign_annotations(pod)
    if pod.spec.node_name:
        return read_bound(pod)
    if pod.spec.scheduler_name != names.SCHEDULER_NAME or pod.metadata.deletion_timestamp:
        return IgnoredPod(pod.metadata.uid)
    pod_request = cached_request(pod)
    waiting = _pod_info(pod, pod_request)
    size = pod_request.byte_size + memory_estimates.of_labels(waiting.labels)
    size += memory_estimates.of_claims(waiting.demand.claims)
    size += memory_estimates.of_disks(waiting.demand.disks)
    size += memory_estimates.of_names(waiting.demand.volume_images)
    return WaitingPod(waiting, gated=bool(pod.spec.scheduling_gates), byte_size=size)


@dataclasses.dataclass(frozen=True, slots=True)
class PodRequest:
    """What a waiting pod requests, apart from its identity."""

    request: requests.DeviceRequest
    faults: tuple[decisions.Refusal, ...]
    demand: facts.NodeDemand
    small: tuple[queued_pods.SmallAmount, ...] = ()
    without_devices: tuple[str, ...] = ()
    byte_size: int = 0


def read_request(pod: raw.Pod) -> PodRequest:
    """Return what a waiting pod requests; nothing is kept of one beyond the limits."""
    if (too_much := pod_limits.exceeded(pod.spec)) is not None:
        return PodRequest(requests.NO_DEVICES, (too_much,), facts.NO_DEMAND)
    request, faults = device_requests.request(pod)
    demand = dataclasses.replace(
        demands.demand(pod.spec),
        delivery=delivery.of_pod(pod.spec, request),
        is_counted=delivery.is_counted(pod.spec, request),
        inter_pod_rules=inter_pod_rules.of_pod(pod),
        preferred_pods=preferred_pods.of_pod(pod),
    )
    small = small_amounts.find(pod, request)
    without = _without_devices(pod.spec, request)
    weight = memory_estimates.of_request(request, demand, small) + memory_estimates.of_names(without)
    return PodRequest(request, faults, demand, small, without, weight)


def _without_devices(spec: raw.PodSpec, request: requests.DeviceRequest) -> tuple[str, ...]:
    """Return the containers that ask for no device, as far as there is room for their annotations."""
    asking = {container.name for container in request.containers}
    others = (one.name for one, _ in resources.each_container(spec) if one.name not in asking)
    return tuple(map(sys.intern, itertools.islice(others, MOST_WITHOUT_DEVICES)))


def cached_request(pod: raw.Pod) -> PodRequest:
    """Return what a waiting pod requests, from the cache if an equal pod was read before."""
    if (too_large := pod_limits.too_large(pod)) is not None:
        return PodRequest(requests.NO_DEVICES, (too_large,), facts.NO_DEMAND)
    return _requests(pod, pod_cache.waiting_key(pod))


def pod_info(pod: raw.Pod) -> queued_pods.PodInfo:
    """Return a waiting pod as a pod_info."""
    return _pod_info(pod, cached_request(pod))


def _pod_info(pod: raw.Pod, pod_request: PodRequest) -> queued_pods.PodInfo:
    demand, faults, labels = pod_request.demand, pod_request.faults, _labels(pod)
    if controller := controllers.of_pod(pod):
        demand = dataclasses.replace(demand, controller=controller)
    if pod.spec.volumes:
        demand, more = _with_volumes(demand, pod)
        faults += more
    return queued_pods.PodInfo(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        request=pod_request.request,
        demand=demand,
        priority=device_requests.priority(pod),
        label=device_requests.label_priority(pod),
        created=pod.metadata.creation_timestamp,
        faults=faults,
        small=pod_request.small,
        without_devices=pod_request.without_devices,
        labels=labels,
        priority_class=sys.intern(pod.spec.priority_class_name or ""),
    )


def _with_volumes(
    demand: facts.NodeDemand, pod: raw.Pod
) -> tuple[facts.NodeDemand, tuple[decisions.Refusal, ...]]:
    """Return the demand with the volumes of the pod, and faults if there are too many."""
    if (too_many := pod_limits.too_many_volumes(pod.spec)) is not None:
        return demand, (too_many,)
    images, claimed = node_images.of_volumes(pod.spec.volumes or ()), claims.of_pod(pod)
    named = disks.of_pod(pod)
    if not (images or claimed or named):
        return demand, ()
    if faults := tuple(filter(None, (claims.too_many(claimed), disks.too_many(named)))):
        return demand, faults
    return dataclasses.replace(demand, claims=claimed, disks=named, volume_images=images), ()


@dataclasses.dataclass(frozen=True, slots=True)
class BoundRequest:
    """What a bound pod may hold, takes of its node, and its request as a sample."""

    expected: held_devices.ExpectedDevices
    amounts: facts.Amounts
    sample: workload.Sample | None
    host_ports: tuple[facts.HostPort, ...] = ()
    anti_affinity: tuple[facts.PodTerm, ...] = ()
    weighted_terms: tuple[facts.WeightedPodTerm, ...] = ()
    terms_size: int = dataclasses.field(init=False, repr=False, compare=False)  # In bytes of memory.

    def __post_init__(self) -> None:
        """Work out once what is asked for at each change of a pod, which may have many terms."""
        terms = [*self.anti_affinity, *(one.term for one in self.weighted_terms)]
        object.__setattr__(self, "terms_size", memory_estimates.of_terms(terms))

    @property
    def byte_size(self) -> int:
        """The bytes that it takes in memory."""
        request = memory_estimates.of_bound_request(self.amounts, self.expected, self.host_ports)
        return request + self.terms_size


def amounts_of_bound(pod: raw.Pod) -> facts.Amounts:
    """Return what a bound pod takes of its node, as it was resized."""
    return demands.amounts(resizing.effective_spec(pod))


def read_bound_request(pod: raw.Pod) -> BoundRequest:
    """Return the request of a bound pod."""
    amounts, ports = amounts_of_bound(pod), demands.host_ports(pod.spec)
    coarse = pod_limits.many_terms(pod.spec)
    far = inter_pod_rules.coarse_anti_affinity(pod) if coarse else inter_pod_rules.anti_affinity(pod)
    weighted = preferred_pods.of_bound(pod)
    pod = _without_others(pod)
    if pod_limits.many_devices(pod.spec):
        return BoundRequest(held_devices.any_devices(pod.spec), amounts, None, ports, far, weighted)
    whole = device_requests.amounts_request(pod)
    ours = pod.spec.scheduler_name == names.SCHEDULER_NAME
    asks = whole or (requests.NO_DEVICES if ours else None)
    teaches = workload.sample(asks, facts.NodeDemand(amounts)) if asks is not None else None
    return BoundRequest(held_devices.expected_devices(pod, whole), amounts, teaches, ports, far, weighted)


def _without_others(pod: raw.Pod) -> raw.Pod:
    """Return a pod of very many containers without those that request no device and that no key names.

    A bound pod cannot be refused, and reading each of twenty thousand containers again and again
    would block the loop while other pods wait.
    """
    spec = pod.spec
    if len(spec.containers) + len(spec.init_containers or ()) <= pod_limits.MAX_ASKS:
        return pod
    served, named = aliases.all_served(pod_limits.resource_names(spec)), _perhaps_named(pod)
    only = {
        "containers": tuple(_some_of(spec.containers, served, named)),
        "init_containers": tuple(_some_of(spec.init_containers or (), served, named)),
    }
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(spec, **only))


def _perhaps_named(pod: raw.Pod) -> frozenset[str]:
    """Return all words in the keys for whole pods, among them the names of containers."""
    texts = {**pod.metadata.labels, **pod.metadata.annotations}
    keys = resources.POD_KEYS & texts.keys()
    if not keys:
        return frozenset()
    words = itertools.chain.from_iterable(WORD.findall(texts[key]) for key in keys)
    first = pod.spec.containers[0].name if pod.spec.containers else ""
    return frozenset({first, texts.get(aliases.KAI_CONTAINER, ""), *words})


def _some_of(
    containers: Iterable[raw.Container], served: Collection[str], named: frozenset[str]
) -> Iterator[raw.Container]:
    """Yield the containers that are named or request a served resource with a non-zero amount."""
    for container in containers if served or named else ():
        asks = any(name in served and amount not in NONE for name, amount in resources.pairs(container))
        if asks or container.name in named:
            yield container


def read_bound(pod: raw.Pod) -> BoundPod:
    """Return a bound pod."""
    bound_request = _bound_requests(pod, pod_cache.bound_key(pod))
    held = held_devices.read(pod, bound_request.expected)
    hold = holds.Hold(
        uid=pod.metadata.uid,
        title=f"{pod.metadata.namespace}/{pod.metadata.name}",
        node=pod.spec.node_name,
        amounts=bound_request.amounts,
        shares=held.shares,
        withheld=held.withheld,
        marked=held.marked,
        withheld_types=held.withheld_types,
        host_ports=bound_request.host_ports,
        claims=claims.of_pod(pod) if pod.spec.volumes else (),
        disks=disks.of_pod(pod) if pod.spec.volumes else (),
        priority=device_requests.priority(pod),
        labels=_labels(pod),
        labels_known=not pod_limits.has_too_many_labels(pod.metadata.labels),
        start=pod.status.start_time or "",
        anti_affinity=bound_request.anti_affinity,
        weighted_terms=bound_request.weighted_terms,
        leaving=bool(pod.metadata.deletion_timestamp),
        controller=controllers.of_pod(pod),
    )
    only_gpupod = held_devices.needs_gpupod(pod, bound_request.expected, held)
    nameless = held_devices.nameless(pod, bound_request.expected) if only_gpupod else None
    node_selection = _unadmitted(pod)
    large = node_selection is not None or nameless is not None
    weight = memory_estimates.of_labels(hold.labels) + bound_request.terms_size
    weight += memory_estimates.of_claims(hold.claims) + memory_estimates.of_disks(hold.disks)
    weight += memory_estimates.of_bound(hold, nameless, node_selection) if large else 0
    return BoundPod(hold, held.fault, bound_request.sample, nameless, node_selection, weight)


def _labels(pod: raw.Pod) -> facts.Labels:
    """Return the labels of a pod, in order; pods of one workload share them, or most of them.

    Of one with too many there is none: they would be sorted and compared at each of its changes.
    """
    labels = pod.metadata.labels
    return () if pod_limits.has_too_many_labels(labels) else shared_labels.of(labels)


def _unadmitted(pod: raw.Pod) -> facts.NodeSelection | None:
    """Return where a pod may run that another scheduler bound and its kubelet has not admitted yet.

    A pod beyond the limits is not read, and only the kubelet knows whether a mirror pod has a static pod
    behind it: both count once they are admitted.
    """
    if pod.status.is_admitted or held_devices.has_result(pod.metadata.annotations):
        return None
    if MIRROR_ANNOTATION in pod.metadata.annotations or pod_limits.exceeded(pod.spec) is not None:
        return facts.NOWHERE
    return demands.node_selection(pod.spec)


_requests: Final = pod_cache.PodCache(read_request, lambda found: found.byte_size)
_bound_requests: Final = pod_cache.PodCache(read_bound_request, lambda found: found.byte_size)


def unreadable_hold(unreadable: watch.Undecodable) -> holds.Hold | None:
    """Return that an unreadable pod withholds all devices of its node; None if its node is unreadable too."""
    meta, node = unreadable.metadata, _node_of(unreadable)
    if not node:
        return None
    return holds.Hold(
        uid=meta.uid,
        title=f"{meta.namespace}/{meta.name}",
        node=node,
        withheld=holds.ALL_CARDS,
        withheld_types=frozenset(device_types.BY_NAME),
        labels=tuple(meta.labels.items()),
        leaving=bool(meta.deletion_timestamp),
    )


def _node_of(unreadable: watch.Undecodable) -> str:
    """Return the node of an unreadable pod; if the pod is too large, its allocation names it."""
    try:
        pod = decoding.decode(_remains, unreadable.body)
    except errors.DECODE_ERRORS:
        found = allocation.decode(unreadable.metadata.annotations.get(names.ALLOCATION, ""))
        return found.node if isinstance(found, allocation.Allocation) else ""
    return "" if pod.status.phase in FINISHED else pod.spec.node_name


_remains: Final = msgspec.json.Decoder(raw.MinimalPod)
