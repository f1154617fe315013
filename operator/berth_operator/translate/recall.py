"""Remembers what pods were read as: those of one workload are equal in all but their names.

A reading is a function of a pod's spec, annotations and labels alone, so pods of which
these are the same, byte for byte, share one reading. That is most of what a pod costs
here, and the shared values take less memory too. What is not known yet is read.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from berth_crds import names
from berth_operator.translate import raw

MOST_KNOWN: Final = 4096
LONGEST_KEY: Final = 1 << 14  # A pod with more to say than this is read each time.
MOST_BYTES: Final = 8 << 20  # Of all keys together; usual ones have about a thousand.

# What Berth wrote when it bound a pod differs from pod to pod, and asks for nothing.
ANSWERS: Final = frozenset({names.ALLOCATION, names.MINORS, names.TERM})

T = TypeVar("T")


class Recall(Generic[T]):
    """One kind of reading, and the pods of which it is known."""

    def __init__(self, read: Callable[[raw.Pod], T]) -> None:
        self._read = read
        self._known: dict[bytes, T] = {}
        self._bytes = 0

    def __call__(self, pod: raw.Pod, key: bytes) -> T:
        """Give the reading of a pod that has this key."""
        known = self._known.get(key)
        if known is None:
            known = self._read(pod)
            if len(key) <= LONGEST_KEY:
                self._keep(key, known)
        return known

    def _keep(self, key: bytes, known: T) -> None:
        if len(self._known) >= MOST_KNOWN or self._bytes + len(key) > MOST_BYTES:
            self._known.clear()
            self._bytes = 0
        self._known[key] = known
        self._bytes += len(key)


def of_waiting(pod: raw.Pod) -> bytes:
    """Write down all that the reading of a waiting pod depends on."""
    return _encoder.encode((pod.spec, pod.metadata.annotations, pod.metadata.labels))


def of_bound(pod: raw.Pod) -> bytes:
    """Write down all that a bound pod's request depends on: not where it is, nor our answer."""
    asked = {
        key: value
        for key, value in pod.metadata.annotations.items()
        if key not in ANSWERS and names.CONTAINER_INFIX not in key
    }
    return _encoder.encode((msgspec.structs.replace(pod.spec, node_name=""), asked, pod.metadata.labels))


_encoder: Final = msgspec.json.Encoder()
