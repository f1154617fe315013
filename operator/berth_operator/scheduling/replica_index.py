"""How many pods of each controller are on which nodes: what spread by default is counted from.

The pods of a controller are told by their labels, which are equal but for those that it writes on each pod
for itself. Nothing is counted until somebody asks; then each pod that comes, goes or changes counts at
once.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts

# What a StatefulSet writes on each pod for itself, and what differs between its revisions.
OF_ONE_POD: Final = frozenset(
    {"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash"}
)
MOST_LABELS: Final = 32  # Pods with more of them are not counted, and not spread.


def replicas_of(namespace: str, labels: facts.Labels) -> facts.Replicas | None:
    """Return to which pods a pod with these labels belongs; None without any, or with very many."""
    if len(labels) > MOST_LABELS:
        return None
    if any(key in OF_ONE_POD for key, _ in labels):
        labels = tuple(pair for pair in labels if pair[0] not in OF_ONE_POD)
    return (namespace, labels) if labels else None


class ReplicaIndex:
    """The rows of the pods that belong together; `holds` returns all pods with their rows."""

    def __init__(self, holds: Callable[[], Iterable[tuple[Hold, int]]]) -> None:
        self._holds = holds
        self._rows: dict[facts.Replicas, dict[int, int]] | None = (
            None  # How many on each row; None until asked.
        )

    def count(self, hold: Hold, row: int, sign: int) -> None:
        """Count a pod of a row, or with -1 no more; one that is being deleted does not count."""
        if self._rows is None or hold.leaving or not hold.labels_known:
            return
        if (replicas := replicas_of(hold.namespace, hold.labels)) is None:
            return
        rows = self._rows.setdefault(replicas, {})
        rows[row] = rows.get(row, 0) + sign
        if not rows[row]:
            del rows[row]
        if not rows:
            del self._rows[replicas]

    def rows(self, replicas: facts.Replicas) -> Mapping[int, int]:
        """Return on which rows how many of these pods are."""
        if self._rows is None:
            self._rows = {}
            for hold, row in self._holds():
                self.count(hold, row, 1)
        return self._rows.get(replicas, {})
