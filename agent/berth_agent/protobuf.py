"""Protocol Buffers on the wire, for the few messages that the agent reads and writes. Pure.

Generated classes would need a library that takes as much memory as half of the agent's own code. A message
is a row of fields, each with a number that its API gives it; what the numbers mean is the reader's business.
"""

from collections.abc import Iterator
from typing import Final

# The kinds of values on the wire.
VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
LONGEST_VARINT: Final = 10
MORE: Final = 0x80  # Set in each byte of a number except the last.


class Malformed(ValueError):
    """Bytes that are no message; the text of the error is a clause."""


# ---------------------------------------------------------------- reading


def values(body: bytes, span: slice) -> Iterator[tuple[int, slice | int]]:
    """Yield each field of a part of a text: its number, and where its bytes are, or the number that it is."""
    at, end = span.start, span.stop
    while at < end:
        key, at = _varint(body, at, end)
        if key & 7 == VARINT:
            value, at = _varint(body, at, end)
            yield key >> 3, value
            continue
        size, at = _size(body, at, end, key & 7)
        if at + size > end:
            raise Malformed("it ends amid a field")
        found = slice(at, at + size)
        yield key >> 3, found if key & 7 == LENGTH else int.from_bytes(body[found], "little")
        at += size


def fields(body: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield each field of a message: its number and its value."""
    for number, value in values(body, slice(0, len(body))):
        yield number, body[value] if isinstance(value, slice) else value


def text(value: bytes | int) -> str:
    """Return a value as text."""
    if isinstance(value, int):
        raise Malformed("a text in it is a number")
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Malformed("a text in it is not UTF-8") from error


def content(value: bytes | int) -> bytes:
    """Return a value as the bytes of a message."""
    if isinstance(value, int):
        raise Malformed("a message in it is a number")
    return value


def _size(body: bytes, at: int, end: int, kind: int) -> tuple[int, int]:
    """Return how long a value is, and where it begins."""
    if kind == LENGTH:
        return _varint(body, at, end)
    if kind in {EIGHT_BYTES, FOUR_BYTES}:
        return 8 if kind == EIGHT_BYTES else 4, at
    raise Malformed(f"it has a field of the unknown kind {kind}")


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and where it ends."""
    if at < end and body[at] < MORE:
        return body[at], at + 1
    number = 0
    for place in range(at, min(end, at + LONGEST_VARINT)):
        byte = body[place]
        number |= (byte & ~MORE) << 7 * (place - at)
        if byte < MORE:
            return number, place + 1
    raise Malformed("it has a number without an end")


# ---------------------------------------------------------------- writing


def field(number: int, value: str | bytes | int) -> bytes:
    """Return a field; a text or a number that is empty takes no bytes, as the format has it."""
    if isinstance(value, int):
        return _written(number << 3 | VARINT) + _written(value) if value else b""
    content = value.encode() if isinstance(value, str) else value
    return message(number, content) if content else b""


def message(number: int, content: bytes) -> bytes:
    """Return a field that is a message, though it may be empty."""
    return _written(number << 3 | LENGTH) + _written(len(content)) + content


def _written(value: int) -> bytes:
    found = bytearray()
    while value >= MORE:
        found.append(value & ~MORE & 0xFF | MORE)
        value >>= 7
    found.append(value)
    return bytes(found)
