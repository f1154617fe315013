"""How both programs write their logs: a record is one clean line, whoever wrote what it tells of.

Names, messages and errors from elsewhere go into records in a hundred places, so they are
made fit for a terminal here, at the one place through which all of them pass. Here, too,
their number is bounded: whoever may write pods, GpuPods or a Device can make a hundred new
mistakes a second. In each minute there is a limit for all records, a lower one for records of
one kind, and the lowest for those of one kind about one object, which `extra=logs.about(name)`
names. Of what exceeds them only the number is written. Records of level DEBUG have no limit.
"""

import collections
import logging
import time
import types
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from berth_crds import text

LONGEST: Final = 8000
WINDOW_SECONDS: Final = 60.0
MOST_OF_ALL: Final = 600  # In a window.
KEPT_FOR_ERRORS: Final = 100  # Of these: why a program ends must be told, whatever else is.
MOST_OF_A_KIND: Final = 60
MOST_ABOUT_ONE: Final = 4
ABOUT: Final = "about"

Fault = tuple[type[BaseException], BaseException, types.TracebackType | None] | tuple[None, None, None]


class Formatter(logging.Formatter):
    """Formats records so that nothing in them steers the output."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the library's spelling
        """Return a record without its traceback as one line."""
        return text.line(super().formatMessage(record), most=LONGEST)

    def formatException(self, ei: Fault) -> str:  # noqa: N802  the library's spelling
        """Return a traceback, of which each line is clean."""
        return "\n".join(text.line(each, most=LONGEST) for each in super().formatException(ei).splitlines())


class Limiter:
    """Decides which records are written; those of one kind have the same sentence but for its arguments."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        # Of this window: how many were written of each kind and about each object, and how many were not.
        self._written: collections.Counter[tuple[str, ...]] = collections.Counter()
        self._left_out: collections.Counter[str] = collections.Counter()

    def admitted(self, record: logging.LogRecord) -> Iterator[logging.LogRecord]:
        """Yield what is to be written now: how many of the last minute were not, and the record or not."""
        if self._clock() - self._since >= WINDOW_SECONDS:
            yield from self._turn()
        if record.levelno <= logging.DEBUG or self._counts(record):
            yield record

    def _counts(self, record: logging.LogRecord) -> bool:
        """Count a record that is written; return whether it is."""
        kind = str(record.msg)[:LONGEST]
        most = MOST_OF_ALL if record.levelno >= logging.ERROR else MOST_OF_ALL - KEPT_FOR_ERRORS
        limits: dict[tuple[str, ...], int] = {(): most, (kind,): MOST_OF_A_KIND}
        if name := getattr(record, ABOUT, ""):
            limits[kind, str(name)[:LONGEST]] = MOST_ABOUT_ONE
        if any(self._written[key] >= most for key, most in limits.items()):
            # As many kinds are told apart as records are written.
            self._left_out[kind if kind in self._left_out or (kind,) in self._written else ""] += 1
            return False
        self._written.update(limits.keys())
        return True

    def _turn(self) -> Iterator[logging.LogRecord]:
        """Begin a new window, and tell what the last one left out."""
        self._since = self._clock()
        left_out, self._left_out = self._left_out, collections.Counter()
        self._written.clear()
        for kind, count in left_out.items():
            yield _told(kind, count)


def about(name: str) -> dict[str, str]:
    """Return what a record carries, as its `extra`, to say which object it is about."""
    return {ABOUT: name}


def _told(kind: str, count: int) -> logging.LogRecord:
    sentence = f"{count} more like this were not written: {kind or 'records of other kinds'}"
    return logging.LogRecord(__name__, logging.WARNING, __file__, 0, "%s", (sentence,), None)


class Handler(logging.StreamHandler[TextIO]):
    """Writes records to stderr as far as they are admitted."""

    def __init__(self, limiter: Limiter) -> None:
        super().__init__()
        self._limiter = limiter

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        for one in self._limiter.admitted(record):
            super().emit(one)


def start(level: str, form: str) -> None:
    """Write records of this level and above to stderr from now on."""
    handler = Handler(Limiter())
    handler.setFormatter(Formatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler])
