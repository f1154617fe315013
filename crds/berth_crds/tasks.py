"""Runs tasks of asyncio beside other work, and ends them."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, Final

PAUSE_SECONDS: Final = (1.0, 5.0, 30.0)  # Before work that failed is started again.


async def end(tasks: Collection[asyncio.Task[Any]], *, seconds: float | None = None) -> None:
    """Cancel tasks and wait for their end, at most so long; what they return or raise is dropped."""
    for task in tasks:
        task.cancel()
    if tasks:
        done, _ = await asyncio.wait(tasks, timeout=seconds)
        await asyncio.gather(*done, return_exceptions=True)


@contextlib.asynccontextmanager
async def running(*work: Coroutine[Any, Any, Any]) -> Any:
    """Run coroutines beside the block, and end them with it."""
    started = [asyncio.create_task(one) for one in work]
    try:
        yield started
    finally:
        await end(started)


async def keep_running(work: Callable[[], Awaitable[None]], failed: Callable[[Exception], None]) -> None:
    """Run work that has no end; if it fails, tell so, and start it again after a pause that grows."""
    for pause in itertools.chain(PAUSE_SECONDS, itertools.repeat(PAUSE_SECONDS[-1])):
        try:
            await work()
        except Exception as error:  # noqa: BLE001  work raises anything, and `failed` tells it
            failed(error)
        await asyncio.sleep(pause)


async def until(stop: asyncio.Event, *work: Any) -> None:
    """Wait until `stop` is set or one of these ends; raise its error, if it has one."""
    stopping = asyncio.ensure_future(stop.wait())
    started = [asyncio.ensure_future(one) for one in work]
    given = {one for one in work if isinstance(one, asyncio.Task)}
    try:
        done, _ = await asyncio.wait([stopping, *started], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stopping.cancel()
        for task in started:
            if task not in given:
                task.cancel()
