"""Ends a stream from which nothing has come for too long.

aiohttp has a limit for that, too, and sets a timer anew for each piece that comes. A watch has
thousands of pieces in a second; so one timer looks now and then whether anything has come.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Final

import aiohttp

LOOKS: Final = 5  # In the time that a stream may be silent, which is longer by a fifth at most.


class Silence(aiohttp.SocketTimeoutError):
    """Nothing came for too long."""


class Guard:
    """Looks at one stream."""

    def __init__(self, content: aiohttp.StreamReader, seconds: float) -> None:
        self._content = content
        self._pause = seconds / LOOKS
        self._came = content.total_bytes
        self._in_vain = 0  # Looks since something came.
        self._timer = self._next()

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _next(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._pause, self._look)

    def _look(self) -> None:
        came = self._content.total_bytes
        self._in_vain = self._in_vain + 1 if came == self._came else 0
        self._came = came
        if self._in_vain < LOOKS:
            self._timer = self._next()
        else:
            self._content.set_exception(Silence("nothing came for too long"))


@contextlib.contextmanager
def limited(content: aiohttp.StreamReader, seconds: float) -> Iterator[None]:
    """End a stream, while the block lasts, that is silent for so long."""
    guard = Guard(content, seconds)
    try:
        yield
    finally:
        guard.stop()
