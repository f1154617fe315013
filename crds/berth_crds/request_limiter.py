"""Limits how many requests of clients are answered in a second.

Pages are served beside something more important, in one event loop. Requests that come at
once would all be answered in one turn of it, and everything else would wait for them.
"""

import asyncio
import collections
import math
from collections.abc import Callable
from typing import Final

REQUESTS_PER_SECOND: Final = 500.0  # A request takes some tenths of a millisecond.
BURST: Final = 32  # Requests that go through at once after a pause, and in one turn of the loop.

Work = Callable[[], bool]  # Whether there was something to do.


class RequestLimiter:
    """Admits so many a second and a few at once, in the order in which they came."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: collections.deque[Work] = collections.deque()
        self._charged_until = -math.inf  # The moment until which those that went through would have taken.
        self._this_turn = 0  # Those that went through in this turn of the loop.

    def submit(self, work: Work) -> bool:
        """Run work in its turn; return whether that was now."""
        if self._waiting or not self._has_budget():
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

    def _has_budget(self) -> bool:
        # A process that gets no processor for a while may have time for many, but not in one turn.
        return self._this_turn < BURST and self._charged_until <= self._loop.time() - 1 / REQUESTS_PER_SECOND

    def _do(self, work: Work) -> None:
        if work():
            if not self._this_turn:
                self._loop.call_soon(self._begin_turn)
            self._this_turn += 1
            self._charged_until = (
                max(self._charged_until, self._loop.time() - BURST / REQUESTS_PER_SECOND)
                + 1 / REQUESTS_PER_SECOND
            )

    def _begin_turn(self) -> None:
        self._this_turn = 0

    def _wait(self) -> None:
        self._loop.call_at(self._charged_until + 1 / REQUESTS_PER_SECOND, self._next)

    def _next(self) -> None:
        while self._waiting and self._has_budget():
            self._do(self._waiting.popleft())
        if self._waiting:
            self._wait()
