"""An exchange cuts exactly one answer out of the bytes, and never mistakes one for another."""

import asyncio
import contextlib
import itertools
import socket
import urllib.parse
from collections.abc import AsyncIterator

import aiohttp
import pytest

from berth_crds.client import connection_pool, errors, parser, sockets
from client.informers import until
from client.raw_server import CREATED, RawServer

EMPTY = CREATED + b"Content-Length: 0\r\n\r\n"
HELLO = CREATED + b"Content-Length: 5\r\n\r\nhello"
CHUNKS = CREATED + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"


@contextlib.asynccontextmanager
async def opened(
    *pieces: bytes, hang_up: bool = False
) -> AsyncIterator[tuple[RawServer, connection_pool.ConnectionPool]]:
    """Open a pool of connections to a server that answers this, and close it."""
    async with RawServer(lambda: pieces, hang_up=hang_up) as server:
        with contextlib.closing(connection_pool.ConnectionPool(server.url, None, server_name=None)) as pool:
            yield server, pool


async def ask(pool: connection_pool.ConnectionPool, *, deadline: float = 2.0) -> parser.Response:
    """Have one exchange."""
    request = pool.request("POST", "/a b", {"c": "d e"}, {"X": "y"}, b"{}")
    return await pool.send(request, connect=1.0, deadline=deadline)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([HELLO], id="whole"),
        pytest.param([HELLO[at : at + 1] for at in range(len(HELLO))], id="byte by byte"),
        pytest.param([CHUNKS], id="in chunks"),
    ],
)
async def test_an_answer_is_read(pieces: list[bytes]) -> None:
    """However an answer is cut up on its way, it is the same, and the connection serves again."""
    async with opened(*pieces) as (server, pool):
        found = [(await ask(pool)).body for _ in range(3)]

    assert (found, len(server.connections)) == ([b"hello"] * 3, 1)


async def test_a_request_is_written_as_http_wants_it() -> None:
    """What does not belong into a URL is escaped, and the length is that of the body."""
    async with opened(EMPTY) as (server, pool):
        await ask(pool)

    host = server.url.removeprefix("http://").encode()
    first = b"POST /a%20b?c=d+e HTTP/1.1\r\nHost: " + host
    assert server.requests == [first + b"\r\nX: y\r\nContent-Length: 2\r\n\r\n{}"]


@pytest.mark.parametrize(
    ("text", "hang_up", "words"),
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", False, "an answer begins with", id="another protocol"),
        pytest.param(CREATED, False, r"no answer within 0\.5 s", id="half an answer"),
        pytest.param(CREATED, True, "the server hung up without an answer", id="a hang-up"),
    ],
)
async def test_what_is_no_answer_is_ambiguous(text: bytes, hang_up: bool, words: str) -> None:  # noqa: FBT001
    """It tells nothing of whether the request was carried out; a late answer must not meet the next one."""
    async with opened(text, hang_up=hang_up) as (server, pool):
        with pytest.raises(errors.Unreachable, match=words) as caught:
            await ask(pool, deadline=0.5)
        assert not pool._open

    assert caught.value.ambiguous
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("text", "hang_up"),
    [
        pytest.param(EMPTY.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n"), False, id="announced"),
        pytest.param(EMPTY + b"HTTP/1.1 200", False, id="more than an answer"),
        pytest.param(EMPTY, True, id="closed"),
    ],
)
async def test_a_connection_that_is_not_to_be_trusted_is_not_used_again(text: bytes, hang_up: bool) -> None:  # noqa: FBT001
    """An answer to an earlier request must never pass for the answer to a later one."""
    async with opened(text, hang_up=hang_up) as (server, pool):
        for _ in range(2):
            assert (await ask(pool)).body == b""
            await until(lambda: not any(idle.usable for idle in pool._idle), "the end of the connection")

    assert len(server.connections) == 2


async def test_a_connection_that_lay_idle_for_long_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands between us and the server may have forgotten it, without a word to either."""
    async with opened(EMPTY) as (server, pool):
        await ask(pool)
        monkeypatch.setattr(connection_pool, "IDLE_SECONDS", 0.0)
        await ask(pool)

    assert len(server.connections) == 2


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_who_gives_up_at_any_step_leaves_no_connection_behind(host: str) -> None:
    """Whether the address is looked up, the connection made or the answer read: the socket is closed."""
    made: list[socket.socket] = []

    def make(address: aiohttp.AddrInfoType) -> socket.socket:
        made.append(sockets.new_socket(address))
        return made[-1]

    async with RawServer(lambda: [CREATED]) as server:
        url = server.url.replace("127.0.0.1", host)
        for turns in itertools.count():
            if len(server.requests) >= 3:  # as many were given up while they waited for the answer
                break
            pool = connection_pool.ConnectionPool(url, None, server_name=None, make_socket=make)
            task = asyncio.create_task(ask(pool, deadline=60.0))
            for _ in range(turns):
                await asyncio.sleep(0.0005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await until(lambda: all(connected.fileno() < 0 for connected in made), "the sockets to be closed")

    assert made


async def test_exchanges_at_one_time_have_a_connection_each() -> None:
    """Nothing waits for somebody else's answer, and the connections are kept for later."""
    async with opened(EMPTY) as (server, pool):
        for _ in range(2):
            await asyncio.gather(*(ask(pool) for _ in range(5)))

    assert len(server.connections) == 5


def test_a_header_cannot_smuggle_a_request() -> None:
    """A token with a line break in it is refused before anything is sent."""
    pool = connection_pool.ConnectionPool("http://127.0.0.1:1", None, server_name=None)

    with pytest.raises(errors.Unusable, match="line break"):
        pool.request("POST", "/", None, {"Authorization": "Bearer a\r\nX: y"}, b"")


async def test_a_connection_that_is_being_closed_is_not_written_to() -> None:
    """Loops differ in what they say to that; here it is a connection that was lost."""
    async with opened(EMPTY) as (server, _):
        url = urllib.parse.urlsplit(server.url)
        assert url.port
        transport, connection = await asyncio.get_running_loop().create_connection(
            connection_pool.PooledConnection, "127.0.0.1", url.port
        )
        transport.abort()

        with pytest.raises(ConnectionResetError):
            connection.send(b"", timeout=1.0)
