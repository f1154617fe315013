"""List and watch, decoded.

`pages` reads a whole collection by quorum read, `newest` only its revision; `opened`
opens a watch, and its block reads what the watch says, in order, until the server ends it.
All know nothing of what was seen before: that is the informer's part.
"""

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Final, Generic, Literal, TypeVar, cast

import aiohttp
import msgspec

from berth_crds import text, wire
from berth_crds.client import api, errors, reading

T = TypeVar("T")

LIST_DEADLINE_SECONDS: Final = 60.0
LONGEST_LIST: Final = 1 << 32  # All pages of it together, in bytes; they are not kept.
# Of one page. The least objects take two bytes each, and many times that once they are read.
MOST_ITEMS: Final = 250_000
MOST_COMMAS: Final = 1 << 23
LONGEST_LINE: Final = 1 << 25  # Far more than any object may have in etcd.
SILENCE_SECONDS: Final = 75.0  # Bookmarks arrive about once a minute even when nothing happens.
HEAD_SECONDS: Final = 15.0  # A server that only starts may accept a watch and never answer it.

Change = Literal["ADDED", "MODIFIED", "DELETED"]


class ListMeta(wire.Struct, frozen=True):
    """What the API says about a list as a whole."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, gc=False):
    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class _Head(msgspec.Struct, gc=False):
    """A list, of which only the revision matters."""

    metadata: ListMeta


_head: Final = msgspec.json.Decoder(_Head)


class _Frame(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Bearer(msgspec.Struct, gc=False):
    """Any object, of which only the metadata can be trusted."""

    metadata: wire.Meta


class _Identity(wire.Struct, frozen=True):
    """The least that tells which object it is."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Nameable(msgspec.Struct, gc=False):
    """Any object whose metadata is odd as well: its identity may still be readable."""

    metadata: _Identity


@dataclasses.dataclass(frozen=True, slots=True)
class Unreadable:
    """An object whose shape is not the one we know; its metadata, as far as that was readable."""

    metadata: wire.Meta
    detail: str
    body: bytes = b""


@dataclasses.dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """One change of one object."""

    change: Change
    thing: T | Unreadable


@dataclasses.dataclass(frozen=True, slots=True)
class Bookmark:
    """Progress without change: everything up to this revision has been seen."""

    version: str


@dataclasses.dataclass(frozen=True, slots=True)
class Collection(Generic[T]):
    """A whole list and the revision at which it was true."""

    version: str
    items: list[T | Unreadable]


class Codec(Generic[T]):
    """Decodes one kind, and never fails on a single odd object."""

    _page = msgspec.json.Decoder(_Page)
    _frame = msgspec.json.Decoder(_Frame)
    _bearer = msgspec.json.Decoder(_Bearer)
    _nameable = msgspec.json.Decoder(_Nameable)
    _status = msgspec.json.Decoder(errors.Status)

    def __init__(self, kind: type[T]) -> None:
        self._thing = msgspec.json.Decoder(kind)

    def page(self, body: bytes) -> tuple[ListMeta, list[T | Unreadable]]:
        """Decode one page of a list."""
        # A body that is not so long cannot have so many commas: no need to count.
        if len(body) > 2 * MOST_COMMAS and body.count(b",") > MOST_COMMAS:
            raise msgspec.ValidationError(f"it has more than {MOST_COMMAS} values")
        page = self._page.decode(body)
        items = page.items or ()
        if len(items) > MOST_ITEMS:
            raise msgspec.ValidationError(f"it has more than {MOST_ITEMS} objects")
        return page.metadata, [self.thing(raw) for raw in items]

    def thing(self, raw: msgspec.Raw) -> T | Unreadable:
        """Decode one object, or tell why not."""
        try:
            return reading.read(self._thing, raw)
        except errors.ODD as error:
            return Unreadable(self._metadata(raw), text.line(str(error)), bytes(raw))

    def event(self, line: bytes) -> "Event[T] | Bookmark":
        """Decode one line of a watch; an ERROR line raises what it names."""
        frame = self._frame.decode(line)
        if frame.type == "ERROR":
            raise errors.from_status(self._status.decode(frame.object))
        if frame.type == "BOOKMARK":
            return Bookmark(self._metadata(frame.object).resource_version)
        return Event(cast("Change", frame.type), self.thing(frame.object))

    def _metadata(self, raw: msgspec.Raw) -> wire.Meta:
        with contextlib.suppress(*errors.ODD):
            return self._bearer.decode(raw).metadata
        with contextlib.suppress(*errors.ODD):
            known = self._nameable.decode(raw).metadata
            return wire.Meta(known.name, known.namespace, known.uid, known.resource_version)
        return wire.Meta()


