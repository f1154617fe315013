"""How both programs write their logs: a record is one clean line, whatever its texts.

Names, messages and errors from elsewhere go into records in a hundred places, so they are
made fit for a terminal here, at the one place through which all of them pass. Their number is
bounded here too: an author of pods, GpuPods or a Device can make a hundred new mistakes a
second. In each minute there is a limit for all records, a lower one for records of
one kind, and the lowest for those of one kind about one object, which `extra=logs.about(name)`
names. Of what exceeds them only the number is written. Records of level DEBUG have no limit.

A log is made of plain lines, or of lines of JSON for programs that collect logs: objects with time,
level, logger and message, then whatever the record is about by name (`extra=fields(...)`), and last
the traceback, if there is one. Their texts are bounded, and the line is pure ASCII, so that no
terminal, locale or pipeline can break it. The last message of a program and Python's warnings come in
the same form.
"""

import collections
import dataclasses
import datetime as dt
import json
import logging
import math
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TextIO

from berth_crds import text

PLAIN: Final = "text"
JSON: Final = "json"
FORMATS: Final = (PLAIN, JSON)
WINDOW_SECONDS: Final = 60.0
MOST_OF_ALL: Final = 600  # In a window.
KEPT_FOR_ERRORS: Final = 100  # Of these, so that the reason why a program ends is always logged.
MOST_OF_A_KIND: Final = 60
MOST_ABOUT_ONE: Final = 4
LONGEST_MESSAGE: Final = 8000
LONGEST_TRACEBACK: Final = 32_000  # In JSON; the end of it says most.
MOST_ITEMS: Final = 64  # Of a list, or of an object, in JSON.
ABOUT: Final = "about"
FIELDS: Final = "fields"

log = logging.getLogger(__name__)

ExceptionInfo = (
    tuple[type[BaseException], BaseException, types.TracebackType | None] | tuple[None, None, None]
)


class PlainFormatter(logging.Formatter):
    """Formats records so that nothing in them steers the output."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the library's spelling
        """Return a record without its traceback as one line."""
        return text.line(super().formatMessage(record), most=LONGEST_MESSAGE)

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802  the library's spelling
        """Return a traceback, of which each line is clean."""
        return "\n".join(
            text.line(each, most=LONGEST_MESSAGE) for each in super().formatException(ei).splitlines()
        )


class JsonFormatter(logging.Formatter):
    """Formats records as lines of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line; what it is about cannot take the place of when or how grave it is."""
        line: dict[str, Any] = {
            "time": _moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": text.line(_message(record), most=LONGEST_MESSAGE),
        }
        for name, value in _fields(record).items():
            line.setdefault(text.line(str(name)), _plain(value))
        if traceback := self._traceback(record):
            line["traceback"] = traceback
        return json.dumps(line, separators=(",", ":"))

    def _traceback(self, record: logging.LogRecord) -> str:
        parts = []
        if record.exc_info and record.exc_info[0] is not None:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(record.stack_info)
        lines = (text.line(line, most=LONGEST_MESSAGE) for part in parts for line in part.splitlines())
        return "\n".join(lines)[-LONGEST_TRACEBACK:]


def _moment(created: float) -> str:
    moment = dt.datetime.fromtimestamp(created, dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    """Return the message, without its arguments where they do not suit it: libraries write records, too."""
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001  whatever the arguments raise, the line is written
        return str(record.msg)


def _fields(record: logging.LogRecord) -> dict[object, object]:
    """Return what a record is about; a library may have put something else there."""
    about, found = getattr(record, ABOUT, ""), getattr(record, FIELDS, None)
    return (dict(found) if isinstance(found, Mapping) else {}) | ({ABOUT: about} if about else {})


def _plain(value: object) -> object:
    match value:
        case bool() | int() | None:
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping():
            return {text.line(str(key)): _plain(one) for key, one in list(value.items())[:MOST_ITEMS]}
        case list() | tuple():
            return [_plain(one) for one in value[:MOST_ITEMS]]
        case _:
            return text.line(str(value))


@dataclasses.dataclass(slots=True)
class _Suppressed:
    """How many records of one kind were not written, their highest level, and the message of the last."""

    number: int = 0
    level: int = logging.NOTSET
    last: str = ""

    def count(self, record: logging.LogRecord) -> None:
        """Count a record that is not written."""
        self.number += 1
        self.level = max(self.level, record.levelno)
        self.last = record.getMessage()[:LONGEST_MESSAGE]


class Limiter:
    """Decides which records are written; those of one kind have the same sentence but for its arguments."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        # Of this window: how many were written of each kind and about each object, and how many were not.
        self._written: collections.Counter[tuple[str, ...]] = collections.Counter()
        self._suppressed: dict[str, _Suppressed] = {}

    def admitted(self, record: logging.LogRecord) -> Iterator[logging.LogRecord]:
        """Yield what to write now: what the last window suppressed, in sum, and the record if admitted."""
        if self._clock() - self._since >= WINDOW_SECONDS:
            yield from self._next_window()
        if record.levelno <= logging.DEBUG or self._admits(record):
            yield record

    def _admits(self, record: logging.LogRecord) -> bool:
        """Count a record as written or as suppressed; return whether it is written."""
        kind = str(record.msg)[:LONGEST_MESSAGE]
        most = MOST_OF_ALL if record.levelno >= logging.ERROR else MOST_OF_ALL - KEPT_FOR_ERRORS
        limits: dict[tuple[str, ...], int] = {(): most, (kind,): MOST_OF_A_KIND}
        if name := getattr(record, ABOUT, ""):
            limits[kind, str(name)[:LONGEST_MESSAGE]] = MOST_ABOUT_ONE
        if any(self._written[key] >= most for key, most in limits.items()):
            # As many kinds are distinguished as records are written.
            known = kind in self._suppressed or (kind,) in self._written
            self._suppressed.setdefault(kind if known else "", _Suppressed()).count(record)
            return False
        self._written.update(limits.keys())
        return True

    def _next_window(self) -> Iterator[logging.LogRecord]:
        """Start a new window, and yield a summary of what the last one suppressed."""
        self._since = self._clock()
        left_out, self._suppressed = self._suppressed, {}
        self._written.clear()
        for kind, found in left_out.items():
            yield _suppressed_record(kind, found)


