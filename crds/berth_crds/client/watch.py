"""List and watch, decoded.

`list_pages` reads a whole collection by quorum read, `latest_revision` only its revision;
`open_watch` opens a watch, and its block reads the events, in order, until the server ends it.
None of them knows what was seen before: that is the informer's part.

The authors of objects decide how long they are, and the server writes some letters as six
bytes each. So a page has a limit, and one that is longer is asked for again with fewer
objects in it, down to a single one. Of an object that alone is too large only the metadata is
read, and it counts as undecodable.
"""

import contextlib
import dataclasses
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from typing import Final, Generic, Literal, TypeVar, cast

import aiohttp
import msgspec

from berth_crds import text, wire
from berth_crds.client import api, cooperative, decoding, errors, page_sizes
from berth_crds.client.page_sizes import PageSizes

T = TypeVar("T")

LIST_DEADLINE_SECONDS: Final = 60.0
# All pages of it together, in bytes; they are not kept. No etcd holds as much, even as the server writes it.
LONGEST_LIST: Final = 1 << 36
MOST_ITEMS: Final = 250_000
MOST_COMMAS: Final = 1 << 22  # More than an object can have bytes in etcd, those in words included.
LARGE_BYTES: Final = decoding.LONG_BYTES  # Shorter objects are not measured.
HUGE_BYTES: Final = 1 << 21  # Of longer ones it does not matter whether they name their kind.
METADATA_ALONE: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# Bookmarks arrive about once a minute even when nothing happens, but no server promises one.
IDLE_SECONDS: Final = 75.0
HEAD_SECONDS: Final = 15.0  # A server that only starts may accept a watch and never answer it.

Change = Literal["ADDED", "MODIFIED", "DELETED"]


class ListMeta(wire.Struct, frozen=True):
    """What the API says about a list as a whole."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, gc=False):
    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


_page: Final = msgspec.json.Decoder(_Page)
# So a server begins all lines that tell of an object.
_begin: Final = re.compile(rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":')


class _Frame(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Identity(wire.Struct, frozen=True):
    """The fields that identify an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _WithIdentity(msgspec.Struct, gc=False):
    """Any object whose metadata cannot be decoded either, but perhaps its identity."""

    metadata: _Identity


@dataclasses.dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that cannot be decoded, with its metadata as far as that was readable."""

    metadata: wire.Meta
    detail: str
    body: bytes = b""


@dataclasses.dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """One change of one object."""

    change: Change
    thing: T | Undecodable


@dataclasses.dataclass(frozen=True, slots=True)
class Bookmark:
    """Progress without change: everything up to this revision has been seen."""

    version: str


@dataclasses.dataclass(frozen=True, slots=True)
class Collection(Generic[T]):
    """The objects of a list, or of a page of it, and the revision at which it was true."""

    version: str
    items: list[T | Undecodable]


@dataclasses.dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list: what it says of the list, and its objects, each decoded when it is asked for."""

    meta: ListMeta
    objects: Iterator[T | Undecodable]
    length: int  # In bytes.


class Codec(Generic[T]):
    """Decodes one kind, and never fails on a single object that cannot be decoded.

    A kind with a field `length` gets there how many bytes a large object has.
    """

    _parts = msgspec.json.Decoder(dict[str, msgspec.Raw])
    _frame = msgspec.json.Decoder(_Frame)
    _with_metadata = msgspec.json.Decoder(api.WithMetadata)
    _with_identity = msgspec.json.Decoder(_WithIdentity)
    _status = msgspec.json.Decoder(errors.Status)

    def __init__(self, kind: type[T]) -> None:
        self._object_decoder = msgspec.json.Decoder(kind)
        self._measured = "length" in getattr(kind, "__struct_fields__", ())

    def decode_object(self, raw: msgspec.Raw) -> T | Undecodable:
        """Return a decoded object, or why it cannot be decoded."""
        try:
            thing = decoding.decode_object(self._object_decoder, raw)
            if self._measured and len(raw) > LARGE_BYTES:
                msgspec.structs.force_setattr(cast("msgspec.Struct", thing), "length", self._length(raw))
        except errors.DECODE_ERRORS as error:
            return Undecodable(self.metadata(raw), text.line(str(error)), bytes(raw))
        return thing

    def event(self, line: bytes) -> "Event[T] | Bookmark":
        """Decode one line of a watch; an ERROR line raises what it names."""
        begin = _begin.match(line) if len(line) > LARGE_BYTES else None
        if begin is not None:
            # To find out where it ends takes as long as to read it; nothing but the frame ends behind it.
            thing = self.decode_object(msgspec.Raw(memoryview(line)[begin.end() : -1]))
            if not isinstance(thing, Undecodable):
                return Event(cast("Change", begin[1].decode()), thing)
        frame = decoding.decode(self._frame, line)
        if frame.type == "ERROR":
            raise errors.from_status(self._status.decode(frame.object))
        if frame.type == "BOOKMARK":
            return Bookmark(self.metadata(frame.object).resource_version)
        return Event(cast("Change", frame.type), self.decode_object(frame.object))

    def _length(self, raw: msgspec.Raw) -> int:
        """Return how long an object is without its kind, which a list leaves out and a watch does not."""
        if len(raw) > HUGE_BYTES:
            return len(raw)
        parts = decoding.decode(self._parts, raw).items()
        return sum(len(part) for name, part in parts if name not in {"apiVersion", "kind"})

    def metadata(self, raw: msgspec.Raw) -> wire.Meta:
        """Return the metadata of an object, as far as they can be decoded."""
        with contextlib.suppress(*errors.DECODE_ERRORS):
            return decoding.decode(self._with_metadata, raw).metadata
        with contextlib.suppress(*errors.DECODE_ERRORS):
            known = decoding.decode(self._with_identity, raw).metadata
            return wire.Meta(known.name, known.namespace, known.uid, known.resource_version)
        return wire.Meta()


