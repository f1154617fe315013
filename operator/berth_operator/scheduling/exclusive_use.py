"""What not all pods of a node can have at a time, such as a host port: on which nodes pods have it.

Only things with equal keys can be in each other's way, and whether two of them are, they say themselves.
"""

import collections
from collections.abc import Hashable, Iterable
from typing import Final, Generic, Protocol, Self, TypeVar

import numpy as np

from berth_operator.scheduling import node_table

MOST_MASKS: Final = 256


class Exclusive(Hashable, Protocol):
    """A thing of which a node has one, or one for some pods."""

    @property
    def key(self) -> Hashable:
        """What the things have in common that may be in each other's way."""

    def excludes(self, other: Self) -> bool:
        """Whether two pods of one node cannot have this one and another one with the same key."""


T = TypeVar("T", bound=Exclusive)


def conflict(wanted: Iterable[T], held: Iterable[T]) -> bool:
    """Whether a pod that has the held ones excludes any that is wanted."""
    by_key = collections.defaultdict(list)
    for one in held:
        by_key[one.key].append(one)
    return any(any(map(one.excludes, by_key.get(one.key, ()))) for one in wanted)


class ExclusiveUse(Generic[T]):
    """The things that pods have, by key and row."""

    def __init__(self) -> None:
        self._used: dict[Hashable, dict[T, collections.Counter[int]]] = {}
        self._masks: dict[T, node_table.Mask] = {}  # Since the last change.

    def change(self, row: int, things: Iterable[T], sign: int) -> None:
        """Count what a pod has as used on a row, or with sign -1 as free again."""
        self._masks.clear()
        for one in things:
            same = self._used.setdefault(one.key, {})
            rows = same.setdefault(one, collections.Counter())
            rows[row] += sign
            if not rows[row]:
                del rows[row]
            if not rows:
                del same[one]
            if not same:
                del self._used[one.key]

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
        for one, rows in self._used.get(wanted.key, {}).items():
            if wanted.excludes(one):
                mask[np.fromiter(rows, dtype=np.int64, count=len(rows))] = True
        return mask
