"""The connections of one listener: what each has received and waits for, and which makes room for others."""

import asyncio
import dataclasses
import functools
from collections.abc import Callable
from typing import cast

from berth_crds import request_limiter


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What the clients of one listener may take."""

    connections: int = 256
    request_seconds: float = 10.0  # For a whole request, from the connection or from the last answer on.
    request_bytes: int = 32 * 1024
    answer_seconds: float = 60.0  # For an answer to be read.
    body: bool = False  # Whether a request may have a body, of as many bytes as a request.


class Connection(asyncio.Protocol):
    """One connection: hands everything on to aiohttp, and knows whether it waits for its client."""

    def __init__(self, http: asyncio.Protocol, connections: "Connections") -> None:
        self.http = http
        self._connections = connections
        self.transport: asyncio.Transport | None = None
        self.since = connections.clock()  # When it began to wait for its client.
        self.answering = False
        self.admitted = False  # Whether a request that comes next has had its turn, with its bytes.
        self._unread = 0
        self._sending_since: float | None = None
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass.
        self.http.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._ended = True
        self._connections.discard(self)
        self.http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass on a part of a request in its turn; close the connection where it is too much."""
        assert self.transport is not None  # noqa: S101  nothing is received before it is made
        self._unread += len(data)
        if self._unread > self._connections.limits.request_bytes:
            self.abort()
        elif not self._connections.limiter.submit(functools.partial(self._pass_on, data)):
            self.transport.pause_reading()

    def _pass_on(self, data: bytes) -> bool:
        if self._ended or self.transport is None or self.transport.is_closing():
            return False
        self.transport.resume_reading()
        self.admitted = True
        self.http.data_received(data)
        return True

    def eof_received(self) -> bool | None:
        """Record that the client sends nothing more."""
        return self.http.eof_received()

    def pause_writing(self) -> None:
        """Make aiohttp wait until its client has read something."""
        self.http.pause_writing()

    def resume_writing(self) -> None:
        """Make aiohttp go on."""
        self.http.resume_writing()

    def request_began(self) -> None:
        """Record that a request is whole, and its answer is being made."""
        self.answering, self._unread, self._sending_since = True, 0, None

    def request_ended(self) -> None:
        """Record that the answer is made, and that the client is next."""
        self.answering, self.since = False, self._connections.clock()

    def overdue(self, now: float) -> bool:
        """Whether its client takes too long to read an answer, the pauses in between included."""
        unread = self.transport is not None and self.transport.get_write_buffer_size() > 0
        if not unread and not self.answering:
            self._sending_since = None
        elif unread and self._sending_since is None:
            self._sending_since = now
        if self._sending_since is None:
            return False
        return now - self._sending_since > self._connections.limits.answer_seconds

    def abort(self) -> None:
        """Close it at once, whatever was not sent yet."""
        if self.transport is not None:
            self.transport.abort()


class Connections:
    """The connections of one listener."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self.clock = clock
        self.limiter = request_limiter.RequestLimiter()
        self._connections: dict[asyncio.BaseProtocol, Connection] = {}  # By aiohttp's part of each.

    def add(self, connection: Connection) -> None:
        """Accept a connection."""
        self._connections[connection.http] = connection

    def discard(self, connection: Connection) -> None:
        """Forget a connection."""
        self._connections.pop(connection.http, None)

    def find(self, http: asyncio.BaseProtocol) -> Connection | None:
        """Return the connection that hands on to this part of aiohttp, None for one that is closed."""
        return self._connections.get(http)

    def has_room(self) -> bool:
        """Whether there is room for one more connection, once another has made it where that can be."""
        return len(self._connections) < self.limits.connections or self.make_room()

    def make_room(self) -> bool:
        """Close the connection that has waited longest for its client; False where none does."""
        idle = [one for one in self._connections.values() if not one.answering and one.transport is not None]
        if not idle:
            return False
        oldest = min(idle, key=lambda one: one.since)
        self.discard(oldest)
        oldest.abort()
        return True

    def sweep(self) -> None:
        """Close connections whose clients do not read."""
        now = self.clock()
        for one in [one for one in self._connections.values() if one.overdue(now)]:
            one.abort()
