"""Lines of pods, each sorted by a key, in which the tickets of pods that left become void by themselves.

A pod stands in a line with a numbered ticket. When it leaves it gets another number, so that the
ticket is void and need not be searched for: moving costs nothing, however long a line is. Void
tickets are dropped when they come first, and all at once when a line has grown to twice what was
valid the last time: no line takes more memory than the pods that stand in it need.

A `Line` is one line, `Lines` are several by name. A `Queue` is one line made of those of all
namespaces, `Queues` are several by name. Which pods stand in which is for `backlog` to say, and for how
long a pod backs off for `queued_pods`.
"""

import heapq
import math
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, Generic, TypeVar

SPARE_TICKETS: Final = 64

K = TypeVar("K", bound=tuple[Any, ...] | float)
N = TypeVar("N")
Ticket = tuple[K, int, str]  # The key by which it is sorted, its number, and the pod's uid.
Valid = Callable[[str, int], bool]


class Line(Generic[K]):
    """One line; `valid` tells of a uid and a number whether that ticket is still held."""

    def __init__(self, valid: Valid) -> None:
        self._valid = valid
        self._tickets: list[Ticket[K]] = []
        self._new: list[Ticket[K]] = []  # Not sorted in yet: many are void before they are needed.
        self._most = SPARE_TICKETS

    def __len__(self) -> int:
        """Count the tickets, void ones included."""
        return len(self._tickets) + len(self._new)

    def push(self, key: K, number: int, uid: str) -> None:
        """Add a ticket for a pod."""
        if len(self._tickets) + len(self._new) >= self._most:
            self._tickets = [
                ticket for ticket in (*self._tickets, *self._new) if self._valid(ticket[2], ticket[1])
            ]
            self._new.clear()
            heapq.heapify(self._tickets)
            self._most = 2 * len(self._tickets) + SPARE_TICKETS
        self._new.append((key, number, uid))

    def first(self) -> Ticket[K] | None:
        """Return the first ticket that is valid."""
        tickets, valid = self._tickets, self._valid
        if self._new:
            for ticket in self._new:
                if valid(ticket[2], ticket[1]):
                    heapq.heappush(tickets, ticket)
            self._new.clear()
        while tickets:
            first = tickets[0]
            if valid(first[2], first[1]):
                return first
            heapq.heappop(tickets)
        return None

    def pop(self) -> Ticket[K] | None:
        """Remove the first valid ticket, and return it."""
        return heapq.heappop(self._tickets) if self.first() is not None else None

    def take(self) -> None:
        """Remove the ticket that `first` has just returned."""
        heapq.heappop(self._tickets)

    def put_back(self, ticket: Ticket[K]) -> None:
        """Put a ticket back that was taken out and is still valid."""
        heapq.heappush(self._tickets, ticket)

    def next_of(self, limit: int | None = None) -> list[Ticket[K]]:
        """Return the first valid tickets, at most so many, and leave them there."""
        turn: list[Ticket[K]] = []
        while (limit is None or len(turn) < limit) and (ticket := self.pop()) is not None:
            turn.append(ticket)
        for ticket in turn:
            heapq.heappush(self._tickets, ticket)
        return turn


