"""What a client may take of the HTTP server of both programs: time, bytes, and a place among others."""

import asyncio
import contextlib
import dataclasses
import logging
import resource
import socket
import struct
import time
from unittest import mock

import pytest
from aiohttp import web

from berth_crds import http_connections, http_server
from http_server import clients

OK = "200 OK"
FEW = http_connections.Limits(connections=8, request_seconds=3600.0)
HASTY = dataclasses.replace(FEW, request_seconds=0.3)
LARGE = 1 << 26


class Site:
    """Pages that answer at once, when they may, with a fault, or with much."""

    def __init__(self) -> None:
        self.asked = asyncio.Semaphore(0)
        self.go_on = asyncio.Event()
        self.ended = asyncio.Event()

    def routes(self) -> list[web.RouteDef]:
        """Return the pages."""
        pages = [self.healthz, self.late, self.broken, self.large]
        return [web.get(f"/{page.__name__}", page) for page in pages]

    async def healthz(self, _: web.Request) -> web.Response:
        """Answer at once."""
        return web.Response(text="alive\n")

    async def late(self, _: web.Request) -> web.Response:
        """Answer when it may, and record the end."""
        self.asked.release()
        try:
            await self.go_on.wait()
        finally:
            self.ended.set()
        return web.Response(text="late\n")

    async def broken(self, _: web.Request) -> web.Response:
        """Fail."""
        raise ZeroDivisionError

    async def large(self, _: web.Request) -> web.Response:
        """Answer at length."""
        self.asked.release()
        return web.Response(body=bytes(LARGE))

    def served(self, limits: http_connections.Limits) -> contextlib.AbstractAsyncContextManager[str]:
        """Serve them, and yield where."""
        return http_server.serving("127.0.0.1:0", self.routes(), limits=limits)


@pytest.fixture
async def site() -> Site:
    """Lend pages."""
    return Site()


# ---------------------------------------------------------------- a place among others


async def test_the_connection_that_was_idle_longest_makes_room(site: Site) -> None:
    """Where all places are taken, a new one gets its place; one that was used stays, however old it is."""
    async with site.served(FEW) as address, clients.connected(address, FEW.connections) as first:
        assert await first[0].ask("/healthz") == OK

        async with clients.connected(address, FEW.connections - 2):
            assert await clients.ask(address) == OK

            assert await first[0].ask("/healthz") == OK
        assert await first[1].rest() == 0


@pytest.mark.parametrize(
    ("busy", "newcomer"),
    [
        pytest.param(1, OK, id="others make room"),
        pytest.param(FEW.connections, "", id="nobody can make room"),
    ],
)
async def test_an_answer_that_is_being_made_is_not_cut_off(site: Site, busy: int, newcomer: str) -> None:
    """Whoever waits for us keeps the place: a crowd does not take it, and the newcomer may be refused."""
    async with site.served(FEW) as address, clients.connected(address, busy) as waiting:
        asking = [asyncio.create_task(client.ask("/late")) for client in waiting]
        for _ in waiting:
            await site.asked.acquire()

        async with clients.connected(address, 3 * FEW.connections):
            assert await clients.ask(address) == newcomer
        site.go_on.set()

        assert await asyncio.gather(*asking) == [OK] * busy
        assert await clients.ask(address) == OK


async def test_whoever_leaves_does_not_keep_others_waiting(site: Site) -> None:
    """A page for a client that is gone is not made to its end."""
    async with site.served(FEW) as address, asyncio.timeout(clients.SOON):
        async with clients.connected(address) as [client]:
            await client.send(clients.REQUEST % b"/late")
            await site.asked.acquire()

        await site.ended.wait()


