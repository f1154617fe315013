"""Waits until a watch has come to a revision, and has the server say so where nothing happens.

A server sends a bookmark two seconds before the end of a watch. So whoever wants one has the watch that
is open cut short, and the next one opened for three seconds.
"""

import asyncio
from collections.abc import Callable
from typing import Final

# The server sends no bookmark in a shorter one.
SHORT_WATCH_SECONDS: Final = 3


class Bookmarks:
    """Who waits for which revision of one watch, and whether a bookmark is wanted soon."""

    def __init__(self) -> None:
        self.wanted = False
        self._watch: asyncio.Timeout | None = None  # Of the watch that is open now.
        self._short = False  # Whether that is a short one.
        self.cut = False  # Whether we have ended it for a short one, before it brought a bookmark.
        self._waiters: dict[asyncio.Future[None], int] = {}

    @property
    def watching(self) -> bool:
        """Whether a watch is open."""
        return self._watch is not None

    def opened(self, watch: asyncio.Timeout, *, seconds: int) -> None:
        """Record that a watch of so many seconds is open, which that timeout cuts short."""
        self._watch, self._short, self.cut = watch, seconds == SHORT_WATCH_SECONDS, False
        if self.wanted and not self._short:
            self._cut(watch)  # A bookmark came to be wanted while this watch was being opened.

    def closed(self) -> None:
        """Record that no watch is open; one bookmark that nobody waited for is enough."""
        self._watch = None
        self.wanted = self.wanted and not (self._short and not self._waiters)

    def want(self) -> None:
        """Have the next watch be a short one, unless this one is."""
        if self._watch is not None and not self.wanted:
            self._cut(self._watch)
        self.wanted = True

    def _cut(self, watch: asyncio.Timeout) -> None:
        watch.reschedule(0.0)
        self.cut = True

    def came(self) -> None:
        """Record that a bookmark came; want another if it was too early, and no more if nobody waits."""
        if all(waiter.done() for waiter in self._waiters):
            self.wanted = False
        elif self.wanted and self._watch is not None:
            self._watch.reschedule(0.0)

    def advanced(self, reached: Callable[[int], bool]) -> None:
        """Let those go on whose revision is reached."""
        for waiter, target in list(self._waiters.items()):
            if reached(target) and not waiter.done():
                waiter.set_result(None)

    async def wait(self, target: int, *, patience: float) -> None:
        """Wait until a revision is reached; want a bookmark if it is not in so many seconds."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = target
        try:
            done, _ = await asyncio.wait([waiter], timeout=patience)
            if not done:
                self.want()
                await waiter
        finally:
            self._waiters.pop(waiter, None)
            self.wanted = bool(self._waiters) and self.wanted
