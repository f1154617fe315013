"""The numbers of the inventory: one row for each node, one slot for each card of it.

Numpy tables that grow by doubling and keep a log of which rows changed, so that a result
computed for all rows can be brought up to date by computing a few. The inventory writes
the numbers of a row together; nothing here knows what they mean to a decision. The column
of a name that no row uses any more is given to the next name, so that names that come and
go do not fill the tables.
"""

import collections
import sys
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling import delivery_methods
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.nodes import facts

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Counts = npt.NDArray[np.int32]  # Half as long: of these, thousands of arrays are remembered.
Scores = npt.NDArray[np.float64]
Rows = Numbers | slice  # Some rows by number, or all of them, which costs no copy.

ABSENT: Final = -1  # A resource that the node does not advertise: less than any demand.
BASE: Final = (facts.CPU, facts.MEMORY, facts.PODS)
MOST_RESOURCES: Final = 1024  # Of all nodes at one time; what a node has beyond that does not count.
MOST_KINDS: Final = 512  # Of MIG profiles, and of types of other devices.
ROWS: Final = 16
SLOTS: Final = 8
LOG_KEPT: Final = 1 << 16
# Of replicas, and of each profile and type: what is left, what is well, and all there is, used or not;
# and the first trouble of those that are not well, as a number of TROUBLES.
PIECE_COUNTS: Final = ("", "_well", "_in_all", "_trouble")
REPLICA_TABLES: Final = tuple(f"replicas{one}" for one in PIECE_COUNTS)
INSTANCE_TABLES: Final = tuple(f"instances{one}" for one in PIECE_COUNTS)
OTHER_COUNTS: Final = tuple(f"others{one}" for one in PIECE_COUNTS)
OTHER_TABLES: Final = (*OTHER_COUNTS, "others_free")  # And how many percent are left of all that are well.
RESOURCE_TABLES: Final = ("allocatable", "left")
CARD_TABLES: Final = (
    "core",
    "excess",
    "memory",
    "ratio",
    "space",
    "total",
    "in_service",
    "unused",
    "trouble",
)
# What was measured of each card: percents, and its free memory in bytes; ABSENT where nothing counts.
LOAD_TABLES: Final = ("utilization", "encoder", "decoder", "power", "measured_free")

# Why a node gives out no device at all, and why a card is not given out; 0 where it is.
NO_DEVICES_REASONS: Final = (
    None,
    Reason.NOT_PUBLISHED,
    Reason.NO_DEVICE,
    Reason.SILENT,
    Reason.SOURCE_FAILED,
    Reason.QUARANTINED,
)
TROUBLES: Final = (
    None,
    Reason.UNHEALTHY,
    Reason.CARD_CORDONED,
    Reason.OCCUPIED,
    Reason.DUPLICATE_UUID,
    Reason.INVALID_ALLOCATION,
    Reason.MIG_MODE,
    Reason.SHARING_MODE,
)
# Of these, the modes in which a card is given out neither whole nor by shares, however little it is used.
MODES: Final = (Reason.MIG_MODE, Reason.SHARING_MODE)


ANY_SIZE: Final = -1  # Each bit is set.
FULL_CORE: Final = 100  # Percent.


