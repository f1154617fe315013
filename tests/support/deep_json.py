"""Reads the JSON of a server, which may be nested deeper than Python reads."""

import json
from typing import Any

from berth_crds import nesting


def loads(text: bytes) -> Any:
    """Return a value, without what is nested deeper than any of our kinds if Python cannot read it whole."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(nesting.cut_deep_values(text))
