"""How both programs write their logs: a record is one clean line, whoever wrote what it tells of.

Names, messages and errors from elsewhere go into records in a hundred places, so they are
made fit for a terminal here, at the one place through which all of them pass.
"""

import logging
import types
from typing import Final

from berth_crds import text

LONGEST: Final = 8000

Fault = tuple[type[BaseException], BaseException, types.TracebackType | None] | tuple[None, None, None]


class Formatter(logging.Formatter):
    """Formats records so that nothing in them steers the output."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  the library's spelling
        """Return a record without its traceback as one line."""
        return text.line(super().formatMessage(record), most=LONGEST)

    def formatException(self, ei: Fault) -> str:  # noqa: N802  the library's spelling
        """Return a traceback, of which each line is clean."""
        return "\n".join(text.line(each, most=LONGEST) for each in super().formatException(ei).splitlines())


def start(level: str, form: str) -> None:
    """Write records of this level and above to stderr from now on."""
    handler = logging.StreamHandler()
    handler.setFormatter(Formatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler])
