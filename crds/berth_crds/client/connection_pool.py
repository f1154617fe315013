"""Short exchanges over connections that stay open: how binds, events and statuses are sent.

A general HTTP client is good at everything that HTTP can be; an exchange with an API
server is a few hundred bytes there and back, and most of its price on our side was that
generality. Here a connection is one protocol that writes a request in one piece and cuts
the answer out of what comes back. Watches, lists and whatever needs a proxy are left to
aiohttp. Nothing is ever sent twice.
"""

import asyncio
import contextlib
import functools
import re
import socket
import ssl
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import aiohappyeyeballs
import aiohttp

from berth_crds import text
from berth_crds.client import errors, parser, sockets

IDLE_SECONDS: Final = 60.0  # A connection that lay idle for longer is not trusted any more.
SECOND_ADDRESS_SECONDS: Final = (
    0.25  # Where a host has several addresses, the next is tried beside the first.
)
PLAIN_PATH: Final = re.compile("[A-Za-z0-9/._~-]*")  # A path that can be sent as it is.
CACHED: Final = 64  # Headers and queries: most requests differ in their paths and bodies alone.


MakeSocket = Callable[[aiohttp.AddrInfoType], socket.socket]


class PooledConnection(asyncio.Protocol):
    """One connection, and the exchange that is under way on it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[parser.Response] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._answer = parser.Parser()
        self.usable = True
        self.idle_since = 0.0

    def send(self, request: bytes, *, timeout: float) -> asyncio.Future[parser.Response]:
        """Send a request; the answer comes in its own time, or a TimeoutError after so many seconds."""
        assert self._transport is not None, "connected"  # noqa: S101
        loop = asyncio.get_running_loop()
        if self._transport.is_closing():
            raise ConnectionResetError("the connection was closed meanwhile")
        self._waiter = loop.create_future()
        self._timer = loop.call_later(timeout, self._fail, TimeoutError())
        self._answer = parser.Parser()
        self._transport.write(request)
        return self._waiter

    def close(self) -> None:
        """Close the connection at once."""
        self.usable = False
        self._stop_waiting()
        if self._transport is not None:
            self._transport.abort()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------ called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass.

    def data_received(self, data: bytes) -> None:
        """Read bytes, and hand the answer over once it is whole."""
        if self._waiter is None or self._waiter.done():
            self.close()  # No request is waiting, so this belongs to none.
            return
        try:
            answer = self._answer.feed(data)
        except parser.MalformedResponse as error:
            self._fail(error)
            return
        if answer is not None:
            self._stop_waiting()
            self._waiter.set_result(answer)
            if not answer.keep:
                self.close()

    def eof_received(self) -> None:
        """Treat a half-closed connection as closed, which it will be in a moment."""
        self.usable = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that waits for an answer."""
        self.usable = False
        self._fail(exc or ConnectionResetError("the server hung up without an answer"))

    def _fail(self, error: Exception) -> None:
        self.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


class ConnectionPool:
    """All connections to one server that are open for exchanges."""

    def __init__(
        self,
        server: str,
        trust: ssl.SSLContext | None,
        *,
        server_name: str | None,
        make_socket: MakeSocket = sockets.new_socket,
    ) -> None:
        parts = urllib.parse.urlsplit(server)
        secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._host_header = parts.netloc.rpartition("@")[2]
        self._tls = (trust or ssl.create_default_context()) if secure else None
        self._server_name = (server_name or self._host) if secure else None
        self._make_socket = make_socket
        self._idle: list[PooledConnection] = []
        self._open: set[PooledConnection] = set()

    def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
        body: bytes,
    ) -> bytes:
        """Return the bytes of a request."""
        target = self._prefix + path
        if not PLAIN_PATH.fullmatch(target):
            target = urllib.parse.quote(target, safe="/:@!$&'()*+,;=~%")
        if params:
            target += "?" + _query(tuple(params.items()))
        fields = _fields(tuple(headers.items()))
        head = f"{method} {target} HTTP/1.1\r\nHost: {self._host_header}\r\n{fields}"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def send(self, request: bytes, *, connect: float, deadline: float) -> parser.Response:
        """Send a request and return its response; an error says whether it may have had an effect."""
        started = time.monotonic()
        connection = self._reusable() or await self._connect(min(connect, deadline))
        try:
            answer = await connection.send(request, timeout=max(0.0, deadline - (time.monotonic() - started)))
        except (OSError, parser.MalformedResponse) as error:  # Of which TimeoutError is one.
            self._drop(connection)
            what = text.cause(error) or f"no answer within {deadline:g} s"
            raise errors.Unreachable(what, ambiguous=True) from error
        except BaseException:
            self._drop(connection)
            raise
        if connection.usable:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            self._open.discard(connection)
        return answer

    def close(self) -> None:
        """Close all connections, which takes some turns of the loop."""
        for connection in list(self._open):
            self._drop(connection)
        self._idle.clear()

    def _reusable(self) -> PooledConnection | None:
        """Return the connection that was used last, if it can still be trusted; it is idle no more."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and time.monotonic() - connection.idle_since < IDLE_SECONDS:
                return connection
            self._drop(connection)
        return None

    async def _connect(self, patience: float) -> PooledConnection:
        try:
            async with asyncio.timeout(patience):
                reached = await aiohappyeyeballs.start_connection(
                    await _addresses(self._host, self._port),
                    happy_eyeballs_delay=SECOND_ADDRESS_SECONDS,
                    socket_factory=self._make_socket,
                )
                connection = await self._handshake(reached)
        except OSError as error:
            what = text.cause(error) or f"no connection within {patience:g} s"
            raise errors.Unreachable(what, ambiguous=False) from error
        self._open.add(connection)
        return connection

    async def _handshake(self, reached: socket.socket) -> PooledConnection:
        """Return the connection over a socket once the server has greeted us."""
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                PooledConnection, sock=reached, ssl=self._tls, server_hostname=self._server_name
            )
        except BaseException:
            sockets.shut_down(
                reached
            )  # Who gives up amid a greeting leaves it to the transport, which may go on with it.
            raise
        return connection

    def _drop(self, connection: PooledConnection) -> None:
        connection.close()
        self._open.discard(connection)


async def _addresses(host: str, port: int) -> Sequence[aiohttp.AddrInfoType]:
    """Return where a host is; only names have to be looked up, which needs a thread."""
    with contextlib.suppress(socket.gaierror):
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


# ---------------------------------------------------------------- writing a request


@functools.lru_cache(CACHED)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    return urllib.parse.urlencode(params)


@functools.lru_cache(CACHED)
def _fields(headers: tuple[tuple[str, str], ...]) -> str:
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers])
    if fields.count("\n") != len(headers) or fields.count("\r") != len(headers):
        raise errors.Unusable("A header of a request would hold a line break.")
    return fields
