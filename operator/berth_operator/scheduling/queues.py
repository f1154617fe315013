"""Lines of pods, each sorted by some key, in which places become void without being looked for.

Whoever moves on leaves its place behind, which is void from then on, because the number on it is
not the pod's number any more: so moving costs nothing, however long a line is. What is void is
dropped when it comes first, and all of it when a line has grown to twice what was valid the last
time: so no line takes more memory than the pods that stand in it need.

A `Line` is one line, `Lines` are several by name. A `Queue` is one line made of those of all
namespaces, `Queues` are several by name.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

SPARE_PLACES: Final = 64

K = TypeVar("K", bound=tuple[Any, ...] | float)
N = TypeVar("N")
Place = tuple[K, int, str]
Valid = Callable[[str, int], bool]


class Line(Generic[K]):
    """One line; `valid` tells of a uid and a number whether that place is still held."""

    def __init__(self, valid: Valid) -> None:
        self._valid = valid
        self._places: list[Place[K]] = []
        self._new: list[Place[K]] = []  # Not sorted in yet: many are void before anybody asks for them.
        self._most = SPARE_PLACES

    def __len__(self) -> int:
        """Count the places, void ones included."""
        return len(self._places) + len(self._new)

    def push(self, key: K, number: int, uid: str) -> None:
        """Add a place for a pod."""
        if len(self._places) + len(self._new) >= self._most:
            self._places = [place for place in (*self._places, *self._new) if self._valid(place[2], place[1])]
            self._new.clear()
            heapq.heapify(self._places)
            self._most = 2 * len(self._places) + SPARE_PLACES
        self._new.append((key, number, uid))

    def first(self) -> Place[K] | None:
        """Return the first place that is valid."""
        places, valid = self._places, self._valid
        if self._new:
            for place in self._new:
                if valid(place[2], place[1]):
                    heapq.heappush(places, place)
            self._new.clear()
        while places:
            first = places[0]
            if valid(first[2], first[1]):
                return first
            heapq.heappop(places)
        return None

    def pop(self) -> Place[K] | None:
        """Remove the first valid place, and return it."""
        return heapq.heappop(self._places) if self.first() is not None else None

    def take(self) -> None:
        """Remove the place that `first` has just returned."""
        heapq.heappop(self._places)

    def put_back(self, place: Place[K]) -> None:
        """Return a place to the queue that was taken out and is still valid."""
        heapq.heappush(self._places, place)

    def next_of(self, limit: int | None = None) -> list[Place[K]]:
        """Return the first valid places, at most so many, and leave them there."""
        turn: list[Place[K]] = []
        while (limit is None or len(turn) < limit) and (place := self.pop()) is not None:
            turn.append(place)
        for place in turn:
            heapq.heappush(self._places, place)
        return turn


class Lines(Generic[N, K]):
    """Lines by name; those in which nobody stands are dropped by the same rule as void places."""

    def __init__(self, valid: Valid) -> None:
        self._valid = valid
        self._lines: dict[N, Line[K]] = {}
        self._most = SPARE_PLACES

    def __len__(self) -> int:
        """Count the lines."""
        return len(self._lines)

    def __iter__(self) -> Iterator[N]:
        """Iterate over the names of the lines, the one that was moved back last at the end."""
        return iter(list(self._lines))

    @property
    def places(self) -> int:
        """Count the places of all lines, void ones included."""
        return sum(map(len, self._lines.values()))

    @property
    def empty(self) -> bool:
        """Whether nobody stands in any line; those in which nobody does are dropped."""
        return not self._lines or all(self.first(name) is None for name in list(self._lines))

    def push(self, name: N, key: K, number: int, uid: str) -> None:
        """Add a place for a pod to a line."""
        self._line(name).push(key, number, uid)

    def _line(self, name: N) -> Line[K]:
        line = self._lines.get(name)
        if line is None:
            self._make_room()
            line = self._lines[name] = Line(self._valid)
        return line

    def _make_room(self) -> None:
        if len(self._lines) >= self._most:
            self._lines = {name: line for name, line in self._lines.items() if line.first() is not None}
            self._most = 2 * len(self._lines) + SPARE_PLACES

    def first(self, name: N) -> Place[K] | None:
        """Return the first valid place of a line."""
        line = self._lines.get(name)
        if line is None:
            return None
        place = line.first()
        if place is None:
            del self._lines[name]
        return place

    def take(self, name: N) -> None:
        """Remove the place that `first` has just returned of a line."""
        self._lines[name].take()

    def put_back(self, name: N, place: Place[K]) -> None:
        """Return a place to the queue that was taken out of a line, if it is still valid."""
        if self._valid(place[2], place[1]):
            self._line(name).put_back(place)

    def next_of(self, name: N, limit: int) -> list[Place[K]]:
        """Return the first valid places of a line, at most so many, and leave them there."""
        return self._lines[name].next_of(limit) if self.first(name) is not None else []

    def move_back(self, name: N) -> None:
        """Move a line to the end of the order in which they are iterated over."""
        self._lines[name] = self._lines.pop(name)


class HeldUpNamespaces:
    """The namespaces whose pods are passed over in all queues."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.version = 0  # How often a namespace was admitted again.

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def add(self, name: str) -> None:
        """Pass the pods of a namespace over from now on."""
        self.names.add(name)

    def admit(self, name: str) -> None:
        """Admit the pods of a namespace again."""
        self.names.discard(name)
        self.version += 1