async def list_pages(
    session: api.Api,
    path: str,
    codec: Codec[T],
    *,
    selectors: Mapping[str, str],
    size: int | PageSizes,
    clock: cooperative.Clock = time.monotonic,
) -> AsyncGenerator[Collection[T]]:
    """Read a whole collection as of one revision, and yield it page by page.

    A `continue` token that expired under way (410) is for the caller to handle: what was
    read so far is worthless then.
    """
    page_sizes = size if isinstance(size, PageSizes) else PageSizes(size)
    params, length = dict(selectors), 0
    while True:
        page = await _read_page(session, path, codec, params, page_sizes)
        length += page.length
        if length > LONGEST_LIST:
            raise errors.Unreachable(f"{path}: the list does not end", ambiguous=False)
        items: list[T | Undecodable] = []
        await cooperative.run(map(items.append, page.objects), clock)
        yield Collection(page.meta.resource_version, items)
        if not page.meta.continue_:
            return
        params["continue"] = page.meta.continue_


async def _read_page(
    session: api.Api, path: str, codec: Codec[T], params: dict[str, str], page_sizes: PageSizes
) -> Page[T]:
    """Read the next page, of as many objects as can be read at once."""
    while True:
        params["limit"] = str(page_sizes.current)
        try:
            body = await session.read(
                path, params=params, most=page_sizes.longest, deadline=LIST_DEADLINE_SECONDS
            )
            meta, items = decode_list(body, path)
        except errors.TooLarge as error:
            if page_sizes.current == 0:
                raise
            if page_sizes.current == 1:
                return await _read_identity(session, path, codec, params, error)
            page_sizes.shrink()
        else:
            page_sizes.adapt(len(items), len(body))
            return Page(meta, map(codec.decode_object, items), len(body))


async def _read_identity(
    session: api.Api, path: str, codec: Codec[T], params: Mapping[str, str], error: errors.TooLarge
) -> Page[T]:
    """Read only the metadata of the next object, which is too large to be read."""
    body = await session.read(
        path,
        params=params,
        most=page_sizes.LONGEST_LINE,
        accept=METADATA_ALONE,
        deadline=LIST_DEADLINE_SECONDS,
    )
    meta, items = decode_list(body, path)
    return Page(meta, (Undecodable(codec.metadata(raw), str(error)) for raw in items), len(body))


def decode_list(body: bytes, path: str) -> tuple[ListMeta, Sequence[msgspec.Raw]]:
    """Decode a page but for its objects."""
    # A body that is not longer cannot have so many commas: no need to count.
    if len(body) > MOST_COMMAS and body.count(b",") > MOST_COMMAS:
        raise errors.TooLarge(f"{path}: the answer is no list: it has more than {MOST_COMMAS} values")
    try:
        page = decoding.decode(_page, body)
    except errors.DECODE_ERRORS as error:
        raise errors.Unreachable(f"{path}: the answer is no list: {error}", ambiguous=False) from error
    items = page.items or ()
    if len(items) > MOST_ITEMS:
        raise errors.TooLarge(f"{path}: the answer is no list: it has more than {MOST_ITEMS} objects")
    return page.metadata, items


async def read_object(session: api.Api, path: str, codec: Codec[T]) -> T | Undecodable:
    """Read one object by a quorum read."""
    return codec.decode_object(msgspec.Raw(await session.read(path, params={}, most=page_sizes.LONGEST_LINE)))


@contextlib.asynccontextmanager
async def open_watch(
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
        idle_seconds=IDLE_SECONDS,
        head_seconds=HEAD_SECONDS,
        total_seconds=seconds + IDLE_SECONDS,
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
        except errors.DECODE_ERRORS as error:
            raise errors.Unreachable(f"{path}: a watch sent no event: {error}", ambiguous=False) from error


async def latest_revision(session: api.Api, path: str) -> str:
    """Return a revision that is not earlier than any change of the collection committed so far."""
    body = await session.read(
        path,
        params={"limit": "1"},
        most=page_sizes.LONGEST_LINE,
        accept=METADATA_ALONE,
        deadline=LIST_DEADLINE_SECONDS,
    )
    meta, _ = decode_list(body, path)
    return meta.resource_version


async def lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split a stream at its newlines; drop a half line at the end, and refuse one that is too long."""
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
