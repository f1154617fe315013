"""On which nodes the claims of one pod get volumes that exist, all nodes at once.

Claims of several kinds may do with the same volumes, and those that choose first may leave too few for the
others (`matching`). Most nodes need no look at single volumes: where a kind reaches as many as it has claims
and others may have taken before, each of its claims gets one. Of the other nodes, those that reach the same
volumes are one case, and in each case only the smallest volumes matter: no more than there are claims.
"""

import functools
import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.nodes import labels
from berth_operator.scheduling.volumes import facts, fitting_volumes, matching

MOST_REMEMBERED: Final = 16  # Pods with different claims; the masks of one may take 64 bytes for each node.
NODES_AT_ONCE: Final = 256  # So that a table of what nodes reach stays small.

NodesByClaim = Mapping[facts.ClaimKey, npt.NDArray[np.bool_]]
Case = tuple[tuple[int, int], ...]  # The places that a node reaches, and its number in each of them.


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


class FreeVolumes(Protocol):
    """Where it is looked up which volumes are free."""

    def is_free(self, name: str) -> bool:
        """Return whether a volume is reserved for no pod."""

    def free_volume(self, name: str) -> facts.Volume | None:
        """Return a volume, if it is reserved for no pod."""


def claims_served(
    known: FreeVolumes, groups: Sequence[matching.Group], table: labels.Labels
) -> npt.NDArray[np.int64]:
    """Return for each group of claims, and each node, how many of them get one of the volumes that fit."""

    @functools.cache
    def selected(terms: facts.Terms | None) -> fitting_volumes.NodeNumbers:
        return table.matching(nodes.NodeSelection(affinity=terms)).view(np.int8)

    fitting = (group.fitting for group in groups if group.fitting is not None)
    places = [tuple(one.places(table, selected)) for one in fitting]
    reached = np.array([fitting_volumes.counts(of_group, known.is_free) for of_group in places])
    claims = np.array([[len(group.claims)] for group in groups])
    served: npt.NDArray[np.int64] = np.minimum(reached, claims)
    taken_before = np.cumsum(served, axis=0) - served  # At most: others may have chosen other volumes.
    is_short = (taken_before > 0) & (reached > 0) & (reached < claims + taken_before)
    short = np.flatnonzero(is_short.any(axis=0))
    if short.size:
        served[:, short] = np.array(_Choices(known, groups, places).served(short)).T
    return served


class _Choices:
    """What groups of claims choose one after another, by what a node reaches."""

    def __init__(
        self,
        known: FreeVolumes,
        groups: Sequence[matching.Group],
        places: Sequence[Sequence[fitting_volumes.Place]],
    ) -> None:
        self._known = known
        self._groups = groups
        self._most = list(itertools.accumulate(len(group.claims) for group in groups))
        # Groups have most places in common, and then the very same numbers of nodes.
        numbers = {id(one.numbers): one.numbers for of_group in places for one in of_group}
        self._numbers = list(numbers.values())
        index = {key: at for at, key in enumerate(numbers)}
        self._names = [{index[id(one.numbers)]: one.names for one in of_group} for of_group in places]
        self._smallest = functools.cache(self._smallest_at)

    def served(self, rows: npt.NDArray[np.int64]) -> Iterable[list[int]]:
        """Return for each of these nodes how many claims of each group get a volume."""
        served = functools.cache(self._served)
        return [served(case) for case in self._cases(rows)]

    def _cases(self, rows: npt.NDArray[np.int64]) -> Iterator[Case]:
        for start in range(0, len(rows), NODES_AT_ONCE):
            some = rows[start : start + NODES_AT_ONCE]
            table = np.stack([numbers[some] for numbers in self._numbers], axis=1)
            for of_node in table:
                places = np.flatnonzero(of_node)
                yield tuple(zip(places.tolist(), of_node[places].tolist(), strict=True))

    def _served(self, case: Case) -> list[int]:
        choices = (self._choice(at, case) for at in range(len(self._groups)))
        return [len(chosen) for chosen in matching.in_turn(self._groups, choices)]

    def _choice(self, group: int, case: Case) -> list[facts.Volume]:
        """Return the volumes among which a group chooses, the smallest first."""
        names = self._names[group]
        found = [self._smallest(group, *one) for one in case if one[0] in names]
        return found[0] if len(found) == 1 else sorted(itertools.chain(*found), key=matching.order)

    def _smallest_at(self, group: int, place: int, number: int) -> list[facts.Volume]:
        """Return as many of the smallest free volumes of one place as claims may choose from."""
        names: Iterable[str] = self._names[group][place].get(number, ())
        free = [one for one in map(self._known.free_volume, names) if one is not None]
        return heapq.nsmallest(self._most[group], free, key=matching.order)
