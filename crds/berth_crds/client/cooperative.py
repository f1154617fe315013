"""Long work in short steps, between which other tasks run.

The author of an object decides what it costs, so steps are measured by a clock and not counted.
A step is at least one object.
"""

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Iterator
from typing import Final, TypeVar

STEP_SECONDS: Final = 0.005

Clock = Callable[[], float]  # Monotonic seconds.
T = TypeVar("T")


def portions(things: Iterable[T], clock: Clock) -> Iterator[list[T]]:
    """Yield things that take time to make in portions of one step."""
    portion: list[T] = []
    began = clock()
    for thing in things:
        portion.append(thing)
        if clock() - began >= STEP_SECONDS:
            yield portion
            portion, began = [], clock()
    if portion:
        yield portion


async def run(work: Iterable[None], clock: Clock) -> None:
    """Run work whose pieces are done as they are iterated over."""
    began = clock()
    for _ in work:
        if clock() - began >= STEP_SECONDS:
            await asyncio.sleep(0)
            began = clock()


async def for_each(things: AsyncIterable[T], do: Callable[[T], None], clock: Clock) -> None:
    """Call a function with each thing that comes; many may come at once."""
    busy = 0.0
    async for thing in things:
        began = clock()
        do(thing)
        busy += clock() - began
        if busy >= STEP_SECONDS:
            await asyncio.sleep(0)
            busy = 0.0
