"""What was found for pods, by their namespace and labels, within a bound of memory.

Pods of one workload have the same labels, so what was found for one holds for the others. But an answer may
have thousands of parts, and labels may be long: counted alone, 4096 answers could take hundreds of MiB.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from berth_operator.scheduling.nodes import facts

MOST_REMEMBERED: Final = 4096  # Namespaces with labels.
MOST_LABELS: Final = 64  # Of a pod for which anything is remembered.
MOST_BYTES: Final = 16 << 20  # Estimated.
BYTES_PER_PART: Final = 64  # Of an answer: at most as many does an entry of a frozenset take.
BYTES_PER_LABEL: Final = 512  # Key and value of the longest that there may be.

Identity = tuple[str, facts.Labels]  # The namespace and the labels of a pod.
T = TypeVar("T")


class LabelMemory(Generic[T]):
    """Answers by namespace and labels; `part_count` returns how many parts an answer has.

    Where there are too many, or they take too much memory, all are forgotten.
    """

    def __init__(self, part_count: Callable[[T], int]) -> None:
        self._part_count = part_count
        self._known: dict[Identity, T] = {}
        self.bytes = 0

    def __len__(self) -> int:
        """Count the answers."""
        return len(self._known)

    def get(self, identity: Identity) -> T | None:
        """Return what was found for pods with these labels; None if nothing is remembered."""
        return self._known.get(identity)

    def put(self, identity: Identity, found: T) -> None:
        """Remember an answer for pods with these labels, if these are not very many."""
        if len(identity[1]) > MOST_LABELS:
            return
        if (before := self._known.pop(identity, None)) is not None:
            self.bytes -= self._bytes(identity, before)
        more = self._bytes(identity, found)
        if len(self._known) >= MOST_REMEMBERED or self.bytes + more > MOST_BYTES:
            self.clear()
        self._known[identity] = found
        self.bytes += more

    def _bytes(self, identity: Identity, found: T) -> int:
        return BYTES_PER_LABEL * (1 + len(identity[1])) + BYTES_PER_PART * self._part_count(found)

    def clear(self) -> None:
        """Forget all answers."""
        self._known.clear()
        self.bytes = 0
