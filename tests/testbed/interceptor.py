"""A man in the middle: a proxy that reads every request, and may do something nasty with it.

    async with interceptor.Interceptor(cluster, judge=plan) as wire:
        config = cluster.kubeconfig_for(namespace, "default", server=wire.server)

`proxy` cuts wires and sees only bytes. This one shows the API server's own certificate,
so that it can tell a bind from a list: for each request it asks its judge for a fault,
and carries that out before or after the server has acted. Bearer tokens pass through;
watches are streamed. What it saw is kept in order.
"""

import asyncio
import contextlib
import enum
import http
import json
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self

import aiohttp
import yarl
from aiohttp import web

from testbed import calls, cluster, listening_socket, ports, proxy, sessions

# Headers that belong to one connection, not to the request; lengths are counted anew, and we want to read.
PER_HOP: Final = {
    "accept-encoding",
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "te",
    "transfer-encoding",
    "upgrade",
}
VERSION: Final = re.compile(rb'"resourceVersion":"(\d+)"')
VERSIONED: Final = re.compile(r"list .*|get pods|patch pods/status")
ENOUGH: Final = 4096  # A list says its revision at its beginning.


class Deed(enum.StrEnum):
    """What may be done to a request."""

    NOTHING = "nothing"
    SLOW = "forward after a pause"
    HOLD = "forward when the gate opens"
    DROP = "reset without forwarding"
    BUSY = "answer 429 without forwarding"
    REFUSE = "answer 403 without forwarding"
    FAIL = "answer 503 without forwarding"
    LATE = "answer after a pause"
    LOSE = "reset after the server has acted"
    UNSURE = "answer 503 after the server has acted"
    TWICE = "send twice, answer with the second"
    DETOUR = "forward to another server"
    CUT = "reset a watch in the middle"
    KILL_BEFORE = "kill the sender before forwarding"
    KILL_AFTER = "kill the sender before it hears the answer"
    KILL_BETWEEN = "kill the sender when it has heard the answer"


KILLS: Final = frozenset({Deed.KILL_BEFORE, Deed.KILL_AFTER, Deed.KILL_BETWEEN})


@dataclass(frozen=True, slots=True)
class Fault:
    """A deed, with what it takes."""

    deed: Deed = Deed.NOTHING
    seconds: float = 0.0
    gate: asyncio.Event | None = None
    server: str = ""  # The URL of another server, if the request goes there.


# After these the server never hears of the request.
UNHEARD: Final = frozenset({Deed.DROP, Deed.BUSY, Deed.REFUSE, Deed.FAIL, Deed.KILL_BEFORE})

PASS: Final = Fault()
Judge = Callable[[calls.Call], Fault]


@dataclass(slots=True)
class Record:
    """A request that was seen: what was done to it, and what the server said to it in the end."""

    call: calls.Call
    deed: Deed
    status: int = 0  # Zero while the server has not answered.
    version: int = 0  # Of a list: the revision at which it was true; of a pod, its own.
    asked: bytes = b""  # How the request's body begins.
    text: str = ""  # Of a refusal: what the server said.
    moment: float = field(default_factory=time.monotonic)  # When it was seen.

    @property
    def open(self) -> bool:
        """Whether the server may still act on it."""
        return not self.status and self.deed not in UNHEARD


@dataclass(slots=True)
class _Asked:
    """A request with its body, which may have to be sent twice, and whether its sender was killed for it."""

    request: web.BaseRequest
    body: bytes
    record: Record
    fault: Fault
    killed: bool = False


