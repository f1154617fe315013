"""Work under way on several things at a time, and on each of them once."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Places(Generic[T]):
    """Runs work in tasks of its own, which outlive whoever began them."""

    def __init__(self) -> None:
        self._taken: dict[T, asyncio.Task[None]] = {}
        self._news = asyncio.Event()

    def __len__(self) -> int:
        """Return on how many things work is under way."""
        return len(self._taken)

    def __contains__(self, thing: object) -> bool:
        """Return whether work is under way on a thing."""
        return thing in self._taken

    def taken(self) -> tuple[T, ...]:
        """Return on what work is under way."""
        return tuple(self._taken)

    def begin(self, thing: T, work: Coroutine[Any, Any, None]) -> None:
        """Begin work on a thing."""
        task = self._taken[thing] = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._left(thing))

    def _left(self, thing: T) -> None:
        del self._taken[thing]
        self.tell()

    def tell(self) -> None:
        """Let whoever waits look again."""
        self._news.set()

    async def news(self) -> None:
        """Wait until work ends, or until there is something to tell."""
        await self._news.wait()
        self._news.clear()

    async def head_start(self, thing: T, seconds: float) -> None:
        """Wait until the work on a thing ends, or for so long."""
        if (task := self._taken.get(thing)) is not None:
            await asyncio.wait([task], timeout=seconds)

    async def end(self) -> None:
        """End all that is under way."""
        tasks = tuple(self._taken.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
