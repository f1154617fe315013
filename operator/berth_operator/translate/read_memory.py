"""Remembers what pods were read as: those of one workload are equal in all but their names.

A reading is a function of a pod's spec and of some annotations and labels alone, so pods of
which these are the same, byte for byte, share one reading. That is most of what a pod costs
here, and the shared values take less memory too. What is not known yet is read. Whatever
else is written on a pod, by its network for instance or at each of its steps, is no part of
the key: it must not make the pod be read anew.

Where there is no room, a namespace that has its share at least gives way with its oldest: one
that has very much to say must not have the pods of all others read anew at each list.
"""

import dataclasses
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from berth_crds import aliases, names, requirements
from berth_operator.translate import annotations, raw, resources

LONGEST_KEY: Final = 1 << 14  # Of a longer one only a digest is kept.
MOST_BYTES: Final = 8 << 20  # Of all usual pods together, and of all long ones.
LEAST: Final = 2 << 10  # What each counts at least; most have half of it.
MOST_KNOWN: Final = MOST_BYTES // LEAST

ON_POD: Final[tuple[aliases.Amount | aliases.Option, ...]] = (*aliases.ON_PODS, *aliases.OPTIONS)
GROUP: Final = f"{names.GROUP}/"
REFUSED: Final = aliases.GANG_KEYS | requirements.KEYS
LABELS: Final = frozenset(one.key for one in ON_POD if one.where is aliases.Where.LABEL) | REFUSED
ANNOTATIONS: Final = frozenset({*annotations.KEYS, *resources.POD_KEYS, aliases.KAI_CONTAINER}) | REFUSED

T = TypeVar("T")


@dataclasses.dataclass(slots=True)
class Part:
    """What a shelf has of one namespace: how many bytes each reading takes, the oldest first, and all."""

    sizes: OrderedDict[bytes, int] = dataclasses.field(default_factory=OrderedDict)
    total: int = 0


class Shelf(Generic[T]):
    """Readings by their keys, as many as there are bytes for."""

    def __init__(self) -> None:
        self.known: dict[bytes, T] = {}
        self._parts: OrderedDict[str, Part] = OrderedDict()  # By namespace.
        self._bytes = 0

    def keep(self, namespace: str, key: bytes, known: T, size: int) -> None:
        """Keep a reading of a namespace's pod, which takes so many bytes with its key."""
        size = max(size, LEAST)
        while self._parts and self._bytes + size > MOST_BYTES:
            self._make_room()
        self.known[key] = known
        part = self._parts.setdefault(namespace, Part())
        part.sizes[key] = size
        part.total += size
        self._bytes += size

    def _make_room(self) -> None:
        """Drop the oldest reading of a namespace that has as much as each has on average, or more."""
        name, part = next(iter(self._parts.items()))
        while part.total * len(self._parts) < self._bytes:
            self._parts.move_to_end(name)
            name, part = next(iter(self._parts.items()))
        key, size = part.sizes.popitem(last=False)
        del self.known[key]
        part.total -= size
        self._bytes -= size
        if not part.sizes:
            del self._parts[name]


class Recall(Generic[T]):
    """One kind of reading, and the pods of which it is known.

    Those that have much to say have a shelf of their own, so that few of them do not displace all others.
    """

    def __init__(self, read: Callable[[raw.Pod], T], weigh: Callable[[T], int]) -> None:
        self._read, self._weigh = read, weigh
        self._usual, self._long = Shelf[T](), Shelf[T]()

    def __call__(self, pod: raw.Pod, key: bytes) -> T:
        """Return the reading of a pod that has this key."""
        shelf = self._usual
        if len(key) > LONGEST_KEY:
            key, shelf = hashlib.blake2b(key).digest(), self._long
        known = shelf.known.get(key)
        if known is None:
            known = self._read(pod)
            shelf.keep(pod.metadata.namespace, key, known, len(key) + self._weigh(known))
        return known


def pared(pod: raw.Pod) -> raw.Pod:
    """Leave out the annotations of a pod that are nothing to us: there may be tens of thousands."""
    said = {
        key: value
        for key, value in pod.metadata.annotations.items()
        if names.GROUP in key or key in ANNOTATIONS
    }
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=said))


def of_waiting(pod: raw.Pod) -> bytes:
    """Write down all that the reading of a waiting pod depends on."""
    said = {
        key: value
        for key, value in pod.metadata.annotations.items()
        if key in ANNOTATIONS or names.GROUP in key  # What is not known there is refused.
    }
    labels = {key: value for key, value in pod.metadata.labels.items() if labelled(key)}
    return _encoder.encode((pod.spec, said, labels))


def labelled(key: str) -> bool:
    """Return whether a label says something of a waiting pod: it is read, or refused where it stands."""
    return key in LABELS or key.startswith(GROUP)


def of_bound(pod: raw.Pod) -> bytes:
    """Write down all that a bound pod's request depends on: not where it is, nor our answer."""
    said = {key: value for key, value in pod.metadata.annotations.items() if key in ANNOTATIONS}
    return _encoder.encode((msgspec.structs.replace(pod.spec, node_name=""), said, _labels(pod)))


def _labels(pod: raw.Pod) -> Mapping[str, str]:
    return {key: value for key, value in pod.metadata.labels.items() if key in LABELS}


_encoder: Final = msgspec.json.Encoder()
