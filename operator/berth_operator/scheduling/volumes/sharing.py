"""On which nodes the claims of one pod get volumes that exist, all nodes at once.

Claims of several kinds may do with the same volumes, and those that choose first may leave too few for the
others (`matching`). Most nodes need no look at single volumes: where a kind reaches as many as it has claims
and others may have taken before, each of its claims gets one. Of the other nodes, those that reach the same
volumes are one case, and in each case only the smallest volumes matter: no more than there are claims.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling.nodes import labels
from berth_operator.scheduling.volumes import facts, matching
from berth_operator.scheduling.volumes.available import AvailableVolumes, Mask
from berth_operator.scheduling.volumes.reach import Numbers, Place

MOST_REMEMBERED: Final = 16  # Pods with different claims; the masks of one may take 64 bytes for each node.
NODES_AT_ONCE: Final = 256  # So that a table of what nodes reach stays small.

NodesByClaim = Mapping[facts.ClaimKey, Mask]
Counts = npt.NDArray[np.int64]


class Remembered:
    """The nodes of claims that were asked for, as long as volumes and nodes stay what they are."""

    def __init__(self) -> None:
        self._found: dict[tuple[facts.ClaimKey, ...], NodesByClaim] = {}
        self._state: tuple[object, ...] = ()

    def of(
        self, claims: Sequence[facts.Claim], state: tuple[object, ...], find: Callable[[], NodesByClaim]
    ) -> NodesByClaim:
        """Return what was found for these claims in this state of volumes and nodes, or else is found now."""
        if state != self._state:
            self._found, self._state = {}, state
        keys = tuple(claim.key for claim in claims)
        if (known := self._found.get(keys)) is not None:
            return known
        if len(self._found) >= MOST_REMEMBERED:
            self._found.clear()
        found = self._found[keys] = find()
        return found


def claims_served(
    reserved: Collection[str], groups: Sequence[matching.Group], table: labels.Labels
) -> Counts:
    """Return for each group of claims, and each node, how many of them get one of the volumes that fit.

    Those of these names are reserved for other pods.
    """
    found = np.zeros((len(groups), len(table)), dtype=np.int64)
    by_class: dict[AvailableVolumes, list[int]] = {}
    for at, group in enumerate(groups):
        if group.fitting is not None:
            by_class.setdefault(group.fitting.of_class, []).append(at)
    for of_class, some in by_class.items():
        found[some] = _Choices(of_class, [groups[at] for at in some], reserved, table).served()
    return found


class _Choices:
    """What groups of claims of one class choose one after another, by what a node reaches."""

    def __init__(
        self,
        of_class: AvailableVolumes,
        groups: Sequence[matching.Group],
        reserved: Collection[str],
        table: labels.Labels,
    ) -> None:
        self._of_class = of_class
        free = of_class.without(reserved)
        self._fits = np.array([group.fitting.rows & free for group in groups if group.fitting is not None])
        self._claims = np.array([[len(group.claims)] for group in groups])
        self._places = list(of_class.reach.places(table))

    def served(self) -> Counts:
        """Return for each group, and each node, how many claims get a volume."""
        reached = np.add.reduce([self._reached(place) for place in self._places])
        served: Counts = np.minimum(reached, self._claims)
        taken_before = np.cumsum(served, axis=0) - served  # At most: others may have chosen other volumes.
        is_short = (taken_before > 0) & (reached > 0) & (reached < self._claims + taken_before)
        short = np.flatnonzero(is_short.any(axis=0))
        if short.size:
            smallest = [self._smallest(place) for place in self._places]
            for start in range(0, len(short), NODES_AT_ONCE):
                some = short[start : start + NODES_AT_ONCE]
                numbers = np.stack([place.nodes[some] for place in self._places], axis=1)
                cases, of_node = np.unique(numbers, axis=0, return_inverse=True)
                served[:, some] = self._chosen(cases, smallest)[:, of_node.reshape(-1)]
        return served

    def _reached(self, place: Place) -> Counts:
        """Return for each group how many free volumes each node reaches by one place."""
        numbers = 1 + max(place.nodes.max(initial=0), place.numbers.max(initial=0))
        fits = self._fits[:, place.rows]
        counts = [np.bincount(place.numbers[one], minlength=numbers) for one in fits]
        found: Counts = np.stack(counts)[:, place.nodes]
        return found

    def _smallest(self, place: Place) -> Place:
        """Return of each number of a place as many of the smallest volumes as claims may choose from."""
        sorted_ = np.lexsort((self._of_class.order[place.rows], place.numbers))
        numbers, rows = place.numbers[sorted_], place.rows[sorted_]
        fits, most = self._fits[:, rows], np.cumsum(self._claims)
        kept = np.zeros(len(rows), dtype=np.bool_)
        for one, count in zip(fits, most, strict=True):
            kept |= one & (_rank(one, numbers) <= count)
        return Place(place.nodes, numbers[kept], rows[kept])

    def _chosen(self, cases: Numbers, smallest: Sequence[Place]) -> Counts:
        """Return for each group how many claims get a volume in each case: the numbers of a node."""
        found = [_pairs(place, numbers) for place, numbers in zip(smallest, cases.T, strict=True)]
        case, rows = (np.concatenate(those) for those in zip(*found, strict=True))
        sorted_ = np.lexsort((self._of_class.order[rows], case))
        case, rows = case[sorted_], rows[sorted_]
        left, served = np.ones(len(rows), dtype=np.bool_), []
        for fits, claims in zip(self._fits[:, rows], self._claims, strict=True):
            wanted = fits & left
            chosen = wanted & (_rank(wanted, case) <= claims)
            left &= ~chosen
            served.append(np.bincount(case[chosen], minlength=len(cases)))
        return np.stack(served)


def _pairs(place: Place, numbers: Numbers) -> tuple[Counts, Counts]:
    """Return what is reached with some numbers of a place: the rows, and before them whose each one is."""
    counts = np.bincount(place.numbers, minlength=int(numbers.max(initial=0)) + 1)
    count, start = counts[numbers], (np.cumsum(counts) - counts)[numbers]
    steps = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(np.arange(len(numbers)), count), place.rows[np.repeat(start, count) + steps]


def _rank(mask: Mask, segments: Numbers) -> Counts:
    """Count for each entry how many are set in its segment up to it; equal numbers are one segment."""
    begins = np.flatnonzero(np.diff(segments, prepend=-1))
    count: Counts = np.cumsum(mask)
    before: Counts = count[begins] - mask[begins]
    return count - np.repeat(before, np.diff(begins, append=len(mask)))
