"""Whatever answers in the server's place costs neither memory nor time without end, and speaks plainly."""

import asyncio
import contextlib
import gzip
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import pytest

from berth_crds.client import api, connection, errors, page_sizes, parser, watch
from support import mirror, stub

PATH = mirror.CONFIG_MAPS.path(namespace="ml")
OK = b"HTTP/1.1 200 OK\r\n"
ENDLESS = 1 << 40  # More than any test could send.

Ask = Callable[[api.Api], Awaitable[object]]


@contextlib.asynccontextmanager
async def saying(pieces: Callable[[], Iterable[bytes]]) -> AsyncIterator[api.Api]:
    """Yield a session with a server that says this to each request, as long as somebody listens."""
    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.append(task)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces():
                writer.write(piece)
                await writer.drain()
            await reader.read()  # Until the other side hangs up.
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    link = connection.Connection(server=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with api.Api(link, agent="test") as session:
        yield session
    server.close()
    await asyncio.wait_for(asyncio.gather(*serving), 5)


async def get(session: api.Api) -> object:
    """Read something."""
    return await session.send("GET", PATH, deadline=5.0)


async def post(session: api.Api) -> object:
    """Send something."""
    return await session.send("POST", PATH, body=b"{}", deadline=5.0)


async def follow(session: api.Api, *, longest: float | None = None) -> object:
    """Follow something."""
    async with session.stream(
        PATH, params={}, idle_seconds=5.0, head_seconds=5.0, total_seconds=longest
    ) as content:
        return [line async for line in watch.lines(content)]


WAYS = pytest.mark.parametrize(
    "ask",
    [
        pytest.param(get, id="a read"),
        pytest.param(post, id="a write"),
        pytest.param(follow, id="a watch"),
    ],
)


# ---------------------------------------------------------------- encoded answers


@WAYS
async def test_nothing_is_asked_for_that_unfolds(server: stub.Stub, session: api.Api, ask: Ask) -> None:
    """Each request says that its answer must come as it is."""
    for method in ("GET", "POST"):
        server.on(method, PATH, stub.thing({}))
    await ask(session)

    assert [one.headers["Accept-Encoding"] for one in server.requests] == ["identity"]


@WAYS
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity, gzip", "no\x1bsuch\u202e"])
async def test_an_encoded_answer_is_refused(ask: Ask, coding: str) -> None:
    """What is encoded all the same is not unfolded: a few bytes may be gigabytes."""
    body = gzip.compress(b'{"data": {}}\n')
    head = OK + b"Content-Encoding: " + coding.encode().replace(b"\x1b", b"") + b"\r\n"
    async with saying(lambda: [head + b"Content-Length: %d\r\n\r\n" % len(body) + body]) as session:
        with pytest.raises(errors.Unreachable, match="the answer is encoded") as caught:
            await ask(session)

    assert caught.value.ambiguous
    assert str(caught.value).isprintable()


@WAYS
async def test_of_an_encoded_error_the_code_counts(ask: Ask) -> None:
    """A proxy may pack the page that it shows; what happened is still told by its code."""
    body = gzip.compress(json.dumps(stub.failure(429, "slow")).encode())
    head = b"HTTP/1.1 429 X\r\nContent-Encoding: gzip\r\nRetry-After: 7\r\n"
    async with saying(lambda: [head + b"Content-Length: %d\r\n\r\n" % len(body) + body]) as session:
        with pytest.raises(errors.Throttled) as caught:
            await ask(session)

    assert caught.value.retry_after == 7.0
    assert caught.value.message == "no details given"


# ---------------------------------------------------------------- endless answers


@WAYS
@pytest.mark.parametrize(
    "head",
    [
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n", id="in chunks"),
        pytest.param(OK + b"Content-Length: %d\r\n\r\n" % ENDLESS, id="of a length"),
    ],
)
async def test_an_answer_has_an_end(ask: Ask, head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """No body is read that could fill the memory, and no line of a watch."""
    monkeypatch.setattr(parser, "LONGEST_BODY", 1 << 20)
    monkeypatch.setattr(page_sizes, "LONGEST_LINE", 1 << 20)
    piece = b"1000\r\n" + b"a" * 4096 + b"\r\n" if b"chunked" in head else b"a" * 4096
    async with saying(lambda: itertools.chain([head], itertools.repeat(piece))) as session:
        with pytest.raises(errors.Unreachable, match="more than"):
            await ask(session)


@WAYS
async def test_of_an_endless_error_the_beginning_is_enough(ask: Ask) -> None:
    """The code is what counts; the page that comes with it is cut."""
    head = b"HTTP/1.1 503 X\r\nContent-Length: %d\r\n\r\n" % ENDLESS
    async with saying(lambda: itertools.chain([head], itertools.repeat(b"no " * 1000))) as session:
        with pytest.raises(errors.Unavailable) as caught:
            await ask(session)

    assert len(str(caught.value)) < 1000


async def test_a_watch_that_says_nothing_for_ever_ends() -> None:
    """Bytes that never become an event keep no watch open beyond its time."""
    head = OK + b"Transfer-Encoding: chunked\r\n\r\n"
    async with saying(lambda: itertools.chain([head], itertools.repeat(b"1\r\n\n\r\n" * 100))) as session:
        with pytest.raises(errors.Unreachable):
            await follow(session, longest=0.3)


async def test_interim_answers_do_not_hold_a_watch_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch whose answer never begins ends with the time that it asked for."""
    monkeypatch.setattr(watch, "IDLE_SECONDS", 0.3)
    codec = watch.Codec(mirror.ConfigMap)
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" * 10
    async with saying(lambda: itertools.repeat(interim)) as session:
        with pytest.raises(errors.Unreachable):
            async with watch.open_watch(session, PATH, codec, selectors={}, version="1", seconds=0):
                pytest.fail("it never begins")


async def test_cookies_are_not_kept(server: stub.Stub, session: api.Api) -> None:
    """Nothing that a server hands out comes back with later requests, or is kept at all."""
    server.on("GET", PATH, stub.thing({}, headers={"Set-Cookie": "a=b; Path=/"}))
    for _ in range(2):
        await get(session)

    assert ["Cookie" in one.headers for one in server.requests] == [False, False]


# ---------------------------------------------------------------- endless lists


async def listed(session: api.Api) -> watch.Collection[mirror.ConfigMap]:
    """Read a whole list."""
    return await watch.list_all(session, PATH, watch.Codec(mirror.ConfigMap), selectors={}, size=2)


async def test_a_list_has_an_end(
    server: stub.Stub, session: api.Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that always promise another one are not followed for ever."""
    monkeypatch.setattr(watch, "LONGEST_LIST", 5000)
    server.on("GET", PATH, stub.page({"metadata": {"name": "a"}}, version="1", more="again"))

    with pytest.raises(errors.Unreachable, match="the list does not end"):
        await listed(session)

    assert len(server.requests) < 100


@pytest.mark.parametrize(
    ("bound", "most"),
    [
        pytest.param("MOST_ITEMS", 10, id="objects"),
        pytest.param("MOST_COMMAS", 8, id="values"),
    ],
)
async def test_a_page_has_so_many_objects(
    server: stub.Stub, session: api.Api, bound: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects of two bytes each become a hundred times as much in memory: not any number of them is read."""
    monkeypatch.setattr(watch, bound, most)
    server.on("GET", PATH, stub.page(*[{}] * 11, version="1"))

    with pytest.raises(errors.Unreachable, match="the answer is no list: it has more than"):
        await listed(session)
