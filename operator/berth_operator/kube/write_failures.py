"""Tells an outage from a single object that cannot be written.

An object that fails alone backs off, longer each time, and comes after all others. Failures of
several different objects in a row, without a success in between, are an outage, and no object
backs off because of it. Where the server says what is wrong with an object, that is no outage, however many
there are.
"""

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")

SEVERAL: Final = 2
PAUSE_SECONDS: Final = (1.0, 2.0, 5.0, 15.0)  # Also the delay of one object that alone met an outage.


class Backoff(NamedTuple):
    """How often an object has failed alone, and until when it is not tried."""

    times: int
    until: float


class WriteFailures(Generic[T]):
    """Remembers the objects that could not be written."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._backoffs: dict[T, Backoff] = {}
        self._in_a_row: set[T] = set()

    def failed(self, key: T) -> bool:
        """Record a failed write; return whether that is an outage."""
        self._in_a_row.add(key)
        if len(self._in_a_row) >= SEVERAL:
            for one in self._in_a_row:
                self._backoffs.pop(one, None)
            return True
        self._back_off(key)
        return False

    def refused(self, key: T) -> None:
        """Record that the server refused the write of this object for what it is: there is no outage."""
        self._in_a_row.clear()
        self._back_off(key)

    def _back_off(self, key: T) -> None:
        times = self._backoffs[key].times if key in self._backoffs else 0
        pause = PAUSE_SECONDS[min(times, len(PAUSE_SECONDS) - 1)]
        self._backoffs[key] = Backoff(times + 1, self._clock() + pause)

    def succeeded(self, key: T) -> None:
        """Record a successful write: there is no outage."""
        self._in_a_row.clear()
        self.forget(key)

    def forget(self, key: T) -> None:
        """Forget an object that is gone."""
        self._in_a_row.discard(key)
        self._backoffs.pop(key, None)

    def failed_alone(self, key: T) -> bool:
        """Whether an object failed alone the last time."""
        return key in self._backoffs

    def backoff_until(self, key: T) -> float:
        """Return until when an object is not tried; 0 for one that did not fail alone."""
        return self._backoffs[key].until if key in self._backoffs else 0.0

    def in_backoff(self, key: T) -> bool:
        """Whether it is too early to try an object again."""
        return self.backoff_until(key) > self._clock()
