"""From which nodes volumes can be reached.

There may be thousands of volumes, as one for each disk of each node. Most are reached by one label of the
node. So a node finds those within its reach by its labels, without a look at the others.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling.nodes import affinity, labels
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts

Rows = dict[int, None]
Numbers = npt.NDArray[np.integer[Any]]


def reachable(volume: facts.Volume, node: nodes.Node) -> bool:
    """Whether a node can use a volume, by the node affinity of the volume."""
    return volume.affinity is None or any(affinity.term_holds(term, node) for term in volume.affinity)


class Place(NamedTuple):
    """A label or an affinity: a node reaches the rows that have its own number; with 0 none."""

    nodes: Numbers  # The number of each node.
    numbers: Numbers  # And of each row, in the same order as `rows`; a row may be there with several.
    rows: Numbers


class Reach:
    """The rows of volumes, by what they ask of nodes."""

    def __init__(self) -> None:
        self._by_label: dict[str, dict[str, Rows]] = {}  # By key and value.
        self._by_affinity: dict[facts.Terms | None, Rows] = {}  # The others.

    def add(self, row: int, terms: facts.Terms | None) -> None:
        """Add the row of a volume with this node affinity."""
        if (label := one_label(terms)) is None:
            self._by_affinity.setdefault(terms, {})[row] = None
            return
        by_value = self._by_label.setdefault(label[0], {})
        for value in label[1]:
            by_value.setdefault(value, {})[row] = None

    def remove(self, row: int, terms: facts.Terms | None) -> None:
        """Remove a row as it was added."""
        if (label := one_label(terms)) is None:
            _remove(self._by_affinity, terms, row)
            return
        by_value = self._by_label[label[0]]
        for value in label[1]:
            _remove(by_value, value, row)
        if not by_value:
            del self._by_label[label[0]]

    def of_node(self, node: nodes.Node) -> Iterator[int]:
        """Yield the rows that a node reaches."""
        for key, by_value in self._by_label.items():
            if (value := node.labels.get(key)) is not None:
                yield from by_value.get(value, ())
        for terms, rows in self._by_affinity.items():
            if terms is None or any(affinity.term_holds(term, node) for term in terms):
                yield from rows

    def places(self, table: labels.Labels) -> Iterator[Place]:
        """Yield from where rows can be reached by the nodes of a table."""
        for key, by_value in self._by_label.items():
            column = table.of(key)
            found = ((column.values.get(value), rows) for value, rows in by_value.items())
            yield _place(column.codes, [(number, rows) for number, rows in found if number is not None])
        for terms, rows in self._by_affinity.items():
            selected = table.matching(nodes.NodeSelection(affinity=terms))
            yield _place(selected.view(np.int8), [(1, rows)])


def _place(of_nodes: Numbers, rows_by_number: list[tuple[int, Rows]]) -> Place:
    counts = [len(rows) for _, rows in rows_by_number]
    numbers = np.repeat(np.array([number for number, _ in rows_by_number], dtype=np.int64), counts)
    every = itertools.chain.from_iterable(rows for _, rows in rows_by_number)
    return Place(of_nodes, numbers, np.fromiter(every, dtype=np.int64, count=len(numbers)))


def _remove(found: dict[Any, Rows], key: Any, row: int) -> None:
    del found[key][row]
    if not found[key]:
        del found[key]


def one_label(terms: facts.Terms | None) -> tuple[str, tuple[str, ...]] | None:
    """Return of which label a node needs which values to meet any of these terms; None if it needs more."""
    values: dict[str, None] = {}
    keys = set[str]()
    for term in terms or ():
        if len(term.labels) != 1 or term.fields or term.labels[0].operator != "In":
            return None
        keys.add(term.labels[0].key)
        values |= dict.fromkeys(term.labels[0].values)
    return (keys.pop(), tuple(values)) if len(keys) == 1 else None
