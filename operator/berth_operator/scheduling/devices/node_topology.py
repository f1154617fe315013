"""How the cards of a node are wired, as numbers that many nodes share.

Cards are spoken of by slot, their place in the order of minors. A topology says for each pair of slots how
well they are connected, which slots share a scope, and which groups form a partition of the NVLink fabric. It
says nothing of who holds what: that comes in as a mask of slots. Topologies are values, so five thousand
equal nodes share one, and what was worked out for one of them serves all. What is remembered of a topology
(`remembered`) does not keep it in memory: it lasts as long as a Device that has it.
"""

import dataclasses
import functools
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, ParamSpec, TypeVar, cast

from berth_crds import link_worths
from berth_crds.vocabulary import Scope

INTACT_WEIGHTS: Final = ((8, 10_000), (4, 100), (2, 1))  # By the size of a partition.


@dataclasses.dataclass(frozen=True, slots=True)
class Partition:
    """Slots that form one partition of the fabric, as a mask, how good it is, and its bandwidth if known."""

    mask: int
    score: int = 0
    bandwidth: int = 0

    @property
    def size(self) -> int:
        """How many cards it joins."""
        return self.mask.bit_count()


@dataclasses.dataclass(frozen=True)
class NodeTopology:
    """How the cards of a node are wired: worth of each pair, groups of each scope, partitions.

    `tangled` tells that links and partitions were published and are left out, because no hardware is
    wired like that (see `nvlink_cliques`). `by_model` tells that nobody published the partitions: they are
    those that topologies of the model have, and prove nothing about NVLink.
    """

    size: int
    worth: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[Scope, tuple[int, ...]], ...] = ()
    partitions: tuple[Partition, ...] = ()
    tangled: bool = False
    by_model: bool = False

    def __hash__(self) -> int:
        """Answer from memory: topologies are keys of every table of remembered choices."""
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.size, self.worth, self.groups, self.partitions))

    def scope(self, scope: Scope) -> tuple[int, ...]:
        """Return the groups of slots that share a scope, as masks; the node itself is one group."""
        if scope is Scope.NODE:
            return ((1 << self.size) - 1,)
        return next((masks for name, masks in self.groups if name is scope), ())

    @functools.cached_property
    def uniform(self) -> bool:
        """Whether every pair is connected equally well, so that no choice is better than another."""
        return len({self.worth[a][b] for a in range(self.size) for b in range(a)}) <= 1

    @functools.cached_property
    def sizes(self) -> frozenset[int]:
        """The sizes of set that the partition table covers."""
        return frozenset(part.size for part in self.partitions)

    @functools.cached_property
    def best_of_size(self) -> Mapping[int, tuple[Partition, ...]]:
        """The partitions of each size that have its best score, in the order of the table."""
        top: dict[int, int] = {}
        for part in self.partitions:
            top[part.size] = max(top.get(part.size, 0), part.score)
        return {
            size: tuple(part for part in self.partitions if (part.size, part.score) == (size, score))
            for size, score in top.items()
        }

    def intact(self, mask: int, count: int) -> int:
        """Return what the large partitions of at least `count` cards are worth that are wholly in a mask.

        The weights are those of Koordinator, as is counting only the best of each size.
        """
        return sum(
            weight * part.score
            for size, weight in INTACT_WEIGHTS
            if size >= count
            for part in self.best_of_size.get(size, ())
            if part.mask & mask == part.mask
        )

    @functools.cached_property
    def peers(self) -> tuple[int, ...]:
        """For each slot, those surely joined to it by NVLink: by a link, or by a partition of both."""
        joined = [
            mask_of(b for b, worth in enumerate(row) if worth >= link_worths.NVLINK) for row in self.worth
        ]
        for part in () if self.by_model else self.partitions:
            for at in slots(part.mask & (1 << self.size) - 1):
                joined[at] |= part.mask
        return tuple(mask & ~(1 << at) for at, mask in enumerate(joined))

    def within(self, mask: int) -> int:
        """Add up the worth of all pairs inside a set; slots of which nothing is known add nothing."""
        chosen = slots(mask & (1 << self.size) - 1)
        return sum(self.worth[a][b] for at, a in enumerate(chosen) for b in chosen[:at])

    def wholeness(self, mask: int) -> int:
        """Return what a set of free slots is worth to those who come later: larger whole partitions first."""
        if self.partitions:
            return sum(value for part, value in self._values if part & mask == part)
        return self.within(mask)

    @functools.cached_property
    def ranks(self) -> tuple[tuple[Partition, ...], ...]:
        """The partitions of more than one card, by size: one of a rank outweighs all of the later ranks."""
        found: dict[int, list[Partition]] = {}
        for part in self.partitions:
            if part.size > 1:
                found.setdefault(part.size.bit_length(), []).append(part)
        return tuple(tuple(found[rank]) for rank in sorted(found, reverse=True))

    @functools.cached_property
    def _values(self) -> tuple[tuple[int, int], ...]:
        """The worth of each partition: one of a larger size outweighs all smaller ones together."""
        base = 1 + sum(1 + part.score for part in self.partitions)
        return tuple(
            (part.mask, base ** part.size.bit_length() * (1 + part.score))
            for part in self.partitions
            if part.size > 1
        )


LOOSE: Final = NodeTopology(0, ())  # Nothing is known of the wiring.


@functools.lru_cache(maxsize=1 << 13)
def slots(mask: int) -> tuple[int, ...]:
    """List the slots of a mask, lowest first."""
    return tuple(at for at in range(mask.bit_length()) if mask >> at & 1)


def mask_of(chosen: Iterable[int]) -> int:
    """Make a mask of slots."""
    return functools.reduce(lambda mask, at: mask | 1 << at, chosen, 0)


# ---------------------------------------------------------------- what is remembered of topologies

Asked = ParamSpec("Asked")
Told = TypeVar("Told")


def remembered(most: int) -> Callable[[Callable[Asked, Told]], Callable[Asked, Told]]:
    """Return what remembers so many answers of a function whose first argument is a topology.

    It holds the topology weakly: so irregular ones that are published one after the other fill no memory.
    """

    def wrap(function: Callable[Asked, Told]) -> Callable[Asked, Told]:
        @functools.lru_cache(maxsize=most)
        def known(topology: weakref.ref[NodeTopology], *others: Hashable) -> Told:
            return cast("Callable[..., Told]", function)(topology(), *others)

        @functools.wraps(function)
        def asked(topology: NodeTopology, *others: Hashable) -> Told:
            return known(weakref.ref(topology), *others)

        return cast("Callable[Asked, Told]", asked)

    return wrap
