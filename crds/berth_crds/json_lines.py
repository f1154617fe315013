"""A record of the log as one line of JSON, for programs that collect logs.

Each line is an object with time, level, logger and message, then whatever the record is about
by name (`extra=logs.fields(...)`), and last the traceback, if there is one. Texts are cleaned
like those of plain lines and bounded, and the line is pure ASCII, so that
no terminal, locale or pipeline can break it.
"""

import datetime as dt
import json
import logging
import math
from collections.abc import Mapping
from typing import Any, Final

from berth_crds import text

ABOUT: Final = "about"
FIELDS: Final = "fields"
LONGEST_MESSAGE: Final = 8000
LONGEST_TRACEBACK: Final = 32_000  # The end of it says most.
MOST_ITEMS: Final = 64  # Of a list, or of an object.


class Formatter(logging.Formatter):
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