class Lines(Generic[N, K]):
    """Lines by name; those in which no pod stands are dropped by the same rule as void tickets."""

    def __init__(self, valid: Valid) -> None:
        self._valid = valid
        self._lines: dict[N, Line[K]] = {}
        self._most = SPARE_TICKETS

    def __len__(self) -> int:
        """Count the lines."""
        return len(self._lines)

    def __iter__(self) -> Iterator[N]:
        """Iterate over the names of the lines, the one that was moved back last at the end."""
        return iter(list(self._lines))

    @property
    def tickets(self) -> int:
        """Count the tickets of all lines, void ones included."""
        return sum(map(len, self._lines.values()))

    @property
    def empty(self) -> bool:
        """Whether no pod stands in any line; empty lines are dropped."""
        for name in tuple(self._lines):
            if self.first(name) is not None:
                return False
            del self._lines[name]
        return True

    def push(self, name: N, key: K, number: int, uid: str) -> None:
        """Add a ticket for a pod to a line."""
        self._line(name).push(key, number, uid)

    def _line(self, name: N) -> Line[K]:
        if (line := self._lines.get(name)) is None:
            self._make_room()
            line = self._lines[name] = Line(self._valid)
        return line

    def _make_room(self) -> None:
        if len(self._lines) >= self._most:
            self._lines = {name: line for name, line in self._lines.items() if line.first() is not None}
            self._most = 2 * len(self._lines) + SPARE_TICKETS

    def first(self, name: N) -> Ticket[K] | None:
        """Return the first valid ticket of a line."""
        line = self._lines.get(name)
        return line.first() if line is not None else None

    def take(self, name: N) -> None:
        """Remove the ticket that `first` has just returned of a line."""
        self._lines[name].take()

    def put_back(self, name: N, ticket: Ticket[K]) -> bool:
        """Put a ticket back that was taken out of a line, if it is still valid; return whether it is."""
        if valid := self._valid(ticket[2], ticket[1]):
            self._line(name).put_back(ticket)
        return valid

    def next_of(self, name: N, limit: int) -> list[Ticket[K]]:
        """Return the first valid tickets of a line, at most so many, and leave them there."""
        return self._lines[name].next_of(limit) if self.first(name) is not None else []

    def move_back(self, name: N) -> None:
        """Move a line to the end of the order in which they are iterated over."""
        self._lines[name] = self._lines.pop(name)


