"""Lists of Devices, as Kopf is given them: without what no handler of ours looks at.

Most of a Device is its cards and who manages which field of it. Making Python objects of that
was more than a quarter of all that Kopf computed as it started beside a thousand nodes.
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
