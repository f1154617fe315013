"""Kopf reads the server's answers by itself: through a session that keeps them within bounds."""

import copy
import gzip
import json

import aiohttp
import pytest
from kopf._cogs.clients import api as kopfs

from berth_crds.client import page_sizes, parser
from berth_operator.kube import device_lists, kind_statuses, kopf_sessions
from support import deep, stub

Thing = dict[str, object]

PATH = "/apis/berth.dev/v1alpha1/devices"


async def read(server: stub.Stub) -> object:
    """Read a list as Kopf does."""
    async with (
        kopf_sessions.session(server.link) as session,
        session.get(server.link.server + PATH) as answer,
    ):
        return await answer.json()


async def test_an_answer_is_read_as_it_is() -> None:
    """What is plain and of a reasonable length is read, and asked for as such."""
    async with stub.Stub() as server:
        server.on("GET", PATH, stub.page(version="7"))

        found = await read(server)

    assert found == {
        "kind": "List",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "7", "continue": ""},
    } | {"items": []}
    assert [one.headers["Accept-Encoding"] for one in server.requests] == ["identity"]


async def test_a_device_is_read_in_brief() -> None:
    """Of each Device in a list there is what the handlers look at, and all of anything else."""
    metadata = {"name": "n1", "uid": "u", "resourceVersion": "5"}
    ours = {"conditions": [{"type": "Ready"}], "summary": {"cards": 8}}
    theirs: dict[str, object] = {"devices": [{}]}
    device = {"metadata": metadata | {"managedFields": [{}]}, "spec": {"a": 1}, "status": ours | theirs}
    async with stub.Stub() as server:
        odd = {"items": [device | {"status": [1]}]}
        server.on("GET", PATH, stub.page(device, version="7"), stub.thing(odd))

        found = await read(server)
        assert isinstance(found, dict)
        assert found["items"] == [{"metadata": metadata, "status": ours}]
        assert found["metadata"]["resourceVersion"] == "7"
        assert await read(server) == odd

        refused = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
        server.on("GET", PATH, stub.thing(refused, code=410))
        assert await read(server) == refused

    assert set(device_lists.Status.__annotations__) == set(kind_statuses.OWN_FIELDS)


OTHERS = "/apis/berth.dev/v1alpha1/placementpolicies"
META = {"name": "n1", "resourceVersion": "5"}


@pytest.mark.parametrize(
    ("path", "rest", "left"),
    [
        pytest.param(PATH, {"spec": {"a": 1}, "status": {"devices": [1]}}, {"status": {}}, id="Devices"),
        pytest.param(PATH, {"status": [1]}, {"status": [1]}, id="odd Devices"),
        pytest.param(OTHERS, {"spec": {"a": 1}}, {"spec": {"a": 1}}, id="policies"),
    ],
)
async def test_nothing_that_kopf_is_given_is_deep(path: str, rest: Thing, left: Thing) -> None:
    """In lists and in watches there is all else of an object, which Kopf can read, and copy."""
    body = deep.managed({"metadata": META, **rest})
    changes = ["ADDED", "MODIFIED", "DELETED"]
    watched = b"".join(deep.event(change, body) for change in changes)
    async with stub.Stub() as server, kopf_sessions.session(server.link) as session:
        server.on("GET", path, stub.raw(deep.page(body)), stub.raw(watched))

        async with session.get(server.link.server + path) as answer:
            (listed,) = (await answer.json())["items"]
        async with session.get(server.link.server + path, params={"watch": "true"}) as answer:
            events = [json.loads(line) async for line in kopfs.iter_jsonlines(answer.content)]

    assert [one["type"] for one in events] == changes
    for found in (listed, *(one["object"] for one in events)):
        copied = copy.deepcopy(found)
        copied["metadata"].pop("managedFields", None)
        assert copied == {"metadata": META, **left}


async def test_what_else_a_watch_says_is_whole() -> None:
    """Bookmarks, errors and what is no JSON reach Kopf as they are."""
    said = [
        stub.event("BOOKMARK", {"kind": "Device", "metadata": {"resourceVersion": "12", "annotations": {}}}),
        stub.event("ERROR", stub.failure(410, "too old", reason="Expired")),
    ]
    lines = [json.dumps(one).encode() for one in said] + [b"{nonsense"]
    async with stub.Stub() as server, kopf_sessions.session(server.link) as session:
        server.on("GET", PATH, stub.raw(b"\n".join(lines) + b"\n"))

        async with session.get(server.link.server + PATH, params={"watch": "true"}) as answer:
            found = [line async for line in kopfs.iter_jsonlines(answer.content)]

    assert found == lines


async def test_a_watch_has_no_line_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It breaks off, which Kopf knows how to bear."""
    monkeypatch.setattr(page_sizes, "LONGEST_LINE", 1000)
    async with stub.Stub() as server, kopf_sessions.session(server.link) as session:
        server.on("GET", PATH, stub.raw(b"x" * 2000))

        async with session.get(server.link.server + PATH, params={"watch": "true"}) as answer:
            with pytest.raises(aiohttp.ClientPayloadError, match="more than 1000 bytes"):
                await anext(answer.content.iter_chunked(1))


async def test_what_is_no_json_is_said_to_be_none() -> None:
    """Kopf knows the error."""
    async with stub.Stub() as server:
        server.on("GET", PATH, stub.raw(b"{nonsense"))

        with pytest.raises(json.JSONDecodeError):
            await read(server)


async def test_an_encoded_answer_is_refused() -> None:
    """A few bytes that unfold to gigabytes are not unfolded."""
    async with stub.Stub() as server:
        packed = stub.raw(gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})
        server.on("GET", PATH, packed)

        with pytest.raises(aiohttp.ClientPayloadError, match="encoded"):
            await read(server)


async def test_an_answer_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of a body is read than any list has."""
    monkeypatch.setattr(parser, "LONGEST_BODY", 1000)
    async with stub.Stub() as server:
        server.on("GET", PATH, stub.raw(b" " * 1001), stub.raw(b" " * 998 + b"{}"))

        with pytest.raises(aiohttp.ClientPayloadError, match="more than 1000 bytes"):
            await read(server)
        assert await read(server) == {}


async def test_a_run_that_is_over_asks_nothing() -> None:
    """Whatever wakes up late in it, no request leaves."""
    closed = [False, True]
    async with stub.Stub() as server:
        server.on("GET", PATH, stub.thing({}))

        async with kopf_sessions.session(server.link, closed=lambda: closed.pop(0)) as session:
            async with session.get(server.link.server + PATH) as answer:
                await answer.read()
            with pytest.raises(aiohttp.ClientConnectionError, match="over"):
                await session.get(server.link.server + PATH)

        assert len(server.requests) == 1


async def test_cookies_are_not_kept() -> None:
    """Nothing that a server hands out comes back with later requests."""
    async with stub.Stub() as server:
        server.on("GET", PATH, stub.thing({}, headers={"Set-Cookie": "a=b; Path=/"}))

        async with kopf_sessions.session(server.link) as session:
            for _ in range(2):
                async with session.get(server.link.server + PATH) as answer:
                    await answer.read()

    assert ["Cookie" in one.headers for one in server.requests] == [False, False]
