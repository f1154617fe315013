"""The available PersistentVolumes of one StorageClass, in rows: which of them would do for a kind of claims.

A pod may have 64 claims, each of another kind with 16 conditions on labels, and there may be thousands of
volumes: to ask each volume for each condition would take most of a second, and most of all where the last
condition leaves none. So the rows that have a value are kept as the bits of one number, and a condition is
compared with all volumes by a few operations on such numbers.

Of a kind that no volume fits nothing is kept: it costs little to find that out again, and whoever asks
for very many would drive out the kinds of others.
"""

import array
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling.nodes import affinity
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts
from berth_operator.scheduling.volumes.claim_kinds import ClaimKind
from berth_operator.scheduling.volumes.reach import Reach

Value = TypeVar("Value", bound=Hashable)
Rows = int  # A bit for each row.
Mask = npt.NDArray[np.bool_]  # Of rows.

MOST_KINDS: Final = 128
SIZE: Final = "q"
UNUSED: Final = -1  # The size in a row without a volume: no claim does with it.
EVERY_ROW: Final[Rows] = -1
MOST_SIZE: Final = 2**63 - 1  # Of those that fit into a column.


class Sort(NamedTuple):
    """What a volume is besides its size and its labels; there are few."""

    is_deleted: bool
    mode: str
    attributes_class: str
    access_modes: frozenset[str]

    def would_do(self, kind: ClaimKind) -> bool:
        """Whether such a volume would do for a kind, if it is large enough and selected."""
        wanted = (False, kind.mode, kind.attributes_class)
        return self[:3] == wanted and kind.access_modes <= self.access_modes


class Column(Generic[Value]):
    """One thing of volumes: which rows have which value of it.

    What one row alone has is kept as the complement of its place, which is short: each volume may have a
    value of its own.
    """

    def __init__(self) -> None:
        self._rows: dict[Value, int] = {}
        self.all: Rows = 0

    @property
    def values(self) -> Collection[Value]:
        """The values that there are."""
        return self._rows.keys()

    def put(self, row: int, value: Value) -> None:
        """Record the value of a row that has none."""
        before = self._rows.get(value)
        self._rows[value] = ~row if before is None else _bits(before) | 1 << row
        self.all |= 1 << row

    def clear(self, row: int, value: Value) -> None:
        """Forget the value of a row."""
        left = _bits(self._rows.pop(value)) ^ 1 << row
        if left:
            self._rows[value] = left if left & left - 1 else ~(left.bit_length() - 1)
        self.all ^= 1 << row

    def among(self, values: Iterable[Value]) -> Rows:
        """Return which rows have one of these values."""
        found = 0
        for one in values:
            if (rows := self._rows.get(one)) is not None:
                found |= _bits(rows)
        return found


def _bits(rows: int) -> Rows:
    return rows if rows >= 0 else 1 << ~rows


def _compared(column: Column[str], one: nodes.LabelExpression) -> Rows:
    """Return which rows have a value for which an expression holds: an API server lets claims have none."""
    return column.among(value for value in column.values if affinity.holds(one, {one.key: value}))


OPERATORS: Final[Mapping[str, Callable[[Column[str], nodes.LabelExpression], Rows]]] = {
    "In": lambda column, one: column.among(one.values),
    "NotIn": lambda column, one: ~column.among(one.values) if one.values else 0,
    "Exists": lambda column, _: column.all,
    "DoesNotExist": lambda column, _: ~column.all,
    "Gt": _compared,
    "Lt": _compared,
}


