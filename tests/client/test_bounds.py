"""Whatever answers in the server's place costs neither memory nor time without end, and is one error."""

import contextlib
import gzip
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import pytest

from berth_crds.client import api, connection, errors, page_sizes, parser, watch
from client import informers
from client.informers import PATH, ConfigMap
from client.raw_server import RawServer
from support import stub

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = 1 << 40  # More than any test could send.
CODEC = watch.Codec(ConfigMap)

Ask = Callable[[api.Api], Awaitable[object]]


@contextlib.asynccontextmanager
async def answered(head: bytes, body: Iterable[bytes] = ()) -> AsyncIterator[api.Api]:
    """Yield a session with a server that answers this."""
    async with (
        RawServer(lambda: itertools.chain([head], body)) as server,
        api.Api(connection.Connection(server.url), agent="test") as session,
    ):
        yield session


async def get(session: api.Api) -> object:
    """Read something."""
    return await session.send("GET", PATH, deadline=5.0)


async def post(session: api.Api) -> object:
    """Send something."""
    return await session.send("POST", PATH, body=b"{}", deadline=5.0)


async def follow(session: api.Api) -> object:
    """Follow something."""
    async with session.stream(PATH, params={}, idle_seconds=5.0, head_seconds=5.0) as content:
        return [line async for line in watch.lines(content)]


every_way = pytest.mark.parametrize(
    "ask",
    [
        pytest.param(get, id="a read"),
        pytest.param(post, id="a write"),
        pytest.param(follow, id="a watch"),
    ],
)


@every_way
async def test_nothing_is_asked_for_that_unfolds(server: stub.Stub, ask: Ask) -> None:
    """Each request asks for an answer as it is; cookies that a server hands out do not come back."""
    for method in ("GET", "POST"):
        server.on(method, PATH, stub.thing({}, headers={"Set-Cookie": "a=b; Path=/"}))
    by_name = connection.Connection(server.link.server.replace("127.0.0.1", "localhost"))

    async with api.Api(by_name, agent="test") as session:
        for _ in range(2):
            await ask(session)

    headers = [request.headers for request in server.requests]
    assert [(found["Accept-Encoding"], found.get("Cookie")) for found in headers] == [("identity", None)] * 2


@every_way
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity, gzip", "no such\u202e"])
async def test_an_encoded_answer_is_refused(ask: Ask, coding: str) -> None:
    """What is encoded all the same is not unfolded: a few bytes may be gigabytes."""
    head = b"%sContent-Encoding: %s\r\nContent-Length: 1\r\n\r\n." % (OK, coding.encode())
    async with answered(head) as session:
        with pytest.raises(errors.Unreachable, match="the answer is encoded") as caught:
            await ask(session)

    assert caught.value.ambiguous
    assert str(caught.value).isprintable()


@every_way
async def test_of_an_encoded_error_the_code_counts(ask: Ask) -> None:
    """A proxy may pack the page that it shows; what happened is still known by its code."""
    body = gzip.compress(json.dumps(stub.failure(429, "slow")).encode())
    head = b"HTTP/1.1 429 X\r\nContent-Encoding: gzip\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n"
    async with answered(head % len(body) + body) as session:
        with pytest.raises(errors.Throttled) as caught:
            await ask(session)

    assert (caught.value.retry_after, caught.value.message) == (7.0, "no details given")


@every_way
@pytest.mark.parametrize(
    ("head", "piece"),
    [
        pytest.param(CHUNKED, b"1000\r\n" + b"a" * 4096 + b"\r\n", id="in chunks"),
        pytest.param(OK + b"Content-Length: %d\r\n\r\n" % ENDLESS, b"a" * 4096, id="of a length"),
    ],
)
async def test_an_answer_has_an_end(
    ask: Ask, head: bytes, piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No body is read that could fill the memory, and no line of a watch."""
    monkeypatch.setattr(parser, "LONGEST_BODY", 1 << 20)
    monkeypatch.setattr(page_sizes, "LONGEST_LINE", 1 << 20)
    async with answered(head, itertools.repeat(piece)) as session:
        with pytest.raises(errors.Unreachable, match="more than"):
            await ask(session)


@every_way
async def test_of_an_endless_error_the_beginning_is_enough(ask: Ask) -> None:
    """The code is what counts; the page that comes with it is cut."""
    head = b"HTTP/1.1 503 X\r\nContent-Length: %d\r\n\r\n" % ENDLESS
    async with answered(head, itertools.repeat(b"no " * 1000)) as session:
        with pytest.raises(errors.Unavailable) as caught:
            await ask(session)

    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        pytest.param(CHUNKED, b"1\r\n\n\r\n" * 100, id="blank lines"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 10, id="interim answers"),
    ],
)
async def test_a_watch_without_events_ends_with_its_time(
    monkeypatch: pytest.MonkeyPatch, head: bytes, piece: bytes
) -> None:
    """Bytes that never become an event keep no watch open beyond the time that it asked for."""
    monkeypatch.setattr(watch, "IDLE_SECONDS", 0.3)
    async with answered(head, itertools.repeat(piece)) as session:
        with pytest.raises(errors.Unreachable):
            async with watch.open_watch(session, PATH, CODEC, selectors={}, version="1", seconds=0) as events:
                await anext(events)


# ---------------------------------------------------------------- endless lists


@pytest.mark.parametrize(
    ("bound", "most", "words"),
    [
        pytest.param("LONGEST_LIST", 5000, "the list does not end", id="pages"),
        pytest.param("MOST_ITEMS", 10, "the answer is no list: it has more than 10 objects", id="objects"),
        pytest.param("MOST_COMMAS", 8, "the answer is no list: it has more than 8 values", id="values"),
    ],
)
async def test_a_list_has_an_end(
    server: stub.Stub, session: api.Api, monkeypatch: pytest.MonkeyPatch, bound: str, most: int, words: str
) -> None:
    """Neither are pages followed without end, nor is any number of objects read, which memory multiplies."""
    monkeypatch.setattr(watch, bound, most)
    server.on("GET", PATH, stub.page(*[{"metadata": {}}] * 11, version="1", more="again"))

    with pytest.raises(errors.Unreachable, match=words):
        await informers.list_all(session, PATH, CODEC, selectors={}, size=2)

    assert len(server.requests) < 100
