"""Who waits, in which order, and for what.

Pods are taken by priority, then by creation time, then by name; `label_order` says what labels add.
Pods that are demoted, because their search takes long or their binds are refused, come last.

A pod that did not fit waits for a change that could help it. Of those that a change could
help, the first of each kind are tried at once, and one more for each of the kind that was
placed; the others pause, longer with each attempt. So a crowd of pods that fit nowhere costs
little and blocks nobody. Time comes in as a number; nothing here reads a clock.
"""

import collections
import dataclasses
import enum
import heapq
from collections.abc import Collection, Iterable
from typing import Final, TypeVar

from berth_operator.scheduling import decisions, label_order
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 10.0
LONGEST_DEMOTED_SECONDS: Final = 60.0
# So many of the pods that a change may help are tried at once, the first in order, of each kind and of
# all: what becomes free serves few, and those must not come after one that has only just arrived.
TRIED_OF_A_KIND: Final = 16
TRIED_AT_ONCE: Final = 1024
# Of a limited turn so many may need a search on single nodes: they must not crowd out those that need none.
SEARCHED_AT_ONCE: Final = 64
SPARE_PLACES: Final = 1024


Order = label_order.Order
Turn = tuple[bool, Order]  # The demoted come last.
Place = tuple[Turn, int, str]
Raised = tuple[label_order.LocalOrder, int, str]
P = TypeVar("P", Turn, label_order.LocalOrder, float)


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that asks to be placed; `faults` say why its request cannot be served at all.

    `label` is the priority that its author has written on it, where no PriorityClass gives one.
    """

    uid: str
    namespace: str
    name: str
    request: requests.Request = requests.NO_DEVICES
    demand: facts.Demand = facts.NO_DEMAND
    priority: int = 0
    label: int = 0
    created: str = ""
    faults: tuple[decisions.Refusal, ...] = ()

    @property
    def title(self) -> str:
        """Name the pod as people do."""
        return f"{self.namespace}/{self.name}"

    @property
    def searched(self) -> bool:
        """Whether nothing less than a search on single nodes tells whether the pod fits."""
        return not self.faults and not self.request.need.simple

    def order(self, allowed: int = 0) -> Order:
        """Return the sort key, where labels count up to so much: the first comes first."""
        counts = self.priority + min(self.label, allowed)
        return -counts, self.created, self.namespace, self.name


class Standing(enum.StrEnum):
    """How a pod without a node stands; the gated and those with a bind under way are not in the backlog."""

    READY = "ready"
    BACKING_OFF = "backing-off"
    NEEDS_CHANGE = "needs-change"
    GATED = "gated"
    BINDING = "binding"


@dataclasses.dataclass(slots=True)
class Entry:
    """One waiting pod and what it waits for."""

    candidate: Candidate
    order: Order
    attempts: int = 0
    not_before: float = 0.0
    wants: frozenset[decisions.Help] | None = None  # None: it may be tried as soon as time allows.
    demoted: bool = False  # Until it is placed or edited.
    kind: int = 0  # Pods that ask the same are of one kind; worked out when a pod does not fit.
    ticket: int = 0  # Of the queue it stands in now; older ones are void.

    @property
    def group(self) -> label_order.Group:
        """The pods with which it may exchange positions."""
        return label_order.Group(self.demoted, -self.order[0], self.candidate.namespace)

    @property
    def local(self) -> label_order.LocalOrder:
        """Sort key within its group."""
        return -self.candidate.label, self.candidate.created, self.candidate.name

    @property
    def raised(self) -> bool:
        """Whether its label ranks it higher in its namespace than between namespaces."""
        return self.candidate.priority + self.candidate.label > -self.order[0]

    @property
    def turn(self) -> Turn:
        """Sort key among all that are to be tried: the first comes first."""
        return self.demoted, self.order

    def standing(self, now: float) -> Standing:
        """Tell what keeps the pod from being tried."""
        if self.wants is not None:
            return Standing.NEEDS_CHANGE
        return Standing.READY if self.not_before <= now else Standing.BACKING_OFF


class Backlog:
    """All pods that ask to be placed and are not.

    A pod stands in one of three queues: in line (to be tried, by order), pausing (by the
    end of its pause), or wanting (by the changes that could help). Places in the first
    two are tickets that are void once the pod has moved on, so that moving costs nothing
    and a round costs what it tries, however long the backlog is.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._line: list[Place] = []
        self._searched: list[Place] = []  # The part of the line that needs a search.
        self._pausing: list[tuple[float, int, str]] = []
        self._wanting: dict[decisions.Help, dict[str, Entry]] = {change: {} for change in decisions.Help}
        self._woken: dict[str, Entry] = {}
        self._behind: dict[int, list[Place]] = {}  # The woken that pause, by kind.
        self._raised: dict[label_order.Group, list[Raised]] = {}  # Of those in line.
        self._allowed = 0
        self._tickets = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def __repr__(self) -> str:
        """Tell the state in words."""
        waiting = sum(entry.wants is not None for entry in self._entries.values())
        return f"<Backlog: {len(self._entries)} pods, {waiting} of them waiting for a change>"

    def get(self, uid: str) -> Candidate | None:
        """Look a pod up."""
        entry = self._entries.get(uid)
        return entry.candidate if entry else None

    def each(self) -> Iterable[Entry]:
        """Go through all pods, in the order in which they would be taken."""
        entries = sorted(self._entries.values(), key=lambda entry: entry.order)
        return label_order.reordered(entries, lambda *_: ())

    def entries(self) -> Collection[Entry]:
        """Give all pods, in no order."""
        return self._entries.values()

    def standings(self, now: float) -> dict[Standing, int]:
        """Count the pods by how they stand."""
        counts = dict.fromkeys(Standing, 0)
        for entry in self._entries.values():
            counts[entry.standing(now)] += 1
        return counts

    def attempts(self, uid: str) -> int:
        """Tell how often a pod was tried."""
        entry = self._entries.get(uid)
        return entry.attempts if entry else 0

    # ------------------------------------------------------------ coming and going

    def push(self, candidate: Candidate) -> None:
        """Add a pod, or take its edited request; an unchanged one keeps its place and its patience."""
        entry = self._entries.get(candidate.uid)
        if entry is None or entry.candidate != candidate:
            self.remove(candidate.uid)
            self._stand_in_line(self._entered(candidate))

    def _entered(self, candidate: Candidate, attempts: int = 0) -> Entry:
        self._entries[candidate.uid] = entry = Entry(candidate, candidate.order(self._allowed), attempts)
        return entry

    def allow(self, most: int) -> None:
        """Let labels count up to so much between namespaces, and sort all pods anew."""
        if most == self._allowed:
            return
        self._allowed = most
        for entry in self._entries.values():
            entry.order = entry.candidate.order(most)
            if entry.wants is None and entry.candidate.uid not in self._woken:
                self._stand_in_line(entry)

    def remove(self, uid: str) -> Candidate | None:
        """Take a pod out, because it was placed or is gone."""
        entry = self._entries.pop(uid, None)
        if entry is None:
            return None
        self._leave(entry)
        return entry.candidate

    def place(self, uid: str) -> Candidate | None:
        """Take a pod out that has got a place: there may be one for the next of its kind."""
        entry = self._entries.get(uid)
        if entry is not None:
            self._follow(entry.kind)
        return self.remove(uid)

    def put_off(
        self, uid: str, *, now: float, wants: frozenset[decisions.Help] | None, demoted: bool = False
    ) -> None:
        """Let a pod wait: for one of these changes (for none: for ever), or with None for the pause alone.

        One that is demoted comes after all others, and pauses for longer, until it is placed or edited.
        """
        entry = self._entries.get(uid)
        if entry is not None:
            self._leave(entry)
            entry.demoted |= demoted
            entry.not_before = now + pause(entry.attempts, demoted=entry.demoted)
            entry.attempts += 1
            entry.wants = wants
            entry.kind = entry.kind or hash((entry.candidate.request, entry.candidate.demand))
            if wants is None:
                self._pause(entry)
            for change in wants or ():
                self._wanting[change][uid] = entry

    def restore(self, candidate: Candidate, *, attempts: int, now: float) -> None:
        """Put a pod back whose bind was refused; it is tried again after a pause, and after all others."""
        self.remove(candidate.uid)
        self._entered(candidate, attempts)
        self.put_off(candidate.uid, now=now, wants=None, demoted=True)

    def give_back(self, candidate: Candidate, *, attempts: int) -> None:
        """Put a pod back whose bind nobody looked at: it is tried at once, for the fault is not its own."""
        self.remove(candidate.uid)
        self._stand_in_line(self._entered(candidate, max(1, attempts)))

    def skip(self, uid: str, *, now: float) -> None:
        """Let a pod pause that has a place but may not be bound yet; the next of its kind is tried."""
        self.put_off(uid, now=now, wants=None)
        if (entry := self._entries.get(uid)) is not None:
            self._follow(entry.kind)

    def demote(self, uid: str) -> None:
        """Put a pod behind all others from its next attempt on, until it is reinstated or edited."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.demoted = True

    def reinstate(self, uid: str) -> None:
        """Undo a demotion, and end the pod's pause if it waits for nothing else."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.demoted = False
            if entry.wants is None:
                self._leave(entry)
                entry.not_before = 0.0
                self._stand_in_line(entry)

    def helped(self, changes: Iterable[decisions.Help]) -> None:
        """Wake the pods that one of these changes could help."""
        for change in changes:
            for uid, entry in list(self._wanting[change].items()):
                self._leave(entry)
                entry.wants = None
                self._woken[uid] = entry

    # ------------------------------------------------------------ whose turn it is

    def ready(self, now: float, limit: int | None = None) -> list[Candidate]:
        """Name the pods to try now, in order, at most so many."""
        self._hurry()
        while self._pausing and self._pausing[0][0] <= now:
            _, ticket, uid = heapq.heappop(self._pausing)
            if (entry := self._holder(uid, ticket)) is not None:
                self._stand_in_line(entry)
        most = limit if limit is None else min(limit, SEARCHED_AT_ONCE)
        turn = sorted([*self._next_of(self._line, limit), *self._next_of(self._searched, most)])
        entries = [self._entries[uid] for _, _, uid in turn[:limit]]
        if self._raised:
            entries = label_order.reordered(entries, self._first_raised)
        return [entry.candidate for entry in entries]

    def _first_raised(self, group: label_order.Group, most: int) -> list[Entry]:
        """Return the first raised pods of a group that are in line."""
        line = self._raised.get(group, [])
        found = [self._entries[uid] for _, _, uid in self._next_of(line, most)]
        if group in self._raised and not line:
            del self._raised[group]
        return found

    def _next_of(self, line: list[tuple[P, int, str]], limit: int | None) -> list[tuple[P, int, str]]:
        """Return the first places of a line, at most so many, and leave them there; void ones are dropped."""
        turn: list[tuple[P, int, str]] = []
        while line and (limit is None or len(turn) < limit):
            place = heapq.heappop(line)
            if self._holder(place[2], place[1]) is not None:
                turn.append(place)
        for place in turn:
            heapq.heappush(line, place)
        return turn

    def next_due(self) -> float | None:
        """Tell when the next pod becomes ready by time alone."""
        self._hurry()
        first = self._first(self._line) or self._first(self._searched) or self._first(self._pausing)
        return first.not_before if first is not None else None

    def _hurry(self) -> None:
        """Let the first of those that were woken since the last time be tried at once."""
        if self._woken:
            tried: collections.Counter[int] = collections.Counter()
            room = TRIED_AT_ONCE
            woken = sorted(self._woken.values(), key=lambda one: one.turn)
            places = [one.turn for one in woken]
            if any(one.candidate.label > 0 for one in woken):
                woken = label_order.reordered(woken, lambda *_: ())
            for entry, turn in zip(woken, places, strict=True):
                if tried[entry.kind] < TRIED_OF_A_KIND and room:
                    tried[entry.kind] += 1
                    room -= 1
                    entry.not_before = 0.0
                    self._stand_in_line(entry)
                else:
                    self._pause(entry)
                    place = turn, entry.ticket, entry.candidate.uid
                    heapq.heappush(self._behind.setdefault(entry.kind, []), place)
            self._woken.clear()
            for kind in [kind for kind, queue in self._behind.items() if self._first(queue) is None]:
                del self._behind[kind]

    def _follow(self, kind: int) -> None:
        """Let the next of a kind be tried at once, of those that were woken but pause."""
        queue = self._behind.get(kind, [])
        if (entry := self._first(queue)) is not None:
            heapq.heappop(queue)
            entry.not_before = 0.0
            self._stand_in_line(entry)

    # ------------------------------------------------------------ queues

    def _stand_in_line(self, entry: Entry) -> None:
        line = self._searched if entry.candidate.searched else self._line
        if len(line) > 2 * len(self._entries) + SPARE_PLACES:
            # Who only watches takes nobody out of the line, and void tickets would pile up in it.
            line[:] = [place for place in line if self._holder(place[2], place[1]) is not None]
            heapq.heapify(line)
        ticket, uid = self._ticket(entry), entry.candidate.uid
        heapq.heappush(line, (entry.turn, ticket, uid))
        if entry.raised:
            heapq.heappush(self._raised.setdefault(entry.group, []), (entry.local, ticket, uid))

    def _pause(self, entry: Entry) -> None:
        heapq.heappush(self._pausing, (entry.not_before, self._ticket(entry), entry.candidate.uid))

    def _ticket(self, entry: Entry) -> int:
        self._tickets += 1
        entry.ticket = self._tickets
        return self._tickets

    def _first(self, queue: list[tuple[P, int, str]]) -> Entry | None:
        """Give who comes first in a queue, throwing void tickets away."""
        while queue:
            _, ticket, uid = queue[0]
            if (entry := self._holder(uid, ticket)) is not None:
                return entry
            heapq.heappop(queue)
        return None

    def _holder(self, uid: str, ticket: int) -> Entry | None:
        entry = self._entries.get(uid)
        return entry if entry is not None and entry.ticket == ticket else None

    def _leave(self, entry: Entry) -> None:
        """Leave whatever queue the pod stands in."""
        entry.ticket = 0
        self._woken.pop(entry.candidate.uid, None)
        for change in entry.wants or ():
            self._wanting[change].pop(entry.candidate.uid, None)


def pause(attempts: int, *, demoted: bool = False) -> float:
    """Say how long to wait after so many attempts."""
    longest = LONGEST_DEMOTED_SECONDS if demoted else LONGEST_PAUSE_SECONDS
    return float(min(longest, FIRST_PAUSE_SECONDS * 2 ** min(attempts, 20)))
