"""The messages of the kubelet's PodResources API, as much of them as Berth reads.

They are few and made of text alone, so they are decoded here by their field numbers in the public
API. Generated classes would clash with any other copy in the process, since their packages are just
called `v1` and `v1alpha1`. Fields that are not listed (cpus, memory, topology, CDI names) are skipped.

An empty pod takes two bytes on the wire and a hundred times that when decoded. So everything in an
answer is counted, and one with too much of anything is not decoded to its end.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from berth_agent import protobuf
from berth_agent.protobuf import Malformed


class Field(NamedTuple):
    """One field of a message: `of` is the kind of message in it, empty for text."""

    name: str
    of: str = ""
    repeated: bool = True


# Both versions of the API agree in all that is listed here; the older one has no claims.
MESSAGES: Final[Mapping[str, Mapping[int, Field]]] = {
    "ListPodResourcesResponse": {1: Field("pods", "PodResources")},
    "PodResources": {
        1: Field("name", repeated=False),
        2: Field("namespace", repeated=False),
        3: Field("containers", "ContainerResources"),
    },
    "ContainerResources": {
        1: Field("name", repeated=False),
        2: Field("devices", "ContainerDevices"),
        5: Field("dynamic_resources", "DynamicResource"),
    },
    "ContainerDevices": {
        1: Field("resource_name", repeated=False),
        2: Field("device_ids"),
    },
    "DynamicResource": {
        2: Field("claim_name", repeated=False),
        3: Field("claim_namespace", repeated=False),
        4: Field("claim_resources", "ClaimResource"),
    },
    "ClaimResource": {
        2: Field("driver_name", repeated=False),
        4: Field("device_name", repeated=False),
    },
}
# What one answer may have: many times what any node has.
MOST: Final[Mapping[str, int]] = {
    "pods": 10_000,
    "containers": 50_000,
    "devices": 100_000,
    "device_ids": 100_000,
    "dynamic_resources": 50_000,
    "claim_resources": 100_000,
    "fields": 1_000_000,  # All together, those that are skipped included.
}
VERSIONS: Final = ("v1", "v1alpha1")  # The newest first.
LIST_REQUEST: Final = b""  # It has no fields.

Message = Mapping[str, Any]
Left = dict[str, int]  # How much more an answer may have, by field.


class TooMuch(Malformed):
    """An answer that has more than any node; the text of the error is a clause."""


def method(version: str) -> str:
    """Return the full name of the List method."""
    return f"/{version}.PodResourcesLister/List"


def listed(body: bytes) -> Iterator[Message]:
    """Decode the pods of an answer one by one; what cannot be decoded raises `Malformed`."""
    return (pod for _, pod in _fields("ListPodResourcesResponse", body, slice(0, len(body)), dict(MOST)))


def _fields(kind: str, body: bytes, span: slice, left: Left) -> Iterator[tuple[Field, Any]]:
    """Yield the known fields of a message with their values."""
    known = MESSAGES[kind]
    for number, value in protobuf.values(body, span):
        _count("fields", left)
        if (field := known.get(number)) is None:
            continue
        if isinstance(value, int):
            raise Malformed(f"{kind}.{field.name} is a number")
        if field.repeated:
            _count(field.name, left)
        yield field, _message(field.of, body, value, left) if field.of else protobuf.text(body[value])


def _message(kind: str, body: bytes, span: slice, left: Left) -> Message:
    found: dict[str, Any] = {one.name: [] if one.repeated else "" for one in MESSAGES[kind].values()}
    for field, value in _fields(kind, body, span, left):
        if field.repeated:
            found[field.name].append(value)
        else:
            found[field.name] = value
    return found


def _count(what: str, left: Left) -> None:
    left[what] -= 1
    if left[what] < 0:
        raise TooMuch(f"it has more than {MOST[what]} {what.replace('_', ' ')}")
