"""A clock that tests turn by hand, so that hours pass at once and never by themselves."""

import datetime as dt


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
