"""Objects as whoever may write them may leave them: with managed fields as deep as a server takes."""

import json
from collections.abc import Mapping
from typing import Any, Final

from berth_crds import nesting

OUTSIDE: Final = 5  # Levels of an object that are not within its managed fields.


def managed(thing: Mapping[str, Any], levels: int = nesting.STORED_LEVELS - OUTSIDE) -> bytes:
    """Write an object, with managed fields of so many levels besides those that it has."""
    version = thing.get("apiVersion", "v1")
    fields = {"manager": "m", "operation": "Update", "apiVersion": version, "time": "2026-01-01T00:00:00Z"}
    fields |= {"fieldsType": "FieldsV1", "fieldsV1": "DEEP"}
    meta = {**thing["metadata"], "managedFields": [*thing["metadata"].get("managedFields", []), fields]}
    return json.dumps({**thing, "metadata": meta}).encode().replace(b'"DEEP"', nest(levels))


def nest(levels: int) -> bytes:
    """Write fields of so many levels, each in the one before."""
    return b'{"f:a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


def page(*bodies: bytes, version: str = "9") -> bytes:
    """Write a list of these objects."""
    return b'{"metadata":{"resourceVersion":"%s"},"items":[%s]}' % (version.encode(), b",".join(bodies))


def event(change: str, body: bytes) -> bytes:
    """Write a line of a watch."""
    return b'{"type":"%s","object":%s}\n' % (change.encode(), body)
