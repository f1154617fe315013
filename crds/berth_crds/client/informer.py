"""A local view of a collection that never loses a delete.

The informer lists, passes to its sink what differs from what it knew, page by page so that no
list is held whole, then watches. When the watch is too old (410, as an HTTP answer or inside
the stream), is too large to be read or keeps failing, it lists again, and what vanished
meanwhile is passed on as a delete, last of all. The sink is called between two awaits and must not
block; the changes of one object always come in the order of their revisions.

A watch that merely ended is resumed from the last revision seen, unless the server was
away: etcd may have been restored from an older copy meanwhile, and then the watch would
be silent, or leave something out. So after an outage, and after any sign of a restore, the
collection is listed, and everything in it is passed on again. Whether the server was away or is
slow does not show where a watch only opens late, or was refused for a while: such a watch is kept,
and believed from the revision of a list on that is read while it is open.

`refresh` makes the informer list anew by quorum read, `resync_object` reads one object beside the
watch. `catch_up` waits until everything that was committed before the call has been passed on, which
for a large collection is much cheaper: so a new leader knows that its inventory is complete.
"""

import asyncio
import contextlib
import functools
import logging
import random
import sys
import time
from collections.abc import AsyncIterator, Iterable
from collections.abc import Set as AbstractSet
from typing import Final, Generic

from berth_crds import tasks
from berth_crds.client import (
    api,
    bookmarks,
    cooperative,
    errors,
    history,
    list_backoff,
    lists,
    page_sizes,
    store,
    watch,
)
from berth_crds.client.resources import WHOLE, Resource, Scope
from berth_crds.client.store import B

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 500
WATCH_SECONDS: Final = (300, 600)
MOST_WATCH_FAILURES: Final = 4  # Watches that fail in a row before the list is read again.
SHORTEST_WATCH_SECONDS: Final = 1.0
OUTAGE_SECONDS: Final = 1.0  # A restore of etcd takes longer; a resumed watch is back much sooner.
# Where events are frequent, the next one shows soon that the informer is up to date.
FREQUENT_SECONDS: Final = 1.0
SOON_SECONDS: Final = 0.2
CATCH_UP_SECONDS: Final = 10.0


