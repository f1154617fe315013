"""Which nodes reject the pods that are bound to them, again and again.

A pod that its kubelet rejects fails at once. Its owner makes another, which would soon be bound to the same
node, and so on. After some rejections in a row the node is quarantined: it gets no pod with devices for a
time. Then it may have one on trial; if that is rejected, too, the next quarantine is twice as long. A pod
that the kubelet admits ends all this.
"""

import dataclasses
from collections.abc import Container, Iterator
from typing import Final

MOST_IN_A_ROW: Final = 3
FIRST_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 1800.0
FORGOTTEN_SECONDS: Final = 3600.0  # After so long without a rejection, the earlier ones do not count.


@dataclasses.dataclass(slots=True)
class Record:
    """What one kubelet has rejected lately."""

    in_a_row: int = 0
    last: float = 0.0
    seconds: float = FIRST_SECONDS  # Of the next quarantine.
    until: float | None = None  # When the present quarantine ends.


class Rejections:
    """What kubelets have rejected, and how long their nodes are quarantined."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def rejected(self, node: str, why: str, now: float) -> str:
        """Record that a node rejected a pod; return why it is quarantined now, empty if it is not."""
        record = self._records.get(node)
        if record is None or now - record.last > FORGOTTEN_SECONDS + record.seconds:
            record = self._records[node] = Record()
        record.in_a_row, record.last = record.in_a_row + 1, now
        if record.in_a_row < MOST_IN_A_ROW:
            return ""
        record.until = now + record.seconds
        record.seconds = min(2 * record.seconds, LONGEST_SECONDS)
        return f"its kubelet rejected {record.in_a_row} pods in a row: {why}"

    def admitted(self, node: str) -> bool:
        """Record that a node admitted a pod; return whether that ends a quarantine."""
        record = self._records.pop(node, None)
        return record is not None and record.until is not None

    def ended(self, now: float) -> Iterator[str]:
        """Yield the nodes whose quarantine is over; from now on they have a pod on trial."""
        for node, record in self._records.items():
            if record.until is not None and now >= record.until:
                record.until = None
                yield node

    def keep_only(self, nodes: Container[str]) -> None:
        """Forget all nodes but these."""
        self._records = {node: record for node, record in self._records.items() if node in nodes}
