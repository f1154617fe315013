"""A rate limiter: so many requests a second, and none while the server asks for backoff.

Binds have a limit that may be configured; Events and statuses always have one, and a lower one while
binds are under way, since they may come late and binds may not.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from berth_operator.engine import ports

UNLIMITED: Final = 0.0
LONGEST_BACKOFF_SECONDS: Final = 60.0  # A server that asks for a longer backoff is tried again after this.


class RateLimiter:
    """Lets requests through one after another and evenly."""

    def __init__(self, clock: ports.Clock, a_second: Callable[[], float]) -> None:
        self._clock = clock
        self._per_second = a_second
        self._next = 0.0
        self._backoff_until = 0.0

    async def acquire(self) -> None:
        """Wait until one more request may be sent."""
        while True:
            if rate := self._per_second():
                mine = max(self._next, self._clock())
                self._next = mine + 1 / rate
                await self._until(mine)
            if self._backoff_until <= self._clock():
                return
            await self.wait_backoff()  # Then it waits for the rate again, or all would be sent at once.

    def release(self) -> None:
        """Return a permission that was not used."""
        if rate := self._per_second():
            self._next -= 1 / rate

    async def wait_backoff(self) -> None:
        """Wait until the backoff is over, if there is one."""
        while self._backoff_until > self._clock():
            await self._until(self._backoff_until)

    def back_off(self, seconds: float) -> None:
        """Let no request through for so many seconds."""
        self._backoff_until = max(self._backoff_until, self._clock() + min(seconds, LONGEST_BACKOFF_SECONDS))

    async def _until(self, moment: float) -> None:
        if (pause := moment - self._clock()) > 0:
            await asyncio.sleep(pause)


def lower_while_busy(busy: Callable[[], bool], *, meanwhile: float, otherwise: float) -> Callable[[], float]:
    """Return a rate that is lower while something more important is under way."""
    return lambda: meanwhile if busy() else otherwise
