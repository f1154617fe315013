"""Turns for pods that would never be tried, because more pods are active than a round has time for.

Pods are tried in order, so those at the end of the line might never be: events that activate the
ones before them may come faster than all can be tried. So a part of each such round goes to the
others, namespace after namespace, and in each to the pods that have had the fewest of these turns. The
namespaces that have had more than their share of time come last.

No pod loses its place to another that way. A pod that all nodes refused loses nothing on nodes
that have not improved since. A node that has improved and might take the pod is reserved for it
until it is tried again, and a pod that comes out of order takes nothing on a node that is reserved for a
pod before it. That does not last for ever: a pod that was kept back for long enough ignores reservations.
"""

import bisect
import collections
import contextlib
import dataclasses
import functools
import itertools
import math
import operator
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from berth_operator.scheduling import decisions, queue_order, queued_pods, queues, time_shares
from berth_operator.scheduling.queued_pods import Entry, SortKey

# The sort key in a namespace: priority, what a label adds, never tried before tried, fewest turns, and order.
Rank = tuple[int, int, bool, int, queue_order.Order]
ReservedBefore = Callable[[SortKey], frozenset[str] | None]

HELD_BACK_SECONDS: Final = 0.25
DEMOTED_SECONDS: Final = 0.1  # From one turn of a demoted pod to the next.
MOST_RESERVED: Final = 256  # Nodes for one kind; beyond that all are reserved for it.
# Reserved nodes in a round, of all kinds together. For kinds after so many all nodes count as reserved.
MOST_LOOKED_AT: Final = 1 << 16
# Pods for which no node is left, at most so many in a round: each costs some 50 us.
MOST_SKIPPED: Final = 64


@dataclasses.dataclass(slots=True)
class Reservation:
    """The nodes that have improved since pods of a kind were tried; `first` is the first of these pods."""

    number: int
    pod_info: queued_pods.PodInfo
    first: SortKey
    nodes: set[str] = dataclasses.field(default_factory=set)
    everywhere: bool = False
    over: bool = False
    # How many pods were activated since it was made and have not left yet, by namespace.
    awake: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def add(self, node: str | None) -> None:
        """Reserve a node, or with None all of them."""
        if node is None or len(self.nodes) >= MOST_RESERVED:
            self.everywhere = True
            self.nodes.clear()
        elif not self.everywhere:
            self.nodes.add(node)


FIRST: Final = operator.attrgetter("first")


