"""The one small HTTP server of both programs, in which many clients cannot keep others out.

aiohttp speaks HTTP and calls the handlers. This module accepts the connections and bounds
what each client may take: the time for a request, the time for its answer to be read,
the bytes of a request, which seldom has a body, and a place among so many connections. Where
all places are taken, the one that has waited longest for its client goes; one whose
answer is being made stays. What all clients ask together goes through a rate limiter.

asyncio's own loop around `accept` is not used: where a process has no file descriptor
left, that one logs a traceback for each attempt, a hundred of them at once.

The agent imports this module only where it serves anything, for the memory that it takes.
"""

import asyncio
import contextlib
import dataclasses
import logging
import math
import resource
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Final

from aiohttp import http_exceptions, typedefs, web

from berth_crds import http_connections, text

log = logging.getLogger(__name__)

BACKLOG: Final = 1024
ACCEPTED_AT_ONCE: Final = 16  # Then other tasks run, and connections that made room are closed.
PAUSE_SECONDS: Final = 1.0  # Without accepting, where no file descriptor is left.
QUIET_SECONDS: Final = 10.0  # Without an error, before the end of the shortage is logged.
SWEEP_SECONDS: Final = 1.0
HANDSHAKE_SECONDS: Final = 5.0  # For a client to begin to speak TLS.
LINGER_SECONDS: Final = 1.0  # For a body that is not wanted, so that its sender can read the refusal.
SHUTDOWN_SECONDS: Final = 1.0  # A client that reads a long page must not keep the process from ending.
CACHED_SECONDS: Final = 1.0  # For answers that need no login and take time to make.
FEWEST: Final = 8
SHARE: Final = 4  # So many listeners could take all file descriptors; there are two, and other uses.


USUAL: Final = http_connections.Limits()
PROBES: Final = http_connections.Limits(connections=64)


class DescriptorShortage:
    """Logs once that no connection can be accepted, and once that this is over."""

    def __init__(self, address: str, clock: Callable[[], float]) -> None:
        self._address = address
        self._clock = clock
        self._last: float | None = None

    def record(self, error: OSError) -> None:
        """Record a connection that could not be accepted."""
        if self._last is None:
            log.error("%s: no connection can be accepted: %s", self._address, text.cause(error))
        self._last = self._clock()

    def check(self) -> None:
        """Log once that connections are accepted again."""
        if self._last is not None and self._clock() - self._last > QUIET_SECONDS:
            self._last = None
            log.info("%s: connections are accepted again", self._address)


