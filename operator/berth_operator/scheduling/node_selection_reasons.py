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

MOST_SELECTIONS: Final = 1024  # Different ones remembered at once, and how much of memory they may take.
MOST_MASKS: Final = 256  # Of conditions that volumes have.
MOST_SELECTIONS_BYTES: Final = 32 << 20
BYTES_PER_THING: Final = 128  # Of what pods name.
MOST_UNTAINTED: Final = 64  # Different tolerations.
MOST_CHANGES: Final = 4096  # Of nodes, until all is forgotten.
ACCEPTED: Final = 0  # In `NodeSelectionReasons.reason_index`; reasons are counted from 1.
MOST_UPDATED: Final = 256  # Nodes and reasons; where there are more, all nodes at once are faster.

Infos = Sequence[node_info.NodeInfo | None]


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSelectionReasons:
    """For each node `reason_index`: 0 where it accepts the pod, else which of the `reasons`, counted from 1.

    `obstacle_counts` is how many things keep the pod away: the cordon, each taint, a feature that the node
    lacks, the selector with the affinity.
    """

    reason_index: node_table.Counts
    obstacle_counts: node_table.Counts
    reasons: tuple[NodeReason, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Remembered:
    """Reasons, and how many of the changes that the cache was told of they include."""

    found: NodeSelectionReasons
    changes: int


class NodeSelectionCache:
    """The reasons of all nodes for the node selections of pods; those of a changed node are found anew."""

    def __init__(self) -> None:
        self._known: dict[facts.NodeSelection, Remembered] = {}
        self._changed: list[int] = []  # The rows of the nodes that have changed, one after another.
        self._bytes = 0
        self._labels: labels.Labels | None = None
        self._untainted: dict[tuple[facts.Toleration, ...], node_table.Mask] = {}  # Since the last change.
        self._masks: dict[tuple[facts.Term, ...], node_table.Mask] = {}  # Since a node has changed.

    def get(self, infos: Infos, node_selection: facts.NodeSelection) -> NodeSelectionReasons:
        """Return the reasons of these nodes."""
        if (known := self._known.get(node_selection)) is not None:
            if known.changes == len(self._changed):
                return known.found
            changed = set(self._changed[known.changes :])
            if len(changed) + len(known.found.reasons) <= MOST_UPDATED:
                updated = Remembered(
                    _updated(known.found, infos, node_selection, changed), len(self._changed)
                )
                self._known[node_selection] = updated
                return updated.found
            self._bytes -= _bytes(known.found, node_selection)
            del self._known[node_selection]
        if len(self._known) >= MOST_SELECTIONS or self._bytes > MOST_SELECTIONS_BYTES:
            self.forget()
        found = node_selection_reasons(infos, node_selection, self.node_labels(infos))
        self._known[node_selection] = Remembered(found, len(self._changed))
        self._bytes += _bytes(found, node_selection)
        return found

    def accepts(self, infos: Infos, row: int, node_selection: facts.NodeSelection) -> bool | None:
        """Return whether a node accepts a pod by that; None where that is not remembered."""
        if (known := self._known.get(node_selection)) is None:
            return None
        if known.changes == len(self._changed):
            return bool(known.found.reason_index[row] == ACCEPTED)
        # After each change of a node thousands of selections may be asked about it, and about no other.
        info = infos[row]
        return info is not None and info.node is not None and _accepts(info.node, node_selection)

    def node_labels(self, infos: Infos) -> labels.Labels:
        """Return the labels of these nodes."""
        if self._labels is None:
            self._labels = labels.Labels([info.node if info else None for info in infos])
        return self._labels

    def untainted(self, infos: Infos, tolerations: tuple[facts.Toleration, ...]) -> node_table.Mask:
        """Return which of these nodes have no taint that keeps pods away without these tolerations."""
        if (found := self._untainted.get(tolerations)) is None:
            known = taints.TolerationCache(tolerations)
            nodes = (info.node if info else None for info in infos)
            accepted = (node is not None and known.untolerated(node) is None for node in nodes)
            found = np.fromiter(accepted, dtype=np.bool_, count=len(infos))
            if len(self._untainted) >= MOST_UNTAINTED:
                self._untainted.clear()
            self._untainted[tolerations] = found
        return found

    def matching(self, infos: Infos, terms: tuple[facts.Term, ...]) -> node_table.Mask:
        """Return which nodes one of these terms selects by their labels; kept until a node changes."""
        if (mask := self._masks.get(terms)) is None:
            if len(self._masks) >= MOST_MASKS:
                self._masks.clear()
            mask = self.node_labels(infos).matching(facts.NodeSelection(affinity=terms))
            self._masks[terms] = mask
        return mask

    def node_changed(self, row: int, node: facts.Node | None) -> None:
        """Record what a node is now."""
        self._masks.clear()
        self._untainted.clear()
        if len(self._changed) >= MOST_CHANGES:
            self.forget()
        if self._labels is not None:
            self._labels.put(row, node)
        if self._known:
            self._changed.append(row)

    def forget(self) -> None:
        """Forget all reasons, for example because nodes have other rows."""
        self._known.clear()
        self._masks.clear()
        self._changed.clear()
        self._bytes = 0
        self._labels = None
        self._untainted.clear()


def _bytes(found: NodeSelectionReasons, node_selection: facts.NodeSelection) -> int:
    arrays = found.reason_index.nbytes + found.obstacle_counts.nbytes
    return arrays + BYTES_PER_THING * node_selection.size


def changed(before: facts.Node, after: facts.Node) -> bool:
    """Whether a node may be refused for other reasons than before."""
    return traits(before) != traits(after)


def traits(node: facts.Node) -> tuple[object, ...]:
    """Return all of a node on which the reasons depend, apart from its name."""
    return node.labels, node.taints, node.unschedulable, node.declared_features


def node_selection_reasons(
    infos: Infos, node_selection: facts.NodeSelection, labels_: labels.Labels
) -> NodeSelectionReasons:
    """Return the reasons of these nodes, whose labels are `labels_`."""
    index, counts = np.zeros(len(infos), dtype=np.int32), np.zeros(len(infos), dtype=np.int32)
    numbers: dict[NodeReason, int] = {}
    tolerations, needs = taints.TolerationCache(node_selection.tolerations), bool(node_selection.features)
    for at, (info, matches) in enumerate(zip(infos, labels_.matching(node_selection).tolist(), strict=True)):
        node = info.node if info is not None else None
        missing = node_selection.missing_feature(node) if needs and node is not None else ""
        index[at], counts[at] = _of_node(node, tolerations, numbers, missing, matches=matches)
    return NodeSelectionReasons(index, counts, tuple(numbers))


def _updated(
    found: NodeSelectionReasons, infos: Infos, node_selection: facts.NodeSelection, changed: Iterable[int]
) -> NodeSelectionReasons:
    """Return the same reasons, but for the nodes of these rows."""
    index, counts = found.reason_index.copy(), found.obstacle_counts.copy()
    numbers = {reason: number for number, reason in enumerate(found.reasons, start=1)}
    tolerations, needs = taints.TolerationCache(node_selection.tolerations), bool(node_selection.features)
    for at in changed:
        info = infos[at]
        node = info.node if info is not None else None
        matches = node is not None and affinity.matches(node_selection, node)
        missing = node_selection.missing_feature(node) if needs and node is not None else ""
        index[at], counts[at] = _of_node(node, tolerations, numbers, missing, matches=matches)
    return NodeSelectionReasons(index, counts, tuple(numbers))


def _accepts(node: facts.Node, node_selection: facts.NodeSelection) -> bool:
    """Whether a node gives no reason."""
    tolerations = taints.TolerationCache(node_selection.tolerations)
    missing, matches = node_selection.missing_feature(node), affinity.matches(node_selection, node)
    return node_selection_reason(node, tolerations, missing, matches=matches) is None


def _of_node(
    node: facts.Node | None,
    tolerations: taints.TolerationCache,
    numbers: dict[NodeReason, int],
    missing_feature: str,
    *,
    matches: bool,
) -> tuple[int, int]:
    """Return the number of a node's reason, perhaps of a new one, and how many things keep the pod away."""
    if node is None:
        return numbers.setdefault((Reason.NO_NODES, ""), len(numbers) + 1), 0
    reason = node_selection_reason(node, tolerations, missing_feature, matches=matches)
    if reason is None:
        return 0, 0
    obstacles = tolerations.obstacle_count(node) + bool(missing_feature) + (not matches)
    return numbers.setdefault(reason, len(numbers) + 1), obstacles


def tainted(taint: facts.Taint) -> NodeReason:
    """Return the reason of a node that has a taint which the pod does not tolerate."""
    return Reason.TAINTED, taint.key


def node_selection_reason(
    node: facts.Node, tolerations: taints.TolerationCache, missing_feature: str, *, matches: bool
) -> NodeReason | None:
    """Return why a node does not accept a pod; `matches` is whether its labels and name suit the pod."""
    taint = tolerations.untolerated(node)
    # The taint of a cordon counts as one, even where `spec.unschedulable` is not set.
    if (node.unschedulable and not tolerations.tolerates_cordon) or (
        taint and taint.key == facts.UNSCHEDULABLE_TAINT
    ):
        return Reason.NODE_CORDONED, ""
    if taint is not None:
        return tainted(taint)
    if missing_feature:
        return Reason.FEATURE_MISSING, missing_feature
    return None if matches else (Reason.SELECTOR_MISMATCH, "")
