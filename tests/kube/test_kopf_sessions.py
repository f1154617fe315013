"""Kopf reads the server's answers by itself: through a session that keeps them within bounds."""

import asyncio
import copy
import gzip
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from kopf._cogs.clients import api as kopfs

from berth_crds.client import page_sizes, parser, sockets
from berth_operator.kube import kopf_sessions
from support import deep, stub

Thing = dict[str, object]

PATH = "/apis/berth.dev/v1alpha1/devices"
META = {"name": "n1", "resourceVersion": "5"}


@pytest.fixture
async def session(server: stub.Stub) -> AsyncIterator[aiohttp.ClientSession]:
    """Lend a session of Kopf."""
    async with kopf_sessions.session(server.link, sockets.Sockets()) as lent:
        yield lent


@pytest.fixture
def url(server: stub.Stub) -> str:
    """Lend the address of a list."""
    return server.link.server + PATH


async def read(session: aiohttp.ClientSession, url: str) -> Any:
    """Read a list as Kopf does."""
    async with session.get(url) as answer:
        return await answer.json()


async def watch(session: aiohttp.ClientSession, url: str) -> list[bytes]:
    """Read the lines of a watch as Kopf does."""
    async with session.get(url, params={"watch": "true"}) as answer:
        return [line async for line in kopfs.iter_jsonlines(answer.content)]


async def test_an_answer_is_read_as_it_is(
    server: stub.Stub, session: aiohttp.ClientSession, url: str
) -> None:
    """What is plain and of a reasonable length is read, and asked for as such; no cookie is kept."""
    answer = {"kind": "List", "items": []}
    server.on("GET", PATH, stub.thing(answer))

    assert await read(session, url) == answer
    assert [request.headers["Accept-Encoding"] for request in server.requests] == ["identity"]
    assert isinstance(session.cookie_jar, aiohttp.DummyCookieJar)


async def test_a_device_is_read_in_brief(server: stub.Stub, session: aiohttp.ClientSession, url: str) -> None:
    """Of each Device in a list there is what the handlers look at, and all of anything else."""
    metadata = {"name": "n1", "uid": "u", "resourceVersion": "5"}
    ours = {"conditions": [{"type": "Ready"}], "summary": {"cards": 8}}
    theirs: Thing = {"devices": [{}]}
    device = {"metadata": metadata | {"managedFields": [{}]}, "spec": {"a": 1}, "status": ours | theirs}
    odd = {"items": [device | {"status": [1]}]}
    refused = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    server.on("GET", PATH, stub.page(device, version="7"), stub.thing(odd), stub.thing(refused, code=410))

    brief = await read(session, url)

    assert brief["items"] == [{"metadata": metadata, "status": ours}]
    assert brief["metadata"]["resourceVersion"] == "7"
    assert await read(session, url) == odd
    assert await read(session, url) == refused


GPUPODS = "/apis/berth.dev/v1alpha1/gpupods"


async def test_a_gpupod_is_read_in_brief(server: stub.Stub, session: aiohttp.ClientSession) -> None:
    """Whose it is, in lists and watches; its changes, which alter none of that, are left out."""
    owners = [{"kind": "Pod", "name": "train", "uid": "u1"}]
    meta = {
        "name": "train",
        "namespace": "ml",
        "uid": "g1",
        "resourceVersion": "5",
        "ownerReferences": owners,
    }
    spec = {"node": "n1", "podUID": "u1"}
    brief = {"metadata": meta, "spec": spec}
    more = {"metadata": {**meta, "managedFields": [{}]}, "spec": {**spec, "containers": [{"name": "main"}]}}
    whole = {**more, "status": {"phase": "Running"}}
    changes = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    lines = b"".join(json.dumps(stub.event(change, whole)).encode() + b"\n" for change in changes)
    server.on("GET", GPUPODS, stub.page(whole, version="7"), stub.raw(lines))

    listed = await read(session, server.link.server + GPUPODS)
    events = [json.loads(line) for line in await watch(session, server.link.server + GPUPODS)]

    assert listed["items"] == [brief]
    assert [event["type"] for event in events] == ["ADDED", "DELETED", "BOOKMARK"]
    assert [event["object"] for event in events] == [brief, brief, whole]


