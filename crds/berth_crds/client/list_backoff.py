"""When an informer may list its collection again.

A list is the dearest thing that an informer asks for, and a server in trouble has the most reasons for one:
it is slow, its history is gone, it breaks off all watches. So the pauses before lists grow until a watch has
been useful. Before that only one more list comes at once, for others may wait for it.

A pause is a moment before which nothing is listed. It outlasts the work that was interrupted by somebody who
wants a list, and whoever that is shortens none that the server asked for.
"""

import asyncio
import logging
import random
from typing import Final

from berth_crds.client import errors

log = logging.getLogger(__name__)

BACKOFF_SECONDS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def pause(failures: int) -> float:
    """Return how long to pause after so many failures in a row, which chance changes by up to half."""
    step = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1] if failures else 0.0
    return step * random.uniform(0.5, 1.5)


class ListBackoff:
    """The pauses of one informer."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._failures = 0  # Lists in a row that failed.
        self._lists = 0  # Lists in a row after which no watch was useful.
        # Until when nothing is listed: because the server says so, a list failed, or no watch was useful.
        self._refused_until = self._failed_until = self._useless_until = 0.0

    async def wait(self) -> None:
        """Wait until the collection may be listed."""
        until = max(self._refused_until, self._failed_until, self._useless_until)
        await asyncio.sleep(max(0.0, until - _now()))

    async def wait_to_watch(self, failures: int) -> None:
        """Pause after so many failed watches in a row."""
        await asyncio.sleep(max(pause(failures), self._refused_until - _now()))

    # ------------------------------------------------------------ what has happened

    def refused(self, error: errors.ClientError) -> None:
        """Record that a list or a watch failed, and for how long the server wants to be left alone."""
        self._refused_until = _now() + (getattr(error, "retry_after", None) or 0.0)

    def failed(self, error: errors.ClientError) -> None:
        """Record that a list failed, and log it where that is new or has lasted."""
        self._failures += 1
        self.refused(error)
        self._failed_until = _now() + pause(self._failures)
        level = logging.WARNING if self._failures in {1, 10} or self._failures % 100 == 0 else logging.DEBUG
        log.log(level, "%s cannot be listed (attempt %d): %s", self._title, self._failures, error)

    def listed(self) -> None:
        """Record that a list was read whole, and that a watch comes next."""
        self._failures, self._failed_until = 0, 0.0
        self._lists += 1
        self._useless_until = _now() + pause(self._lists - 1)

    def watched(self) -> None:
        """Record that a watch was useful."""
        self._lists, self._useless_until = 0, 0.0

    # ------------------------------------------------------------ who wants a list

    def wanted(self) -> None:
        """End the pause that is only because no watch was useful: somebody waits for a list."""
        self._useless_until = 0.0

    def restored(self) -> None:
        """End the pause after lists that failed: the server is back, with older data."""
        self._failed_until = 0.0


def _now() -> float:
    return asyncio.get_running_loop().time()
