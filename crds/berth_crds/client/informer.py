"""A local copy of a collection that never loses a delete.

The informer lists, tells its sink what differs from what it knew, then watches. When
the watch is too old (410, as an HTTP answer or inside the stream) or keeps failing, it
lists again, and whatever vanished meanwhile is told as a delete with the last object
that was known. The sink is called between two awaits and must not block; what it is
told is always in the order of the revisions of each object.

A watch that merely ended is resumed from the last revision seen. `refresh` makes the
informer read the collection anew by quorum read, which is how a new leader learns that
its picture is complete.
"""

import asyncio
import contextlib
import dataclasses
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, Protocol, TypeVar, runtime_checkable

from berth_crds import wire
from berth_crds.client import api, errors, watch
from berth_crds.client.resources import Resource

log = logging.getLogger(__name__)

PAGE: Final = 500
WATCH_SECONDS: Final = (300, 600)
PATIENCE: Final = 4  # Watches that fail in a row before the list is read again.
BACKOFF_SECONDS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SHORTEST_WATCH_SECONDS: Final = 1.0
AT_A_TIME: Final = 250  # Objects of a list told to the sink before others have their turn.


class Bearer(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> wire.Meta: ...  # noqa: D102


B = TypeVar("B", bound=Bearer)
T_contra = TypeVar("T_contra", contravariant=True)


class Sink(Protocol[T_contra]):
    """Who is told of changes."""

    def upserted(self, thing: T_contra, /) -> None:
        """Tell that an object is new or changed."""

    def deleted(self, thing: T_contra, /) -> None:
        """Tell that an object is gone; this is the last that was known of it."""


@runtime_checkable
class Wary(Protocol):
    """A sink that wants to know of objects that cannot be read, because they may matter all the same."""

    def odd(self, thing: watch.Unreadable, /) -> None:
        """Tell of an object that cannot be read; what was told of it before is out of date."""

    def odd_gone(self, thing: watch.Unreadable, /) -> None:
        """Tell that an object is gone of which nothing readable was ever told."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """Which part of a collection to follow."""

    namespace: str = ""
    fields: str = ""
    labels: str = ""

    @property
    def selectors(self) -> Mapping[str, str]:
        """The query parameters that say so."""
        both = {"fieldSelector": self.fields, "labelSelector": self.labels}
        return {key: value for key, value in both.items() if value}


class Informer(Generic[B]):
    """Follows one collection and feeds one sink."""

    def __init__(
        self,
        session: api.Api,
        resource: Resource,
        kind: type[B],
        sink: Sink[B],
        *,
        scope: Scope = Scope(),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._session = session
        self._resource = resource
        self._codec = watch.Codec(kind)
        self._sink = sink
        self._wary = sink if isinstance(sink, Wary) else None
        self._path = resource.path(namespace=scope.namespace)
        self._selectors = scope.selectors
        self._chance = chance
        self._known: dict[tuple[str, str], B] = {}
        self._odd: dict[tuple[str, str], watch.Unreadable] = {}
        self._nameless = False  # Whether there is one of which not even the name can be read.
        self._version = ""
        self._lists = 0
        self._listed = asyncio.Condition()
        self._round: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        """Tell the state in words."""
        state = f"at revision {self._version}" if self._version else "not yet listed"
        return f"<Informer of {self._resource}: {len(self._known)} known, {state}>"

    @property
    def synced(self) -> bool:
        """Whether the collection has been read whole at least once."""
        return self._lists > 0

    async def wait_synced(self) -> None:
        """Wait for the first whole list."""
        async with self._listed:
            await self._listed.wait_for(lambda: self._lists > 0)

    async def refresh(self) -> None:
        """Read the collection anew by a quorum read that starts after this call, and wait for it."""
        before = self._lists
        if self._round is not None:
            self._round.cancel()
        async with self._listed:
            await self._listed.wait_for(lambda: self._lists > before)

    async def read(self) -> None:
        """Read the collection once and tell the sink, without following it."""
        await self._list()

    def retell(self) -> None:
        """Tell the sink everything that is known once more; what cannot be read now, as that."""
        for key, thing in self._known.items():
            if key not in self._odd:
                self._sink.upserted(thing)
        if self._wary is not None:
            for odd in self._odd.values():
                self._wary.odd(odd)

    def missing(self, uids: Iterable[str]) -> set[str]:
        """Name those of these uids that the collection surely has not: any may be that of an odd object."""
        there = {one.metadata.uid for known in (self._known, self._odd) for one in known.values()}
        return set() if self._nameless or "" in there else set(uids) - there

    async def run(self) -> None:
        """Follow the collection for ever."""
        while True:
            self._round = asyncio.create_task(self._list_then_watch(), name=f"follow {self._resource}")
            try:
                await self._round
            except asyncio.CancelledError:
                # Either `refresh` ended the round, or somebody ends us: then we were cancelled too.
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    await _end(self._round)
                    raise

    async def _list_then_watch(self) -> None:
        failures = 0
        while True:
            try:
                await self._list()
                failures = 0
                await self._watch()
            except errors.ClientError as error:
                failures += 1
                self._report(error, failures)
                await self._pause(failures, error)

    # ------------------------------------------------------------ list

    async def _list(self) -> None:
        collection = await self._collection()
        await self._replace(collection)
        self._version = collection.version
        async with self._listed:
            self._lists += 1
            self._listed.notify_all()

    async def _collection(self) -> watch.Collection[B]:
        try:
            return await watch.pages(
                self._session, self._path, self._codec, selectors=self._selectors, size=PAGE
            )
        except errors.Gone:
            # The continue token expired between two pages: one whole read cannot.
            return await watch.pages(
                self._session, self._path, self._codec, selectors=self._selectors, size=0
            )

    async def _replace(self, collection: watch.Collection[B]) -> None:
        seen = {_key(thing.metadata) for thing in collection.items}
        # An object of which not even the name can be read may be any of those that seem to be gone.
        self._nameless = NAMELESS in seen
        vanished = set() if self._nameless else {*self._known, *self._odd} - seen
        for key in sorted(vanished):
            self._forget(key, self._known.get(key))
        for count, thing in enumerate(collection.items, 1):
            self._upsert(thing)
            if count % AT_A_TIME == 0:
                await asyncio.sleep(0)  # A long list must not keep a leader from renewing its Lease.

    # ------------------------------------------------------------ watch

    async def _watch(self) -> None:
        failures = 0
        while failures < PATIENCE:
            try:
                await self._follow()
                failures = 0
            except errors.Gone:
                log.info("%s: revision %s is compacted away, listing again", self._resource, self._version)
                return
            except errors.ClientError as error:
                failures += 1
                log.info("%s: the watch failed (%d): %s", self._resource, failures, error)
                await self._pause(failures, error)

    async def _follow(self) -> None:
        started, version = asyncio.get_running_loop().time(), self._version
        await self._read_watch()
        short = asyncio.get_running_loop().time() - started < SHORTEST_WATCH_SECONDS
        if short and self._version == version:
            # A server going down, or somebody between us, answers at once with nothing: do not hammer it.
            raise errors.Unreachable("the server ended it at once, with nothing said", ambiguous=False)

    async def _read_watch(self) -> None:
        low, high = WATCH_SECONDS
        seconds = low + int((high - low) * self._chance())
        stream = watch.events(
            self._session,
            self._path,
            self._codec,
            selectors=self._selectors,
            version=self._version,
            seconds=seconds,
        )
        async with contextlib.aclosing(stream):
            async for event in stream:
                self._take(event)

    def _take(self, event: "watch.Event[B] | watch.Bookmark") -> None:
        if isinstance(event, watch.Bookmark):
            self._version = event.version or self._version
            return
        if event.change == "DELETED":
            self._delete(event.thing)
        else:
            self._upsert(event.thing)
        self._version = event.thing.metadata.resource_version or self._version

    # ------------------------------------------------------------ what is known

    def _upsert(self, thing: B | watch.Unreadable) -> None:
        key = _key(thing.metadata)
        old = self._known.get(key) or self._odd.get(key)
        if old is not None and old.metadata.uid != thing.metadata.uid:
            self._forget(key, self._known.get(key))
        elif old is not None and old.metadata.resource_version == thing.metadata.resource_version:
            return
        if isinstance(thing, watch.Unreadable):
            self._note(key, thing)
            return
        self._odd.pop(key, None)
        self._known[key] = thing
        self._sink.upserted(thing)

    def _note(self, key: tuple[str, str], thing: watch.Unreadable) -> None:
        # What was known of it stays: to forget a holder of cards would give them out twice.
        log.error("%s %s cannot be read: %s", self._resource, _title(thing.metadata), thing.detail)
        if key == NAMELESS:
            self._nameless = True
            return
        self._odd[key] = thing
        if self._wary is not None:
            self._wary.odd(thing)

    def _delete(self, thing: B | watch.Unreadable) -> None:
        key = _key(thing.metadata)
        self._forget(key, self._known.get(key) if isinstance(thing, watch.Unreadable) else thing)

    def _forget(self, key: tuple[str, str], last: B | None) -> None:
        """Tell a delete, with the last that could be read, or as one of an odd object."""
        self._known.pop(key, None)
        odd = self._odd.pop(key, None)
        if last is not None:
            self._sink.deleted(last)
        elif odd is not None and self._wary is not None:
            self._wary.odd_gone(odd)

    # ------------------------------------------------------------ failures

    def _report(self, error: errors.ClientError, failures: int) -> None:
        level = logging.WARNING if failures in {1, 10} or failures % 100 == 0 else logging.DEBUG
        log.log(level, "%s cannot be listed (attempt %d): %s", self._resource, failures, error)

    async def _pause(self, failures: int, error: errors.ClientError) -> None:
        wanted = getattr(error, "retry_after", None) or 0.0
        step = BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1]
        await asyncio.sleep(max(wanted, step * (0.5 + self._chance())))


NAMELESS: Final = ("", "")


def _key(meta: wire.Meta) -> tuple[str, str]:
    return meta.namespace, meta.name


def _title(meta: wire.Meta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
