"""What Kopf is handed of a list that the server sends.

Kopf would make Python objects of all that is in a list. Of a Device that is a thousand small ones, for its
cards and for who manages which field, and our handlers look at a few: on a large cluster the rest was a
third of all that Kopf computes. So lists of Devices are read without it.
"""

import contextlib
import json
from typing import Any, Final, TypedDict

import msgspec

from berth_crds.client import resources


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


DEVICES: Final = msgspec.json.Decoder(_Devices)


def read(path: str, text: str) -> Any:
    """Return what an answer says, in brief if its path is that of the Devices and all is as expected.

    What an error says is always read whole, so it comes without a path.
    """
    try:
        if path.endswith(resources.DEVICES.path()):
            with contextlib.suppress(msgspec.ValidationError):
                return DEVICES.decode(text)
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        # What Kopf and aiohttp expect of a body that is no JSON.
        raise json.JSONDecodeError(str(error), text, 0) from error
