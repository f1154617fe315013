"""Lists and watches are cut and decoded without losing an object, however odd it is."""

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from berth_crds import wire
from berth_crds.client import api, errors, page_sizes, watch
from support import mirror, stub

PATH = "/api/v1/configmaps"


class Chunks:
    """A response's content that arrives in these pieces."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Yield piece after piece."""
        for piece in self._pieces:
            yield piece


async def cut(pieces: list[bytes]) -> list[bytes]:
    """Return the lines of a content."""
    content: Any = Chunks(pieces)
    return [line async for line in watch.lines(content)]


# ---------------------------------------------------------------- lines


@hypothesis.given(
    texts=strategies.lists(strategies.binary(min_size=1).filter(lambda text: b"\n" not in text)),
    cuts=strategies.lists(strategies.integers(0, 400)),
    half=strategies.binary(max_size=5).filter(lambda text: b"\n" not in text),
)
async def test_lines_are_whole_wherever_chunks_end(texts: list[bytes], cuts: list[int], half: bytes) -> None:
    """Every whole line comes out once and in order, wherever the network cuts; half a line never does."""
    stream = b"".join(text + b"\n" for text in texts) + half
    edges = [0, *sorted(min(one, len(stream)) for one in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(edges)]

    assert await cut(pieces) == texts


async def test_a_line_may_be_longer_than_any_buffer() -> None:
    """An object of megabytes in thousands of pieces is one line."""
    line = json.dumps({"type": "ADDED", "object": "x" * 3_000_000}).encode()
    pieces = [line[at : at + 4096] for at in range(0, len(line), 4096)]

    assert await cut([*pieces, b"\n"]) == [line]


async def test_a_line_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who never ends a line would fill the memory with it; the lines before it are told."""
    monkeypatch.setattr(page_sizes, "LONGEST_LINE", 1000)
    content: Any = Chunks([b"a\n", *[b"b" * 100] * 1000])
    told = watch.lines(content)

    assert await anext(told) == b"a"
    with pytest.raises(errors.Unreachable, match="a line of more than 1000 bytes"):
        await anext(told)


async def test_empty_lines_are_nothing() -> None:
    """Blank lines, as some proxies send to keep a connection alive, are skipped."""
    assert await cut([b"\n\n", b"a\n\n", b"b\n", b"\n"]) == [b"a", b"b"]


# ---------------------------------------------------------------- decoding

CODEC = watch.Codec(mirror.ConfigMap)


def line(change: str, body: Any) -> bytes:
    """Write one line of a watch."""
    return json.dumps(stub.event(change, body)).encode()


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_is_a_change_of_an_object(change: str) -> None:
    """The three changes carry the object; fields that we do not know are skipped."""
    body = {"metadata": {"name": "a", "resourceVersion": "7", "managedFields": [{}]}, "immutable": True}

    event = CODEC.event(line(change, body))

    thing = mirror.ConfigMap(metadata=wire.Meta(name="a", resource_version="7"))
    assert event == watch.Event(change, thing)  # type: ignore[arg-type]


def test_a_bookmark_is_a_revision() -> None:
    """A bookmark has no object, only how far we have seen."""
    bookmark = {"kind": "ConfigMap", "metadata": {"resourceVersion": "12", "creationTimestamp": None}}

    assert CODEC.event(line("BOOKMARK", bookmark)) == watch.Bookmark("12")


@pytest.mark.parametrize(
    ("code", "kind"), [(410, errors.Gone), (500, errors.Unavailable), (403, errors.Forbidden)]
)
def test_an_error_in_the_stream_is_raised(code: int, kind: type[errors.ApiError]) -> None:
    """An ERROR event is the error that it carries."""
    with pytest.raises(kind):
        CODEC.event(line("ERROR", stub.failure(code, "no")))


numbers = strategies.floats(allow_nan=False, allow_infinity=False)

ODD = {
    "a word for a mapping": {"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}, "data": "x"},
    "a number for a word": {"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}, "data": {"k": 1}},
    "labels with numbers": {
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"k": 1}}
    },
    "owners of another shape": {
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "ownerReferences": "x"}
    },
}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD.keys())
def test_an_odd_object_keeps_its_identity(body: dict[str, Any]) -> None:
    """An object that cannot be read is told as such, under its own name, uid and revision."""
    event = CODEC.event(line("MODIFIED", body))

    assert isinstance(event, watch.Event)
    assert isinstance(event.thing, watch.Undecodable)
    meta = event.thing.metadata
    assert (meta.name, meta.uid, meta.resource_version) == ("a", "u", "7")
    assert event.thing.detail


HOPELESS = {
    "a list": b"[]",
    "null": b"null",
    "no metadata": b"{}",
    "no UTF-8": b'{"metadata": {"name": "\xff"}}',
    "a lone half of a pair": b'{"metadata": {"name": "\\ud800"}}',
    "nested deep": b'{"metadata": {"name": "a"}, "data": ' + b"[" * 500 + b"]" * 500 + b"}",
}


@pytest.mark.parametrize("body", HOPELESS.values(), ids=HOPELESS.keys())
def test_one_hopeless_object_spoils_no_list(body: bytes) -> None:
    """Among readable objects one that is beyond reading is reported, and the others are read."""
    good = b'{"metadata": {"name": "b"}}'
    page = b'{"metadata": {"resourceVersion": "3"}, "items": [' + body + b"," + good + b"]}"

    try:
        opened = CODEC.page(page)
    except errors.DECODE_ERRORS:
        # Then the list is no JSON at all, which a caller is told as a failed read.
        assert body == HOPELESS["a lone half of a pair"]
        return

    assert opened.meta.resource_version == "3"
    odd, readable = opened.objects
    assert isinstance(odd, watch.Undecodable)
    assert readable == mirror.ConfigMap(metadata=wire.Meta(name="b"))


@hypothesis.given(
    body=strategies.recursive(
        strategies.none() | strategies.booleans() | numbers | strategies.text(),
        lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
        max_leaves=20,
    )
)
def test_any_json_is_an_object_or_unreadable(body: Any) -> None:
    """Whatever JSON stands where an object should, it is read or reported, never raised."""
    event = CODEC.event(line("ADDED", body))

    assert isinstance(event, watch.Event)
    assert isinstance(event.thing, mirror.ConfigMap | watch.Undecodable)


@hypothesis.given(text=strategies.binary())
def test_any_bytes_are_an_event_or_one_known_error(text: bytes) -> None:
    """A line that is no event raises only what the reader of the stream expects."""
    try:
        CODEC.event(text)
    except (*errors.DECODE_ERRORS, errors.ApiError):
        return


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items": []}', b'{"metadata": {}, "items": 1}'])
async def test_an_answer_that_is_no_list_is_a_failed_read(
    server: stub.Stub, session: api.Api, body: bytes
) -> None:
    """A page from somebody between us and the server counts as no answer."""
    server.on("GET", PATH, stub.raw(body))

    with pytest.raises(errors.Unreachable, match="is no list"):
        await watch.list_all(session, PATH, CODEC, selectors={}, size=10)


async def test_a_line_that_is_no_event_is_a_failed_watch(server: stub.Stub, session: api.Api) -> None:
    """Garbage in the stream ends the watch as a failure, after what came before it."""
    good = stub.event("ADDED", {"metadata": {"name": "a"}})
    body = json.dumps(good).encode() + b"\n<html>\n"
    server.on("GET", PATH, stub.raw(body))

    async with watch.open_watch(session, PATH, CODEC, selectors={}, version="1", seconds=5) as events:
        first = await anext(events)
        with pytest.raises(errors.Unreachable, match="a watch sent no event"):
            await anext(events)

    assert isinstance(first, watch.Event)


async def test_pages_are_read_to_the_end(server: stub.Stub, session: api.Api) -> None:
    """A long collection is read page by page, with the token and the selectors in each request."""
    one, two = ({"metadata": {"name": name}} for name in "ab")
    pages = {"": stub.page(one, version="5", more="next"), "next": stub.page(two, version="5")}
    server.on("GET", PATH, stub.by_query("continue", pages))

    found = await watch.list_all(session, PATH, CODEC, selectors={"labelSelector": "x=y"}, size=1)

    assert found.version == "5"
    assert [thing.metadata.name for thing in found.items] == ["a", "b"]
    assert len(server.asked(labelSelector="x=y", limit="1")) == 2
    assert "resourceVersion" not in server.requests[0].query, "a list is a quorum read"