class Queue(Generic[K]):
    """One line of the pods of all namespaces; those of a namespace are passed over at once."""

    def __init__(self, valid: Valid, held_up: HeldUpNamespaces) -> None:
        self._held_up = held_up
        self._version = 0
        self._lines = Lines[str, K](valid)
        self._heads: list[tuple[K, str]] = []  # The first of each namespace, and some that are so no more.
        self._head: dict[str, K] = {}  # Which of the heads count.
        self._unsure: set[str] = set()  # Namespaces that may have another head by now.
        self._left_out: set[str] = set()

    @property
    def places(self) -> int:
        """Count the places, void ones included."""
        return self._lines.places + len(self._heads) + len(self._left_out)

    @property
    def empty(self) -> bool:
        """Whether nobody stands here, not even somebody who is held up."""
        return self.first() is None and not self._left_out

    def push(self, name: str, key: K, number: int, uid: str) -> None:
        """Add a place for a pod of a namespace."""
        self._lines.push(name, key, number, uid)
        self._unsure.add(name)

    def first(self) -> tuple[Place[K], str] | None:
        """Return the first place that is valid and is not held up, and its namespace."""
        if self._unsure or self._version != self._held_up.version:
            self._renew()
        while self._heads:
            key, name = self._heads[0]
            if self._head.get(name) != key:
                heapq.heappop(self._heads)
                continue
            place = self._lines.first(name) if name not in self._held_up.names else None
            if place is None:
                del self._head[name]
                heapq.heappop(self._heads)
                self._queue(name, place)
            elif place[0] == key:
                return place, name
            else:
                self._head[name] = place[0]
                heapq.heapreplace(self._heads, (place[0], name))
        return None

    def pop(self) -> tuple[Place[K], str] | None:
        """Remove the first place that is valid and is not held up, and return it and its namespace."""
        found = self.first()
        if found is not None:
            self.take(found[1])
        return found

    def take(self, name: str) -> None:
        """Remove the place that `first` has just returned, which is of this namespace."""
        self._lines.take(name)

    def put_back(self, place: Place[K], name: str) -> None:
        """Return a place to the queue that was taken out, if it is still valid."""
        self._lines.put_back(name, place)
        self._unsure.add(name)

    def next_of(self, name: str, limit: int) -> list[Place[K]]:
        """Return the first valid places of a namespace, at most so many, and leave them there."""
        return self._lines.next_of(name, limit)

    def _renew(self) -> None:
        if self._version != self._held_up.version:
            self._version = self._held_up.version
            self._unsure |= self._left_out - self._held_up.names
        for name in self._unsure:
            self._queue(name, self._lines.first(name))
        self._unsure.clear()

    def _queue(self, name: str, first: Place[K] | None) -> None:
        """Add a namespace to the queue with its first place, unless it is held up."""
        if name in self._held_up:
            self._left_out.add(name)
            return
        self._left_out.discard(name)
        known = self._head.get(name)
        if first is not None and (known is None or _earlier(first[0], known)):
            self._head[name] = first[0]
            heapq.heappush(self._heads, (first[0], name))
            if len(self._heads) > 2 * len(self._head) + SPARE_PLACES:
                self._heads = [(key, one) for one, key in self._head.items()]
                heapq.heapify(self._heads)


def _earlier(one: Any, other: Any) -> bool:
    return bool(one < other)


class Queues(Generic[N, K]):
    """Queues by name; those in which nobody stands are dropped by the same rule as void places."""

    def __init__(self, valid: Valid, held_up: HeldUpNamespaces) -> None:
        self._valid = valid
        self._held_up = held_up
        self._queues: dict[N, Queue[K]] = {}
        self._most = SPARE_PLACES

    def __iter__(self) -> Iterator[N]:
        """Iterate over the names of the queues."""
        return iter(list(self._queues))

    @property
    def places(self) -> int:
        """Count the places of all queues, void ones included, and the queues."""
        return len(self._queues) + sum(one.places for one in self._queues.values())

    def of(self, name: N) -> Queue[K]:
        """Return a queue, a new one if there is none."""
        if name not in self._queues:
            if len(self._queues) >= self._most:
                self._queues = {one: queue for one, queue in self._queues.items() if not queue.empty}
                self._most = 2 * len(self._queues) + SPARE_PLACES
            self._queues[name] = Queue(self._valid, self._held_up)
        return self._queues[name]

    def pop(self, name: N) -> Place[K] | None:
        """Remove the first place of a queue that is valid and is not held up, and return it."""
        queue = self._queues.get(name)
        found = queue.pop() if queue is not None else None
        if queue is not None and queue.empty:
            del self._queues[name]
        return found[0] if found is not None else None


def walk(*parts: tuple[Queue[K], float]) -> Iterator[Place[K]]:
    """Yield the first valid places of some queues in order, at most so many of each, and leave them there.

    What comes in line meanwhile has its turn as well, and who is held up from now on has none. A place
    costs nothing before it is asked for.
    """
    left = dict(parts)
    taken: list[tuple[Queue[K], Place[K], str]] = []
    try:
        while True:
            head: tuple[Place[K], str] | None = None
            first = parts[0][0]
            for queue, room in left.items():
                found = queue.first() if room else None
                if found is not None and (head is None or found < head):
                    head, first = found, queue
            if head is None:
                return
            left[first] -= 1
            first.take(head[1])
            taken.append((first, *head))
            yield head[0]
    finally:
        for queue, place, name in taken:
            queue.put_back(place, name)