class RowLog:
    """Which rows changed, so that what was computed of them can be brought up to date."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._start = 0  # The version of the first entry: those before it were dropped.

    @property
    def version(self) -> int:
        """How many changes there have been."""
        return self._start + len(self._rows)

    def touch(self, at: int) -> None:
        """Record that a row changed."""
        self._rows.append(at)
        if len(self._rows) > LOG_KEPT:
            self._start += len(self._rows)
            self._rows.clear()

    def since(self, version: int) -> list[int] | None:
        """Return the rows that changed since; None if that is too long ago to know."""
        at = version - self._start
        return None if at < 0 else self._rows[at:]


class Names:
    """Numbers for the names that rows use now, `most` of them; `known` ones are always there."""

    def __init__(self, *known: str, most: int = sys.maxsize) -> None:
        self.of: dict[str, int] = {name: at for at, name in enumerate(known)}
        self._most = most
        self._users = collections.Counter(known)  # One use of each that never ends.
        self._had: dict[int, frozenset[str]] = {}  # By row.
        self._vacant: list[int] = []
        self._listed: tuple[str, ...] | None = None

    def __len__(self) -> int:
        """Count the names."""
        return len(self.of)

    def get(self, name: str) -> int | None:
        """Return the number of a name."""
        return self.of.get(name)

    @property
    def width(self) -> int:
        """One more than the highest number that was ever given."""
        return len(self.of) + len(self._vacant)

    @property
    def listed(self) -> tuple[str, ...]:
        """All names by their numbers; an empty one where no row uses the number."""
        if self._listed is None:
            names = [""] * self.width
            for name, at in self.of.items():
                names[at] = name
            self._listed = tuple(names)
        return self._listed

    def users(self) -> Iterable[tuple[str, int]]:
        """Return each name with the number of rows that use it."""
        return self._users.items()

    def use(self, row: int, names: Iterable[str]) -> bool:
        """Record all names that a row uses now; return whether they differ from those before.

        The row's numbers under the names that it used must have been cleared before.
        """
        before, now = self._had.pop(row, frozenset()), frozenset(names)
        for name in sorted(before - now):
            self._leave(name)
        had = before & now | {name for name in sorted(now - before) if self._take(name)}
        if had:
            self._had[row] = had
        return had != before

    def _take(self, name: str) -> bool:
        if name not in self.of:
            if len(self.of) >= self._most:
                return False
            self.of[name] = self._vacant.pop() if self._vacant else len(self.of)
            self._listed = None
        self._users[name] += 1
        return True

    def _leave(self, name: str) -> None:
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name]
            self._vacant.append(self.of.pop(name))
            self._listed = None


# Matrices are laid out slot by slot: a sum over the few cards of each of many nodes then is a
# handful of sums over long columns, which takes an eighth of the time.


def _matrix(slots: int, *, fill: int = 0) -> Numbers:
    return np.full((ROWS, slots), fill, dtype=np.int64, order="F")


def _mask(slots: int) -> Mask:
    return np.zeros((ROWS, slots), dtype=np.bool_, order="F")


def _grown(
    table: npt.NDArray[np.generic], *, rows: int = 0, slots: int = 0, fill: int = 0
) -> npt.NDArray[Any]:
    """Copy a matrix into a larger one, in the same layout."""
    high, wide = table.shape
    larger: npt.NDArray[Any] = np.full((high + rows, wide + slots), fill, dtype=table.dtype, order="F")
    larger[:high, :wide] = table
    return larger


def count(cards: Mask) -> Numbers:
    """Count for each node the cards that a mask names."""
    counts: Numbers = np.add.reduce(cards, axis=1, dtype=np.uint8).astype(np.int64)
    return counts


def total(numbers: Numbers) -> Numbers:
    """Add up for each node the numbers of its cards."""
    sums: Numbers = np.add.reduce(numbers, axis=1)
    return sums


def gather(values: npt.NDArray[Any], numbers: Numbers) -> npt.NDArray[Any]:
    """Look a value up for each number of a matrix, column by column."""
    return values.take(numbers.T).T


def known_of(names: Names, name: str, table: Numbers, rows: Rows) -> Numbers:
    """Return the numbers under a name; zeros under a name that no row uses."""
    at = names.get(name)
    found: Numbers = table[:, at][rows] if at is not None else np.zeros(len(table), dtype=np.int64)[rows]
    return found


class NodeTable:
    """All tables, and the log of changes."""

    any_excess = False  # Whether an excess of core was ever written.

    def __init__(self) -> None:
        self.resources = Names(*BASE, most=MOST_RESOURCES)
        self.models = Names()
        self.profiles = Names(most=MOST_KINDS)
        self.types = Names(most=MOST_KINDS)
        self.gpu_units = Names("")
        # Of each node: what it can give and what is left of that, by resource; less than nothing may be.
        self.has_node: Mask = np.zeros(ROWS, dtype=np.bool_)  # Whether the row has a Node object.
        self.allocatable: Numbers = _matrix(len(self.resources), fill=ABSENT)
        self.left: Numbers = _matrix(len(self.resources), fill=ABSENT)
        # Of each card: what is left of it for pods that may share it; nothing of one out of service.
        # And of its core so much more than all of it is promised, as `excess`.
        self.core, self.excess = _matrix(SLOTS), _matrix(SLOTS)
        self.memory: Numbers = _matrix(SLOTS)
        self.ratio: Numbers = _matrix(SLOTS)  # The largest share of its memory that it would still give.
        self.space: Numbers = _matrix(SLOTS)  # The scarcer of core and memory, in percent.
        self.total: Numbers = _matrix(SLOTS)
        self.in_service: Mask = _mask(SLOTS)
        self.unused: Mask = _mask(SLOTS)
        self.model: Numbers = _matrix(SLOTS, fill=ABSENT)
        self.trouble: Numbers = _matrix(SLOTS)
        # Of each node: why none of its devices is given out, as an index of NO_DEVICES_REASONS.
        self.state: Numbers = np.ones(ROWS, dtype=np.int64)
        # Of each node: whether a container may get one replica at most.
        self.one_replica_each: Mask = np.zeros(ROWS, dtype=np.bool_)
        # Of each node: the methods by which its containers get their cards (`delivery_methods`).
        self.delivery: Numbers = np.full(ROWS, delivery_methods.ALL, dtype=np.int64)
        # Of each node: what nvidia.com/gpu asks for there, as a number of `gpu_units`; 0 is a whole card.
        self.gpu_unit: Numbers = np.zeros(ROWS, dtype=np.int64)
        # Of each node: of which sizes a partition is free, as bits; all where any cards are given.
        self.partition_sizes: Numbers = np.full(ROWS, ANY_SIZE, dtype=np.int64)
        self.honoring: set[int] = set()  # The rows of nodes that give whole cards in partitions only.
        # Of each node: cards withheld without a name.
        self.withheld: Numbers = np.zeros(ROWS, dtype=np.int64)
        self._make_pools()
        # Of each card: what was measured of it lately.
        self.utilization, self.encoder, self.decoder, self.power, self.measured_free = (
            _matrix(SLOTS, fill=ABSENT) for _ in LOAD_TABLES
        )
        self.log = RowLog()
        self.touch = self.log.touch
        # Of the load alone, which few pods ask about: it changes all the time.
        self.load_log = RowLog()

    def _make_pools(self) -> None:
        """Make the tables of what is given out in pieces."""
        # Of each node, the pools: replicas, MIG instances by profile, other devices by type.
        self.replicas, self.replicas_well, self.replicas_in_all, self.replicas_trouble = (
            np.zeros(ROWS, dtype=np.int64) for _ in PIECE_COUNTS
        )
        self.instances, self.instances_well, self.instances_in_all, self.instances_trouble = (
            _matrix(1) for _ in PIECE_COUNTS
        )
        self.others, self.others_well, self.others_in_all, self.others_trouble, self.others_free = (
            _matrix(1) for _ in OTHER_TABLES
        )
        # Of each node: what is left of the memory of cards that are given out in pieces.
        self.pieces_memory: Numbers = np.zeros(ROWS, dtype=np.int64)

    # ------------------------------------------------------------ reading

    @property
    def version(self) -> int:
        """How many changes there have been, but for those of the load."""
        return self.log.version

    def free_memory(self, rows: Rows) -> Numbers:
        """Return what of each card's memory is not promised, nor in use as far as that was measured."""
        measured, left = self.measured_free[rows], self.memory[rows]
        free: Numbers = np.where(measured == ABSENT, left, np.minimum(left, measured))
        return free

    def free_memory_of_all(self, rows: Rows) -> Numbers:
        """Return likewise; of cards that are given out in pieces what was measured, else all they have."""
        measured = self.measured_free[rows]
        in_pieces = np.where(measured == ABSENT, self.total[rows], measured)
        return np.where(self.in_service[rows], self.free_memory(rows), in_pieces)

    def core_up_to(self, limit: int, rows: Rows) -> Numbers:
        """Return what is left of each card's core for a pod that is content with so much promised in all."""
        core = self.core[rows]
        if limit == FULL_CORE:
            return core
        more: Numbers = np.maximum(core + (limit - FULL_CORE) - self.excess[rows], 0)
        return np.where(self.in_service[rows] & (self.memory[rows] > 0), more, core)

    def row_count(self, rows: Rows) -> int:
        """Return how many rows these are."""
        return len(self.has_node[rows])

    # ------------------------------------------------------------ growing

    def reserve_rows(self, count: int) -> None:
        """Make room for so many rows."""
        while count > len(self.has_node):
            more = len(self.has_node)
            for name in (
                "has_node",
                "withheld",
                "gpu_unit",
                "one_replica_each",
                "pieces_memory",
                *REPLICA_TABLES,
            ):
                setattr(self, name, np.pad(getattr(self, name), (0, more)))
            self.state = np.pad(self.state, (0, more), constant_values=1)  # No device yet.
            self.partition_sizes = np.pad(self.partition_sizes, (0, more), constant_values=ANY_SIZE)
            self.delivery = np.pad(self.delivery, (0, more), constant_values=int(delivery_methods.ALL))
            for name in (*CARD_TABLES, *INSTANCE_TABLES, *OTHER_TABLES):
                setattr(self, name, _grown(getattr(self, name), rows=more))
            for name in ("allocatable", "left", "model", *LOAD_TABLES):
                setattr(self, name, _grown(getattr(self, name), rows=more, fill=ABSENT))

    def reserve_slots(self, count: int) -> None:
        """Make room for so many cards on a node."""
        more = count - self.core.shape[1]
        if more > 0:
            for name in CARD_TABLES:
                setattr(self, name, _grown(getattr(self, name), slots=more))
            for name in ("model", *LOAD_TABLES):
                setattr(self, name, _grown(getattr(self, name), slots=more, fill=ABSENT))

    def use_resources(self, at: int, names: Iterable[str]) -> None:
        """Make columns for all resources that a row has now; too many others may leave none for some."""
        if self.resources.use(at, names):
            self._widen(RESOURCE_TABLES, self.resources.width, fill=ABSENT)

    def use_kinds(self, at: int, *, profiles: Iterable[str], types: Iterable[str]) -> None:
        """Likewise for the MIG profiles and the types of other devices that a row has now."""
        if self.profiles.use(at, profiles):
            self._widen(INSTANCE_TABLES, self.profiles.width)
        if self.types.use(at, types):
            self._widen(OTHER_TABLES, self.types.width)

    def use_gpu_unit(self, at: int, unit: str) -> None:
        """Record what nvidia.com/gpu asks for on a row's node."""
        self.gpu_units.use(at, [unit] if unit else [])
        self.gpu_unit[at] = self.gpu_units.of[unit]

    def _widen(self, tables: tuple[str, ...], count: int, *, fill: int = 0) -> None:
        """Make room for so many columns; all that are made at once are made for many."""
        for name in tables:
            table = getattr(self, name)
            wide = table.shape[1]
            if count > wide:
                setattr(self, name, _grown(table, slots=max(count - wide, wide), fill=fill))

    # ------------------------------------------------------------ emptying

    def clear_cards(self, at: int) -> None:
        """Remove all cards from a row."""
        for name in (*CARD_TABLES, *REPLICA_TABLES, *INSTANCE_TABLES, *OTHER_TABLES):
            getattr(self, name)[at] = 0
        for name in ("model", *LOAD_TABLES):
            getattr(self, name)[at] = ABSENT
        self.pieces_memory[at] = 0

    def clear(self, at: int) -> None:
        """Empty a row for its next node."""
        self.clear_cards(at)
        self.has_node[at] = False
        self.allocatable[at] = self.left[at] = ABSENT
        self.withheld[at] = 0
        self.allow_partitions(at, None)

    def allow_partitions(self, at: int, sizes: int | None) -> None:
        """Record of which sizes a row's node has a free partition, or with None that it gives any cards."""
        if sizes is None:
            self.honoring.discard(at)
            self.partition_sizes[at] = ANY_SIZE
        else:
            self.honoring.add(at)
            self.partition_sizes[at] = sizes
