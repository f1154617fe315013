"""Which nodes reject the pods that are bound to them, again and again.

A pod that its kubelet rejects fails at once. Its owner makes another, which would soon be bound to the same
node, and so on. After some rejections in a row of pods of one namespace the node is quarantined for that
namespace: it gets none of its pods with devices for a time. Then it may have one on trial; if that is
rejected, too, the next quarantine is twice as long. A pod of the namespace that the kubelet admits ends all
this.

Why a pod is rejected may lie with the pod, and then nobody else's are to suffer for it. So only a node that
is quarantined for two namespaces is quarantined for all.
"""

import dataclasses
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

MOST_IN_A_ROW: Final = 3
FIRST_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 1800.0
FORGOTTEN_SECONDS: Final = 3600.0  # After so long without a rejection, the earlier ones do not count.
ENOUGH_FOR_ALL: Final = 2  # Namespaces.


class Quarantine(NamedTuple):
    """Why a node gets no pods with devices: none of a namespace, or of none if that is empty."""

    why: str
    namespace: str = ""


@dataclasses.dataclass(slots=True)
class Record:
    """What one kubelet has rejected lately of one namespace."""

    in_a_row: int = 0
    last: float = 0.0
    seconds: float = FIRST_SECONDS  # Of the next quarantine.
    until: float | None = None  # When the present quarantine ends.
    why: str = ""


class Rejections:
    """What kubelets have rejected, and how long their nodes are quarantined."""

    def __init__(self) -> None:
        self._records: dict[str, dict[str, Record]] = {}  # By node and namespace.

    def rejected(self, node: str, namespace: str, why: str, now: float) -> None:
        """Record that a node rejected a pod of a namespace."""
        records = self._records.setdefault(node, {})
        record = records.get(namespace)
        if record is None or now - record.last > FORGOTTEN_SECONDS + record.seconds:
            record = records[namespace] = Record()
        record.in_a_row, record.last = record.in_a_row + 1, now
        if record.in_a_row >= MOST_IN_A_ROW:
            record.until = now + record.seconds
            record.seconds = min(2 * record.seconds, LONGEST_SECONDS)
            record.why = f"its kubelet rejected {record.in_a_row} pods in a row: {why}"

    def admitted(self, node: str, namespace: str) -> None:
        """Record that a node admitted a pod of a namespace."""
        self._records.get(node, {}).pop(namespace, None)

    def end(self, now: float) -> Iterator[str]:
        """End the quarantines whose time is over, and yield their nodes: they may have a pod on trial."""
        for node, records in self._records.items():
            over = [one for one in records.values() if one.until is not None and now >= one.until]
            for record in over:
                record.until = None
            if over:
                yield node

    def quarantine(self, node: str) -> Quarantine | None:
        """Return whether a node is quarantined now, by the last rejection."""
        records = self._records.get(node, {}).items()
        there = [(one.last, namespace, one.why) for namespace, one in records if one.until is not None]
        if not there:
            return None
        _, namespace, why = max(there)
        return Quarantine(why, "" if len(there) >= ENOUGH_FOR_ALL else namespace)

    def keep_only(self, nodes: Container[str]) -> None:
        """Forget all nodes but these."""
        self._records = {node: records for node, records in self._records.items() if node in nodes}
