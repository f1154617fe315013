"""List and watch, decoded.

`pages` reads a whole collection by quorum read, `newest` only its revision; `opened`
opens a watch, and its block reads what the watch says, in order, until the server ends it.
All know nothing of what was seen before: that is the informer's part.

Whoever may write objects says how long they are, and the server writes some letters as six
bytes each. So a page has a most length, and one that is longer is asked for again with fewer
objects in it, down to a single one. Of an object that alone is too large the metadata is
read, and it is told as unreadable.
"""

import contextlib
import dataclasses
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Final, Generic, Literal, TypeVar, cast

import aiohttp
import msgspec

from berth_crds import text, wire
from berth_crds.client import api, cooperative, errors, page_sizes, reading

T = TypeVar("T")

LIST_DEADLINE_SECONDS: Final = 60.0
# All pages of it together, in bytes; they are not kept. No etcd holds as much, even as the server writes it.
LONGEST_LIST: Final = 1 << 36
MOST_ITEMS: Final = 250_000
MOST_COMMAS: Final = 1 << 22  # More than an object can have bytes in etcd, those in words included.
LARGE: Final = reading.LONG  # Shorter objects are not measured.
HUGE: Final = 1 << 21  # Of longer ones it does not matter whether they name their kind.
METADATA_ALONE: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# Bookmarks arrive about once a minute even when nothing happens, but no server promises one.
SILENCE_SECONDS: Final = 75.0
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
# So a server begins all lines that tell of an object.
_begin: Final = re.compile(rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":')


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


@dataclasses.dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list: its objects, each decoded when it is asked for, how many, and of how many bytes."""

    meta: ListMeta
    things: Iterator[T | Unreadable]
    count: int
    length: int


class Codec(Generic[T]):
    """Decodes one kind, and never fails on a single odd object.

    A kind with a field `length` is told there how many bytes a large object has.
    """

    _parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
    _page = msgspec.json.Decoder(_Page)
    _frame = msgspec.json.Decoder(_Frame)
    _bearer = msgspec.json.Decoder(_Bearer)
    _nameable = msgspec.json.Decoder(_Nameable)
    _status = msgspec.json.Decoder(errors.Status)

    def __init__(self, kind: type[T]) -> None:
        self._thing = msgspec.json.Decoder(kind)
        self._measured = "length" in getattr(kind, "__struct_fields__", ())

    def page(self, body: bytes) -> "Page[T]":
        """Open one page of a list."""
        meta, items = self._raw(body)
        return Page(meta, map(self.thing, items), len(items), len(body))

    def identities(self, body: bytes, detail: str) -> "Page[T]":
        """Open a page of objects of which there is only the metadata; the detail says why."""
        meta, items = self._raw(body)
        return Page(meta, (Unreadable(self._metadata(raw), detail) for raw in items), len(items), len(body))

    def _raw(self, body: bytes) -> tuple[ListMeta, Sequence[msgspec.Raw]]:
        # A body that is not longer cannot have so many commas: no need to count.
        if len(body) > MOST_COMMAS and body.count(b",") > MOST_COMMAS:
            raise errors.TooLarge(f"it has more than {MOST_COMMAS} values")
        page = reading.decode(self._page, body)
        items = page.items or ()
        if len(items) > MOST_ITEMS:
            raise errors.TooLarge(f"it has more than {MOST_ITEMS} objects")
        return page.metadata, items

    def thing(self, raw: msgspec.Raw) -> T | Unreadable:
        """Decode one object, or tell why not."""
        try:
            thing = reading.read(self._thing, raw)
            if self._measured and len(raw) > LARGE:
                msgspec.structs.force_setattr(cast("msgspec.Struct", thing), "length", self._length(raw))
        except errors.ODD as error:
            return Unreadable(self._metadata(raw), text.line(str(error)), bytes(raw))
        return thing

    def event(self, line: bytes) -> "Event[T] | Bookmark":
        """Decode one line of a watch; an ERROR line raises what it names."""
        begin = _begin.match(line) if len(line) > LARGE else None
        if begin is not None:
            # To find out where it ends takes as long as to read it; nothing but the frame ends behind it.
            thing = self.thing(msgspec.Raw(memoryview(line)[begin.end() : -1]))
            if not isinstance(thing, Unreadable):
                return Event(cast("Change", begin[1].decode()), thing)
        frame = reading.decode(self._frame, line)
        if frame.type == "ERROR":
            raise errors.from_status(self._status.decode(frame.object))
        if frame.type == "BOOKMARK":
            return Bookmark(self._metadata(frame.object).resource_version)
        return Event(cast("Change", frame.type), self.thing(frame.object))

    def _length(self, raw: msgspec.Raw) -> int:
        """Return how long an object is, in a list as in a watch, where it names its kind."""
        if len(raw) > HUGE:
            return len(raw)
        parts = reading.decode(self._parts, raw).items()
        return sum(len(part) for name, part in parts if name not in {"apiVersion", "kind"})

    def _metadata(self, raw: msgspec.Raw) -> wire.Meta:
        with contextlib.suppress(*errors.ODD):
            return reading.decode(self._bearer, raw).metadata
        with contextlib.suppress(*errors.ODD):
            known = reading.decode(self._nameable, raw).metadata
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
    session: api.Api,
    path: str,
    codec: Codec[T],
    *,
    selectors: Mapping[str, str],
    size: int | page_sizes.Portions,
    clock: cooperative.Clock = time.monotonic,
) -> AsyncGenerator[Collection[T]]:
    """Read a collection as `pages` does, for those who need not have all of it at once."""
    sizes = size if isinstance(size, page_sizes.Portions) else page_sizes.Portions(size)
    params, length = dict(selectors), 0
    while True:
        page = await _next(session, path, codec, params, sizes)
        length += page.length
        if length > LONGEST_LIST:
            raise errors.Unreachable(f"{path}: the list does not end", ambiguous=False)
        yield Collection(page.meta.resource_version, await cooperative.gathered(page.things, clock))
        if not page.meta.continue_:
            return
        params["continue"] = page.meta.continue_


async def _next(
    session: api.Api, path: str, codec: Codec[T], params: dict[str, str], sizes: page_sizes.Portions
) -> Page[T]:
    """Read the next page, of as many objects as can be read at once."""
    while True:
        params["limit"] = str(sizes.now)
        try:
            body = await session.read(path, params=params, most=sizes.longest, deadline=LIST_DEADLINE_SECONDS)
            page = _readable(codec.page, body, path)
        except errors.TooLarge as error:
            if sizes.now == 0:
                raise
            if sizes.least:
                return await _identified(session, path, codec, params, error)
            sizes.shrink()
        else:
            sizes.fit(page.count, page.length)
            return page


async def _identified(
    session: api.Api, path: str, codec: Codec[T], params: Mapping[str, str], error: errors.TooLarge
) -> Page[T]:
    """Read the metadata alone of the one object that is next, which is too large to be read."""
    body = await session.read(
        path,
        params=params,
        most=page_sizes.LONGEST_LINE,
        accept=METADATA_ALONE,
        deadline=LIST_DEADLINE_SECONDS,
    )
    return _readable(lambda found: codec.identities(found, str(error)), body, path)


def _readable(decode: Callable[[bytes], Page[T]], body: bytes, path: str) -> Page[T]:
    try:
        return decode(body)
    except errors.TooLarge as error:
        raise errors.TooLarge(f"{path}: the answer is no list: {error}") from error
    except errors.ODD as error:
        raise errors.Unreachable(f"{path}: the answer is no list: {error}", ambiguous=False) from error


async def single(session: api.Api, path: str, codec: Codec[T]) -> T | Unreadable:
    """Read one object by a quorum read."""
    body = await session.read(path, params={}, most=page_sizes.LONGEST_LINE)
    return codec.thing(msgspec.Raw(body))


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
        quiet=SILENCE_SECONDS,
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
    body = await session.read(
        path,
        params={"limit": "1"},
        most=page_sizes.LONGEST_LINE,
        accept=METADATA_ALONE,
        deadline=LIST_DEADLINE_SECONDS,
    )
    try:
        return reading.decode(_head, body).metadata.resource_version
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
        if len(begun) > page_sizes.LONGEST_LINE:
            raise errors.TooLarge(f"a watch sent a line of more than {page_sizes.LONGEST_LINE} bytes")
