"""Who is tried when more pods are in line than a round has time for.

Pods are tried in order, so those at the end of the line might never be: what wakes the ones before
them may happen more often than all can be tried. So a part of each such round goes to the others,
one namespace after the other, and in each the pods that have had the fewest of these turns.

Nobody loses a place by that. A pod that was refused by all nodes has lost nothing on nodes that
have become no better since: only a node that has, and might take it, is claimed for it until it is
tried again, and who comes out of order takes nothing on a node that a pod before it claims. Claims
do not hold for ever: whoever has been kept back for long enough takes what it finds.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Collection, Iterator
from typing import Final

from berth_operator.scheduling import entries, lines

Entry = entries.Entry
Turn = entries.Turn
Rank = tuple[int, int, entries.Order]  # Priority, turns had, and then in order.

KEPT_BACK_SECONDS: Final = 0.5
MOST_CLAIMED: Final = 256  # Nodes by one kind; beyond that it claims all.


@dataclasses.dataclass(slots=True)
class Claim:
    """The nodes that have become better since pods of a kind were tried; `first` comes first of them."""

    candidate: entries.Candidate
    first: Turn
    nodes: set[str] = dataclasses.field(default_factory=set)
    everywhere: bool = False

    def add(self, node: str | None) -> None:
        """Claim a node, or with None all of them."""
        if node is None or len(self.nodes) >= MOST_CLAIMED:
            self.everywhere = True
            self.nodes.clear()
        elif not self.everywhere:
            self.nodes.add(node)


class Claims:
    """What the woken pods claim, by kind; a claim ends with their next try, or when none is left."""

    def __init__(self) -> None:
        self._claims: dict[int, Claim] = {}
        self._awake: collections.Counter[int] = collections.Counter()  # Of each kind that claims anything.

    def __len__(self) -> int:
        """Count the kinds that claim something."""
        return len(self._claims)

    def woken(self, entry: Entry, node: str | None) -> None:
        """A pod was woken because a node has become better, or for a reason that may concern all."""
        claim = self._claims.get(entry.kind)
        if claim is None:
            claim = self._claims[entry.kind] = Claim(entry.candidate, entry.turn)
        claim.first = min(claim.first, entry.turn)
        claim.add(node)
        entry.claims = True
        self._awake[entry.kind] += 1

    def offered(self, node: str, able: Callable[[entries.Candidate], bool]) -> None:
        """Another node has become better, before those that are awake were tried."""
        for claim in self._claims.values():
            if not claim.everywhere and node not in claim.nodes and able(claim.candidate):
                claim.add(node)

    def tried(self, kind: int) -> None:
        """No node takes a pod of this kind, as all of them are now."""
        self._claims.pop(kind, None)
        self._awake.pop(kind, None)

    def left(self, entry: Entry) -> None:
        """A pod sleeps again, has its place or is gone."""
        if entry.claims:
            entry.claims = False
            self._awake[entry.kind] -= 1
            if self._awake[entry.kind] <= 0:
                self.tried(entry.kind)

    def firsts(self) -> dict[str | None, Turn]:
        """Return of each claimed node who comes first of those that claim it; None stands for all nodes."""
        found: dict[str | None, Turn] = {}
        for claim in sorted(self._claims.values(), key=lambda one: one.first):
            for node in (None,) if claim.everywhere else claim.nodes - found.keys():
                found.setdefault(node, claim.first)
        return found


class Turns:
    """The pods in line, by namespace."""

    def __init__(self, valid: lines.Valid) -> None:
        self._valid = valid
        self._ranks = lines.Lines[str, Rank](valid)
        self._untried = lines.Line[Turn](valid)
        self.claims = Claims()

    @property
    def places(self) -> int:
        """Count the places of all lines, void ones included."""
        return self._ranks.places + len(self._untried)

    def stand(self, entry: Entry) -> None:
        """Let a pod that stands in line have its turn."""
        rank = entry.order[0], entry.turns, entry.order
        self._ranks.push(entry.candidate.namespace, rank, entry.ticket, entry.candidate.uid)
        if not entry.attempts:
            self._untried.push(entry.turn, entry.ticket, entry.candidate.uid)

    def each(
        self, found: dict[str, Entry], done: Collection[str], now: float
    ) -> Iterator[tuple[Entry, frozenset[str]]]:
        """Give one pod after the other that was not tried in this round, and the nodes that it must leave.

        As long as pods have never been tried, none that is less important comes before them; the demoted
        have no turns.
        """
        least, firsts = self._least(done), self.claims.firsts()
        taken: list[Entry] = []
        try:
            while (entry := self._next(found, done, least, taken)) is not None:
                left = _claimed(entry, firsts, now)
                if left is not None:
                    yield entry, left
        finally:
            for entry in taken:
                if entry.ticket and self._valid(entry.candidate.uid, entry.ticket):
                    self.stand(entry)

    def _least(self, done: Collection[str]) -> float:
        places = self._untried.next_of(len(done) + 1)
        return next((order[0] for (_, order), _, uid in places if uid not in done), math.inf)

    def _next(
        self, found: dict[str, Entry], done: Collection[str], least: float, taken: list[Entry]
    ) -> Entry | None:
        """Take the next pod out of its line, in another namespace than the one before, if there is one."""
        for namespace in self._ranks:
            while (place := self._ranks.first(namespace)) is not None:
                entry = found[place[2]]
                if entry.order[0] > least:
                    break
                self._ranks.pop(namespace)
                if entry.demoted:
                    continue
                taken.append(entry)
                if place[2] not in done:
                    entry.turns += 1
                    self._ranks.move_back(namespace)
                    return entry
        return None


def _claimed(entry: Entry, firsts: dict[str | None, Turn], now: float) -> frozenset[str] | None:
    """Return the nodes that pods before this one claim; None if they claim all of them."""
    if entry.kept_back is not None and now - entry.kept_back >= KEPT_BACK_SECONDS:
        return frozenset()
    claimed = {node for node, first in firsts.items() if first < entry.turn}
    if None in claimed:
        entry.kept_back = now if entry.kept_back is None else entry.kept_back
        return None
    return frozenset(node for node in claimed if node is not None)
