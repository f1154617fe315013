"""Long work in short steps: between two of them all others have their turn.

What an object costs is for whoever writes it to say, so steps are measured by a clock and not
counted; the least that is done at once is one object.
"""

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Final, TypeVar

STEP_SECONDS: Final = 0.005

Clock = Callable[[], float]  # Monotonic seconds.
T = TypeVar("T")


async def through(work: Iterable[None], clock: Clock) -> None:
    """Do some work, whose pieces are done as they are asked for."""
    began = clock()
    for _ in work:
        if clock() - began >= STEP_SECONDS:
            await asyncio.sleep(0)
            began = clock()


async def gathered(things: Iterable[T], clock: Clock) -> list[T]:
    """Return things that are made as they are asked for."""
    found: list[T] = []
    began = clock()
    for thing in things:
        found.append(thing)
        if clock() - began >= STEP_SECONDS:
            await asyncio.sleep(0)
            began = clock()
    return found


async def each(things: AsyncIterable[T], do: Callable[[T], None], clock: Clock) -> None:
    """Do something with each thing that comes, of which many may come at once."""
    busy = 0.0
    async for thing in things:
        began = clock()
        do(thing)
        busy += clock() - began
        if busy >= STEP_SECONDS:
            await asyncio.sleep(0)
            busy = 0.0