class Interceptor:
    """Forwards requests on `port` to the API server of a cluster, with faults."""

    def __init__(
        self,
        target: cluster.Cluster,
        *,
        judge: Judge = lambda _: PASS,
        kill: Callable[[], None] = lambda: None,
    ) -> None:
        self.judge = judge
        self.kill = kill
        self.seen: list[Record] = []
        self.last_fault = 0.0
        self._target = target
        self._reservation = ports.Reservation()
        self._watches: dict[int, web.BaseRequest] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._close = contextlib.AsyncExitStack()
        self._session: aiohttp.ClientSession

    @property
    def server(self) -> str:
        """The URL under which clients reach the API server through here."""
        return f"https://127.0.0.1:{self._reservation.port}"

    async def __aenter__(self) -> Self:
        """Listen and forward."""
        self._close.callback(self._reservation.release)
        trust = ssl.create_default_context(cafile=str(self._target.ca_file))
        self._session = await self._close.enter_async_context(
            sessions.session(tls=trust, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False)
        )
        shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        shown.load_cert_chain(self._target.serving.certificate, self._target.serving.key)
        server = web.Server(self._serve, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0.2)
        await runner.setup()
        listening = listening_socket.ListeningSocket()
        self._close.push_async_callback(listening.reset_accepted)
        self._close.push_async_callback(runner.cleanup)
        self._close.callback(_abort, server)
        self._close.push_async_callback(listening.stop_accepting)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(("127.0.0.1", self._reservation.port))
        await web.SockSite(runner, listening, ssl_context=shown).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening and reset what is left."""
        self.reset_watches()
        await self._drop()
        await self._close.aclose()

    async def _drop(self) -> None:
        """End what is still being served, also for clients that are gone: nobody else would."""
        unfinished = list(self._serving)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

    def reset_watches(self) -> int:
        """Reset every watch that is streaming; tell how many that were."""
        live = list(self._watches.values())
        for request in live:
            _reset(request)
        self.note()
        return len(live)

    async def warm(self, server: str, count: int) -> None:
        """Open connections to another server, for one that is frozen could not be connected to."""

        async def ask() -> None:
            async with self._session.get(f"{server}/version") as answer:
                await answer.read()

        await asyncio.gather(*(ask() for _ in range(count)))

    def note(self) -> None:
        """Remember that something bad was done just now."""
        self.last_fault = time.monotonic()

    # ------------------------------------------------------------ one request

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        # The server library gives each request a task, and forgets it when the connection is lost.
        if (task := asyncio.current_task()) is not None:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        call = calls.of(request.method, request.path, request.query)
        body = await request.read()
        fault = self.judge(replace(call, asked=body[:ENOUGH]))
        record = Record(call, fault.deed, asked=body[:ENOUGH])
        self.seen.append(record)
        asked = _Asked(request, body, record, fault)
        try:
            answer = await self._before(asked)
            if answer is None:
                answer = await (self._stream(asked) if call.streams else self._exchange(asked))
        except (aiohttp.ClientError, ConnectionError):
            # Where the server's answer never came nothing else would end the sender; and once is enough, for
            # the next one would be another process.
            if fault.deed in KILLS and not asked.killed:
                self._kill(asked)
            answer = self._abandon(asked)
        if fault.deed is not Deed.NOTHING:
            self.note()
        return answer

    async def _before(self, asked: _Asked) -> web.StreamResponse | None:
        """Do what comes before the server; an answer means that it never hears of the request."""
        fault = asked.fault
        match fault.deed:
            case Deed.SLOW:
                await asyncio.sleep(fault.seconds)
            case Deed.HOLD | Deed.DETOUR if fault.gate is not None:
                await fault.gate.wait()
                await asyncio.sleep(fault.seconds)
            case Deed.DROP:
                return self._abandon(asked)
            case Deed.KILL_BEFORE:
                self._kill(asked)
                return self._abandon(asked)
            case Deed.BUSY:
                return _status(http.HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": f"{fault.seconds:.0f}"})
            case Deed.REFUSE:
                return _status(http.HTTPStatus.FORBIDDEN)
            case Deed.FAIL:
                return _status(http.HTTPStatus.SERVICE_UNAVAILABLE)
            case _:
                pass
        return None

    async def _exchange(self, asked: _Asked) -> web.StreamResponse:
        """Ask the server and give its answer."""
        if asked.fault.deed is Deed.TWICE:
            async with self._forward(asked) as first:
                await first.read()
        async with self._forward(asked) as theirs:
            body = await theirs.read()
            _take_down(asked.record, theirs, body)
            if (instead := await self._after(asked)) is not None:
                return instead
            self._soon(asked)
            return web.Response(status=theirs.status, headers=_passing(theirs.headers), body=body)

    async def _after(self, asked: _Asked) -> web.StreamResponse | None:
        """Do what comes between the server's act and its answer."""
        match asked.fault.deed:
            case Deed.LATE:
                await asyncio.sleep(asked.fault.seconds)
            case Deed.LOSE:
                return self._abandon(asked)
            case Deed.KILL_AFTER:
                self._kill(asked)
                return self._abandon(asked)
            case Deed.UNSURE:
                return _status(http.HTTPStatus.SERVICE_UNAVAILABLE)
            case _:
                pass
        return None

    async def _stream(self, asked: _Asked) -> web.StreamResponse:
        """Pass a watch on, piece by piece."""
        async with self._forward(asked) as theirs:
            asked.record.status = theirs.status
            if (instead := await self._after(asked)) is not None:
                return instead
            ours = web.StreamResponse(status=theirs.status, headers=_passing(theirs.headers))
            await ours.prepare(asked.request)
            self._watches[id(asked)] = asked.request
            self._soon(asked)
            try:
                await self._pour(theirs, ours)
            finally:
                del self._watches[id(asked)]
        return ours

    async def _pour(self, theirs: aiohttp.ClientResponse, ours: web.StreamResponse) -> None:
        async for chunk in theirs.content.iter_any():
            await ours.write(chunk)
        await ours.write_eof()

    def _kill(self, asked: _Asked) -> None:
        asked.killed = True
        self.kill()

    def _soon(self, asked: _Asked) -> None:
        """Plan what comes after the answer."""
        running = asyncio.get_running_loop()
        if asked.fault.deed is Deed.KILL_BETWEEN:
            asked.killed = True
            running.call_later(asked.fault.seconds, self.kill)
        elif asked.fault.deed is Deed.CUT:
            running.call_later(asked.fault.seconds, _reset, asked.request)

    @contextlib.asynccontextmanager
    async def _forward(self, asked: _Asked) -> AsyncIterator[aiohttp.ClientResponse]:
        server = asked.fault.server or self._target.server
        url = yarl.URL(server + asked.request.raw_path, encoded=True)
        async with self._session.request(
            asked.request.method,
            url,
            data=asked.body or None,
            headers=_passing(asked.request.headers),
            allow_redirects=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        ) as answer:
            yield answer

    def _abandon(self, asked: _Asked) -> web.StreamResponse:
        _reset(asked.request)
        return _status(http.HTTPStatus.BAD_GATEWAY)  # Nobody hears it.


