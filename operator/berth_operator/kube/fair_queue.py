"""Things that wait to be written, by namespace: each has its turn, so that a crowd delays only its own."""

import collections
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class InTurns(Generic[T]):
    """Things by name: of each name the oldest comes first, and the names take turns.

    A name of which nothing waits is not remembered; when it comes again, it comes after the others.
    """

    def __init__(self) -> None:
        # The name whose turn it is comes first; an ordinary dict is slow to find its first after many moves.
        self._things: collections.OrderedDict[str, collections.deque[T]] = collections.OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Count the things of all names."""
        return self._count

    def push(self, name: str, thing: T) -> None:
        """Add a thing, the last of its name."""
        self._of(name).append(thing)
        self._count += 1

    def put_back(self, name: str, thing: T) -> None:
        """Add a thing that comes before all others."""
        self._of(name).appendleft(thing)
        self._things.move_to_end(name, last=False)
        self._count += 1

    def _of(self, name: str) -> collections.deque[T]:
        things = self._things.get(name)
        if things is None:
            things = self._things[name] = collections.deque()
        return things

    def pop(self) -> T:
        """Remove the thing that comes first, and return it; the next one is another name's."""
        name = next(iter(self._things))
        self._things.move_to_end(name)
        return self._oldest(name)

    def take(self, most: int) -> list[T]:
        """Remove the things that come first, at most so many, and return them."""
        return [self.pop() for _ in range(min(most, self._count))]

    def drop(self) -> T:
        """Remove the oldest thing of the name that has most, and return it."""
        return self._oldest(max(self._things, key=lambda name: len(self._things[name])))

    def _oldest(self, name: str) -> T:
        things = self._things[name]
        found = things.popleft()
        if not things:
            del self._things[name]
        self._count -= 1
        return found

    def replace(self, things: Iterable[tuple[str, T]]) -> None:
        """Have these things instead; who was there before keeps the turn."""
        for left in self._things.values():
            left.clear()
        self._count = 0
        for name, thing in things:
            self.push(name, thing)
        for name in [name for name, one in self._things.items() if not one]:
            del self._things[name]
