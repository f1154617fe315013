"""Lists and events of Devices, as Kopf is given them: without what no handler of ours looks at.

Most of a Device is its cards and who manages which field of it. Making Python objects of that
was more than a quarter of all that Kopf computed as it started beside a thousand nodes.

Kopf ends at a text that is nested deeper than its reader can follow, or than it can copy, and
whoever may write an object may nest its managed fields so. Kopf is given nothing that is deep.
"""

import contextlib
import json
from typing import Any, Final, TypedDict

import msgspec

from berth_crds import nesting
from berth_crds.client import errors, reading, resources


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
    """The parts of a Device's status that our handlers look at: those of `statuses.OURS`."""

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
    """Return what an answer says, in brief if its path is that of the Devices and all is as expected.

    What an error says is always read whole, so it comes without a path.
    """
    body = text.encode()
    try:
        if path.endswith(resources.DEVICES.path()):
            with contextlib.suppress(msgspec.ValidationError):
                return reading.decode(DEVICES, body)
        return msgspec.json.decode(nesting.cut(body))
    except msgspec.DecodeError as error:
        # What Kopf and aiohttp expect of a body that is no JSON.
        raise json.JSONDecodeError(str(error), text, 0) from error


def event(path: str, line: bytes) -> bytes:
    """Return a line of a watch, in brief if it is a change of a Device and all is as expected."""
    if path.endswith(resources.DEVICES.path()):
        with contextlib.suppress(*errors.ODD):
            frame = reading.decode(_frame, line)
            if frame.type in CHANGES:
                brief = msgspec.json.encode(reading.decode(_device, frame.object))
                return msgspec.json.encode(_Frame(frame.type, msgspec.Raw(brief)))
    return nesting.cut(line)