async def pages(
    session: api.Api, path: str, codec: Codec[T], *, selectors: Mapping[str, str], size: int
) -> Collection[T]:
    """Read a whole collection as of one revision, page by page.

    A `continue` token that expired under way (410) is the caller's to handle: what was
    read so far is worthless then.
    """
    items: list[T | Unreadable] = []
    version = ""
    async for page in by_page(session, path, codec, selectors=selectors, size=size):
        items += page.items
        version = page.version
    return Collection(version, items)


async def by_page(
    session: api.Api, path: str, codec: Codec[T], *, selectors: Mapping[str, str], size: int
) -> AsyncGenerator[Collection[T]]:
    """Read a collection as `pages` does, for those who need not have all of it at once."""
    params, length = {**selectors, "limit": str(size)}, 0
    while True:
        body = await session.send("GET", path, params=params, deadline=LIST_DEADLINE_SECONDS)
        length += len(body)
        if length > LONGEST_LIST:
            raise errors.Unreachable(f"{path}: the list does not end", ambiguous=False)
        meta, found = _readable(codec, body, path)
        yield Collection(meta.resource_version, found)
        if not meta.continue_:
            return
        params["continue"] = meta.continue_


def _readable(codec: Codec[T], body: bytes, path: str) -> tuple[ListMeta, list[T | Unreadable]]:
    try:
        return codec.page(body)
    except errors.ODD as error:
        raise errors.Unreachable(f"{path}: the answer is no list: {error}", ambiguous=False) from error


@contextlib.asynccontextmanager
async def opened(
    session: api.Api,
    path: str,
    codec: Codec[T],
    *,
    selectors: Mapping[str, str],
    version: str,
    seconds: int,
) -> AsyncIterator[AsyncGenerator[Event[T] | Bookmark]]:
    """Open a watch from a revision on, whose events the block reads; the server ends it after `seconds`."""
    params = {
        **selectors,
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": version,
        "timeoutSeconds": str(seconds),
    }
    stream = session.stream(
        path,
        params=params,
        silence=SILENCE_SECONDS,
        head=HEAD_SECONDS,
        longest=seconds + SILENCE_SECONDS,
    )
    async with (
        stream as content,
        contextlib.aclosing(_events(codec, content, path)) as events,
    ):
        yield events


async def _events(
    codec: Codec[T], content: aiohttp.StreamReader, path: str
) -> AsyncGenerator[Event[T] | Bookmark]:
    async for line in lines(content):
        try:
            yield codec.event(line)
        except errors.ODD as error:
            raise errors.Unreachable(f"{path}: a watch sent no event: {error}", ambiguous=False) from error


async def newest(session: api.Api, path: str) -> str:
    """Return a revision that no change of the collection, committed so far, is later than."""
    body = await session.send("GET", path, params={"limit": "1"}, deadline=LIST_DEADLINE_SECONDS)
    try:
        return _head.decode(body).metadata.resource_version
    except errors.ODD as error:
        raise errors.Unreachable(f"{path}: the answer is no list: {error}", ambiguous=False) from error


async def lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Cut a stream at its newlines; a half line at the end is dropped, and one without an end is refused."""
    begun = bytearray()
    async for chunk in content.iter_any():
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            if line := bytes(begun) + end:
                yield line
            begun.clear()
        begun += rest
        if len(begun) > LONGEST_LINE:
            raise errors.Unreachable(
                f"a watch sent a line of more than {LONGEST_LINE} bytes", ambiguous=False
            )
