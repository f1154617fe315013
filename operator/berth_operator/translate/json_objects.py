"""Annotations whose text is an object in JSON."""

import json
from collections.abc import Mapping
from typing import Any

from berth_operator.translate import pod_limits, refusals


def json_object(place: str, text: str) -> Mapping[str, object]:
    """Return an annotation that is an object in JSON."""
    pod_limits.check_length(place, text, pod_limits.MAX_LIST_TEXT)
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        refusals.refuse(f"{place} is not JSON: {refusals.shown(text)}")
    return as_mapping(place, record)


def as_mapping(place: str, value: Any) -> Mapping[str, object]:
    """Return a value of JSON as an object; an absent one is empty."""
    if value is not None and not isinstance(value, dict):
        refusals.refuse(f"{place}: expected an object in JSON, found {refusals.shown(value)}")
    return value or {}
