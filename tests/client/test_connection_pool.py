"""An exchange cuts exactly one answer out of the bytes, and never mistakes one for another."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Self

import aiohttp
import pytest

from berth_crds.client import connection_pool, errors, parser, sockets

HEAD = b"HTTP/1.1 201 Created\r\n"


class Server:
    """A server that says these bytes to each request, piece by piece, and counts."""

    def __init__(self, *pieces: bytes, hang_up: bool = False) -> None:
        self.url = ""
        self.connections = 0
        self.requests: list[bytes] = []
        self._pieces = pieces
        self._hang_up = hang_up
        self._serving: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop, when all who asked have hung up."""
        self._server.close()
        await asyncio.wait_for(asyncio.gather(*self._serving), 5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._serving.append(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.requests.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(2))
                for piece in self._pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if self._hang_up:
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def opened(server: Server) -> AsyncIterator[connection_pool.ConnectionPool]:
    """Open an exchange with a server, and close it."""
    way = connection_pool.ConnectionPool(server.url, None, server_name=None)
    try:
        yield way
    finally:
        way.close()


async def said(way: connection_pool.ConnectionPool, *, deadline: float = 2.0) -> parser.Response:
    """Have one exchange."""
    request = way.request("POST", "/a b", {"c": "d e"}, {"X": "y"}, b"{}")
    return await way.send(request, connect=1.0, deadline=deadline)


def bytewise(text: bytes) -> Iterator[bytes]:
    """Cut a text into single bytes."""
    return (text[at : at + 1] for at in range(len(text)))


@pytest.mark.parametrize(
    ("text", "body"),
    [
        pytest.param(HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello", id="of known length"),
        pytest.param(HEAD + b"Content-Length: 0\r\n\r\n", b"", id="empty"),
        pytest.param(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
            b"hello",
            id="chunks",
        ),
        pytest.param(
            HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
            b"hello",
            id="trailed",
        ),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"Content-Length: 5\r\n\r\nhello",
            b"hello",
            id="after an interim one",
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", id="without a body"),
    ],
)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "byte by byte"])
async def test_an_answer_is_read(text: bytes, body: bytes, *, whole: bool) -> None:
    """However an answer is cut up on its way, it is the same, and the connection serves again."""
    async with Server(*([text] if whole else bytewise(text))) as server, opened(server) as way:
        found = [(await said(way)).body for _ in range(3)]

    assert found == [body] * 3
    assert server.connections == 1


async def test_a_request_is_written_as_http_wants_it() -> None:
    """What does not belong into a URL is escaped, and the length is that of the body."""
    async with Server(HEAD + b"Content-Length: 0\r\n\r\n") as server, opened(server) as way:
        await said(way)

    host = server.url.removeprefix("http://").encode()
    first = b"POST /a%20b?c=d+e HTTP/1.1\r\nHost: " + host
    assert server.requests == [first + b"\r\nX: y\r\nContent-Length: 2\r\n\r\n{}"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="another protocol"),
        pytest.param(HEAD + b"nothing\r\n\r\n", id="no header"),
        pytest.param(HEAD + b"\r\n", id="no length"),
        pytest.param(HEAD + b"Content-Length: -1\r\n\r\n", id="a negative length"),
        pytest.param(HEAD + b"Content-Length: 9999999999\r\n\r\n", id="a length beyond reason"),
        pytest.param(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", id="two lengths"),
        pytest.param(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcd0\r\n\r\n", id="a chunk of another length"
        ),
        pytest.param(HEAD + b"Transfer-Encoding: gzip\r\n\r\n", id="an unknown encoding"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\nx\r\n", id="a chunk of no length"),
        pytest.param(HEAD + b"A: " + b"a" * (parser.LONGEST_HEAD + 1), id="a head without end"),
    ],
)
async def test_what_is_no_answer_is_ambiguous(text: bytes) -> None:
    """Bytes that are no answer tell nothing of whether the request was carried out."""
    async with Server(text) as server, opened(server) as way:
        with pytest.raises(errors.Unreachable) as caught:
            await said(way)

    assert caught.value.ambiguous
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HEAD + b"Content-Length: 0\r\nConnection: Close\r\n\r\n", id="it said so"),
        pytest.param(HEAD + b"Content-Length: 0\r\n\r\nHTTP/1.1 200", id="it said too much"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", id="it is old"),
    ],
)
async def test_a_connection_that_is_not_to_be_trusted_is_not_used_again(text: bytes) -> None:
    """An answer to an earlier request must never pass for the answer to a later one."""
    async with Server(text) as server, opened(server) as way:
        for _ in range(2):
            assert (await said(way)).body == b""

    assert server.connections == 2


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    """A server may close a connection that nobody uses, and nobody notices."""
    async with Server(HEAD + b"Content-Length: 0\r\n\r\n", hang_up=True) as server, opened(server) as way:
        for _ in range(3):
            await said(way)
            await asyncio.sleep(0.05)

    assert server.connections == 3


async def test_a_connection_that_lay_idle_for_long_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands between us and the server may have forgotten it, without a word to either."""
    monkeypatch.setattr(connection_pool, "IDLE_SECONDS", 0.1)
    async with Server(HEAD + b"Content-Length: 0\r\n\r\n") as server, opened(server) as way:
        await said(way)
        await said(way)
        await asyncio.sleep(0.2)
        await said(way)

    assert server.connections == 2


async def test_an_answer_that_came_too_late_reaches_nobody() -> None:
    """After a deadline the connection is closed, so that a late answer cannot meet the next request."""
    async with Server(HEAD) as server, opened(server) as way:
        with pytest.raises(errors.Unreachable, match=r"no answer within 0\.1 s") as caught:
            await said(way, deadline=0.1)
        assert not way._open

    assert caught.value.ambiguous


async def test_who_is_not_waited_for_any_more_leaves_no_connection_behind() -> None:
    """A cancelled exchange closes its connection too."""
    async with Server(HEAD) as server, opened(server) as way:
        task = asyncio.create_task(said(way))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not way._open


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_who_gives_up_at_any_step_leaves_no_connection_behind(host: str) -> None:
    """Whether the address is looked up, the connection made or the answer read: the socket is closed."""
    made: list[socket.socket] = []

    def make(address: aiohttp.AddrInfoType) -> socket.socket:
        made.append(sockets.new_socket(address))
        return made[-1]

    async with Server(HEAD) as server:
        url = server.url.replace("127.0.0.1", host)
        for turns in range(12):
            way = connection_pool.ConnectionPool(url, None, server_name=None, make_socket=make)
            task = asyncio.create_task(said(way))
            for _ in range(turns):
                await asyncio.sleep(0.0005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            way.close()
        await asyncio.sleep(0.05)

    assert made
    assert [each.fileno() for each in made if each.fileno() >= 0] == []


async def test_exchanges_at_one_time_have_a_connection_each() -> None:
    """Nothing waits for somebody else's answer, and the connections are kept for later."""
    async with Server(HEAD + b"Content-Length: 0\r\n\r\n") as server, opened(server) as way:
        for _ in range(2):
            await asyncio.gather(*(said(way) for _ in range(5)))

    assert server.connections == 5


def test_a_header_cannot_smuggle_a_request() -> None:
    """A token with a line break in it is refused before anything is sent."""
    way = connection_pool.ConnectionPool("http://127.0.0.1:1", None, server_name=None)

    with pytest.raises(errors.Unusable, match="line break"):
        way.request("POST", "/", None, {"Authorization": "Bearer a\r\nX: y"}, b"")
