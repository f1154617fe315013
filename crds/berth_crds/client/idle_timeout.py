"""Ends a stream from which nothing has come for too long.

aiohttp has such a limit too, and sets a new timer for each piece that comes. A watch has
thousands of pieces in a second, so here one task checks five times in each period.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

import aiohttp

CHECKS: Final = 5  # In one period; a stream is ended a fifth of it too late at most.


class IdleTimeout(aiohttp.SocketTimeoutError):
    """Nothing came for too long."""


@contextlib.contextmanager
def limited(content: aiohttp.StreamReader, seconds: float) -> Iterator[None]:
    """End a stream, while the block lasts, from which nothing comes for so long."""
    checks = asyncio.create_task(_end_when_idle(content, seconds / CHECKS))
    try:
        yield
    finally:
        checks.cancel()


async def _end_when_idle(content: aiohttp.StreamReader, pause: float) -> None:
    idle_checks = 0  # Since the last data.
    while idle_checks < CHECKS:
        received = content.total_bytes
        await asyncio.sleep(pause)
        idle_checks = idle_checks + 1 if content.total_bytes == received else 0
    content.set_exception(IdleTimeout("nothing came for too long"))
