"""Which nodes accept a pod by their taints, labels and names, and why the others do not.

The reasons are remembered, and those of a node are found anew when it has changed. All that is in a
node's way, not the first alone, is found by `obstacles` in `constraints.taints_and_affinity`.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from berth_operator.scheduling import node_info, node_table
from berth_operator.scheduling.decisions import NodeReason, Reason
from berth_operator.scheduling.nodes import affinity, facts, labels, taints

MOST_PLACES: Final = 1024  # Different wheres remembered at once, and how much of memory they may take.
MOST_PLACES_BYTES: Final = 32 << 20
BYTES_A_THING: Final = 128  # Of what pods name.
MOST_CHANGES: Final = 4096  # Of nodes, until all is forgotten.
MOST_UPDATED: Final = 256  # Nodes and reasons; where there are more, all nodes at once are faster.

Infos = Sequence[node_info.NodeInfo | None]


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSelectionReasons:
    """For each node `code`: 0 where it accepts the pod, else which of the `reasons` it has, counted from 1.

    `obstacles` counts how many things keep the pod away: the cordon, each taint, the selector with the
    affinity.
    """

    code: node_table.Numbers
    obstacles: node_table.Numbers
    reasons: tuple[NodeReason, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Remembered:
    """Reasons, and how many of the changes that the cache was told of they include."""

    found: NodeSelectionReasons
    changes: int


class NodeSelectionCache:
    """The reasons of all nodes for the wheres of pods; of a node that has changed they are found anew."""

    def __init__(self) -> None:
        self._known: dict[facts.Where, Remembered] = {}
        self._changed: list[int] = []  # The rows of the nodes that have changed, one after another.
        self._bytes = 0
        self._labels: labels.Labels | None = None

    def get(self, infos: Infos, where: facts.Where) -> NodeSelectionReasons:
        """Return the reasons of these nodes."""
        if (known := self._known.get(where)) is not None:
            if known.changes == len(self._changed):
                return known.found
            changed = set(self._changed[known.changes :])
            if len(changed) + len(known.found.reasons) <= MOST_UPDATED:
                updated = Remembered(_updated(known.found, infos, where, changed), len(self._changed))
                self._known[where] = updated
                return updated.found
            self._bytes -= _bytes(known.found, where)
            del self._known[where]
        if len(self._known) >= MOST_PLACES or self._bytes > MOST_PLACES_BYTES:
            self.forget()
        if self._labels is None:
            self._labels = labels.Labels([info.node if info else None for info in infos])
        found = node_selection_reasons(infos, where, self._labels)
        self._known[where] = Remembered(found, len(self._changed))
        self._bytes += _bytes(found, where)
        return found

    def node_changed(self, row: int, node: facts.Node | None) -> None:
        """Record what a node is now."""
        if len(self._changed) >= MOST_CHANGES:
            self.forget()
        if self._labels is not None:
            self._labels.put(row, node)
        if self._known:
            self._changed.append(row)

    def forget(self) -> None:
        """Forget all reasons, for example because nodes have other rows."""
        self._known.clear()
        self._changed.clear()
        self._bytes = 0
        self._labels = None


def _bytes(found: NodeSelectionReasons, where: facts.Where) -> int:
    return found.code.nbytes + BYTES_A_THING * where.size


def node_selection_reasons(infos: Infos, where: facts.Where, labels_: labels.Labels) -> NodeSelectionReasons:
    """Return the reasons of these nodes, whose labels are `labels_`."""
    code, obstacles = np.zeros(len(infos), dtype=np.int64), np.zeros(len(infos), dtype=np.int64)
    numbers: dict[NodeReason, int] = {}
    covered = taints.Covered(where.tolerations)
    for at, (info, matches) in enumerate(zip(infos, labels_.matching(where).tolist(), strict=True)):
        node = info.node if info is not None else None
        code[at], obstacles[at] = _of_node(node, covered, numbers, matches=matches)
    return NodeSelectionReasons(code, obstacles, tuple(numbers))


def _updated(
    found: NodeSelectionReasons, infos: Infos, where: facts.Where, changed: Iterable[int]
) -> NodeSelectionReasons:
    """Return the same reasons, but for the nodes of these rows."""
    code, obstacles = found.code.copy(), found.obstacles.copy()
    numbers = {reason: number for number, reason in enumerate(found.reasons, start=1)}
    covered = taints.Covered(where.tolerations)
    for at in changed:
        info = infos[at]
        node = info.node if info is not None else None
        matches = node is not None and affinity.matches(where, node)
        code[at], obstacles[at] = _of_node(node, covered, numbers, matches=matches)
    return NodeSelectionReasons(code, obstacles, tuple(numbers))


def _of_node(
    node: facts.Node | None, covered: taints.Covered, numbers: dict[NodeReason, int], *, matches: bool
) -> tuple[int, int]:
    """Return the code of a node, perhaps of a new reason, and how many things keep the pod away."""
    if node is None:
        return numbers.setdefault((Reason.NO_NODES, ""), len(numbers) + 1), 0
    reason = node_selection_reason(node, covered, matches=matches)
    if reason is None:
        return 0, 0
    return numbers.setdefault(reason, len(numbers) + 1), covered.obstacles(node) + (not matches)


def node_selection_reason(node: facts.Node, covered: taints.Covered, *, matches: bool) -> NodeReason | None:
    """Return why a node does not accept a pod; `matches` is whether its labels and name suit the pod."""
    taint = covered.untolerated(node)
    # The taint of a cordon is one, whether or not the node says so itself.
    if (node.unschedulable and not covered.cordoned) or (taint and taint.key == facts.UNSCHEDULABLE_TAINT):
        return Reason.NODE_CORDONED, ""
    if taint is not None:
        return Reason.TAINTED, taint.key
    return None if matches else (Reason.SELECTOR_MISMATCH, "")
