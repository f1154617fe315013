"""Caches the requests of pods: the pods of one workload are equal in all but their names.

A request is a function of a pod's spec and of some annotations and labels alone, so pods with equal
ones, byte for byte, share one value. Reading requests is most of what a pod costs here, and shared
values take less memory too. Other annotations, of the network or of a progress bar for instance, are
no part of the key: a change to them must not make the pod be read again.

If the cache is full, it drops the oldest value of a namespace that has at least its share, so that one
namespace with very long pods does not displace the pods of all others.
"""

import dataclasses
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

import msgspec

from berth_crds import aliases, names, requirements
from berth_operator.translate import (
    device_annotations,
    inter_pod_rules,
    pod_limits,
    preferred_pods,
    raw,
    resizing,
    resources,
)

MAX_KEY_BYTES: Final = 1 << 14  # Longer keys are replaced by a digest.
MAX_BYTES: Final = 8 << 20  # Of all short keys together, and of all long ones.
MIN_ENTRY_BYTES: Final = 2 << 10  # Each entry counts at least so much; most have half of it.
MAX_ENTRIES: Final = MAX_BYTES // MIN_ENTRY_BYTES

ON_POD: Final[tuple[aliases.Amount | aliases.Option, ...]] = (*aliases.ON_PODS, *aliases.OPTIONS)
GROUP: Final = f"{names.GROUP}/"
REFUSED: Final = aliases.GANG_KEYS | requirements.KEYS
LABELS: Final = frozenset(one.key for one in ON_POD if one.where is aliases.Where.LABEL) | REFUSED
ANNOTATIONS: Final = (
    frozenset({*device_annotations.KEYS, *resources.POD_KEYS, aliases.KAI_CONTAINER}) | REFUSED
)

T = TypeVar("T")


@dataclasses.dataclass(slots=True)
class NamespaceShare:
    """The entries of one namespace: the bytes of each, the oldest first, and of all."""

    sizes: OrderedDict[bytes, int] = dataclasses.field(default_factory=OrderedDict)
    total: int = 0


class BoundedCache(Generic[T]):
    """Values by their keys, as many as fit into so many bytes."""

    def __init__(self) -> None:
        self.entries: dict[bytes, T] = {}
        self._shares: OrderedDict[str, NamespaceShare] = OrderedDict()  # By namespace.
        self._bytes = 0

    def add(self, namespace: str, key: bytes, value: T, size: int) -> None:
        """Add the value of a namespace's pod, which takes so many bytes with its key."""
        size = max(size, MIN_ENTRY_BYTES)
        while self._shares and self._bytes + size > MAX_BYTES:
            self._make_room()
        self.entries[key] = value
        share = self._shares.setdefault(namespace, NamespaceShare())
        share.sizes[key] = size
        share.total += size
        self._bytes += size

    def _make_room(self) -> None:
        """Drop the oldest entry of a namespace that has at least the average."""
        name, share = next(iter(self._shares.items()))
        while share.total * len(self._shares) < self._bytes:
            self._shares.move_to_end(name)
            name, share = next(iter(self._shares.items()))
        key, size = share.sizes.popitem(last=False)
        del self.entries[key]
        share.total -= size
        self._bytes -= size
        if not share.sizes:
            del self._shares[name]


class PodCache(Generic[T]):
    """One function of pods and its cached values.

    Long pods have a cache of their own, so that few of them do not displace all others.
    """

    def __init__(self, read: Callable[[raw.Pod], T], byte_size: Callable[[T], int]) -> None:
        self._read, self._byte_size = read, byte_size
        self._short, self._long = BoundedCache[T](), BoundedCache[T]()

    def __call__(self, pod: raw.Pod, key: bytes) -> T:
        """Return the value of a pod that has this key."""
        cache = self._short
        if len(key) > MAX_KEY_BYTES:
            key, cache = hashlib.blake2b(key).digest(), self._long
        if (value := cache.entries.get(key)) is None:
            value = self._read(pod)
            cache.add(pod.metadata.namespace, key, value, len(key) + self._byte_size(value))
        return value


def without_foreign_annotations(pod: raw.Pod) -> raw.Pod:
    """Return a pod without the annotations that Berth does not read: there may be tens of thousands."""
    annotations_read = {
        key: value
        for key, value in pod.metadata.annotations.items()
        if names.GROUP in key or key in ANNOTATIONS or key == aliases.KOORDINATOR_RECORD
    }
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations_read)
    )


def waiting_key(pod: raw.Pod) -> bytes:
    """Return the key of a waiting pod: all that its request depends on."""
    annotations_read = {
        key: value
        for key, value in pod.metadata.annotations.items()
        if key in ANNOTATIONS or names.GROUP in key  # Unknown keys of the group are refused.
    }
    labels = {key: value for key, value in pod.metadata.labels.items() if reads_label(key)}
    return _encoder.encode((_without_volumes(pod.spec), annotations_read, labels, *_seen_by_others(pod)))


def _seen_by_others(pod: raw.Pod) -> tuple[object, ...]:
    """Return what else of a pod counts if it says something about others: where it is, and labels."""
    spec = pod.spec
    if spec.affinity is None and not spec.topology_spread_constraints:
        return ()
    labels, required = pod.metadata.labels, inter_pod_rules.keys(spec)
    # A pod that says too much about others is refused, or kept away from all whom it might mean.
    if not required.isdisjoint(labels) and pod_limits.many_terms(spec):
        required = frozenset()
    keys = required | preferred_pods.keys(spec)
    return pod.metadata.namespace, {key: labels[key] for key in sorted(keys) if key in labels}


def _without_volumes(spec: raw.PodSpec) -> raw.PodSpec:
    """Return a spec without its volumes: claims are read of each pod, and names of volumes may be random."""
    return msgspec.structs.replace(spec, volumes=None) if spec.volumes else spec


def reads_label(key: str) -> bool:
    """Whether the request of a waiting pod depends on a label: it is read, or refused."""
    return key in LABELS or key.startswith(GROUP)


def bound_key(pod: raw.Pod) -> bytes:
    """Return the key of a bound pod: all that its request depends on, without its node and allocation.

    Its status is a part of the key only where it has other resources than are asked for. What people may
    edit without changing what the pod has, images and tolerations, must not have it read again.
    """
    effective = resizing.effective_spec(pod)
    resized = _as_bound(effective) if effective is not pod.spec else ()
    annotations_read = {key: value for key, value in pod.metadata.annotations.items() if key in ANNOTATIONS}
    labels = {key: value for key, value in pod.metadata.labels.items() if key in LABELS}
    return _encoder.encode((*_as_bound(pod.spec), annotations_read, labels, *_seen_by_others(pod), *resized))


def _as_bound(spec: raw.PodSpec) -> tuple[object, ...]:
    """Return what counts of the spec of a bound pod."""
    rest = msgspec.structs.replace(
        spec, node_name="", volumes=None, tolerations=None, containers=(), init_containers=None
    )
    return rest, _container_keys(spec.containers), _container_keys(spec.init_containers or ())


def _container_keys(containers: Iterable[raw.Container]) -> list[tuple[object, ...]]:
    return [
        (one.name, one.resources, one.restart_policy, one.restart_policy_rules, one.ports)
        for one in containers
    ]


_encoder: Final = msgspec.json.Encoder()