def _take_down(record: Record, answer: aiohttp.ClientResponse, body: bytes) -> None:
    """Keep what tests ask for of an answer."""
    record.status = answer.status
    if VERSIONED.fullmatch(record.call.kind) and (found := VERSION.search(body[:ENOUGH])):
        record.version = int(found[1])
    if answer.status >= http.HTTPStatus.BAD_REQUEST:
        with contextlib.suppress(ValueError, AttributeError):
            record.text = str(json.loads(body).get("message", ""))


def _passing(headers: object) -> list[tuple[str, str]]:
    items = headers.items()  # type: ignore[attr-defined]  # Two kinds of multidict, one shape.
    return [(name, value) for name, value in items if name.lower() not in PER_HOP]


def _status(code: http.HTTPStatus, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": int(code)}
    return web.json_response({**body, "message": "a fault, on purpose"}, status=code, headers=headers)


def _abort(server: web.Server) -> None:
    """Close every connection at once: a polite end waits for a client that may be dead."""
    for handler in server.connections:
        if handler.transport is not None:
            handler.transport.abort()


def _reset(request: web.BaseRequest) -> None:
    """Close a client's connection with a TCP reset, as if somebody had pulled the plug."""
    transport = request.transport
    if transport is None or transport.is_closing():
        return
    peer = transport.get_extra_info("socket")
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, proxy.RESET_ON_CLOSE)
    transport.abort()
