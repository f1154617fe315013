"""The labels of all nodes, column by column: a long affinity costs little, however many nodes there are.

A pod may name hundreds of labels and values, and every node has to be asked. Here each
label that is asked for is read once into a column of numbers, one for each value there
is, and kept until a node's value of it changes; an expression is then a look-up in a short table. The
rules are those of `affinity`, which asks one node.
"""

import collections
import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling.nodes import affinity, facts

Mask = npt.NDArray[np.bool_]
ABSENT: Final = 0  # The number of no value.
NAME: Final = "metadata.name"  # The only field that can be asked for.


@dataclasses.dataclass(frozen=True)
class Column:
    """One label: for each node the number of its value, and what the values are."""

    codes: npt.NDArray[np.int64]
    values: Mapping[str, int]

    @functools.cached_property
    def numbers(self) -> list[int | None]:
        """The values as Kubernetes compares them, in order; None for what is no number."""
        return [affinity.number(value) for value in self.values]

    def among(self, values: Sequence[str]) -> Mask:
        """Return which nodes have one of these values."""
        return self._by_value(wanted for value in values if (wanted := self.values.get(value)))

    def compared(self, values: Sequence[str], test: Callable[[int, int], bool]) -> Mask:
        """Return which nodes have a number that compares so with the only value."""
        right = affinity.number(values[0]) if len(values) == 1 else None
        if right is None:
            return np.zeros(len(self.codes), dtype=np.bool_)
        codes = enumerate(self.numbers, start=ABSENT + 1)
        return self._by_value(code for code, left in codes if left is not None and test(left, right))

    def _by_value(self, codes: Any) -> Mask:
        table = np.zeros(len(self.values) + 1, dtype=np.bool_)
        table[list(codes)] = True
        found: Mask = table[self.codes]
        return found


def column(values: Sequence[str | None]) -> Column:
    """Number the values of one label."""
    known: dict[str, int] = {}
    codes = [ABSENT if value is None else known.setdefault(value, len(known) + 1) for value in values]
    return Column(np.array(codes, dtype=np.int64), known)


OPERATORS: Final[Mapping[str, Callable[[Column, tuple[str, ...]], Mask]]] = {
    "In": Column.among,
    "NotIn": lambda found, values: ~found.among(values) & bool(values),
    "Exists": lambda found, _: found.codes != ABSENT,
    "DoesNotExist": lambda found, _: found.codes == ABSENT,
    "Gt": lambda found, values: found.compared(values, int.__gt__),
    "Lt": lambda found, values: found.compared(values, int.__lt__),
}


class Labels:
    """Labels and names of some nodes; a place without a node matches as one without labels would."""

    def __init__(self, nodes: Sequence[facts.Node | None]) -> None:
        self.changes = 0  # Of single nodes.
        self._nodes = list(nodes)
        self._labels = [node.labels if node is not None else {} for node in nodes]
        self._uses = collections.Counter(itertools.chain.from_iterable(self._labels))  # On how many nodes.
        self._keys: frozenset[str] | None = None  # None until somebody asks.
        self._nowhere = column([None] * len(nodes))
        self._names = self._column_of_names()
        self._columns: dict[str, Column] = {}

    def _column_of_names(self) -> Column:
        return column([node.name if node is not None else None for node in self._nodes])

    def __len__(self) -> int:
        """Count the places for nodes."""
        return len(self._nodes)

    def put(self, at: int, node: facts.Node | None) -> None:
        """Replace a node; the columns of labels that are as they were stay."""
        self.changes += 1
        before, after = self._labels[at], node.labels if node is not None else {}
        for key in before.keys() | after.keys():
            if before.get(key) != after.get(key):
                self._columns.pop(key, None)
        self._uses.update(after.keys())
        self._uses.subtract(before.keys())
        for key in before.keys() - after.keys():
            if not self._uses[key]:
                del self._uses[key]
        if before.keys() != after.keys():
            self._keys = None
        self._labels[at], was = after, self._nodes[at]
        self._nodes[at] = node
        if (was.name if was is not None else None) != (node.name if node is not None else None):
            self._names = self._column_of_names()

    def keys(self) -> frozenset[str]:
        """Return the labels that the nodes have."""
        if self._keys is None:
            self._keys = frozenset(self._uses)
        return self._keys

    def of(self, key: str) -> Column:
        """Return the column of a label."""
        if key not in self._uses:
            return self._nowhere  # And it is not kept: pods may name any.
        if key not in self._columns:
            self._columns[key] = column([labels.get(key) for labels in self._labels])
        return self._columns[key]

    def matching(self, node_selection: facts.NodeSelection) -> Mask:
        """Return which nodes the selector and required affinity of a pod accept."""
        found = np.ones(len(self._labels), dtype=np.bool_)
        for key, value in node_selection.selector:
            found &= self.of(key).among((value,))
        if node_selection.affinity is None:
            return found
        any_term = np.zeros(len(self._labels), dtype=np.bool_)
        for term in node_selection.affinity:
            any_term |= self.accepted(term)
        return found & any_term

    def accepted(self, term: facts.Term) -> Mask:
        """Return which nodes a term accepts; an empty one accepts none."""
        found = np.full(len(self._labels), bool(term.labels or term.fields))
        for one in term.labels:
            found &= _holds(one, self.of(one.key))
        for one in term.fields:
            found &= _holds(one, self._names if one.key == NAME else self._nowhere)
        return found


def _holds(condition: facts.LabelExpression, column_: Column) -> Mask:
    test = OPERATORS.get(condition.operator)
    return test(column_, condition.values) if test else np.zeros(len(column_.codes), dtype=np.bool_)