class Listener:
    """Accepts the connections of one socket."""

    def __init__(
        self,
        listening: socket.socket,
        connections: http_connections.Connections,
        shortage: DescriptorShortage,
        server: web.Server,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._socket = listening
        self._tls = tls
        self._connections = connections
        self._shortage = shortage
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._pausing: asyncio.TimerHandle | None = None
        self._starting: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Accept connections from now on."""
        self._pausing = None
        self._loop.add_reader(self._socket, self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._pausing is not None:
            self._pausing.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for task in self._starting:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                made, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._admit(made)

    def _pause(self, error: OSError) -> None:
        """Stop accepting for a while, because the next attempt would fail as well."""
        self._shortage.record(error)
        self._connections.make_room()
        self._loop.remove_reader(self._socket)
        self._pausing = self._loop.call_later(PAUSE_SECONDS, self.start)

    def _admit(self, made: socket.socket) -> None:
        made.settimeout(0)
        if not self._connections.has_room():
            made.close()
            return
        connection = http_connections.Connection(self._server(), self._connections)
        self._connections.add(connection)
        task = self._loop.create_task(self._begin(made, connection))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _begin(self, made: socket.socket, connection: http_connections.Connection) -> None:
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection,
                made,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_SECONDS if self._tls else None,
            )
        except OSError as error:
            log.debug("a connection was lost before it began: %s", error)
        finally:
            if connection.transport is None:
                self._connections.discard(connection)
                made.close()


@contextlib.asynccontextmanager
async def serving(
    address: str,
    routes: Sequence[web.RouteDef],
    *,
    limits: http_connections.Limits = USUAL,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    """Serve at HOST:PORT while the block runs, and tell where; an OSError says why that cannot be."""
    clock = time.monotonic  # The time of a loop may stand still for a millisecond.
    connections = http_connections.Connections(
        dataclasses.replace(limits, connections=connection_limit(limits.connections)), clock
    )
    shortage = DescriptorShortage(address, clock)
    runner = _runner(routes, connections)
    sockets = await listening_sockets(address)
    async with contextlib.AsyncExitStack() as closing:
        for one in sockets:
            closing.callback(one.close)
        await runner.setup()
        closing.push_async_callback(runner.cleanup)
        assert runner.server is not None  # noqa: S101  it was set up
        for one in sockets:
            listener = Listener(one, connections, shortage, runner.server, tls)
            listener.start()
            closing.callback(listener.close)
        sweeping = asyncio.create_task(_sweep(connections, shortage), name=f"sweep {address}")
        closing.callback(sweeping.cancel)
        host, port = sockets[0].getsockname()[:2]
        yield f"{host}:{port}"


def connection_limit(wanted: int) -> int:
    """Return how many connections a listener may hold, so that file descriptors are left for the rest."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return max(FEWEST, min(wanted, descriptors // SHARE))


async def listening_sockets(address: str) -> list[socket.socket]:
    """Make the listening sockets of HOST:PORT, one for each address that the host has."""
    host, _, port = address.rpartition(":")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except UnicodeError as error:
        raise OSError(f"{text.quoted(host)} is no name of a host") from error
    with contextlib.ExitStack() as made:
        sockets = []
        for family, where in dict.fromkeys((family, where) for family, _, _, _, where in found):
            one = made.enter_context(socket.create_server(where, family=family, backlog=BACKLOG))
            one.settimeout(0)
            sockets.append(one)
        made.pop_all()
    return sockets


def _runner(routes: Iterable[web.RouteDef], connections: http_connections.Connections) -> web.AppRunner:
    app = web.Application(
        middlewares=[_bounded(connections)], client_max_size=connections.limits.request_bytes
    )
    app.add_routes(routes)
    return web.AppRunner(
        app,
        access_log=None,
        logger=aiohttp_log,
        shutdown_timeout=SHUTDOWN_SECONDS,
        # aiohttp counts these seconds from the connection on, too, and until a request is whole.
        keepalive_timeout=connections.limits.request_seconds,
        lingering_time=LINGER_SECONDS,
        # A client that is gone must not keep others waiting for their turn.
        handler_cancellation=True,
        auto_decompress=False,
    )


def _bounded(connections: http_connections.Connections) -> typedefs.Middleware:
    @web.middleware
    async def answer(request: web.Request, handler: typedefs.Handler) -> web.StreamResponse:
        if (connection := connections.find(request.protocol)) is None:
            return _last_answer("The client is gone.\n", 503)
        if not connection.admitted:  # It came together with another.
            await connections.limiter.acquire()
        connection.admitted = False
        connection.request_began()
        try:
            unwanted = request.body_exists and not connections.limits.body
            return (
                _last_answer(f"{request.path} takes no body.\n", 413) if unwanted else await handler(request)
            )
        finally:
            connection.request_ended()

    return answer


def _last_answer(text: str, status: int) -> web.Response:
    """Return an answer after which the connection is closed."""
    answer = web.Response(text=text, status=status)
    answer.force_close()
    return answer


async def _sweep(connections: http_connections.Connections, shortage: DescriptorShortage) -> None:
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        connections.sweep()
        shortage.check()


def cached(make: Callable[[], bytes], *, seconds: float = CACHED_SECONDS) -> Callable[[], bytes]:
    """Return what returns the bytes of `make`, made anew once in so many seconds at most."""
    clock = time.monotonic  # The time of a loop may stand still for a millisecond.
    made, at = b"", -math.inf

    def latest() -> bytes:
        nonlocal made, at
        if clock() - at >= seconds:
            made, at = make(), clock()
        return made

    return latest


def listing(path: str, pages: Mapping[str, str]) -> web.RouteDef:
    """Return the route of a page that lists others, each with what it is."""
    width = max(map(len, pages), default=0)
    body = "".join(f"{page:{width}}  {what}".rstrip() + "\n" for page, what in pages.items())

    async def show(_: web.Request) -> web.Response:
        return web.Response(text=body)

    return web.get(path, show)


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a record of aiohttp tells of a fault of ours, and not of a client that speaks no HTTP."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, http_exceptions.HttpProcessingError)


aiohttp_log: Final = logging.getLogger(f"{__name__}.aiohttp")
aiohttp_log.addFilter(_is_ours)
