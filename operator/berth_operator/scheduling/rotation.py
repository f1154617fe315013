"""Turns for pods that would never be tried, because more pods are active than a round has time for.

Pods are tried in order, so those at the end of the line might never be: events that activate the
ones before them may come faster than all can be tried. So a part of each such round goes to the
others, namespace after namespace, and in each to the pods that have had the fewest of these turns.

No pod loses its place to another that way. A pod that all nodes refused loses nothing on nodes
that have not improved since. A node that has improved and might take the pod is claimed for it
until it is tried again, and a pod that comes out of order takes nothing on a node that a pod before
it claims. Claims do not last for ever: a pod that was kept back for long enough ignores them.
"""

import bisect
import collections
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Collection, Container, Iterator
from typing import Final

from berth_operator.scheduling import queue_order, queued_pods, queues
from berth_operator.scheduling.queued_pods import Entry, Turn

Rank = tuple[int, int, queue_order.Order]  # Priority, turns had, and then in order.
Before = Callable[[Turn], frozenset[str] | None]

KEPT_ACTIVE_SECONDS: Final = 0.5
MOST_CLAIMED: Final = 256  # Nodes by one kind; beyond that it claims all.
# Pods for which all nodes are claimed, at most so many in a round: each costs some 50 us.
MOST_SKIPPED: Final = 64


@dataclasses.dataclass(slots=True)
class Claim:
    """The nodes that have improved since pods of a kind were tried; `first` is the first of these pods."""

    number: int
    candidate: queued_pods.Candidate
    first: Turn
    nodes: set[str] = dataclasses.field(default_factory=set)
    everywhere: bool = False
    # How many pods were activated since it was made and have not left yet, by namespace.
    awake: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def add(self, node: str | None) -> None:
        """Claim a node, or with None all of them."""
        if node is None or len(self.nodes) >= MOST_CLAIMED:
            self.everywhere = True
            self.nodes.clear()
        elif not self.everywhere:
            self.nodes.add(node)


