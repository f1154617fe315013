"""Runs tasks of asyncio beside other work, and ends them."""

import asyncio
import contextlib
from collections.abc import Collection, Coroutine
from typing import Any


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
