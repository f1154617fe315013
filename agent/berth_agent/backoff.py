"""How long to wait after a failure, and how often to log one that lasts.

The API server may be away for an hour, and every agent of the cluster notices at the same time.
So waits grow and are spread by chance. A failure is logged when it begins, now and then while
it lasts, and when it is over. What to do about it is left to the caller.
"""

import logging
import random
import time
from typing import Final

FIRST_SECONDS: Final = 0.25
MOST_DOUBLINGS: Final = 16


def pause(error: Exception, failures: int, *, most: float) -> float:
    """Return the seconds to wait after so many failures in a row, of which chance takes off up to half.

    It is never less than the server asks for (`Retry-After`).
    """
    step = FIRST_SECONDS * 2.0 ** min(failures - 1, MOST_DOUBLINGS)
    asked: float = getattr(error, "retry_after", None) or 0.0
    return max(asked, min(step, most) * random.uniform(0.5, 1.0))


class FailureLog:
    """Logs one failure that may last, without repeating it each time."""

    def __init__(self, log: logging.Logger, subject: str) -> None:
        self._log = log
        self._subject = subject
        self._kind: type[Exception] | None = None
        self._times = 0
        self._since = 0.0
        self.failures = 0

    @property
    def seconds(self) -> float:
        """For how long it has lasted."""
        return time.monotonic() - self._since if self.failures else 0.0

    def failed(self, error: Exception, *, most: float) -> float:
        """Count a failure, log it if it is new or has lasted, and return the seconds to wait."""
        self._since = self._since if self.failures else time.monotonic()
        self.failures += 1
        self._times = self._times + 1 if type(error) is self._kind else 1
        self._kind = type(error)
        level = logging.WARNING if self._times in {1, 10} or self._times % 100 == 0 else logging.DEBUG
        self._log.log(level, "%s (attempt %d): %s", self._subject, self.failures, error)
        return pause(error, self.failures, most=most)

    def succeeded(self) -> None:
        """Log the end of the failures, if there were any."""
        if self.failures:
            self._log.info("%s: over after %d failed attempts", self._subject, self.failures)
        self.failures, self._times, self._kind = 0, 0, None
