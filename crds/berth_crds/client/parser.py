"""Reads one HTTP/1.1 answer out of bytes that come in pieces.

The parser takes up where the last piece ended, so an answer costs the same however it is cut
up. It is strict where two readers of one answer could disagree on where it ends: framing
given twice or in words of its own, bare line ends, folded or blank-padded headers. And
nothing of an answer is without bounds: its heads, with all that is no body, share one, and
the body has another.
"""

import functools
import re
from collections.abc import Generator, Iterable, Mapping
from typing import Final, NamedTuple

from berth_crds.text import quoted

LONGEST_HEAD: Final = 1 << 16  # All heads of an answer, its trailers and chunk extensions.
LONGEST_BODY: Final = 1 << 28
LONGEST_ERROR: Final = 1 << 16  # Of the body of an error, the rest of which is not waited for.
FIRST_FINAL_CODE: Final = 200
FIRST_ERROR_CODE: Final = 300  # A redirect is none of the API server's answers, and is not followed.
BODILESS: Final = frozenset({204, 304})
LONGEST_SHOWN: Final = 80
KNOWN_LINES: Final = 64  # Most headers of a server are the same in each answer.

# As RFC 9112 has them, except that what is folded, padded or has controls in it is no field.
_TEXT: Final = rb"[\t\x20-\x7e\x80-\xff]*"
_STATUS: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: " + _TEXT + rb")?")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):(" + _TEXT + rb")")
_LENGTH: Final = re.compile(rb"[0-9]{1,16}")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;" + _TEXT + rb")?")


class MalformedResponse(Exception):
    """The response is not HTTP as this parser reads it."""


class Response(NamedTuple):
    """A whole response, and whether the connection may be used again."""

    status: int
    headers: Mapping[bytes, bytes]  # Names in lower case; what is given twice is joined by commas.
    body: bytes
    keep: bool = True


Fields = dict[bytes, bytes]
Read = Generator[None, None, bytes]  # A step of reading: it goes on when more has come.


class Parser:
    """Reads one response."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head_left = LONGEST_HEAD
        self._most = LONGEST_BODY
        self._keep = True
        self._steps = self._answer()

    def feed(self, data: bytes) -> Response | None:
        """Return the response once it is whole, None before; raise `MalformedResponse` where it is none."""
        self._buffer += data
        try:
            next(self._steps)
        except StopIteration as end:
            answer: Response = end.value
            return answer
        return None

    def _answer(self) -> Generator[None, None, Response]:
        status = 0
        while status < FIRST_FINAL_CODE:  # What comes before, such as 100, is no answer yet.
            status, headers = yield from self._head()
        if status >= FIRST_ERROR_CODE:
            self._most = LONGEST_ERROR
        if b"close" in headers.get(b"connection", b"").lower():
            self._keep = False
        body = yield from self._body(status, headers)
        # More than the answer belongs to no exchange.
        return Response(status, headers, body, keep=self._keep and not self._buffer)

    # ------------------------------------------------------------ heads

    def _head(self) -> Generator[None, None, tuple[int, Fields]]:
        first, *lines = (yield from self._upto(b"\r\n\r\n")).split(b"\r\n")
        if (match := _STATUS.fullmatch(first)) is None:
            raise MalformedResponse(f"an answer begins with {_shown(first)}")
        if match[1] == b"0":
            self._keep = False
        return int(match[2]), _fields(lines)

    def _upto(self, mark: bytes) -> Read:
        """Read up to the next mark, and pass over it; what is read so is bounded in all."""
        seen = 0
        while (end := self._buffer.find(mark, max(0, seen - len(mark)))) < 0:
            seen = len(self._buffer)
            self._check_head(seen - len(mark))
            yield
        self._check_head(end)
        self._head_left -= end
        text = bytes(self._buffer[:end])
        del self._buffer[: end + len(mark)]
        return text

    def _check_head(self, size: int) -> None:
        if size > self._head_left:
            raise MalformedResponse("the head of an answer does not end")

    # ------------------------------------------------------------ bodies

    def _body(self, status: int, headers: Fields) -> Read:
        coding, length = headers.get(b"transfer-encoding"), headers.get(b"content-length")
        if status in BODILESS:
            # Should one come all the same, it must not meet the next exchange.
            self._keep = self._keep and coding is None and length in {None, b"0"}
            return b""
        if coding is None:
            return (yield from self._take(self._bounded(_length(length or b""))))
        if length is not None:
            raise MalformedResponse("an answer says in two ways where it ends")
        if coding.lower() != b"chunked":
            raise MalformedResponse(f"an answer has the transfer encoding {_shown(coding)}")
        return (yield from self._chunks())

    def _chunks(self) -> Read:
        body = bytearray()
        while size := (yield from self._chunk_size()):
            wanted = self._bounded(len(body) + size) - len(body)
            body += yield from self._take(wanted)
            if wanted < size:
                return bytes(body)
            if (yield from self._take(2)) != b"\r\n":
                raise MalformedResponse("a chunk of an answer does not end where it should")
        while line := (yield from self._upto(b"\r\n")):
            _fields([line])  # A trailer, which tells us nothing.
        return bytes(body)

    def _chunk_size(self) -> Generator[None, None, int]:
        line = yield from self._upto(b"\r\n")
        if (match := _CHUNK.fullmatch(line)) is None:
            raise MalformedResponse(f"an answer says {_shown(line)} where the length of a chunk should be")
        # A body may have many chunks: only what stands beside their sizes counts.
        self._head_left += len(match[1])
        return int(match[1], 16)

    def _bounded(self, size: int) -> int:
        """Return how much is read of a body that has come to this size: of an error its beginning."""
        if size <= self._most:
            return size
        if self._most == LONGEST_BODY:
            raise MalformedResponse(f"an answer has more than {LONGEST_BODY} bytes")
        self._keep = False
        return self._most

    def _take(self, size: int) -> Read:
        while len(self._buffer) < size:
            yield
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken


def _fields(lines: Iterable[bytes]) -> Fields:
    found: Fields = {}
    for line in lines:
        name, value = _field(line)
        found[name] = found[name] + b", " + value if name in found else value
    return found


@functools.lru_cache(KNOWN_LINES)
def _field(line: bytes) -> tuple[bytes, bytes]:
    if (match := _FIELD.fullmatch(line)) is None:
        raise MalformedResponse(f"an answer has the header {_shown(line)}")
    return match[1].lower(), match[2].strip(b" \t")


def _shown(received: bytes) -> str:
    """Return the beginning of what a server sent, for a sentence."""
    return quoted(received.decode("latin-1"), most=LONGEST_SHOWN)


def _length(text: bytes) -> int:
    if not _LENGTH.fullmatch(text):
        raise MalformedResponse(f"an answer says {_shown(text)} where its length should be")
    return int(text)
