"""Times as the API writes them, in RFC 3339: `2026-03-02T08:00:00Z`, with or without a fraction."""

import datetime as dt
import re
from typing import Final

WRITTEN: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def read(text: str) -> dt.datetime | None:
    """Return a time; None if the text is none."""
    try:
        return dt.datetime.fromisoformat(text) if WRITTEN.fullmatch(text) else None
    except ValueError:
        return None