class Reservations:
    """What is reserved for pods that were activated, by kind, until their next try, or until none is left.

    There may be tens of thousands, so what is reserved for all that there are is noted once: for those
    up to a number, since they are numbered in the order in which they were made.
    """

    def __init__(self) -> None:
        self._reservations: dict[int, Reservation] = {}
        self._limited: dict[int, Reservation] = {}  # Those of some nodes only.
        # Sorted by `first` when they were last read; new ones stand behind, and some are over.
        self._in_order: list[Reservation] = []
        self._newest = 0
        # By node: up to this number, whatever they name, it is reserved for all; and so are all nodes.
        self._node_up_to: dict[str, int] = {}
        self._all_nodes_up_to = 0

    def __len__(self) -> int:
        """Count the kinds for which something is reserved."""
        return len(self._reservations)

    def comparisons(self, changes: decisions.AwaitedEvents, most: int) -> int:
        """Count what `reserve_if_able` compares after such changes; counting stops after `most` kinds."""
        kinds = itertools.islice(self._limited.values(), max(0, most + 1))
        return sum(one.pod_info.comparisons(changes) for one in kinds)

    def reserve_for_woken(self, entry: Entry, node: str | None) -> None:
        """Reserve a node for a pod, because the node has improved; with None all nodes."""
        if (reservation := self._reservations.get(entry.kind_number)) is None:
            reservation = self._make(entry)
        reservation.first = min(reservation.first, entry.sort_key)
        self._add(entry.kind_number, reservation, node)
        reservation.awake[entry.pod_info.namespace] += 1
        entry.reservation = reservation.number

    def _make(self, entry: Entry) -> Reservation:
        if len(self._in_order) > 2 * len(self._reservations) + queues.SPARE_TICKETS:
            self._sort()
        self._newest += 1
        reservation = Reservation(self._newest, entry.pod_info, entry.sort_key)
        self._reservations[entry.kind_number] = self._limited[entry.kind_number] = reservation
        self._in_order.append(reservation)
        return reservation

    def reserve_if_able(self, node: str | None, able: Callable[[queued_pods.PodInfo], bool]) -> None:
        """Reserve a node that has improved also for pods that it may take and that were not tried yet.

        Without a node any may have improved.
        """
        covered = self._node_up_to.get(node, 0) if node is not None else 0
        for kind, reservation in list(self._limited.items()):
            known = reservation.number <= covered or node in reservation.nodes
            if not known and able(reservation.pod_info):
                self._add(kind, reservation, node)

    def reserve_for_all(self, node: str | None) -> None:
        """Reserve a node that has improved, or with None all nodes, for all pods that were not tried yet."""
        if node is None:
            self._all_nodes_up_to = self._newest
            self._limited.clear()
        elif self._limited:
            self._node_up_to[node] = self._newest

    def _add(self, kind: int, reservation: Reservation, node: str | None) -> None:
        reservation.add(node)
        if reservation.everywhere:
            self._limited.pop(kind, None)

    def end(self, kind: int) -> None:
        """End the reservation of a kind, because no node takes its pods, or none of them is left."""
        if (reservation := self._reservations.pop(kind, None)) is not None:
            reservation.over = True
            self._limited.pop(kind, None)

    def remove(self, entry: Entry) -> None:
        """Remove a pod from the reservation of its kind: it waits again, was placed or is gone."""
        reservation, number = self._reservations.get(entry.kind_number), entry.reservation
        entry.reservation = 0
        # Its reservation may have ended, and there may be a new one for others of its kind.
        if reservation is not None and reservation.number == number:
            namespace = entry.pod_info.namespace
            reservation.awake[namespace] -= 1
            if not reservation.awake[namespace]:
                del reservation.awake[namespace]
            if not reservation.awake:
                self.end(entry.kind_number)

    def _sort(self) -> None:
        """Sort what there is, which takes little if most of it is in order, and forget what is over."""
        self._in_order = [one for one in self._in_order if not one.over]
        self._in_order.sort(key=FIRST)
        oldest = next((one.number for one in self._reservations.values()), math.inf)
        self._node_up_to = {node: number for node, number in self._node_up_to.items() if number >= oldest}

    def before(self, suspended: AbstractSet[str]) -> ReservedBefore:
        """Return a function from a sort key to the nodes reserved for pods before it; None where all are.

        What is reserved only for pods whose namespaces are suspended does not count.
        """
        firsts, everywhere = self._firsts(suspended)
        nodes, sort_keys = list(firsts), list(firsts.values())

        @functools.cache
        def first_of(count: int) -> frozenset[str]:
            return frozenset(nodes[:count])

        def found(sort_key: SortKey) -> frozenset[str] | None:
            if everywhere is not None and everywhere < sort_key:
                return None
            return first_of(bisect.bisect_left(sort_keys, sort_key))

        return found

    def _firsts(self, suspended: AbstractSet[str]) -> tuple[dict[str, SortKey], SortKey | None]:
        """Return by node the first pod for which it is reserved, in their order, and that of all nodes."""
        self._sort()
        firsts = dict[str, SortKey]()
        for_all = sorted(self._node_up_to, key=self._node_up_to.__getitem__)
        left = MOST_LOOKED_AT
        for one in self._in_order:
            if suspended and one.awake.keys() <= suspended:
                continue
            left -= len(one.nodes)
            if one.everywhere or one.number <= self._all_nodes_up_to or left < 0:
                return firsts, one.first
            while for_all and self._node_up_to[for_all[-1]] >= one.number:
                firsts.setdefault(for_all.pop(), one.first)
            for node in one.nodes:
                firsts.setdefault(node, one.first)
        return firsts, None


