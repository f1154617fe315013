"""The available PersistentVolumes of one StorageClass, in rows: which of them would do for a kind of claims.

A pod may have 64 claims, each of another kind with 16 conditions on labels, and there may be thousands of
volumes: to ask each volume for each condition would take most of a second, and most of all where the last
condition leaves none. So the rows that have a value are kept as the bits of one number, and a condition is
compared with all volumes by a few operations on such numbers.
"""

import array
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling.nodes import affinity
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts
from berth_operator.scheduling.volumes.claim_kinds import ClaimKind

Value = TypeVar("Value", bound=Hashable)
Rows = int  # A bit for each row.
NodeLabel = tuple[str, tuple[str, ...]]  # A label of nodes, and values of it.

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


class Listed(NamedTuple):
    """An available volume; `label` is the label by which a node reaches it, if it is one alone."""

    volume: facts.Volume
    label: NodeLabel | None


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
        self._listed: list[Listed | None] = []  # By row.
        self._rows: dict[str, int] = {}  # By name.
        self._unused: list[int] = []
        self._sizes = array.array(SIZE)
        self._sorts = Column[Sort]()
        self._labels: dict[str, Column[str]] = {}  # By key.

    def __len__(self) -> int:
        """Count the volumes."""
        return len(self._rows)

    def add(self, volume: facts.Volume) -> None:
        """Add a volume."""
        if self._unused:
            row = self._unused.pop()
        else:
            row = len(self._listed)
            self._listed.append(None)
            self._sizes.append(UNUSED)
        self._rows[volume.name] = row
        label = one_label(volume.affinity) if volume.affinity is not None else None
        self._listed[row] = Listed(volume, label)
        self._sizes[row] = min(volume.size, MOST_SIZE)
        self._sorts.put(row, _sort(volume))
        for key, value in dict(volume.labels).items():
            self._labels.setdefault(key, Column()).put(row, value)

    def remove(self, volume: facts.Volume) -> None:
        """Remove a volume as it was added."""
        row = self._rows.pop(volume.name)
        self._listed[row] = None
        self._sizes[row] = UNUSED
        self._sorts.clear(row, _sort(volume))
        for key, value in dict(volume.labels).items():
            self._labels[key].clear(row, value)
            if not self._labels[key].all:
                del self._labels[key]
        self._unused.append(row)

    def serving(self, kind: ClaimKind) -> Iterator[Listed]:
        """Yield the volumes that would do for a kind; with little work where none would."""
        found = self._sorts.among(one for one in self._sorts.values if one.would_do(kind))
        for one in kind.selector.labels if kind.selector is not None else ():
            found &= self._holding(one)
        if not found:
            return
        large = np.asarray(self._sizes) >= min(kind.size, MOST_SIZE)
        for row in np.flatnonzero(_flags(found, len(large)) & large).tolist():
            listed = self._listed[row]
            if listed is not None and listed.volume.size >= kind.size:
                yield listed

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


def one_label(terms: facts.Terms) -> NodeLabel | None:
    """Return of which label a node needs which values to meet any of these terms; None if it needs more."""
    values: dict[str, None] = {}
    keys = set[str]()
    for term in terms:
        if len(term.labels) != 1 or term.fields or term.labels[0].operator != "In":
            return None
        keys.add(term.labels[0].key)
        values |= dict.fromkeys(term.labels[0].values)
    return (keys.pop(), tuple(values)) if len(keys) == 1 else None
