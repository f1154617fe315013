"""Lists and watch events of Devices for Kopf, with only the fields that our handlers read.

Most of a Device is its cards and its managedFields. Making Python objects of these was more than
a quarter of all that Kopf computed as it started with a thousand nodes.

Kopf fails at JSON that is nested deeper than its parser or its copies can follow, and anybody who
may write an object may nest its managedFields so deep. What is too deep is cut before Kopf reads it.
"""

import contextlib
import json
from typing import Any, Final, TypedDict

import msgspec

from berth_crds import nesting
from berth_crds.client import decoding, errors, resources


class _Meta(TypedDict, total=False):
    name: Any
    uid: Any
    resourceVersion: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    finalizers: Any
    labels: Any
    annotations: Any


class Status(TypedDict, total=False):
    """The parts of a Device's status that the operator writes; the cards are many times as much."""

    conditions: Any
    summary: Any
    claims: Any
    disputed: Any
    origins: Any


class _Device(TypedDict, total=False):
    apiVersion: Any
    kind: Any
    metadata: _Meta
    status: Status


class _Devices(TypedDict, total=False):
    apiVersion: Any
    kind: Any
    metadata: Any
    items: list[_Device]


class _Frame(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


DEVICES: Final = msgspec.json.Decoder(_Devices)
_device: Final = msgspec.json.Decoder(_Device)
_frame: Final = msgspec.json.Decoder(_Frame)
CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})


def read(path: str, text: str) -> Any:
    """Return the decoded body; of a list of Devices, only the fields of the structs above.

    The body of an error is always decoded whole: its `path` is empty.
    """
    body = text.encode()
    try:
        if path.endswith(resources.DEVICES.path()):
            with contextlib.suppress(msgspec.ValidationError):
                return decoding.decode(DEVICES, body)
        return msgspec.json.decode(nesting.cut_deep_values(body))
    except msgspec.DecodeError as error:
        # What Kopf and aiohttp expect of a body that is no JSON.
        raise json.JSONDecodeError(str(error), text, 0) from error


def event(path: str, line: bytes) -> bytes:
    """Return a line of a watch; of a changed Device, only the fields of the structs above."""
    if path.endswith(resources.DEVICES.path()):
        with contextlib.suppress(*errors.DECODE_ERRORS):
            frame = decoding.decode(_frame, line)
            if frame.type in CHANGES:
                reduced = msgspec.json.encode(decoding.decode(_device, frame.object))
                return msgspec.json.encode(_Frame(frame.type, msgspec.Raw(reduced)))
    return nesting.cut_deep_values(line)
