"""Ends tasks of asyncio."""

import asyncio
from collections.abc import Collection
from typing import Any


async def end(tasks: Collection[asyncio.Task[Any]], *, seconds: float | None = None) -> None:
    """Cancel tasks and wait for their end, at most so long; what they return or raise is dropped."""
    for task in tasks:
        task.cancel()
    if tasks:
        done, _ = await asyncio.wait(tasks, timeout=seconds)
        await asyncio.gather(*done, return_exceptions=True)
