"""Lists and watches are cut and decoded without losing an object, whatever is wrong with it."""

import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import hypothesis
import msgspec
import pytest
from hypothesis import strategies

from berth_crds import wire
from berth_crds.client import api, errors, page_sizes, watch
from client import informers
from client.informers import PATH, ConfigMap
from support import stub

# ---------------------------------------------------------------- lines


def lines(*chunks: bytes) -> AsyncIterator[bytes]:
    """Iterate over the lines of a response that arrives in these chunks."""
    content = mock.MagicMock()
    content.iter_any.return_value.__aiter__.return_value = chunks
    return watch.lines(content)


@hypothesis.given(
    texts=strategies.lists(strategies.binary(min_size=1).filter(lambda text: b"\n" not in text)),
    cuts=strategies.lists(strategies.integers(0, 400)),
    half=strategies.binary(max_size=5).filter(lambda text: b"\n" not in text),
)
async def test_lines_are_whole_wherever_chunks_end(texts: list[bytes], cuts: list[int], half: bytes) -> None:
    """Every whole line comes out once and in order, wherever the network cuts; half a line never does."""
    stream = b"".join(text + b"\n" for text in texts) + half
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]

    found = lines(*[stream[start:end] for start, end in itertools.pairwise(edges)])

    assert [line async for line in found] == texts


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        pytest.param([b"a" * 4096] * 1000 + [b"\n"], [b"a" * 4_096_000], id="longer than any buffer"),
        pytest.param([b"\n\n", b"a\n\n", b"b\n", b"\n"], [b"a", b"b"], id="blank lines of a proxy"),
    ],
)
async def test_lines_of_any_length(chunks: list[bytes], found: list[bytes]) -> None:
    """An object of megabytes in a thousand pieces is one line, and a line of nothing is none."""
    assert [line async for line in lines(*chunks)] == found


async def test_a_line_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who never ends a line would fill the memory with it; the lines before it are passed on."""
    monkeypatch.setattr(page_sizes, "LONGEST_LINE", 1000)
    found = lines(b"a\n", *[b"b" * 100] * 1000)

    assert await anext(found) == b"a"
    with pytest.raises(errors.Unreachable, match="a line of more than 1000 bytes"):
        await anext(found)


# ---------------------------------------------------------------- decoding

CODEC = watch.Codec(ConfigMap)


def line(change: str, body: Any) -> bytes:
    """Write one line of a watch."""
    return json.dumps(stub.event(change, body)).encode()


@pytest.mark.parametrize("change", ["ADDED", "MODIFIED", "DELETED"])
def test_an_event_is_a_change_of_an_object(change: str) -> None:
    """The three changes carry the object; fields that we do not know are skipped."""
    body = {"metadata": {"name": "a", "resourceVersion": "7", "managedFields": [{}]}, "immutable": True}

    event = CODEC.event(line(change, body))

    thing = ConfigMap(metadata=wire.Meta(name="a", resource_version="7"))
    assert event == watch.Event(change, thing)  # type: ignore[arg-type]


def test_a_bookmark_is_a_revision() -> None:
    """A bookmark has no object, only how far we have seen."""
    bookmark = {"kind": "ConfigMap", "metadata": {"resourceVersion": "12", "creationTimestamp": None}}

    assert CODEC.event(line("BOOKMARK", bookmark)) == watch.Bookmark("12")


@pytest.mark.parametrize(
    ("code", "kind"),
    [(410, errors.Gone), (500, errors.Unavailable), (403, errors.Forbidden), (0, errors.Unavailable)],
)
def test_an_error_in_the_stream_is_raised(code: int, kind: type[errors.ApiError]) -> None:
    """An ERROR event is the error that it carries; one without a code may have had effects."""
    with pytest.raises(kind):
        CODEC.event(line("ERROR", stub.failure(code, "no")))


META = {"name": "a", "uid": "u", "resourceVersion": "7"}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"metadata": META, "data": "x"}, id="a word for a mapping"),
        pytest.param({"metadata": META, "data": {"k": 1}}, id="a number for a word"),
        pytest.param({"metadata": META | {"labels": {"k": 1}}}, id="labels with numbers"),
        pytest.param({"metadata": META | {"ownerReferences": "x"}}, id="owners of another shape"),
    ],
)
def test_an_undecodable_object_keeps_its_identity(body: dict[str, Any]) -> None:
    """An object that cannot be read is passed on as such, under its own name, uid and revision."""
    event = CODEC.event(line("MODIFIED", body))

    assert isinstance(event, watch.Event)
    assert isinstance(event.thing, watch.Undecodable)
    assert event.thing.detail
    assert {key: msgspec.to_builtins(event.thing.metadata)[key] for key in META} == META


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="no metadata"),
        pytest.param(b'{"metadata": {"name": "\xff"}}', id="no UTF-8"),
        pytest.param(
            b'{"metadata": {"name": "a"}, "data": ' + b"[" * 500 + b"]" * 500 + b"}", id="nested deep"
        ),
    ],
)
def test_one_undecodable_object_spoils_no_list(body: bytes) -> None:
    """Among readable objects one that is beyond reading is reported, and the others are read."""
    undecodable, readable = informers.listed(
        CODEC, b'{"metadata": {"resourceVersion": "3"}, "items": [%s, {"metadata": {"name": "b"}}]}' % body
    )

    assert isinstance(undecodable, watch.Undecodable)
    assert readable == ConfigMap(metadata=wire.Meta(name="b"))


@hypothesis.given(
    body=strategies.recursive(
        strategies.none()
        | strategies.booleans()
        | strategies.floats(allow_nan=False, allow_infinity=False)
        | strategies.text(),
        lambda inner: strategies.lists(inner) | strategies.dictionaries(strategies.text(), inner),
        max_leaves=20,
    )
)
def test_any_json_is_an_object_or_unreadable(body: Any) -> None:
    """Whatever JSON stands where an object should, it is read or reported, never raised."""
    event = CODEC.event(line("ADDED", body))

    assert isinstance(event, watch.Event)
    assert isinstance(event.thing, ConfigMap | watch.Undecodable)


@hypothesis.given(text=strategies.binary())
def test_any_bytes_are_an_event_or_one_known_error(text: bytes) -> None:
    """A line that is no event raises only what the reader of the stream expects."""
    with contextlib.suppress(*errors.DECODE_ERRORS, errors.ApiError):
        CODEC.event(text)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"items": []}',
        b'{"metadata": {}, "items": 1}',
        b'{"metadata": {}, "items": [{"metadata": {"name": "\\ud800"}}]}',
    ],
)
async def test_an_answer_that_is_no_list_is_a_failed_read(
    server: stub.Stub, session: api.Api, body: bytes
) -> None:
    """A page from somebody between us and the server counts as no answer."""
    server.on("GET", PATH, stub.raw(body))

    with pytest.raises(errors.Unreachable, match="is no list"):
        await informers.list_all(session, PATH, CODEC, selectors={}, size=10)


async def test_pages_are_read_to_the_end(server: stub.Stub, session: api.Api) -> None:
    """A long collection is read page by page, with the token and the selectors in each request."""
    items = [{"metadata": {"name": name}} for name in "ab"]
    server.on("GET", PATH, stub.paged(items, version="5"))

    found = await informers.list_all(session, PATH, CODEC, selectors={"labelSelector": "x=y"}, size=1)

    assert found == watch.Collection("5", msgspec.convert(items, list[ConfigMap]))
    assert len(server.asked(labelSelector="x=y", limit="1")) == 2
    assert "resourceVersion" not in server.requests[0].query, "a list is a quorum read"
