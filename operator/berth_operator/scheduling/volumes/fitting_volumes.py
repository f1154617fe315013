"""The available PersistentVolumes that would do for claims of one kind, by the nodes that can reach them.

There may be thousands of volumes, as one for each disk of each node, and many claims of one kind. So which
volumes would do is found once for a kind, and kept up to date; and a node finds those within its reach by its
labels, without a look at the others.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling.nodes import affinity, labels
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import claim_kinds, facts
from berth_operator.scheduling.volumes.available import AvailableVolumes, Listed, NodeLabel, one_label
from berth_operator.scheduling.volumes.claim_kinds import ClaimKind

Names = dict[str, None]
NodeNumbers = npt.NDArray[np.integer[Any]]
T = TypeVar("T", bound=Hashable)
MOST_KINDS: Final = 128
MOST_NAMES: Final = 1 << 18  # Of volumes, for all kinds together.


def reachable(volume: facts.Volume, node: nodes.Node) -> bool:
    """Whether a node can use a volume, by the node affinity of the volume."""
    return volume.affinity is None or any(affinity.term_holds(term, node) for term in volume.affinity)


class Place(NamedTuple):
    """A label or an affinity: nodes with the same number can reach the same volumes, those with 0 none."""

    numbers: NodeNumbers
    names: dict[int, Names]


class FittingVolumes:
    """The names of the volumes that would do for claims of one kind, by what they ask of nodes."""

    def __init__(self, kind: ClaimKind, serving: Iterable[Listed] = ()) -> None:
        self._kind = kind
        self._by_label: dict[str, dict[str, Names]] = {}  # By key and value.
        self._by_affinity: dict[facts.Terms | None, Names] = {}  # The others.
        self.count = 0
        for volume, label in serving:
            self._add(volume, label)

    def add(self, volume: facts.Volume) -> None:
        """Add a volume that has become available, if it would do."""
        if claim_kinds.serves(volume, self._kind):
            self._add(volume, one_label(volume.affinity) if volume.affinity is not None else None)

    def _add(self, volume: facts.Volume, label: NodeLabel | None) -> None:
        self.count += 1
        if label is None:
            self._by_affinity.setdefault(volume.affinity, {})[volume.name] = None
            return
        by_value = self._by_label.setdefault(label[0], {})
        for value in label[1]:
            by_value.setdefault(value, {})[volume.name] = None

    def remove(self, volume: facts.Volume) -> None:
        """Remove a volume that is not available any more."""
        if not claim_kinds.serves(volume, self._kind):
            return
        self.count -= 1
        label = one_label(volume.affinity) if volume.affinity is not None else None
        if label is None:
            remove_name(self._by_affinity, volume.affinity, volume.name)
            return
        by_value = self._by_label[label[0]]
        for value in label[1]:
            remove_name(by_value, value, volume.name)
        if not by_value:
            del self._by_label[label[0]]

    def names(self, node: nodes.Node) -> Iterator[str]:
        """Yield the names of the volumes that a node can reach."""
        for key, by_value in self._by_label.items():
            if (value := node.labels.get(key)) is not None:
                yield from by_value.get(value, ())
        for terms, names in self._by_affinity.items():
            if terms is None or any(affinity.term_holds(term, node) for term in terms):
                yield from names

    def places(
        self, table: labels.Labels, selected: Callable[[facts.Terms | None], NodeNumbers]
    ) -> Iterator[Place]:
        """Yield from where volumes can be reached; `selected` has 1 for each node that terms select."""
        for key, by_value in self._by_label.items():
            column = table.of(key)
            numbers = column.values
            yield Place(
                column.codes,
                {number: names for value, names in by_value.items() if (number := numbers.get(value))},
            )
        for terms, names in self._by_affinity.items():
            yield Place(selected(terms), {1: names})


def counts(places: Iterable[Place], is_free: Callable[[str], bool]) -> npt.NDArray[np.int64]:
    """Return how many free volumes each node can reach, of at least one place."""
    found: npt.NDArray[np.int64] = np.sum([_free_at(one, is_free) for one in places], axis=0)
    return found


def _free_at(place: Place, is_free: Callable[[str], bool]) -> npt.NDArray[np.int64]:
    highest = max(int(place.numbers.max(initial=0)), *place.names, 0)
    by_number = np.zeros(highest + 1, dtype=np.int64)
    for number, names in place.names.items():
        by_number[number] = sum(map(is_free, names))
    found: npt.NDArray[np.int64] = by_number[place.numbers]
    return found


def remove_name(names: dict[T, Names], key: T, name: str) -> None:
    """Remove a name from those of a key, if it is there."""
    if (found := names.get(key)) is not None:
        found.pop(name, None)
        if not found:
            del names[key]


class FittingIndex:
    """The available volumes, and those that fit the kinds of claims that were asked for last.

    Of a kind that no volume fits nothing is kept: it costs little to find that out again, and whoever asks
    for very many would drive out the kinds of others.
    """

    def __init__(self) -> None:
        self._available: dict[str, AvailableVolumes] = {}  # By class.
        self._found: dict[ClaimKind, FittingVolumes] = {}  # The one asked for last comes last.

    def of(self, kind: ClaimKind) -> FittingVolumes | None:
        """Return the available volumes that fit a kind; None if there are none."""
        if (available := self._available.get(kind.storage_class)) is None:
            return None
        found = self._found.pop(kind, None) or FittingVolumes(kind, available.serving(kind))
        if not found.count:
            return None
        self._found[kind] = found
        while len(self._found) > MOST_KINDS or (self._names > MOST_NAMES and len(self._found) > 1):
            del self._found[next(iter(self._found))]
        return found

    @property
    def _names(self) -> int:
        return sum(one.count for one in self._found.values())

    def add(self, volume: facts.Volume) -> None:
        """Add a volume that has become available."""
        self._available.setdefault(volume.storage_class, AvailableVolumes()).add(volume)
        for one in self._of_class(volume.storage_class):
            one.add(volume)

    def remove(self, volume: facts.Volume) -> None:
        """Remove a volume that was available."""
        of_class = self._available[volume.storage_class]
        of_class.remove(volume)
        if not of_class:
            del self._available[volume.storage_class]
        for one in self._of_class(volume.storage_class):
            one.remove(volume)

    def _of_class(self, storage_class: str) -> list[FittingVolumes]:
        return [one for kind, one in self._found.items() if kind.storage_class == storage_class]