class AvailableVolumes:
    """The available volumes of one class."""

    def __init__(self) -> None:
        self._volumes: list[facts.Volume | None] = []  # By row.
        self._rows: dict[str, int] = {}  # By name.
        self._unused: list[int] = []
        self._sizes = array.array(SIZE)
        self._sorts = Column[Sort]()
        self._labels: dict[str, Column[str]] = {}  # By key.
        self.reach = Reach()
        # Until a volume comes or goes.
        self._serving: dict[ClaimKind, Mask] = {}  # The one asked for last comes last.
        self._order: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """Count the volumes."""
        return len(self._rows)

    def add(self, volume: facts.Volume) -> None:
        """Add a volume."""
        if self._unused:
            row = self._unused.pop()
        else:
            row = len(self._volumes)
            self._volumes.append(None)
            self._sizes.append(UNUSED)
        self._rows[volume.name] = row
        self._volumes[row] = volume
        self._sizes[row] = min(volume.size, MOST_SIZE)
        self._sorts.put(row, _sort(volume))
        for key, value in dict(volume.labels).items():
            self._labels.setdefault(key, Column()).put(row, value)
        self.reach.add(row, volume.affinity)
        self._changed()

    def remove(self, volume: facts.Volume) -> None:
        """Remove a volume as it was added."""
        row = self._rows.pop(volume.name)
        self._volumes[row] = None
        self._sizes[row] = UNUSED
        self._sorts.clear(row, _sort(volume))
        for key, value in dict(volume.labels).items():
            self._labels[key].clear(row, value)
            if not self._labels[key].all:
                del self._labels[key]
        self.reach.remove(row, volume.affinity)
        self._unused.append(row)
        self._changed()

    def _changed(self) -> None:
        self._order = None
        if self._serving:
            self._serving = {}

    def volume(self, row: int) -> facts.Volume:
        """Return the volume of a row that has one."""
        found = self._volumes[row]
        assert found is not None, "the row is in use"  # noqa: S101
        return found

    def without(self, names: Iterable[str]) -> Mask:
        """Return the rows but for those of these volumes."""
        mask = np.ones(len(self._volumes), dtype=np.bool_)
        mask[[row for name in names if (row := self._rows.get(name)) is not None]] = False
        return mask

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """The place of each row among all, the smallest volume first; among equal ones by name."""
        if self._order is None:
            names = np.array([one.name if one is not None else "" for one in self._volumes])
            self._order = np.empty(len(names), dtype=np.int64)
            self._order[np.lexsort((names, np.array(self._sizes)))] = np.arange(len(names))
        return self._order

    def serving(self, kind: ClaimKind) -> Mask | None:
        """Return the rows of volumes that would do for a kind; None, with little work, where none would."""
        found = self._serving.pop(kind, None)
        if found is None and (found := self._find_serving(kind)) is None:
            return None
        self._serving[kind] = found
        if len(self._serving) > MOST_KINDS:
            del self._serving[next(iter(self._serving))]
        return found

    def _find_serving(self, kind: ClaimKind) -> Mask | None:
        found = self._sorts.among(one for one in self._sorts.values if one.would_do(kind))
        for one in kind.selector.labels if kind.selector is not None else ():
            found &= self._holding(one)
        if not found:
            return None
        mask: Mask = np.array(self._sizes) >= min(kind.size, MOST_SIZE)
        mask &= _flags(found, len(mask))
        if kind.size > MOST_SIZE:
            mask[[row for row in np.flatnonzero(mask).tolist() if self.volume(row).size < kind.size]] = False
        return mask if mask.any() else None

    def _holding(self, one: nodes.LabelExpression) -> Rows:
        """Return for which rows an expression holds: all or none where no volume has the label."""
        column, test = self._labels.get(one.key), OPERATORS.get(one.operator)
        if column is not None and test is not None:
            return test(column, one)
        return EVERY_ROW if affinity.holds(one, {}) else 0


def _flags(rows: Rows, count: int) -> npt.NDArray[np.bool_]:
    """Return the bits of so many rows as an array."""
    octets = np.frombuffer(rows.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(octets, count=count, bitorder="little").view(np.bool_)


def _sort(volume: facts.Volume) -> Sort:
    return Sort(volume.is_deleted, volume.mode, volume.attributes_class, volume.access_modes)