@pytest.mark.parametrize(
    ("descriptors", "places"),
    [(1 << 20, 256), (1024, 256), (256, 64), (16, 8), (resource.RLIM_INFINITY, 256)],
    ids=["very many", "as usual", "few", "next to none", "no limit"],
)
def test_places_leave_file_descriptors_for_the_rest(
    descriptors: int, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even both listeners together take what the client of the API server needs."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))

    assert http_server.connection_limit(http_server.USUAL.connections) == places


# ---------------------------------------------------------------- time


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET /healthz HTTP/1.1\r\nHost: here\r\n", clients.REQUEST % b"/healthz"],
    ids=["nothing sent", "half a request", "idle after an answer"],
)
async def test_who_does_not_ask_is_sent_away(site: Site, begun: bytes) -> None:
    """A connection without a whole request is closed after some seconds."""
    async with site.served(HASTY) as address, clients.connected(address) as [client]:
        await client.send(begun)

        async with asyncio.timeout(clients.SOON):
            await client.rest()


async def test_who_drips_is_sent_away(site: Site) -> None:
    """A request that comes byte by byte has no more time than another."""
    async with site.served(HASTY) as address, clients.connected(address) as [client]:
        ended = asyncio.create_task(client.rest())
        async with asyncio.timeout(clients.SOON):
            await client.send(b"GET /healthz HTTP/1.1\r\nX: ")
            while not ended.done():
                await client.send(b"x")
                await asyncio.sleep(0.05)

        assert ended.result() == 0


@pytest.mark.parametrize("path", ["/late", "/large"])
async def test_an_answer_may_take_longer_than_a_request(site: Site, path: str) -> None:
    """The seconds of a request are the client's; neither ours nor those it reads are among them."""
    async with site.served(HASTY) as address, clients.connected(address) as [client]:
        asking = asyncio.create_task(client.ask(path))
        await site.asked.acquire()
        await asyncio.sleep(2 * HASTY.request_seconds)
        site.go_on.set()

        assert await asking == OK


async def test_who_does_not_read_is_cut_off(site: Site) -> None:
    """An answer that nobody reads is kept for some seconds, and not for ever."""
    limits = dataclasses.replace(FEW, answer_seconds=0.1)
    async with site.served(limits) as address, clients.connected(address) as [client]:
        await client.send(clients.REQUEST % b"/large")
        await site.asked.acquire()
        # Unread: the buffers between us are full, and the rest waits for its client.
        await asyncio.sleep(3 * http_server.SWEEP_SECONDS)

        assert await client.rest() < LARGE


async def test_pauses_in_reading_count() -> None:
    """Who reads a piece now and then does not keep an answer for ever; the next answer has its own time."""
    limits = dataclasses.replace(FEW, answer_seconds=60.0)
    connection = http_connections.Connection(mock.Mock(), http_connections.Connections(limits, lambda: 0.0))
    transport = mock.Mock(asyncio.Transport)
    connection.connection_made(transport)
    connection.request_began()
    transport.get_write_buffer_size.side_effect = [9, 0, 9, 9, 9, 0]

    overdue = [connection.overdue(moment) for moment in (0.0, 30.0, 50.0, 61.0)]
    connection.request_began()
    overdue.append(connection.overdue(62.0))
    connection.request_ended()
    overdue.append(connection.overdue(130.0))

    assert overdue == [False, False, False, True, False, False]


# ---------------------------------------------------------------- bytes

HEAD = b"%s HTTP/1.1\r\nHost: here\r\n%s\r\n\r\n"
BODIES = {
    "a body": HEAD % (b"GET /healthz", b"Content-Length: 5") + b"hello",
    "a body in chunks": HEAD % (b"GET /healthz", b"Transfer-Encoding: chunked") + b"5\r\nhello",
    "a body that never comes": HEAD % (b"POST /healthz", b"Content-Length: 9999999"),
    "a body to no page": HEAD % (b"PUT /nowhere", b"Content-Length: 9999999"),
}