class Rotation:
    """The active pods, by namespace."""

    def __init__(self, valid: queues.Valid, suspended: queues.SuspendedNamespaces) -> None:
        self.time_shares = time_shares.TimeShares()
        self._valid = valid
        self._suspended = suspended
        self._ranks = queues.Lines[str, Rank](valid)
        self._demoted = queues.Lines[str, Rank](valid)
        self._next_of_demoted = 0.0  # When one of them may have a turn.
        self._untried = queues.Queue[SortKey](valid, suspended)
        self._new: list[tuple[int, Entry]] = []  # With their tickets; most leave before they need a turn.
        self._most_new = queues.SPARE_TICKETS
        self.reservations = Reservations()

    @property
    def tickets(self) -> int:
        """Count the tickets of all lines, void ones included."""
        return len(self._new) + self._ranks.tickets + self._demoted.tickets + self._untried.tickets

    def stand(self, entry: Entry) -> None:
        """Add a pod that is active."""
        if len(self._new) >= self._most_new:
            self._new = list(self._still_new())
            self._most_new = 2 * len(self._new) + queues.SPARE_TICKETS
        self._new.append((entry.ticket, entry))

    def _still_new(self) -> Iterator[tuple[int, Entry]]:
        return (new for new in self._new if self._valid(new[1].pod_info.uid, new[0]))

    def _sort_in_new(self) -> None:
        for ticket, entry in self._still_new():
            self._rank(entry)
            if not entry.attempts:
                self._untried.push(entry.pod_info.namespace, entry.sort_key, ticket, entry.pod_info.uid)
        self._new.clear()

    def _rank(self, entry: Entry) -> None:
        rank = entry.order[0], -entry.extra, entry.attempts > 0, entry.turns, entry.order
        lines = self._demoted if entry.demoted else self._ranks
        lines.push(entry.pod_info.namespace, rank, entry.ticket, entry.pod_info.uid)

    def each(
        self, entries: dict[str, Entry], done: Collection[str], now: float
    ) -> Iterator[tuple[Entry, frozenset[str]]]:
        """Yield pods that were not tried in this round, with the nodes reserved for pods before them.

        As long as pods have never been tried, no pod of lower priority comes before them, unless the tries of
        their namespace have taken too long; once those have had their turns, pods of lower priority follow in
        the same round. Of the demoted pods one has a turn now and then, for whoever keeps others active would
        keep them waiting for ever. Where all nodes are reserved for others, a pod is skipped.
        """
        self._sort_in_new()
        before = self.reservations.before(self._suspended.names)
        skipped: set[str] = set()
        taken: list[Entry] = []
        try:
            demoted = self._demoted_in_turn(entries, done, taken, now)
            for entry in itertools.chain(demoted, self._in_turn(entries, done, skipped, taken, now)):
                if (reserved := _reserved(entry, before, now)) is not None:
                    yield entry, reserved
                    continue
                skipped.add(entry.pod_info.uid)
                if len(skipped) >= MOST_SKIPPED:
                    return
        finally:
            for entry in taken:
                if entry.ticket and self._valid(entry.pod_info.uid, entry.ticket):
                    self._rank(entry)

    def _in_turn(
        self,
        entries: dict[str, Entry],
        done: Collection[str],
        skipped: Collection[str],
        taken: list[Entry],
        now: float,
    ) -> Iterator[Entry]:
        """Yield pods, which leave their lines, each of another namespace than the last where there is one."""
        turns = _Turns(self._ranks, lambda namespace: self.time_shares.exceeded(namespace, now))
        with contextlib.closing(self._walk_untried(now)) as tickets:
            untried = _Untried(tickets, done, skipped)
            while (namespace := turns.next(untried.priority)) is not None:
                if namespace in self._suspended:
                    continue
                if (entry := self._next(namespace, entries, done, untried.priority, taken)) is None:
                    turns.pass_over(namespace)
                    continue
                entry.turns += 1
                self._ranks.move_back(namespace)
                turns.again(namespace)
                yield entry

    def _walk_untried(self, now: float) -> Generator[queues.Ticket[SortKey], None, None]:
        """Yield the pods that were never tried, in order, but for namespaces whose tries take long."""
        return queues.walk(
            (self._untried, math.inf),
            skipped=lambda namespace: self.time_shares.exceeded(namespace, now, by_long_tries=True),
        )

    def _next(
        self,
        namespace: str,
        entries: dict[str, Entry],
        done: Collection[str],
        priority: float,
        taken: list[Entry],
    ) -> Entry | None:
        """Return the next pod of a namespace that has at least this priority, and take it out of its line."""
        while (ticket := self._ranks.first(namespace)) is not None:
            entry = entries[ticket[2]]
            if entry.order[0] > priority:
                return None
            self._ranks.take(namespace)
            taken.append(entry)
            if ticket[2] not in done and not entry.demoted:
                return entry
        return None

    def _demoted_in_turn(
        self, entries: dict[str, Entry], done: Collection[str], taken: list[Entry], now: float
    ) -> Iterator[Entry]:
        """Yield a demoted pod if it is time for one, each of another namespace than the last."""
        if now < self._next_of_demoted:
            return
        for namespace in self._demoted:
            if namespace in self._suspended or self.time_shares.exceeded(namespace, now):
                continue
            while (ticket := self._demoted.first(namespace)) is not None:
                entry = entries[ticket[2]]
                self._demoted.take(namespace)
                taken.append(entry)
                if ticket[2] not in done:
                    entry.turns += 1
                    self._demoted.move_back(namespace)
                    self._next_of_demoted = now + DEMOTED_SECONDS
                    yield entry
                    return


