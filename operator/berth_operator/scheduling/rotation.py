"""Who is tried when more pods are in line than a round has time for.

Pods are tried in order, so those at the end of the line might never be: what wakes the ones before
them may happen more often than all can be tried. So a part of each such round goes to the others,
one namespace after the other, and in each the pods that have had the fewest of these turns.

Nobody loses a place by that. A pod that was refused by all nodes has lost nothing on nodes that
have become no better since: only a node that has, and might take it, is claimed for it until it is
tried again, and who comes out of order takes nothing on a node that a pod before it claims. Claims
do not hold for ever: whoever has been kept back for long enough takes what it finds.
"""

import bisect
import collections
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Collection, Container, Iterator
from typing import Final

from berth_operator.scheduling import queued_pods, queues

Entry = queued_pods.Entry
Turn = queued_pods.Turn
Rank = tuple[int, int, queued_pods.Order]  # Priority, turns had, and then in order.
Before = Callable[[Turn], frozenset[str] | None]

KEPT_BACK_SECONDS: Final = 0.5
MOST_CLAIMED: Final = 256  # Nodes by one kind; beyond that it claims all.
# So many pods that must leave all nodes to others are passed over in a round, which costs some 50 us each.
MOST_PASSED_OVER: Final = 64


@dataclasses.dataclass(slots=True)
class Claim:
    """The nodes that have become better since pods of a kind were tried; `first` comes first of them."""

    number: int
    candidate: queued_pods.Candidate
    first: Turn
    nodes: set[str] = dataclasses.field(default_factory=set)
    everywhere: bool = False
    # By namespace, how many pods were woken since it was made, and have not left yet.
    awake: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

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
        self._limited: dict[int, Claim] = {}  # Those that do not claim all nodes.
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        """Count the kinds that claim something."""
        return len(self._claims)

    @property
    def limited(self) -> int:
        """Count the kinds that claim some nodes, but not all of them."""
        return len(self._limited)

    def woken(self, entry: Entry, node: str | None) -> None:
        """A pod was woken because a node has become better, or for a reason that may concern all."""
        claim = self._claims.get(entry.kind)
        if claim is None:
            claim = Claim(next(self._numbers), entry.candidate, entry.turn)
            self._claims[entry.kind] = self._limited[entry.kind] = claim
        claim.first = min(claim.first, entry.turn)
        self._add(entry.kind, claim, node)
        claim.awake[entry.candidate.namespace] += 1
        entry.claim = claim.number

    def offered(self, node: str, able: Callable[[queued_pods.Candidate], bool]) -> None:
        """Another node has become better, before those that are awake were tried."""
        for kind, claim in list(self._limited.items()):
            if node not in claim.nodes and able(claim.candidate):
                self._add(kind, claim, node)

    def everywhere(self) -> None:
        """So many nodes have become better that those that are awake claim all."""
        for kind, claim in list(self._limited.items()):
            self._add(kind, claim, None)

    def _add(self, kind: int, claim: Claim, node: str | None) -> None:
        claim.add(node)
        if claim.everywhere:
            self._limited.pop(kind, None)

    def tried(self, kind: int) -> None:
        """No node takes a pod of this kind, as all of them are now."""
        self._drop(kind)

    def _drop(self, kind: int) -> None:
        self._claims.pop(kind, None)
        self._limited.pop(kind, None)

    def left(self, entry: Entry) -> None:
        """A pod sleeps again, has its place or is gone."""
        claim, number = self._claims.get(entry.kind), entry.claim
        entry.claim = 0
        # What it claimed may have ended, and others of its kind have claimed something since.
        if claim is not None and claim.number == number:
            namespace = entry.candidate.namespace
            claim.awake[namespace] -= 1
            if not claim.awake[namespace]:
                del claim.awake[namespace]
            if not claim.awake:
                self._drop(entry.kind)

    def before(self, held_up: Container[str]) -> Before:
        """Return what tells the nodes that are claimed before a turn; None where all of them are.

        What only pods claim whose namespaces are held up now does not count.
        """
        firsts: dict[str, Turn] = {}  # Whoever claims a node first; in the order of their turns.
        everywhere: Turn | None = None
        counting = (one for one in self._claims.values() if any(each not in held_up for each in one.awake))
        for claim in sorted(counting, key=lambda one: one.first):
            if claim.everywhere:
                everywhere = claim.first
                break
            firsts.update(dict.fromkeys(claim.nodes - firsts.keys(), claim.first))
        nodes, turns = list(firsts), list(firsts.values())

        @functools.cache
        def first_of(count: int) -> frozenset[str]:
            return frozenset(nodes[:count])

        def found(turn: Turn) -> frozenset[str] | None:
            if everywhere is not None and everywhere < turn:
                return None
            return first_of(bisect.bisect_left(turns, turn))

        return found


