"""Changes of one thing wake the waiting pods that it may help, but none too often.

To wake pods means to compare each kind of them with what has changed, and to try those that it may help.
Whoever has the token of an agent can have a card fall sick and recover many times in a second, and whoever
may edit a claim that many pods use can do so as often; other pods would wait meanwhile. So what changes
wakes pods at once, a few times in a row, and after that once in a second. What is late is not lost: the
pods are woken when the time has come, by what is true then. A long Device (`device_size`) is not even read
more often; nor is it worked out more often what unadmitted pods are charged where a node has many.
"""

import collections
from collections.abc import Callable, Hashable
from typing import Final

WAKES_IN_A_ROW: Final = 8  # A claim changes five times or so until it is bound to its volume.
SECONDS_BETWEEN_WAKES: Final = 1.0


def long_device(node: str) -> Hashable:
    """Return the key under which a long Device is paced."""
    return "a long Device has changed", node


def charges_of_unadmitted(node: str) -> Hashable:
    """Return the key under which the charges of the unadmitted pods of a node are paced."""
    return "there may be room for other unadmitted pods", node


class PacedWakes:
    """Calls that wake pods, each by what has changed, and those of them that are to be made later."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # When all wakes so far would have been made, one each second. Mostly in that order.
        self._paid_until: collections.OrderedDict[Hashable, float] = collections.OrderedDict()
        self._delayed: dict[Hashable, Callable[[], None]] = {}

    def wake(self, changed: Hashable, call: Callable[[], None], *, paced: bool = True) -> None:
        """Make a call that wakes the pods which something that has changed may help, now or soon.

        Of the calls for the same thing that come too soon only one is made. One that is not `paced`, since it
        costs little, is made now.
        """
        if not paced:
            self.forget(changed)
            call()
            return
        if changed in self._delayed or self._free_at(changed) > self._clock():
            self._delayed[changed] = call
        else:
            self._wake_now(changed, call)
        oldest = next(iter(self._delayed), None)
        if oldest is not None and self._free_at(oldest) <= self._clock():
            self.wake_delayed()  # Where nobody leads, there are no rounds that make the delayed calls.

    def is_delayed(self, changed: Hashable) -> bool:
        """Whether a call for something is to be made later."""
        return changed in self._delayed

    def forget(self, changed: Hashable) -> None:
        """Make no delayed call for something."""
        self._delayed.pop(changed, None)

    def wake_delayed(self) -> None:
        """Make the delayed calls whose time has come."""
        now = self._clock()
        for changed in [one for one in self._delayed if self._free_at(one) <= now]:
            if (call := self._delayed.pop(changed, None)) is not None:  # A call may make others of them.
                self._wake_now(changed, call)

    def wake_all_delayed(self) -> None:
        """Make all delayed calls, whether their time has come or not: where there are no further rounds."""
        while self._delayed:
            _, call = self._delayed.popitem()
            call()

    def next_due(self) -> float | None:
        """Return when the next of the delayed calls is to be made."""
        return min(map(self._free_at, self._delayed), default=None)

    def _wake_now(self, changed: Hashable, call: Callable[[], None]) -> None:
        now = self._clock()
        self._paid_until[changed] = max(self._paid_until.get(changed, 0.0), now) + SECONDS_BETWEEN_WAKES
        self._paid_until.move_to_end(changed)
        while next(iter(self._paid_until.values())) <= now:
            self._paid_until.popitem(last=False)
        call()

    def _free_at(self, changed: Hashable) -> float:
        return self._paid_until.get(changed, 0.0) - (WAKES_IN_A_ROW - 1) * SECONDS_BETWEEN_WAKES
