"""The messages of the kubelet's PodResources API, as much of them as Berth reads.

They are few and made of text alone, so they are read here by their numbers in the public API
rather than by classes: those would bring in a library that takes as much memory as half of
the agent's own code, and generated ones clash with any other copy in the process, for their
packages are called no more than `v1` and `v1alpha1`. What is not listed (cpus, memory,
topology, claims) is skipped, as everybody does who reads an older version of a message.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple


class Field(NamedTuple):
    """One field of a message: `of` names the message it is made of, empty for text."""

    name: str
    of: str = ""
    repeated: bool = True


# Both versions of the API agree in all that is listed here.
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
    },
    "ContainerDevices": {
        1: Field("resource_name", repeated=False),
        2: Field("device_ids"),
    },
}
VERSIONS: Final = ("v1", "v1alpha1")  # The newest first.
LIST_REQUEST: Final = b""  # It has no fields.

# How values stand on the wire.
VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
LONGEST_VARINT: Final = 10
MORE: Final = 0x80  # Set in each byte of a number but the last.

Message = Mapping[str, Any]


class Malformed(ValueError):
    """Bytes that are no such message; the message of the error is a clause."""


def method(version: str) -> str:
    """Name the method that lists, as it stands on the wire."""
    return f"/{version}.PodResourcesLister/List"


def listed(body: bytes) -> list[Message]:
    """Read the pods of an answer, or raise `Malformed`."""
    found: list[Message] = _message("ListPodResourcesResponse", memoryview(body))["pods"]
    return found


def _message(kind: str, data: memoryview) -> Message:
    fields = MESSAGES[kind]
    found: dict[str, Any] = {field.name: [] if field.repeated else "" for field in fields.values()}
    for number, value in _values(data):
        field = fields.get(number)
        if field is None:
            continue
        if value is None:
            raise Malformed(f"{kind}.{field.name} is a number")
        read = _message(field.of, value) if field.of else _text(value)
        if field.repeated:
            found[field.name].append(read)
        else:
            found[field.name] = read
    return found


def _text(value: memoryview) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise Malformed("a text in it is not UTF-8") from error


def _values(data: memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """Walk over the fields of a message: the bytes of each by its number, None for one of another kind."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        size, at = _size(data, at, key & 7)
        if at + size > len(data):
            raise Malformed("it ends amid a field")
        yield key >> 3, data[at : at + size] if key & 7 == LENGTH else None
        at += size


def _size(data: memoryview, at: int, kind: int) -> tuple[int, int]:
    """Say how long a value is, and where it begins."""
    if kind == VARINT:
        return _varint(data, at)[1] - at, at
    if kind == LENGTH:
        return _varint(data, at)
    if kind in {EIGHT_BYTES, FOUR_BYTES}:
        return 8 if kind == EIGHT_BYTES else 4, at
    raise Malformed(f"it has a field of the unknown kind {kind}")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, and say where it ends."""
    number = 0
    for place, byte in enumerate(data[at : at + LONGEST_VARINT]):
        number |= (byte & ~MORE) << 7 * place
        if not byte & MORE:
            return number, at + place + 1
    raise Malformed("it has a number without an end")