class Claims:
    """The claims of pods that were activated, by kind; one ends with their next try, or when none is left."""

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
        """Claim a node for a pod, because the node has improved; with None all nodes."""
        if (claim := self._claims.get(entry.kind)) is None:
            claim = Claim(next(self._numbers), entry.candidate, entry.turn)
            self._claims[entry.kind] = self._limited[entry.kind] = claim
        claim.first = min(claim.first, entry.turn)
        self._add(entry.kind, claim, node)
        claim.awake[entry.candidate.namespace] += 1
        entry.claim = claim.number

    def offered(self, node: str | None, able: Callable[[queued_pods.Candidate], bool]) -> None:
        """Add a node that has improved to the claims of pods that it may take and that were not tried yet.

        Without a node any may have improved.
        """
        for kind, claim in list(self._limited.items()):
            if node not in claim.nodes and able(claim.candidate):
                self._add(kind, claim, node)

    def everywhere(self) -> None:
        """Claim all nodes for the pods that were not tried yet: too many nodes have improved."""
        for kind, claim in list(self._limited.items()):
            self._add(kind, claim, None)

    def _add(self, kind: int, claim: Claim, node: str | None) -> None:
        claim.add(node)
        if claim.everywhere:
            self._limited.pop(kind, None)

    def tried(self, kind: int) -> None:
        """End the claim of a kind, because no node takes its pods."""
        self._drop(kind)

    def _drop(self, kind: int) -> None:
        self._claims.pop(kind, None)
        self._limited.pop(kind, None)

    def left(self, entry: Entry) -> None:
        """Take a pod off the claim of its kind, because it waits again, was placed or is gone."""
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

    def before(self, suspended: Container[str]) -> Before:
        """Return a function from a turn to the nodes that are claimed before it; None where all are.

        Claims of none but pods whose namespaces are suspended do not count.
        """
        firsts: dict[str, Turn] = {}  # The first turn that claims a node, in the order of turns.
        everywhere: Turn | None = None
        counting = (one for one in self._claims.values() if any(each not in suspended for each in one.awake))
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
    """The active pods, by namespace."""

    def __init__(self, valid: queues.Valid, suspended: queues.SuspendedNamespaces) -> None:
        self._valid = valid
        self._suspended = suspended
        self._ranks = queues.Lines[str, Rank](valid)
        self._untried = queues.Queue[Turn](valid, suspended)
        self._new: list[tuple[int, Entry]] = []  # With their tickets; most leave before they need a turn.
        self._most_new = queues.SPARE_TICKETS
        self.claims = Claims()

    @property
    def tickets(self) -> int:
        """Count the tickets of all lines, void ones included."""
        return len(self._new) + self._ranks.tickets + self._untried.tickets

    def stand(self, entry: Entry) -> None:
        """Add a pod that is active."""
        if len(self._new) >= self._most_new:
            self._new = list(self._still_new())
            self._most_new = 2 * len(self._new) + queues.SPARE_TICKETS
        self._new.append((entry.ticket, entry))

    def _still_new(self) -> Iterator[tuple[int, Entry]]:
        return (new for new in self._new if self._valid(new[1].candidate.uid, new[0]))

    def _sort_in_new(self) -> None:
        for ticket, entry in self._still_new():
            self._rank(entry)
            if not entry.attempts:
                self._untried.push(entry.candidate.namespace, entry.turn, ticket, entry.candidate.uid)
        self._new.clear()

    def _rank(self, entry: Entry) -> None:
        rank = entry.order[0], entry.turns, entry.order
        self._ranks.push(entry.candidate.namespace, rank, entry.ticket, entry.candidate.uid)

    def each(
        self, found: dict[str, Entry], done: Collection[str], now: float
    ) -> Iterator[tuple[Entry, frozenset[str]]]:
        """Yield pods that were not tried in this round, with the nodes that pods before them claim.

        As long as pods have never been tried, no pod of lower priority comes before them; demoted pods
        have no turns. A pod for which all nodes are claimed is skipped.
        """
        self._sort_in_new()
        before, skipped = self.claims.before(self._suspended), 0
        taken: list[Entry] = []
        try:
            for entry in self._in_turn(found, done, taken):
                if (claimed := _claimed(entry, before, now)) is not None:
                    yield entry, claimed
                    continue
                skipped += 1
                if skipped >= MOST_SKIPPED:
                    return
        finally:
            for entry in taken:
                if entry.ticket and self._valid(entry.candidate.uid, entry.ticket):
                    self._rank(entry)

    def _least(self, done: Collection[str]) -> float:
        tickets = queues.walk((self._untried, len(done) + 1))
        return next((order[0] for (_, order), _, uid in tickets if uid not in done), math.inf)

    def _in_turn(self, found: dict[str, Entry], done: Collection[str], taken: list[Entry]) -> Iterator[Entry]:
        """Yield pods, which leave their lines, each of another namespace than the last where there is one."""
        least, namespaces = self._least(done), collections.deque(self._ranks)
        while namespaces:
            namespace = namespaces.popleft()
            if namespace in self._suspended:
                continue
            if (entry := self._next(namespace, found, done, least, taken)) is not None:
                entry.turns += 1
                self._ranks.move_back(namespace)
                namespaces.append(namespace)
                yield entry

    def _next(
        self, namespace: str, found: dict[str, Entry], done: Collection[str], least: float, taken: list[Entry]
    ) -> Entry | None:
        """Return the next pod of a namespace, and take it out of its line."""
        while (ticket := self._ranks.first(namespace)) is not None:
            entry = found[ticket[2]]
            if entry.order[0] > least:
                return None
            self._ranks.take(namespace)
            if not entry.demoted:
                taken.append(entry)
                if ticket[2] not in done:
                    return entry
        return None


def _claimed(entry: Entry, before: Before, now: float) -> frozenset[str] | None:
    """Return the nodes that pods before this one claim; None if they claim all of them."""
    if entry.kept_active_since is not None and now - entry.kept_active_since >= KEPT_ACTIVE_SECONDS:
        return frozenset()
    if (claimed := before(entry.turn)) is None and entry.kept_active_since is None:
        entry.kept_active_since = now
    return claimed