@pytest.mark.parametrize("head", BODIES.values(), ids=BODIES)
async def test_bodies_are_refused(site: Site, head: bytes) -> None:
    """There is nothing to be sent to us, so a body is refused unread, and its connection closed."""
    async with site.served(FEW) as address, clients.connected(address) as [client]:
        assert (await client.ask("", head)).startswith("413 ")
        assert await client.rest() == 0


async def test_a_request_without_end_is_cut_off(site: Site) -> None:
    """A head may be so long, and no longer, whatever it is made of."""
    async with site.served(FEW) as address, clients.connected(address) as [client]:
        await client.send(b"GET /healthz HTTP/1.1\r\n")
        for number in range(40):
            await client.send(b"X-%d: %s\r\n" % (number, b"x" * 1024))

        assert await client.ask("", b"\r\n") == ""


async def test_many_requests_on_one_connection_are_not_too_many_bytes(site: Site) -> None:
    """The bytes are those of one request."""
    async with site.served(FEW) as address, clients.connected(address) as [client]:
        head = b"GET /healthz HTTP/1.1\r\nHost: here\r\nX: " + b"x" * 8000 + b"\r\n\r\n"

        assert {await client.ask("", head) for _ in range(10)} == {OK}


# ---------------------------------------------------------------- what is logged


@pytest.mark.parametrize(
    ("head", "status"),
    [
        pytest.param(b"\x16\x03\x01\r\n\r\n", "400 Bad Request", id="TLS"),
        pytest.param(b"GET / HTTP/9\r\n\r\n", "400 Bad Request", id="another version"),
        pytest.param(b"GET / HTTP/1.1\r\n:\r\n\r\n", "400 Bad Request", id="a header without a name"),
        pytest.param(HEAD % (b"DELETE /healthz", b"A: b"), "405 Method Not Allowed", id="another method"),
    ],
)
async def test_what_a_client_does_wrong_is_not_logged(
    site: Site, caplog: pytest.LogCaptureFixture, head: bytes, status: str
) -> None:
    """Whoever sends nonsense is answered, and fills no log."""
    async with site.served(FEW) as address, clients.connected(address) as [client]:
        assert await client.ask("", head) == status

    assert caplog.records == []


async def test_who_leaves_before_an_answer_is_not_logged(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """However soon: a connection that is reset together with its request is no fault of ours."""
    at_once = struct.pack("ii", 1, 0)  # A close that resets.
    async with site.served(FEW) as address:
        host, _, port = address.rpartition(":")
        for _ in range(50):
            with socket.create_connection((host, int(port))) as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
                one.sendall(clients.REQUEST % b"/healthz" * 2)
            await asyncio.sleep(0)
        assert await clients.ask(address) == "200 OK"

    assert caplog.records == []


async def test_a_fault_of_ours_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A page that fails is answered with 500, and its traceback is for us."""
    async with site.served(FEW) as address:
        assert await clients.ask(address, "/broken") == "500 Internal Server Error"

    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "ZeroDivisionError" in caplog.text


# ---------------------------------------------------------------- what takes time to make


async def test_what_everybody_may_ask_for_is_made_once_in_a_while() -> None:
    """However often it is asked for, it is made no more often than was said."""
    make = mock.Mock(side_effect=[b"1", b"2", b"3"])
    often, always = http_server.cached(make, seconds=3600), http_server.cached(make, seconds=0)

    assert [often(), often(), always(), always(), often()] == [b"1", b"1", b"2", b"3", b"1"]


async def test_a_connection_that_is_being_closed_passes_nothing_on() -> None:
    """Nobody would read the answer, and a loop may object to reading on."""
    passed_on = asyncio.StreamReader()
    http = asyncio.StreamReaderProtocol(passed_on)
    connection = http_connections.Connection(
        http, http_connections.Connections(http_connections.Limits(), time.monotonic)
    )
    ours, theirs = socket.socketpair()
    with theirs:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, ours)
        connection.abort()
        connection.data_received(b"GET")

        assert await passed_on.read() == b""