def about(name: str, **of: object) -> dict[str, object]:
    """Return what a record carries, as its `extra`, to say which object it is about, with more fields."""
    return {ABOUT: name, **fields(**of)}


def fields(**of: object) -> dict[str, object]:
    """Return what a record carries, as its `extra`, for its line of JSON to have these fields."""
    return {FIELDS: of}


def pod(title: str, **of: object) -> dict[str, object]:
    """Return what a record about a pod, or about its GpuPod, carries as its `extra`."""
    namespace, _, name = title.partition("/")
    return about(title, namespace=namespace, pod=name, **of)


def node(name: str, **of: object) -> dict[str, object]:
    """Return what a record about a node, or about its Device, carries as its `extra`."""
    return about(name, node=name, **of)


def _suppressed_record(kind: str, found: _Suppressed) -> logging.LogRecord:
    like = found.last if kind else "records of other kinds"
    sentence = f"{found.number} more like this were not written: {like}"
    return logging.LogRecord(__name__, found.level, __file__, 0, "%s", (sentence,), None)


class Handler(logging.StreamHandler[TextIO]):
    """Writes records to stderr as far as they are admitted."""

    def __init__(self, limiter: Limiter) -> None:
        super().__init__()
        self._limiter = limiter

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it."""
        for one in self._limiter.admitted(record):
            super().emit(one)


def start(level: str, form: str, style: str = PLAIN) -> None:
    """Write records of this level and above to stderr from now on, as plain lines of this form or as JSON."""
    handler = Handler(Limiter())
    handler.setFormatter(JsonFormatter() if style == JSON else PlainFormatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    if style == JSON:
        _install_hooks()


def report_exit(program: str, why: object) -> None:
    """Write why a program ends: a sentence for people, or a log line where the log is JSON."""
    if any(isinstance(one.formatter, JsonFormatter) for one in logging.getLogger().handlers):
        logging.getLogger(program).critical("%s", why)
    else:
        sys.stderr.write(f"{program}: {text.line(str(why), most=LONGEST_MESSAGE)}\n")


def _install_hooks() -> None:
    """Send to this log what Python would write to stderr by itself."""
    logging.captureWarnings(capture=True)
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable
    threading.excepthook = _uncaught_in_thread


def _uncaught(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
    log.critical("the program failed", exc_info=(kind, error, trace))


def _uncaught_in_thread(fault: threading.ExceptHookArgs) -> None:
    name = fault.thread.name if fault.thread is not None else "unknown"
    log.critical("the thread %s failed", name, exc_info=_exception_info(fault))


def _unraisable(fault: Any) -> None:
    log.error("%s", fault.err_msg or "an exception was ignored", exc_info=_exception_info(fault))


def _exception_info(found: Any) -> ExceptionInfo:
    return found.exc_type, found.exc_value or found.exc_type(), found.exc_traceback
