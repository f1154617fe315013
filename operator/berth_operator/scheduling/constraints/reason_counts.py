"""Why not, counted over all nodes at once: cheap enough for every decision that finds no place.

Each node has its first reason: the unresolvable rejections of all constraints in their order, then the
resolvable ones, and last what only a search on the node showed. So what waiting hardly lifts comes before
what it may, and a node that could never take the pod is not called full.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from berth_operator.scheduling import gpu_units, node_table, signatures
from berth_operator.scheduling.constraints import constraint, registry
from berth_operator.scheduling.constraints.constraint import Constraint, DependsOn, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Count, NodeReason, Reason

Rejections = Callable[[Query], Iterable[Rejection]]
Stage = tuple[tuple[Constraint, Rejections], ...]
Meaning = tuple[Query, node_table.Mask | None]  # What is asked, and of which nodes; None stands for all.
MOST_REMEMBERED: Final = 64  # Signatures.


class ReasonTable:
    """The first reason of each of these nodes, 0 where there is none; `complete` once all have one."""

    def __init__(self, nodes: node_table.Mask) -> None:
        self.reason_index = np.zeros(len(nodes), dtype=np.int64)
        self._left = nodes.copy()  # Those without a reason.
        self.complete = False
        self._never: list[node_table.Mask] = []
        self.node_reasons: dict[NodeReason, int] = {}

    def reject(self, rejection: Rejection) -> None:
        """Add a reason for those nodes that have none yet."""
        if rejection.never_fits:
            self._never.append(rejection.nodes)
        fresh = rejection.nodes & self._left
        if np.count_nonzero(fresh):  # Of so few nodes it takes a third of the time of `any`.
            np.putmask(self.reason_index, fresh, self._number((rejection.reason, rejection.detail)))
            self._left ^= fresh
            self.complete = not np.count_nonzero(self._left)

    def add(self, row: int, why: NodeReason) -> None:
        """Add a reason for one node, if it has none yet."""
        if self._left[row]:
            self.reason_index[row] = self._number(why)
            self._left[row] = False

    def never_fits(self) -> node_table.Mask:
        """Return the nodes that could not take the pod with nothing used and nothing wrong."""
        mask = np.zeros(len(self.reason_index), dtype=np.bool_)
        for nodes in self._never:
            mask |= nodes
        return mask

    def counts(self) -> tuple[Count, ...]:
        """Count the nodes of each reason, the most frequent first, and last those that may have no cards."""
        found = np.bincount(self.reason_index, minlength=len(self.node_reasons) + 1)[1:].tolist()
        counts = (Count(*why, nodes) for why, nodes in zip(self.node_reasons, found, strict=True) if nodes)
        return tuple(sorted(counts, key=_importance))

    def _number(self, why: NodeReason) -> int:
        return self.node_reasons.setdefault(why, len(self.node_reasons) + 1)


def _importance(count: Count) -> tuple[bool, int, str, str]:
    return count.reason is Reason.NOT_PUBLISHED, -count.nodes, count.reason, count.detail


def count(query: Query, searched: Mapping[int, NodeReason]) -> tuple[Count, ...]:
    """Count why each known node refuses; `searched` has what a search on the node showed, by row.

    The query is one for all nodes. No place was found, so a node that gives no reason was not evaluated for
    want of time.
    """
    table = ReasonTable(query.table.has_node[query.rows])
    for rejection in _rejections(query):
        table.reject(rejection)
        if table.complete:
            break
    for row, why in searched.items():
        table.add(row, why)
    table.reject(Rejection(query.table.has_node[query.rows], Reason.UNDECIDED))
    return table.counts() or (Count(Reason.NO_NODES, "", 0),)


def evaluate(query: Query, searched: Mapping[int, NodeReason]) -> ReasonTable:
    """Return the first reason of each known node, and which could never take the pod, of a query for all."""
    table = ReasonTable(query.table.has_node[query.rows])
    for rejection in _rejections(query):
        table.reject(rejection)
    for row, why in searched.items():
        table.add(row, why)
    return table


def _stage(rejections_of: Callable[[Constraint], Rejections]) -> Stage:
    """Return the constraints that reject nodes in one way, and how."""
    found = ((one, rejections_of(one)) for one in registry.CONSTRAINTS)
    return tuple((one, rejections) for one, rejections in found if rejections is not constraint.nothing)


# The unresolvable rejections of all constraints come first.
_IN_ORDER: Final = (*_stage(lambda one: one.unresolvable), *_stage(lambda one: one.resolvable))


@functools.lru_cache(maxsize=MOST_REMEMBERED)
def _that_apply(signature: signatures.Signature) -> tuple[Rejections, ...]:
    """Return in order what may reject nodes for this signature, where it means the same on all of them."""
    return tuple(rejections for one, rejections in _IN_ORDER if one.applies_to(signature))


def _rejections(query: Query) -> Iterator[Rejection]:
    """Yield the rejections of all nodes in order, of each by what the request means there."""
    table, rows, signature = query.table, query.rows, query.signature
    if (of_this_unit := gpu_units.nodes_meant(table, rows, signature)) is None:
        for rejections in _that_apply(signature):
            yield from rejections(query)
        return
    elsewhere = (Query(query.inventory, rows, one) for one in gpu_units.signatures_by_unit(table, signature))
    meanings: list[Meaning] = [(query, of_this_unit)]
    meanings += ((one, gpu_units.nodes_meant(table, rows, one.signature)) for one in elsewhere)
    whatever_it_means: list[Meaning] = [(query, None)]
    for one, rejections in _IN_ORDER:
        for asked, among in whatever_it_means if one.depends_on is DependsOn.OTHER_PODS else meanings:
            if one.applies_to(asked.signature):
                yield from _among(rejections(asked), among)


def _among(rejections: Iterable[Rejection], nodes: node_table.Mask | None) -> Iterable[Rejection]:
    """Return what is rejected of these nodes; None stands for all."""
    return rejections if nodes is None else (each._replace(nodes=each.nodes & nodes) for each in rejections)
