"""Lines of pods, each sorted by some key, in which places become void without being looked for.

Whoever moves on leaves its place behind, which is void from then on, because the number on it is
not the pod's number any more: so moving costs nothing, however long a line is. What is void is
dropped when it comes first, and all of it when a line has grown to twice what was valid the last
time: so no line takes more memory than the pods that stand in it need.
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
        if len(self) >= self._most:
            self._places = [place for place in (*self._places, *self._new) if self._valid(place[2], place[1])]
            self._new.clear()
            heapq.heapify(self._places)
            self._most = 2 * len(self._places) + SPARE_PLACES
        self._new.append((key, number, uid))

    def first(self) -> Place[K] | None:
        """Return the first place that is valid."""
        if self._new:
            for place in self._new:
                self.put_back(place)
            self._new.clear()
        while self._places and not self._valid(self._places[0][2], self._places[0][1]):
            heapq.heappop(self._places)
        return self._places[0] if self._places else None

    def pop(self) -> Place[K] | None:
        """Take the first valid place out, and return it."""
        return heapq.heappop(self._places) if self.first() is not None else None

    def put_back(self, place: Place[K]) -> None:
        """Return a place that was taken out, if it is still valid."""
        if self._valid(place[2], place[1]):
            heapq.heappush(self._places, place)

    def next_of(self, limit: int | None = None) -> list[Place[K]]:
        """Return the first valid places, at most so many, and leave them there."""
        turn: list[Place[K]] = []
        while (limit is None or len(turn) < limit) and (place := self.pop()) is not None:
            turn.append(place)
        for place in turn:
            heapq.heappush(self._places, place)
        return turn


def walk(*parts: tuple[Line[K], float]) -> Iterator[Place[K]]:
    """Yield the first valid places of some lines in order, at most so many of each, and leave them there.

    What comes in line meanwhile has its turn as well. A place costs nothing before it is asked for.
    """
    left = [most for _, most in parts]
    taken: list[tuple[Line[K], Place[K]]] = []
    try:
        while heads := [
            (place, at)
            for at, (line, _) in enumerate(parts)
            if left[at] and (place := line.first()) is not None
        ]:
            place, at = min(heads)
            left[at] -= 1
            line = parts[at][0]
            line.pop()
            taken.append((line, place))
            yield place
    finally:
        for line, place in taken:
            line.put_back(place)


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

    def push(self, name: N, key: K, number: int, uid: str) -> None:
        """Add a place for a pod to a line."""
        line = self._lines.get(name)
        if line is None:
            self._make_room()
            line = self._lines[name] = Line(self._valid)
        line.push(key, number, uid)

    def _make_room(self) -> None:
        if len(self._lines) >= self._most:
            self._lines = {name: line for name, line in self._lines.items() if line.first() is not None}
            self._most = 2 * len(self._lines) + SPARE_PLACES

    def first(self, name: N) -> Place[K] | None:
        """Return the first valid place of a line."""
        line = self._lines.get(name)
        place = line.first() if line is not None else None
        if line is not None and place is None:
            del self._lines[name]
        return place

    def pop(self, name: N) -> Place[K] | None:
        """Take the first valid place of a line out, and return it."""
        return self._lines[name].pop() if self.first(name) is not None else None

    def next_of(self, name: N, limit: int) -> list[Place[K]]:
        """Return the first valid places of a line, at most so many, and leave them there."""
        return self._lines[name].next_of(limit) if self.first(name) is not None else []

    def move_back(self, name: N) -> None:
        """Move a line to the end of the order in which they are iterated over."""
        self._lines[name] = self._lines.pop(name)
