"""What a set of terms of pods on nodes comes to on each row, remembered for the pods that are decided next.

Most of these are meant by the same terms. There may be a thousand, over all labels that nodes have, and each
label takes several passes over all rows. So the result of a set of terms is kept until a pod that has terms
comes or goes, or a node's value of a label changes that one of them names.
"""

import collections
import functools
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling import domains, node_table, pod_terms
from berth_operator.scheduling.nodes import facts, labels

MOST_SETS: Final = 64  # Of terms; the result of one is 8 bytes for each row.

Term = TypeVar("Term", bound=Hashable)
ByRow = TypeVar("ByRow", bound=npt.NDArray[Any])


class Result(NamedTuple, Generic[ByRow]):
    """What terms come to, with the columns of the labels that they name."""

    by_row: ByRow
    columns: Mapping[str, labels.Column]


class TermsByRow(Generic[Term, ByRow]):
    """Results by set of terms: the sum over the keys that `key_of` returns, where True or True is True.

    `of_one_key` returns what the terms of one key come to, by row; it is told the domain of each row.
    """

    def __init__(
        self,
        key_of: Callable[[Term], str],
        of_one_key: Callable[[list[Term], node_table.Numbers], ByRow],
        nothing: Callable[[int], ByRow],
    ) -> None:
        self._key_of = key_of
        self._of_one_key = of_one_key
        self._nothing = nothing  # Returns for so many rows what no terms come to.
        self._known: dict[frozenset[Term], Result[ByRow]] = {}

    def __len__(self) -> int:
        """Count the sets of terms whose results are remembered."""
        return len(self._known)

    def get(self, terms: frozenset[Term], node_labels: labels.Labels, size: int) -> ByRow:
        """Return what these terms come to on each of so many rows; nobody may change it."""
        known = self._known.get(terms)
        if known is not None and len(known.by_row) == size and _as_before(known.columns, node_labels):
            return known.by_row
        if known is None and len(self._known) >= MOST_SETS:
            self._known.clear()
        found = self._known[terms] = self._result(terms, node_labels, size)
        return found.by_row

    def _result(self, terms: frozenset[Term], node_labels: labels.Labels, size: int) -> Result[ByRow]:
        by_key = collections.defaultdict[str, list[Term]](list)
        for term in terms:
            by_key[self._key_of(term)].append(term)
        found, keys = self._nothing(size), node_labels.keys()
        for key, some in by_key.items():
            if not key or key in keys:
                found += self._of_one_key(some, domains.of_rows(node_labels, key, size))
        return Result(found, {key: node_labels.of(key) for key in by_key if key})

    def clear(self) -> None:
        """Forget all results, because a pod that has terms came or went."""
        self._known.clear()


def _as_before(columns: Mapping[str, labels.Column], node_labels: labels.Labels) -> bool:
    # A column is made anew when any node's value has changed.
    return all(node_labels.of(key) is column for key, column in columns.items())


def of_weighted(
    index: pod_terms.TermIndex[facts.WeightedPodTerm],
) -> TermsByRow[facts.WeightedPodTerm, node_table.Numbers]:
    """Return what remembers for each row the weights of terms, as often as pods in its domains have them."""
    return TermsByRow(
        lambda one: one.term.topology_key,
        functools.partial(_weights_near, index),
        lambda size: np.zeros(size, dtype=np.int64),
    )


def of_repelling(
    index: pod_terms.TermIndex[facts.PodTerm],
) -> TermsByRow[facts.PodTerm, node_table.Mask]:
    """Return what remembers the rows in whose domains is a pod that has any of some terms."""
    return TermsByRow(
        lambda term: term.topology_key,
        lambda terms, of_rows: domains.with_any(index.rows_with_any(terms), of_rows),
        lambda size: np.zeros(size, dtype=np.bool_),
    )


def _weights_near(
    index: pod_terms.TermIndex[facts.WeightedPodTerm],
    terms: Iterable[facts.WeightedPodTerm],
    of_rows: node_table.Numbers,
) -> node_table.Numbers:
    """Return for each row the weights of terms, as often as pods in its domain have them.

    Added up for all terms before anybody looks at domains: there may be a thousand terms.
    """
    counts = [(one.weight, index.rows_and_counts(one)) for one in terms]
    weights = np.repeat([weight for weight, _ in counts], [each.shape[1] for _, each in counts])
    rows, times = np.concatenate([each for _, each in counts], axis=1)
    by_row = np.bincount(rows, weights=times * weights, minlength=len(of_rows))
    return domains.sums(by_row, of_rows)[of_rows]
