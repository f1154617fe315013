"""Slots for calls of which only a few may be under way: who waits for one gets it in turn, by namespace."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from berth_operator.engine import fair_queue


class SlotsInTurns:
    """So many slots; a namespace with thousands of calls delays another by those that are under way."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting = fair_queue.FairQueue[asyncio.Future[None]]()

    @contextlib.asynccontextmanager
    async def slot(self, namespace: str) -> AsyncIterator[None]:
        """Lend a slot, as soon as it is the namespace's turn."""
        await self._acquire(namespace)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, namespace: str) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.push(namespace, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()  # It came together with the end of the wait.
            raise

    def _release(self) -> None:
        """Pass a slot on to the next that waits, or keep it."""
        while self._waiting:
            turn = self._waiting.pop()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
