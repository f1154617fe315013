"""Which lists of a collection have been begun and read, and who waits for one.

A list that is under way is let end though somebody wants a later one, which then follows: else nothing would
ever be read where lists take longer than those who want them have patience.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable


class Lists:
    """The lists of one collection, of which there is one at a time."""

    def __init__(self) -> None:
        self.read = 0  # How many have been read whole.
        self.begun = 0
        self.under_way = False
        self.another = False  # Whether another is to follow the one that is under way.
        self._newest = 0  # Which of those begun was read whole last.
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """Count the block as a list, which is read whole unless it fails."""
        self.begun += 1
        self.another, self.under_way = False, True
        try:
            yield
        finally:
            self.under_way = False
        self.read, self._newest = self.read + 1, self.begun
        async with self._changed:
            self._changed.notify_all()

    async def wait_read(self, count: int) -> None:
        """Wait until more than so many have been read whole."""
        await self._wait(lambda: self.read > count)

    async def wait_later(self, begun: int) -> None:
        """Wait until one has been read whole that was not among the first so many that were begun."""
        await self._wait(lambda: self._newest > begun)

    async def _wait(self, holds: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(holds)
