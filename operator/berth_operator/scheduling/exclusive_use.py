"""What not all pods of a node can have at a time, such as a host port: on which nodes pods have it.

Each thing says which marks it leaves, and which marks of other pods exclude it. So pods are compared by
looking up marks, however many things they have: a pod may have a thousand ports of one number, and there may
be thousands of pods.
"""

from collections.abc import Collection, Hashable, Iterable
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from berth_operator.scheduling import node_table

MOST_MASKS: Final = 256


class Exclusive(Hashable, Protocol):
    """A thing of which a node has one, or one for some pods."""

    @property
    def marks(self) -> Collection[Hashable]:
        """What it leaves on the node of a pod that has it."""

    @property
    def excluded_by(self) -> Collection[Hashable]:
        """The marks with which no other pod of the node can have it."""


T = TypeVar("T", bound=Exclusive)


def conflict(wanted: Iterable[T], held: Iterable[T]) -> bool:
    """Whether a pod that has the held ones excludes any that is wanted."""
    excluding = {mark for one in wanted for mark in one.excluded_by}
    return any(not excluding.isdisjoint(one.marks) for one in held)


class ExclusiveUse(Generic[T]):
    """The things that pods have, by their marks and by row."""

    def __init__(self) -> None:
        self._used: dict[Hashable, dict[int, int]] = {}  # By mark and row, how often it is there.
        self._masks: dict[T, node_table.Mask] = {}  # Since the last change.

    def change(self, row: int, things: Iterable[T], sign: int) -> None:
        """Count what a pod has as used on a row, or with sign -1 as free again."""
        self._masks.clear()
        used = self._used
        for one in things:
            for mark in one.marks:
                if (rows := used.get(mark)) is None:
                    rows = used[mark] = {}
                if count := rows.get(row, 0) + sign:
                    rows[row] = count
                else:
                    del rows[row]
                    if not rows:
                        del used[mark]

    def count(self, mark: Hashable, row: int) -> int:
        """Return how often a mark is on a row."""
        rows = self._used.get(mark)
        return rows.get(row, 0) if rows is not None else 0

    def taken(self, wanted: T, size: int) -> node_table.Mask:
        """Return on which of so many rows a pod has what excludes this."""
        if (mask := self._masks.get(wanted)) is None or len(mask) != size:
            if len(self._masks) >= MOST_MASKS:
                self._masks.clear()
            mask = self._masks[wanted] = self._taken(wanted, size)
        return mask

    def free(self, wanted: Iterable[T], size: int) -> node_table.Mask:
        """Return on which of so many rows no pod has what excludes any of these."""
        mask = np.ones(size, dtype=np.bool_)
        for one in wanted:
            mask &= ~self.taken(one, size)
        return mask

    def _taken(self, wanted: T, size: int) -> node_table.Mask:
        mask = np.zeros(size, dtype=np.bool_)
        for mark in wanted.excluded_by:
            if rows := self._used.get(mark):
                mask[np.fromiter(rows, dtype=np.int64, count=len(rows))] = True
        return mask