class Rotation:
    """The pods in line, by namespace."""

    def __init__(self, valid: queues.Valid, held_up: queues.HeldUpNamespaces) -> None:
        self._valid = valid
        self._held_up = held_up
        self._ranks = queues.Lines[str, Rank](valid)
        self._untried = queues.Queue[Turn](valid, held_up)
        self.claims = Claims()

    @property
    def places(self) -> int:
        """Count the places of all lines, void ones included."""
        return self._ranks.places + self._untried.places

    def stand(self, entry: Entry) -> None:
        """Add a pod that is active."""
        self._rank(entry)
        if not entry.attempts:
            self._untried.push(entry.candidate.namespace, entry.turn, entry.ticket, entry.candidate.uid)

    def _rank(self, entry: Entry) -> None:
        rank = entry.order[0], entry.turns, entry.order
        self._ranks.push(entry.candidate.namespace, rank, entry.ticket, entry.candidate.uid)

    def each(
        self, found: dict[str, Entry], done: Collection[str], now: float
    ) -> Iterator[tuple[Entry, frozenset[str]]]:
        """Yield one pod after the other that was not tried in this round, and the nodes that it must leave.

        As long as pods have never been tried, none that is less important comes before them; the demoted
        have no turns. Of those that must leave all nodes some are passed over, the others come next time.
        """
        before, passed_over = self.claims.before(self._held_up), 0
        taken: list[Entry] = []
        try:
            for entry in self._in_turn(found, done, taken):
                left = _left(entry, before, now)
                if left is not None:
                    yield entry, left
                    continue
                passed_over += 1
                if passed_over >= MOST_PASSED_OVER:
                    return
        finally:
            for entry in taken:
                if entry.ticket and self._valid(entry.candidate.uid, entry.ticket):
                    self._rank(entry)

    def _least(self, done: Collection[str]) -> float:
        places = queues.walk((self._untried, len(done) + 1))
        return next((order[0] for (_, order), _, uid in places if uid not in done), math.inf)

    def _in_turn(self, found: dict[str, Entry], done: Collection[str], taken: list[Entry]) -> Iterator[Entry]:
        """Yield pods, which leave their lines, each of another namespace than the last where there is one."""
        least, namespaces = self._least(done), collections.deque(self._ranks)
        while namespaces:
            namespace = namespaces.popleft()
            if namespace in self._held_up:
                continue
            entry = self._next(namespace, found, done, least, taken)
            if entry is not None:
                entry.turns += 1
                self._ranks.move_back(namespace)
                namespaces.append(namespace)
                yield entry

    def _next(
        self, namespace: str, found: dict[str, Entry], done: Collection[str], least: float, taken: list[Entry]
    ) -> Entry | None:
        """Return the next pod of a namespace, and take it out of its line."""
        while (place := self._ranks.first(namespace)) is not None:
            entry = found[place[2]]
            if entry.order[0] > least:
                return None
            self._ranks.take(namespace)
            if not entry.demoted:
                taken.append(entry)
                if place[2] not in done:
                    return entry
        return None


def _left(entry: Entry, before: Before, now: float) -> frozenset[str] | None:
    """Return the nodes that a pod must leave to those before it; None if these claim all of them."""
    if entry.kept_back is not None and now - entry.kept_back >= KEPT_BACK_SECONDS:
        return frozenset()
    claimed = before(entry.turn)
    if claimed is None and entry.kept_back is None:
        entry.kept_back = now
    return claimed
