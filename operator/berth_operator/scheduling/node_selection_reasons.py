"""Which nodes accept a pod by their taints, labels and names, and why the others do not.

The reasons are remembered until a node changes. All that is in a node's way, not the first alone, is found
by `obstacles` in `constraints.taints_and_affinity`.
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np

from berth_operator.scheduling import node_info, node_table
from berth_operator.scheduling.decisions import NodeReason, Reason
from berth_operator.scheduling.nodes import facts, labels, taints

MOST_PLACES: Final = 1024  # Different wheres remembered at once, and how much of memory they may take.
MOST_PLACES_BYTES: Final = 32 << 20
BYTES_A_THING: Final = 128  # Of what pods name.

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


class NodeSelectionCache:
    """The reasons of all nodes for the wheres of pods."""

    def __init__(self) -> None:
        self._known: dict[facts.Where, NodeSelectionReasons] = {}
        self._bytes = 0
        self._labels: labels.Labels | None = None

    def get(self, infos: Infos, where: facts.Where) -> NodeSelectionReasons:
        """Return the reasons of these nodes, the same as the last time unless they were forgotten."""
        if (found := self._known.get(where)) is None:
            if len(self._known) >= MOST_PLACES or self._bytes > MOST_PLACES_BYTES:
                self.forget()
            if self._labels is None:
                self._labels = labels.Labels([info.node if info else None for info in infos])
            found = self._known[where] = node_selection_reasons(infos, where, self._labels)
            self._bytes += found.code.nbytes + BYTES_A_THING * where.size
        return found

    def forget(self) -> None:
        """Forget all reasons, because a node has changed."""
        self._known.clear()
        self._bytes = 0
        self._labels = None


def node_selection_reasons(infos: Infos, where: facts.Where, labels_: labels.Labels) -> NodeSelectionReasons:
    """Return the reasons of these nodes, whose labels are `labels_`."""
    numbers: dict[NodeReason, int] = {}
    code, obstacles = np.zeros(len(infos), dtype=np.int64), np.zeros(len(infos), dtype=np.int64)
    matching = labels_.matching(where).tolist()
    covered = taints.Covered(where.tolerations)
    for at, info in enumerate(infos):
        reason: NodeReason | None = Reason.NO_NODES, ""
        if info is not None and info.node is not None:
            reason = node_selection_reason(info.node, covered, matches=matching[at])
        if reason is not None:
            code[at] = numbers.setdefault(reason, len(numbers) + 1)
            if info is not None and info.node is not None:
                obstacles[at] = covered.obstacles(info.node) + (not matching[at])
    return NodeSelectionReasons(code, obstacles, tuple(numbers))


def node_selection_reason(node: facts.Node, covered: taints.Covered, *, matches: bool) -> NodeReason | None:
    """Return why a node does not accept a pod; `matches` is whether its labels and name suit the pod."""
    taint = covered.untolerated(node)
    # The taint of a cordon is one, whether or not the node says so itself.
    if (node.unschedulable and not covered.cordoned) or (taint and taint.key == facts.UNSCHEDULABLE_TAINT):
        return Reason.NODE_CORDONED, ""
    if taint is not None:
        return Reason.TAINTED, taint.key
    return None if matches else (Reason.SELECTOR_MISMATCH, "")
