"""A queue that serves its keys (namespaces) in turn, so that a crowd delays only its own items."""

import collections
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items by key: the oldest of a key comes first, and the keys take turns.

    A key without items is forgotten; when it comes back, it comes after the others.
    """

    def __init__(self) -> None:
        # The key whose turn it is comes first; an ordinary dict is slow to find its first after many moves.
        self._items: collections.OrderedDict[str, collections.deque[T]] = collections.OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Return the number of items of all keys."""
        return self._count

    def push(self, key: str, item: T) -> None:
        """Add an item, the last of its key."""
        self._of(key).append(item)
        self._count += 1

    def put_back(self, key: str, item: T) -> None:
        """Add an item that comes before all others."""
        self._of(key).appendleft(item)
        self._items.move_to_end(key, last=False)
        self._count += 1

    def _of(self, key: str) -> collections.deque[T]:
        if (items := self._items.get(key)) is None:
            items = self._items[key] = collections.deque()
        return items

    def pop(self) -> T:
        """Remove and return the first item; the next one is another key's."""
        key = next(iter(self._items))
        self._items.move_to_end(key)
        return self._oldest(key)

    def pop_many(self, most: int) -> list[T]:
        """Remove and return the first items, at most so many."""
        return [self.pop() for _ in range(min(most, self._count))]

    def drop(self) -> T:
        """Remove and return the oldest item of the key that has most."""
        return self._oldest(max(self._items, key=lambda key: len(self._items[key])))

    def _oldest(self, key: str) -> T:
        items = self._items[key]
        found = items.popleft()
        if not items:
            del self._items[key]
        self._count -= 1
        return found

    def replace(self, items: Iterable[tuple[str, T]]) -> None:
        """Replace all items; keys that stay keep their turn."""
        for left in self._items.values():
            left.clear()
        self._count = 0
        for key, item in items:
            self.push(key, item)
        for key in [key for key, one in self._items.items() if not one]:
            del self._items[key]
