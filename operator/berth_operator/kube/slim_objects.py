"""Lists and watch events for Kopf, of Devices and GpuPods with only the fields that our handlers read.

Most of a Device is its cards, and most of a GpuPod is what was given and granted; both have
managedFields. Making Python objects of these was more than a quarter of all that Kopf computed
as it started with a thousand nodes.

Kopf fails at JSON that is nested deeper than its parser or its copies can follow, and anybody who
may write an object may nest its managedFields so deep. What is too deep is cut before Kopf reads it.
"""

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final, TypedDict

import msgspec

from berth_crds import nesting
from berth_crds.client import decoding, errors, resources


class _Meta(TypedDict, total=False):
    name: Any
    namespace: Any
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


class _OwnedMeta(_Meta, total=False):
    ownerReferences: Any


class _GpuPodSpec(TypedDict, total=False):
    node: Any
    podUID: Any


class _GpuPod(TypedDict, total=False):
    apiVersion: Any
    kind: Any
    metadata: _OwnedMeta
    spec: _GpuPodSpec


class _GpuPods(TypedDict, total=False):
    apiVersion: Any
    kind: Any
    metadata: Any
    items: list[_GpuPod]


class _Frame(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


@dataclasses.dataclass(frozen=True, slots=True)
class _Decoders:
    """The decoders of one kind, for a page of a list and for one object, and which changes are passed on."""

    page: msgspec.json.Decoder[Any]
    thing: msgspec.json.Decoder[Any]
    wanted: frozenset[str]


CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
SLIM: Final[Mapping[str, _Decoders]] = {
    resources.DEVICES.path(): _Decoders(
        msgspec.json.Decoder(_Devices), msgspec.json.Decoder(_Device), wanted=CHANGES
    ),
    # Whose a GpuPod is never changes, and each of a thousand changes costs Kopf as much as a bind costs us.
    resources.GPU_PODS.path(): _Decoders(
        msgspec.json.Decoder(_GpuPods), msgspec.json.Decoder(_GpuPod), wanted=CHANGES - {"MODIFIED"}
    ),
}
_frame: Final = msgspec.json.Decoder(_Frame)


def _decoders(path: str) -> _Decoders | None:
    """Return the decoders for a path on the server, which may stand behind a prefix; None for other kinds."""
    return next((found for suffix, found in SLIM.items() if path.endswith(suffix)), None)


def read(path: str, text: str) -> Any:
    """Return the decoded body; of a list of Devices or GpuPods, only the fields of the structs above.

    The body of an error is always decoded whole: its `path` is empty.
    """
    body = text.encode()
    try:
        if (decoders := _decoders(path)) is not None:
            with contextlib.suppress(msgspec.ValidationError):
                return decoding.decode(decoders.page, body)
        return msgspec.json.decode(nesting.cut_deep_values(body))
    except msgspec.DecodeError as error:
        # What Kopf and aiohttp expect of a body that is no JSON.
        raise json.JSONDecodeError(str(error), text, 0) from error


def has_more(body: Any) -> bool:
    """Whether a decoded body is a page of a list that another one follows."""
    meta = body.get("metadata") if isinstance(body, dict) else None
    return isinstance(meta, dict) and bool(meta.get("continue"))


def event(path: str, line: bytes) -> bytes:
    """Return a line of a watch; of a changed Device or GpuPod, only the fields of the structs above.

    It is empty where no handler needs that change.
    """
    if (decoders := _decoders(path)) is not None:
        with contextlib.suppress(*errors.DECODE_ERRORS):
            frame = decoding.decode(_frame, line)
            if frame.type in CHANGES - decoders.wanted:
                return b""
            if frame.type in CHANGES:
                reduced = msgspec.json.encode(decoding.decode(decoders.thing, frame.object))
                return msgspec.json.encode(_Frame(frame.type, msgspec.Raw(reduced)))
    return nesting.cut_deep_values(line)