class SuspendedNamespaces:
    """The namespaces whose pods are skipped in all queues."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.version = 0  # How often a namespace was resumed.

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def add(self, name: str) -> None:
        """Skip the pods of a namespace from now on."""
        self.names.add(name)

    def resume(self, name: str) -> None:
        """No longer skip the pods of a namespace."""
        self.names.discard(name)
        self.version += 1


class Queue(Generic[K]):
    """One line of the pods of all namespaces; all pods of a namespace can be skipped at once."""

    def __init__(self, valid: Valid, suspended: SuspendedNamespaces) -> None:
        self._suspended = suspended
        self._version = 0
        self._lines = Lines[str, K](valid)
        # A heap of namespaces by the keys of their first pods; those count whose keys are the current ones.
        self._heads: list[tuple[K, str]] = []
        self._current: dict[str, K] = {}
        self._left_out: set[str] = set()  # Namespaces without a head, because they are or were suspended.

    @property
    def tickets(self) -> int:
        """Count the tickets, void ones included."""
        return self._lines.tickets + len(self._heads) + len(self._left_out)

    @property
    def empty(self) -> bool:
        """Whether no pod stands here, not even one of a suspended namespace."""
        return self.first() is None and not self._left_out

    def push(self, name: str, key: K, number: int, uid: str) -> None:
        """Add a ticket for a pod of a namespace."""
        self._lines.push(name, key, number, uid)
        self._update_head(name, key)

    def _update_head(self, name: str, key: Any) -> None:
        """Let a ticket come first in its namespace if its key is the lowest there."""
        if name in self._suspended.names:
            self._left_out.add(name)
        elif (known := self._current.get(name)) is None or key < known:
            self._current[name] = key
            heapq.heappush(self._heads, (key, name))
            if len(self._heads) > 2 * len(self._current) + SPARE_TICKETS:
                self._heads = [(key, one) for one, key in self._current.items()]
                heapq.heapify(self._heads)

    def first(self) -> tuple[Ticket[K], str] | None:
        """Return the first ticket that is valid and is not suspended, and its namespace."""
        if self._version != self._suspended.version:
            self._resume()
        while self._heads:
            key, name = self._heads[0]
            if self._current.get(name) != key:
                heapq.heappop(self._heads)
            elif name in self._suspended.names:
                self._left_out.add(name)
                self._drop_first_head(name)
            elif (ticket := self._lines.first(name)) is None:
                self._drop_first_head(name)
            elif ticket[0] == key:
                return ticket, name
            else:
                self._current[name] = ticket[0]
                heapq.heapreplace(self._heads, (ticket[0], name))
        return None

    def _drop_first_head(self, name: str) -> None:
        del self._current[name]
        heapq.heappop(self._heads)

    def _resume(self) -> None:
        """Include the namespaces again that are no longer suspended."""
        self._version = self._suspended.version
        resumed = self._left_out - self._suspended.names
        self._left_out -= resumed
        for name in resumed:
            self.bring_back(name)

    def pop(self) -> tuple[Ticket[K], str] | None:
        """Remove the first ticket that is valid and is not suspended, and return it and its namespace."""
        if (found := self.first()) is not None:
            self.take(found[1])
        return found

    def take(self, name: str) -> None:
        """Remove the ticket that `first` has just returned, which is of this namespace."""
        self._lines.take(name)

    def put_back(self, ticket: Ticket[K], name: str) -> None:
        """Put a ticket back that was taken out, if it is still valid."""
        if self._lines.put_back(name, ticket):
            self._update_head(name, ticket[0])

    def first_of_others(
        self, skipped: Callable[[str], bool], aside: list[tuple["Queue[K]", str]]
    ) -> tuple[Ticket[K], str] | None:
        """Return the first ticket of a namespace that is not skipped.

        Those that come before it are set aside and added to a list, until they are brought back.
        """
        while (found := self.first()) is not None and skipped(found[1]):
            self._drop_first_head(found[1])
            aside.append((self, found[1]))
        return found

    def bring_back(self, name: str) -> None:
        """No longer skip a namespace."""
        if (ticket := self._lines.first(name)) is not None:
            self._update_head(name, ticket[0])

    def next_of(self, name: str, limit: int) -> list[Ticket[K]]:
        """Return the first valid tickets of a namespace, at most so many, and leave them there."""
        return self._lines.next_of(name, limit)


class Queues(Generic[N, K]):
    """Queues by name; those in which no pod stands are dropped by the same rule as void tickets."""

    def __init__(self, valid: Valid, suspended: SuspendedNamespaces) -> None:
        self._valid = valid
        self._suspended = suspended
        self._queues: dict[N, Queue[K]] = {}
        self._most = SPARE_TICKETS

    def __iter__(self) -> Iterator[N]:
        """Iterate over the names of the queues."""
        return iter(list(self._queues))

    @property
    def tickets(self) -> int:
        """Count the tickets of all queues, void ones included, and the queues."""
        return len(self._queues) + sum(one.tickets for one in self._queues.values())

    def of(self, name: N) -> Queue[K]:
        """Return a queue, a new one if there is none."""
        if name not in self._queues:
            if len(self._queues) >= self._most:
                self._queues = {one: queue for one, queue in self._queues.items() if not queue.empty}
                self._most = 2 * len(self._queues) + SPARE_TICKETS
            self._queues[name] = Queue(self._valid, self._suspended)
        return self._queues[name]

    def pop(self, name: N) -> Ticket[K] | None:
        """Remove the first ticket of a queue that is valid and is not suspended, and return it."""
        queue = self._queues.get(name)
        found = queue.pop() if queue is not None else None
        if queue is not None and queue.empty:
            del self._queues[name]
        return found[0] if found is not None else None


def uids(queue: Queue[Any]) -> set[str]:
    """Return the uids of all pods that stand in a queue."""
    return {uid for _, _, uid in walk((queue, math.inf))}


def walk(
    *parts: tuple[Queue[K], float], skipped: Callable[[str], bool] = lambda _: False
) -> Generator[Ticket[K], None, None]:
    """Yield the first valid tickets of some queues in order, at most so many of each, and leave them there.

    A pod that joins meanwhile is included, and one whose namespace is suspended meanwhile is not, nor one
    whose namespace is `skipped`. No ticket is looked at before it is needed.
    """
    left = dict(parts)
    taken: list[tuple[Queue[K], Ticket[K], str]] = []
    aside: list[tuple[Queue[K], str]] = []
    try:
        while True:
            head: tuple[Ticket[K], str] | None = None
            first = parts[0][0]
            for queue, room in left.items():
                found = queue.first_of_others(skipped, aside) if room else None
                if found is not None and (head is None or found < head):
                    head, first = found, queue
            if head is None:
                return
            left[first] -= 1
            first.take(head[1])
            taken.append((first, *head))
            yield head[0]
    finally:
        _restore(taken, aside)


def _restore(taken: list[tuple[Queue[K], Ticket[K], str]], aside: list[tuple[Queue[K], str]]) -> None:
    for queue, ticket, name in taken:
        queue.put_back(ticket, name)
    for queue, name in aside:
        queue.bring_back(name)