async def test_binds_have_a_turn_between_pages(
    server: stub.Stub, session: aiohttp.ClientSession, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each page of a list but the last one, Kopf pauses."""
    monkeypatch.setattr(kopf_sessions, "PAUSE_SECONDS", 3600.0)
    first = stub.thing({"metadata": {"continue": "token"}, "items": []})
    server.on("GET", PATH, first, stub.thing({"metadata": {"continue": ""}, "items": []}), stub.thing([1]))

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(read(session, url), 1.0)

    assert (await read(session, url))["items"] == []
    assert await read(session, url) == [1]


async def test_a_flood_of_events_leaves_binds_their_turn(
    server: stub.Stub, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some events of a watch Kopf pauses; those that no handler needs do not count."""
    monkeypatch.setattr(kopf_sessions, "PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(kopf_sessions, "EVENTS_IN_A_ROW", 2)
    events = [stub.event(change, {"metadata": META}) for change in ("ADDED", *["MODIFIED"] * 20) * 5]
    server.on("GET", GPUPODS, stub.raw(b"".join(json.dumps(event).encode() + b"\n" for event in events)))
    start = time.monotonic()

    passed = await watch(session, server.link.server + GPUPODS)

    assert len(passed) == 5
    assert 0.4 <= time.monotonic() - start < 10.0


OTHERS = "/apis/berth.dev/v1alpha1/placementpolicies"


@pytest.mark.parametrize(
    ("path", "rest", "left"),
    [
        pytest.param(PATH, {"spec": {"a": 1}, "status": {"devices": [1]}}, {"status": {}}, id="Devices"),
        pytest.param(PATH, {"status": [1]}, {"status": [1]}, id="odd Devices"),
        pytest.param(OTHERS, {"spec": {"a": 1}}, {"spec": {"a": 1}}, id="policies"),
    ],
)
async def test_nothing_that_kopf_is_given_is_deep(
    server: stub.Stub, session: aiohttp.ClientSession, path: str, rest: Thing, left: Thing
) -> None:
    """In lists and in watches there is all else of an object, which Kopf can read, and copy."""
    body, changes = deep.managed({"metadata": META, **rest}), ["ADDED", "MODIFIED", "DELETED"]
    lines = b"".join(deep.event(change, body) for change in changes)
    server.on("GET", path, stub.raw(deep.page(body)), stub.raw(lines))

    (listed,) = (await read(session, server.link.server + path))["items"]
    events = [json.loads(line) for line in await watch(session, server.link.server + path)]

    assert [event["type"] for event in events] == changes
    for found in (listed, *(event["object"] for event in events)):
        copied = copy.deepcopy(found)
        copied["metadata"].pop("managedFields", None)
        assert copied == {"metadata": META, **left}


async def test_what_else_a_watch_says_is_whole(
    server: stub.Stub, session: aiohttp.ClientSession, url: str
) -> None:
    """Bookmarks, errors and what is no JSON reach Kopf as they are."""
    events = [
        stub.event("BOOKMARK", {"kind": "Device", "metadata": {"resourceVersion": "12", "annotations": {}}}),
        stub.event("ERROR", stub.failure(410, "too old", reason="Expired")),
    ]
    lines = [*(json.dumps(event).encode() for event in events), b"{nonsense"]
    server.on("GET", PATH, stub.raw(b"\n".join(lines) + b"\n"))

    assert await watch(session, url) == lines


async def test_a_watch_has_no_line_without_an_end(
    server: stub.Stub, session: aiohttp.ClientSession, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It breaks off, which Kopf knows how to bear."""
    monkeypatch.setattr(page_sizes, "LONGEST_LINE", 1000)
    server.on("GET", PATH, stub.raw(b"x" * 2000))

    with pytest.raises(aiohttp.ClientPayloadError, match="more than 1000 bytes"):
        await watch(session, url)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        pytest.param(stub.raw(b"{nonsense"), json.JSONDecodeError, "malformed", id="no JSON"),
        pytest.param(
            # A few bytes that unfold to gigabytes are not unfolded.
            stub.raw(gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"}),
            aiohttp.ClientPayloadError,
            "encoded",
            id="an encoded one",
        ),
        pytest.param(
            stub.raw(b" " * 1001), aiohttp.ClientPayloadError, "more than 1000 bytes", id="one without an end"
        ),
    ],
)
async def test_an_answer_that_is_not_read(
    server: stub.Stub,
    session: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
    answer: stub.Answer,
    error: type[Exception],
    message: str,
) -> None:
    """Kopf knows the errors; the next answer is read."""
    monkeypatch.setattr(parser, "LONGEST_BODY", 1000)
    server.on("GET", PATH, answer, stub.raw(b" " * 998 + b"{}"))

    with pytest.raises(error, match=message):
        await read(session, server.link.server + PATH)
    assert await read(session, server.link.server + PATH) == {}


async def test_a_run_that_is_over_asks_nothing(server: stub.Stub, url: str) -> None:
    """Whatever wakes up late in it, no request leaves."""
    closed = [False, True]
    server.on("GET", PATH, stub.thing({}))

    async with kopf_sessions.session(server.link, sockets.Sockets(), closed=lambda: closed.pop(0)) as session:
        await read(session, url)
        with pytest.raises(aiohttp.ClientConnectionError, match="over"):
            await read(session, url)

    assert len(server.requests) == 1