class Informer(Generic[B]):
    """Follows one collection and feeds one sink."""

    def __init__(
        self,
        session: api.Api,
        resource: Resource,
        kind: type[B],
        sink: store.Sink[B],
        *,
        scope: Scope = WHOLE,
        clock: cooperative.Clock = time.monotonic,
    ) -> None:
        self._session = session
        self._resource = resource
        self._codec = watch.Codec(kind)
        self._store = store.Store(str(resource), sink)
        self._path = resource.path(namespace=scope.namespace)
        self._selectors = scope.selectors
        self._clock = clock
        self._page_sizes = page_sizes.PageSizes(PAGE_SIZE)
        self._version = ""
        self._short_list = True  # Whether the last list was one page.
        self._lists = lists.Lists()
        self._round: asyncio.Task[None] | None = None
        self._deliver_all = False  # Whether the next list passes on everything, also what seems unchanged.
        self._restored = False  # Whether that is because the server's data surely were restored.
        self._last_contact = 0.0  # When a list or a watch was last in good order.
        self._last_event = 0.0  # When an object last changed.
        self._bookmarks = bookmarks.Bookmarks()
        self._list_backoff = list_backoff.ListBackoff(str(resource))
        session.history.join(self)

    def __repr__(self) -> str:
        """Show the state in words."""
        state = f"at revision {self._version}" if self._version else "not yet listed"
        return f"<Informer of {self._resource}: {len(self._store)} known, {state}>"

    # ------------------------------------------------------------ asking

    @property
    def lists(self) -> int:
        """How many lists have been read."""
        return self._lists.read

    @property
    def synced(self) -> bool:
        """Whether the collection has been read whole at least once."""
        return self.lists > 0

    @property
    def live(self) -> bool:
        """Whether the sink is up to date: a watch is open, or was until a moment ago."""
        open_or_soon = self._bookmarks.watching or not self._long_outage()
        return self.synced and not self._deliver_all and open_or_soon

    async def wait_synced(self) -> None:
        """Wait for the first whole list."""
        await self.wait_listed(0)

    async def wait_listed(self, count: int) -> None:
        """Wait until more lists than `count` have been read."""
        await self._lists.wait_read(count)

    def revisions(self, names: AbstractSet[str] | None = None) -> dict[str, str]:
        """Return the last seen revision of each cluster-wide object by its name, or of these objects."""
        return self._store.revisions() if names is None else self._store.revisions_of(names)

    def missing(self, uids: Iterable[str]) -> set[str]:
        """Return which of these uids the collection surely lacks."""
        return self._store.missing(uids)

    # ------------------------------------------------------------ reading anew

    async def refresh(self) -> None:
        """Read the collection anew by a quorum read that starts after this call, and wait for it."""
        begun = self._lists.begun
        self._list_backoff.wanted()
        if self._lists.under_way:
            self._lists.another = True
        else:
            self._interrupt()
        await self._lists.wait_later(begun)

    def relist(self) -> None:
        """Start to read the collection anew after a restore, and pass on everything in it again."""
        self._deliver_all = self._restored = True
        self._list_backoff.restored()
        self._interrupt()

    async def resync(self, *, join: bool = False) -> None:
        """Read the collection anew, pass on everything in it again, and wait for that.

        Who joins waits for a list that does so already, where one is under way, though it began before.
        """
        if join and self._deliver_all and self._lists.under_way and not self._lists.another:
            await self.wait_listed(self.lists)
        else:
            self._deliver_all = True
            await self.refresh()

    async def resync_object(self, key: store.Key) -> None:
        """Read one object anew and pass it on again, unless the watch does so first."""
        path = self._resource.path(key[1], namespace=key[0])
        thing = await watch.read_object(self._session, path, self._codec)
        self._store.resend(thing)

    def _interrupt(self) -> None:
        if self._round is not None:
            self._round.cancel()

    def expect_catch_up(self) -> None:
        """Ask for a bookmark now: it comes a second later or two, and `catch_up` may be called by then."""
        if not self._sooner_listed():
            self._bookmarks.want()

    async def catch_up(self) -> None:
        """Wait until everything that was committed before this call has been passed on."""
        if self._sooner_listed():
            await self.refresh()
            return
        try:
            async with asyncio.timeout(CATCH_UP_SECONDS):
                await self.reach(await self._latest_revision())
        except (TimeoutError, errors.ClientError) as error:
            log.info(
                "%s: listing again to be up to date: %s", self._resource, str(error) or "no bookmark came"
            )
            await self.refresh()

    def _sooner_listed(self) -> bool:
        """Whether a list takes less time than a bookmark."""
        return self._short_list and len(self._store) < PAGE_SIZE

    async def _latest_revision(self) -> str:
        """Return the collection's latest revision; report a restore where it is an older one."""
        before = self._version
        found = await watch.latest_revision(self._session, self._path)
        if history.is_earlier(found, before):
            self._session.history.restored(f"{self._resource} are at revision {found}, after {before}")
        return found

    async def reach(self, version: str) -> None:
        """Wait until everything up to a revision has been passed on; ask for a bookmark if nothing comes."""
        if (target := history.revision(version)) is None:
            await self.refresh()
        elif not self._reached(target):
            await self._reach(target)

    def _reached(self, target: int) -> bool:
        return (history.revision(self._version) or 0) >= target and self.live

    async def _reach(self, target: int) -> None:
        quiet = asyncio.get_running_loop().time() - self._last_event > FREQUENT_SECONDS
        await self._bookmarks.wait(target, patience=0 if quiet else SOON_SECONDS)

    def _set_version(self, version: str) -> None:
        """Record up to which revision everything has been passed on."""
        self._version = version or self._version
        self._bookmarks.advanced(self._reached)

    # ------------------------------------------------------------ following

    async def run(self) -> None:
        """Follow the collection for ever."""
        while True:
            self._round = asyncio.create_task(self._list_then_watch(), name=f"follow {self._resource}")
            try:
                await self._round
            except asyncio.CancelledError:
                # Either a new list is wanted, or this task ends: then it was cancelled too.
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    await tasks.end([self._round])
                    raise

    async def _list_then_watch(self) -> None:
        while True:
            try:
                await self._list()
                await self._watch()
            except errors.ClientError as error:
                self._list_backoff.failed(error)

    # ------------------------------------------------------------ list

    async def _list(self) -> None:
        """Read the collection as soon as that may be; after an outage everything is passed on again."""
        self._lists.another = True
        while self._lists.another:
            await self._list_backoff.wait()
            self._deliver_all |= self.synced and self._may_be_restored()
            await self.read()
        self._list_backoff.listed()

    def _may_be_restored(self) -> bool:
        """Whether the server was out of sight for so long that its data may have been restored."""
        return self._long_outage()

    async def read(self) -> None:
        """Read the collection once and pass it to the sink, without following it."""
        async with self._lists.reading():
            try:
                version = await self._list_all(self._page_sizes)
            except errors.Gone:
                # The continue token expired between two pages: one whole read cannot.
                version = await self._list_all(0)
            self._store.listed(version)
            self._deliver_all, self._restored = self._deliver_all and self._lists.another, False
            self._last_contact = asyncio.get_running_loop().time()
            self._set_version(version)

    async def _list_all(self, size: int | page_sizes.PageSizes) -> str:
        """Pass on to the sink what differs from what it knows; return the revision of the list."""
        while True:
            with contextlib.suppress(history.RestoreDetected):
                return await self._list_once(size)

    async def _list_once(self, size: int | page_sizes.PageSizes) -> str:
        if self._restored:
            self._store.restored()
        listing = store.Listing[B]()
        version, count = "", 0
        clock, where = self._clock, (self._session, self._path, self._codec)
        pages = watch.list_pages(*where, selectors=self._selectors, size=size, clock=clock)
        async with contextlib.aclosing(pages):
            async for page in pages:
                self._check_restore(page, first=not listing.seen)
                listing.again = self._deliver_all
                await cooperative.run(self._store.upsert_page(page.items, listing), clock)
                version, count = page.version, count + 1
        self._short_list = count == 1
        await cooperative.run(self._store.end_list(listing), clock)
        return version

    def _check_restore(self, page: watch.Collection[B], *, first: bool) -> None:
        """Report a restore that a page proves, before anything of that page is passed on."""
        if self._restored or not (evidence := self._store.restore_evidence(page, self._version)):
            return
        self._session.history.restored(evidence, by=self)
        self._deliver_all = self._restored = True
        if not first:
            raise history.RestoreDetected
        self._store.restored()

    # ------------------------------------------------------------ watch

    async def _watch(self) -> None:
        """Watch until a list is needed."""
        failures = 0
        while failures < MOST_WATCH_FAILURES:
            try:
                await self._follow()
                failures = 0
            except (errors.Gone, errors.TooLarge, history.LongOutage) as error:
                level = logging.WARNING if isinstance(error, errors.TooLarge) else logging.INFO
                log.log(level, "%s: listing again, for the watch cannot go on: %s", self._resource, error)
                return
            except errors.ClientError as error:
                failures += 1
                # A server with nothing to say is well, and a dead connection shows when it is opened anew.
                level = logging.DEBUG if isinstance(error, errors.StreamIdle) else logging.INFO
                log.log(level, "%s: the watch failed (%d): %s", self._resource, failures, error)
                self._list_backoff.refused(error)
                await self._list_backoff.wait_to_watch(failures)
                if self._long_outage() and not isinstance(error, errors.Throttled):
                    log.info("%s: the server was away, listing again", self._resource)
                    return

    async def _follow(self) -> None:
        async with self._open() as (events, listed):
            opened, version = asyncio.get_running_loop().time(), self._version
            try:
                await cooperative.for_each(events, functools.partial(self._apply, listed), self._clock)
            finally:
                long = asyncio.get_running_loop().time() - opened >= SHORTEST_WATCH_SECONDS
                if useful := long or self._version != version:
                    self._list_backoff.watched()
        if not useful and not self._bookmarks.cut:
            # A server that shuts down, or a proxy, answers at once with nothing: do not hammer it.
            raise errors.Unreachable("the server ended it at once, with nothing said", ambiguous=False)

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[tuple[AsyncIterator[watch.Event[B] | watch.Bookmark], int]]:
        """Open a watch, and yield its events and the revision of a list beside it; a cut is no failure."""
        where = self._session, self._path, self._codec
        seconds = bookmarks.SHORT_WATCH_SECONDS if self._bookmarks.wanted else random.randint(*WATCH_SECONDS)
        stream = watch.open_watch(*where, selectors=self._selectors, version=self._version, seconds=seconds)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None) as cut, stream as events:
                listed = await self._list_beside() if self._long_outage() else 0
                self._bookmarks.opened(cut, seconds=seconds)
                try:
                    yield events, listed
                finally:
                    self._bookmarks.closed()
                    self._last_contact = asyncio.get_running_loop().time()

    async def _list_beside(self) -> int:
        """Read the collection beside a watch that was opened late, and return the revision of the list.

        Of what is later the watch leaves out nothing, unless it began at a revision that has yet to come.
        """
        opened = history.revision(self._version)
        await self._list()
        listed = history.revision(self._version)
        if opened is None or listed is None or listed < opened:
            raise history.LongOutage("it was opened late")
        return listed

    def _long_outage(self) -> bool:
        """Whether the last contact was longer ago than it takes to resume a watch."""
        return asyncio.get_running_loop().time() - self._last_contact > OUTAGE_SECONDS

    def _apply(self, listed: int, event: "watch.Event[B] | watch.Bookmark") -> None:
        """Pass on an event, unless it is of a revision that was listed since the watch was opened."""
        version = (
            event.version if isinstance(event, watch.Bookmark) else event.thing.metadata.resource_version
        )
        if listed and (history.revision(version) or sys.maxsize) <= listed:
            return
        if history.is_earlier(version, self._version):
            evidence = f"a watch of {self._resource} is at revision {version}, after {self._version}"
            self._session.history.restored(evidence, by=self)
            self._deliver_all = self._restored = True
            raise history.LongOutage("the server's data were restored")
        if isinstance(event, watch.Event):
            self._last_event = asyncio.get_running_loop().time()
            if event.change == "DELETED":
                self._store.delete(store.key_of(event.thing.metadata))
            else:
                self._store.upsert(event.thing)
        self._set_version(version)
        if isinstance(event, watch.Bookmark):
            self._bookmarks.came()
