"""Passes calls from one thread to the loop of another.

A list of Kopf comes as tens of thousands of events. So the loop is called once for all that wait, applies
a limited number of them, and has other work done before it goes on.
"""

import asyncio
import collections
import contextlib
import logging
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

Call = Callable[[], object]
MOST_AT_ONCE: Final = 200  # Calls between two turns of the loop.


class CallQueue:
    """Calls that wait for the loop of another thread; they are made in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: collections.deque[Call] = collections.deque()
        self._scheduled = False

    def send(self, call: Call) -> None:
        """Have something called, from any thread."""
        self._calls.append(call)
        if not self._scheduled:
            self._scheduled = True
            with contextlib.suppress(RuntimeError):  # The loop is closed once its thread has ended.
                self._loop.call_soon_threadsafe(self._apply)

    def _apply(self) -> None:
        self._scheduled = False  # First, so that later calls schedule another turn.
        for _ in range(MOST_AT_ONCE):
            if not self._calls:
                return
            try:
                self._calls.popleft()()
            except Exception:
                log.exception("an event of Kopf cannot be applied")
        self._scheduled = True
        self._loop.call_soon(self._apply)
