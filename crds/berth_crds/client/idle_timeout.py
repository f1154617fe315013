"""Ends a stream from which nothing has come for too long.

aiohttp has such a limit too, and sets a new timer for each piece that comes. A watch has
thousands of pieces in a second, so here one timer checks five times in each period.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

import aiohttp

CHECKS: Final = 5  # In one period; a stream is ended a fifth of it too late at most.


class IdleTimeout(aiohttp.SocketTimeoutError):
    """Nothing came for too long."""


class StreamMonitor:
    """Ends one stream that is idle."""

    def __init__(self, content: aiohttp.StreamReader, seconds: float) -> None:
        self._content = content
        self._pause = seconds / CHECKS
        self._received = content.total_bytes
        self._idle_checks = 0  # Checks since the last data.
        self._timer = self._start_timer()

    def stop(self) -> None:
        """Stop the checks."""
        self._timer.cancel()

    def _start_timer(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._pause, self._check)

    def _check(self) -> None:
        came = self._content.total_bytes
        self._idle_checks = self._idle_checks + 1 if came == self._received else 0
        self._received = came
        if self._idle_checks < CHECKS:
            self._timer = self._start_timer()
        else:
            self._content.set_exception(IdleTimeout("nothing came for too long"))


@contextlib.contextmanager
def limited(content: aiohttp.StreamReader, seconds: float) -> Iterator[None]:
    """End a stream, while the block lasts, from which nothing comes for so long."""
    guard = StreamMonitor(content, seconds)
    try:
        yield
    finally:
        guard.stop()
