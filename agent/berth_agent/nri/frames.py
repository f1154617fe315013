"""The protocol of NRI: ttrpc, in two directions over one socket.

A frame names the connection that it belongs to: on one the runtime asks and we answer, on the other it is
the other way round. A message of ttrpc has a header of its own, and may come in several frames.
"""

import asyncio
import collections
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Never

from berth_agent import protobuf
from berth_agent.protobuf import Malformed, field, message

log = logging.getLogger(__name__)

FRAME: Final = struct.Struct(">II")  # The connection, and how many bytes follow.
HEADER: Final = struct.Struct(">IIBB")  # How many bytes follow, the call, and what it is; flags are not used.
OURS, THEIRS = 1, 2  # The connections: to our service, and to the runtime's.
REQUEST, RESPONSE = 1, 2
LONGEST: Final = 4 << 20  # What the runtime's own plugins take.
FAILED_PRECONDITION: Final = 9

Answer = Callable[[str, bytes], Awaitable[bytes]]  # The answer to a method and what it is asked.


class CallFailed(Exception):
    """A request is not fulfilled; the text is a sentence for people."""


class Message(NamedTuple):
    """One message of ttrpc."""

    connection: int
    call: int
    type: int
    payload: bytes


class Connection:
    """One connection to the runtime, which asks `answer`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
        self._reader = reader
        self._writer = writer
        self._answer = answer
        self._received: dict[int, bytearray] = collections.defaultdict(bytearray)
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._next = 1  # Whoever opens a call chooses an odd number.

    async def serve(self) -> Never:
        """Answer for ever; the end of the connection is an EOFError, also for who waits for an answer."""
        try:
            while True:
                await self._serve_frame()
        finally:
            for waiting in self._calls.values():
                if not waiting.done():
                    waiting.set_exception(EOFError("the connection has ended"))

    async def _serve_frame(self) -> None:
        connection, size = FRAME.unpack(await self._reader.readexactly(FRAME.size))
        if size > LONGEST + HEADER.size or connection not in {OURS, THEIRS}:
            raise Malformed(f"a frame of {size} bytes for connection {connection}")
        self._received[connection] += await self._reader.readexactly(size)
        while (received := self._take(connection)) is not None:
            await self._handle(received)

    async def call(self, service: str, method: str, payload: bytes) -> bytes:
        """Ask the runtime while `serve` runs."""
        number, self._next = self._next, self._next + 2
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._calls[number] = answered
        request = field(1, service) + field(2, method) + message(3, payload)
        try:
            await self._send(Message(THEIRS, number, REQUEST, request))
            return await answered
        finally:
            del self._calls[number]

    def _take(self, connection: int) -> Message | None:
        """Return the first whole message of a connection; None if it has not come yet."""
        received = self._received[connection]
        if len(received) < HEADER.size:
            return None
        size, call, kind, _ = HEADER.unpack_from(received)
        if size > LONGEST:
            raise Malformed(f"a message of {size} bytes")
        end = HEADER.size + size
        if len(received) < end:
            return None
        found = Message(connection, call, kind, bytes(received[HEADER.size : end]))
        del received[:end]
        return found

    async def _handle(self, received: Message) -> None:
        if received.connection == OURS and received.type == REQUEST:
            await self._send(Message(OURS, received.call, RESPONSE, await self._answered(received.payload)))
            return
        waiting = self._calls.get(received.call) if received.connection == THEIRS else None
        if waiting is not None and not waiting.done():
            _settle(waiting, received.payload)

    async def _answered(self, request: bytes) -> bytes:
        """Return the response to a request."""
        try:
            asked = dict(protobuf.fields(request))
            method, payload = protobuf.text(asked.get(2, b"")), protobuf.content(asked.get(3, b""))
            return message(2, await self._answer(method, payload))
        except (CallFailed, Malformed) as error:
            return _failed(str(error))
        except Exception as error:
            # Were the connection lost over it, the runtime would go on as if there were no plugin.
            log.exception("a request of the runtime failed")
            return _failed(f"{type(error).__name__}: {error}")

    async def _send(self, sent: Message) -> None:
        header = HEADER.pack(len(sent.payload), sent.call, sent.type, 0)
        self._writer.write(
            FRAME.pack(sent.connection, HEADER.size + len(sent.payload)) + header + sent.payload
        )
        await self._writer.drain()


def _failed(sentence: str) -> bytes:
    """Return the response to a request that is not fulfilled."""
    return message(1, field(1, FAILED_PRECONDITION) + field(2, sentence))


def _settle(waiting: asyncio.Future[bytes], response: bytes) -> None:
    """End a call with its response: a status, if there is one with a code, or a payload."""
    found = dict(protobuf.fields(response))
    status = found.get(1, b"")
    code, sentence = _status(status) if isinstance(status, bytes) else (0, "")
    if code:
        waiting.set_exception(CallFailed(sentence or f"the runtime answers with code {code}"))
    else:
        payload = found.get(2, b"")
        waiting.set_result(payload if isinstance(payload, bytes) else b"")


def _status(status: bytes) -> tuple[int, str]:
    found = dict(protobuf.fields(status))
    code = found.get(1, 0)
    return code if isinstance(code, int) else 0, protobuf.text(found.get(2, b""))
