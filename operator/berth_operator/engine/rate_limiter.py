"""Pace: so many a second and no more, and nothing at all while the server asks for rest.

Binds are held to a limit that a person may set; Events and statuses always are, and to
a lower one while binds are under way, for they may come late and binds may not.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from berth_operator.engine import ports

UNLIMITED: Final = 0.0
LONGEST_REST_SECONDS: Final = 60.0  # A server that asks for more is asked again after this.


class Pace:
    """Lets through whoever waits for a turn, one after another and evenly."""

    def __init__(self, clock: ports.Clock, a_second: Callable[[], float]) -> None:
        self._clock = clock
        self._a_second = a_second
        self._next = 0.0
        self._rest = 0.0

    async def turn(self) -> None:
        """Wait until one more may go."""
        while True:
            if rate := self._a_second():
                mine = max(self._next, self._clock())
                self._next = mine + 1 / rate
                await self._until(mine)
            if self._rest <= self._clock():
                return
            await self.rested()  # Whoever waited it out lines up again, or all would go at once.

    def give_back(self) -> None:
        """Let somebody else have a turn that was not used."""
        if rate := self._a_second():
            self._next -= 1 / rate

    async def rested(self) -> None:
        """Wait until the rest is over, if there is one."""
        while self._rest > self._clock():
            await self._until(self._rest)

    def rest(self, seconds: float) -> None:
        """Let nobody through for so long."""
        self._rest = max(self._rest, self._clock() + min(seconds, LONGEST_REST_SECONDS))

    async def _until(self, moment: float) -> None:
        if (pause := moment - self._clock()) > 0:
            await asyncio.sleep(pause)


def unlimited() -> Pace:
    """Give a pace that lets everybody through."""
    return Pace(lambda: 0.0, steady(UNLIMITED))


def steady(a_second: float) -> Callable[[], float]:
    """Give a rate that stays the same."""
    return lambda: a_second


def behind(busy: Callable[[], bool], *, meanwhile: float, otherwise: float) -> Callable[[], float]:
    """Give a rate that makes way while something more important is under way."""
    return lambda: meanwhile if busy() else otherwise
