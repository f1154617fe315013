"""Whose trouble it is that things cannot be written: everybody's, or that of one of them.

What fails alone rests, longer each time, and comes after all others. What fails one after the
other at several different things, with no success in between, is everybody's trouble, which is
held against none of them.
"""

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

SEVERAL: Final = 2
PAUSE_SECONDS: Final = (1.0, 2.0, 5.0, 15.0)  # So late is what an outage met alone.


class Rest(NamedTuple):
    """How often a thing has failed alone, and until when nobody tries it."""

    times: int
    until: float


class Failures(Generic[T]):
    """Remembers what could not be written."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._alone: dict[T, Rest] = {}
        self._in_a_row: set[T] = set()

    def failed(self, thing: T) -> bool:
        """Record that a thing could not be written, and return whether that is everybody's trouble."""
        self._in_a_row.add(thing)
        if len(self._in_a_row) >= SEVERAL:
            for one in self._in_a_row:
                self._alone.pop(one, None)
            return True
        times = self._alone[thing].times if thing in self._alone else 0
        pause = PAUSE_SECONDS[min(times, len(PAUSE_SECONDS) - 1)]
        self._alone[thing] = Rest(times + 1, self._clock() + pause)
        return False

    def succeeded(self, thing: T) -> None:
        """Record that a thing was written: whatever fails now is nobody else's trouble."""
        self._in_a_row.clear()
        self.forget(thing)

    def forget(self, thing: T) -> None:
        """Forget a thing that is gone."""
        self._in_a_row.discard(thing)
        self._alone.pop(thing, None)

    def alone(self, thing: T) -> bool:
        """Return whether a thing failed alone the last time."""
        return thing in self._alone

    def until(self, thing: T) -> float:
        """Return until when nobody tries a thing; 0 for one that did not fail alone."""
        return self._alone[thing].until if thing in self._alone else 0.0

    def rests(self, thing: T) -> bool:
        """Return whether it is too early to try a thing again."""
        return self.until(thing) > self._clock()
