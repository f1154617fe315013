"""A clock that tests turn by hand, so that hours pass at once and never by themselves."""

import datetime as dt
from collections.abc import Callable


class Clock:
    """Seconds that only move when told to; call it to read them."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Read the seconds."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def wall(self) -> dt.datetime:
        """Read it as a time of day."""
        return dt.datetime.fromtimestamp(self.now, dt.UTC)


class Ticking:
    """A clock on which each look takes a while, on top of the time of another if one is given."""

    def __init__(self, step: float, now: Callable[[], float] = float) -> None:
        self._step = step
        self._now = now
        self._passed = 0.0

    def __call__(self) -> float:
        """Read the seconds."""
        self._passed += self._step
        return self._now() + self._passed