class _Untried:
    """The pods that were never tried: until each has had its turn, no pod of lower priority has one."""

    def __init__(self, tickets: Iterator[queues.Ticket[SortKey]], *had_turns: Collection[str]) -> None:
        self._tickets = tickets
        self._had_turns = had_turns
        self._first = next(tickets, None)

    @property
    def priority(self) -> float:
        """The priority of the first of them, as in an order: the lower the more important."""
        while self._first is not None and any(self._first[2] in those for those in self._had_turns):
            self._first = next(self._tickets, None)
        return self._first[0][1][0] if self._first is not None else math.inf


class _Turns:
    """The namespaces, those first that have not exceeded their share of time."""

    def __init__(self, namespaces: Iterable[str], exceeded: Callable[[str], bool]) -> None:
        self._exceeded = exceeded
        self._first = collections.deque(namespaces)
        self._late = collections.deque[str]()
        self._passed_over: list[str] = []
        self._priority = math.inf

    def next(self, priority: float) -> str | None:
        """Return whose turn it is; those that were passed over are asked again under another priority."""
        if priority != self._priority:
            self._priority = priority
            self._first += self._passed_over
            self._passed_over.clear()
        while self._first:
            namespace = self._first.popleft()
            if not self._exceeded(namespace):
                return namespace
            self._late.append(namespace)
        return self._late.popleft() if self._late else None

    def again(self, namespace: str) -> None:
        """Have a namespace wait for its next turn."""
        self._first.append(namespace)

    def pass_over(self, namespace: str) -> None:
        """Leave out a namespace that has no pod, or none that is as important as those never tried."""
        self._passed_over.append(namespace)


def _reserved(entry: Entry, before: ReservedBefore, now: float) -> frozenset[str] | None:
    """Return the nodes that are reserved for pods before this one; None if all are, which the pod notes."""
    if entry.held_back_since is not None and now - entry.held_back_since >= HELD_BACK_SECONDS:
        return frozenset()
    if (reserved := before(entry.sort_key)) is None and entry.held_back_since is None:
        entry.held_back_since = now
    return reserved
