"""Lets through what clients ask one after another, so that a crowd of them leaves the loop to others.

Whoever serves pages does so beside something more important, in one event loop. Requests that
come at once would all be answered in one turn of it, and everything else would wait for them.
"""

import asyncio
import collections
import math
from collections.abc import Callable
from typing import Final

A_SECOND: Final = 500.0  # A request takes some tenths of a millisecond.
AT_ONCE: Final = 32  # For whoever comes now and then.

Work = Callable[[], bool]  # Whether there was something to do.


class RequestLimiter:
    """So many a second, and a few at once; who comes first goes first."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: collections.deque[Work] = collections.deque()
        self._paid = -math.inf  # The moment until which those that went through would have taken.

    def submit(self, work: Work) -> bool:
        """Do something in its turn; return whether that was now."""
        if self._waiting or not self._open():
            self._waiting.append(work)
            if len(self._waiting) == 1:
                self._wait()
            return False
        self._do(work)
        return True

    async def acquire(self) -> None:
        """Wait for a turn."""
        come: asyncio.Future[None] = self._loop.create_future()

        def work() -> bool:
            if wanted := not come.done():
                come.set_result(None)
            return wanted

        self.submit(work)
        await come

    def _open(self) -> bool:
        return self._paid <= self._loop.time() - 1 / A_SECOND

    def _do(self, work: Work) -> None:
        if work():
            self._paid = max(self._paid, self._loop.time() - AT_ONCE / A_SECOND) + 1 / A_SECOND

    def _wait(self) -> None:
        self._loop.call_at(self._paid + 1 / A_SECOND, self._next)

    def _next(self) -> None:
        while self._waiting and self._open():
            self._do(self._waiting.popleft())
        if self._waiting:
            self._wait()
