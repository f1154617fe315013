"""Kopf, in a thread and loop of its own.

Kopf hooks signals in the main thread, cancels tasks that it did not start, and ends on
several API errors; none of that may touch the loop that binds pods. So it gets its own
thread, is started again with a growing pause whenever it ends, and what it missed
meanwhile is made good by the next re-list and by the periodic flush. The ledger reaches
this thread only as summaries, which are plain values.

Kopf asks the server once, at its start, which kinds there are, and never watches what was
not among them. An API server that has just come up serves our kinds a moment before it
names them, so a Kopf that did not find them is blind for good: it is ended, too.
"""

import asyncio
import contextlib
import datetime as dt
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

import kopf

# Kopf takes what it finds as an argument, and shows it there, but gives its type no public name.
from kopf._cogs.structs import references

from berth_crds import names
from berth_crds.client import api, connection
from berth_operator.engine import pace, summaries
from berth_operator.kube import handlers, sessions, statuses

log = logging.getLogger(__name__)

FLUSH_SECONDS: Final = 0.5
PAUSE_SECONDS: Final = (1.0, 2.0, 5.0, 15.0)
STOP_SECONDS: Final = 5.0
GRACE_SECONDS: Final = 1.0  # Kopf ends by itself within this when it was well, and is cancelled when not.
GOODBYE_SECONDS: Final = 0.1


class Reconciler:
    """Runs Kopf beside the engine."""

    def __init__(
        self,
        link: connection.Connection,
        rhythm: pace.Pace,
        *,
        agent: str,
        wall: Callable[[], dt.datetime],
        tally: api.Tally = api.uncounted,
    ) -> None:
        self._link = link
        self._rhythm = rhythm
        self._agent = agent
        self._tally = tally
        self._wall = wall
        self._thread = threading.Thread(target=self._main, name="reconciler", daemon=True)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._desk: statuses.Statuses | None = None
        self._stop: asyncio.Event | None = None

    def start(self) -> None:
        """Start the thread and wait until it takes news."""
        self._thread.start()
        # A thread that cannot even begin must not keep the engine from working.
        self._ready.wait(STOP_SECONDS)

    def want(self, news: list[summaries.Summary]) -> None:
        """Hand over the ledger's newest summaries, from any thread."""
        if news and self._loop is not None and self._desk is not None:
            # The loop is closed once the thread has ended.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._desk.want, news)

    def stop(self) -> None:
        """End the thread, within a few seconds."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(STOP_SECONDS)

    # ------------------------------------------------------------ inside the thread

    def _main(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        async with api.Api(self._link, agent=self._agent, tally=self._tally) as session:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            self._desk = statuses.Statuses(session, self._rhythm, wall=self._wall)
            # Before Kopf starts: it cancels every task of its loop that is younger than itself.
            flushing = asyncio.create_task(self._flush(self._desk), name="flush statuses")
            self._ready.set()
            await self._keep_kopf(self._desk, self._stop)
            flushing.cancel()
            await asyncio.wait([flushing])
        # Kopf closes its connections with its last breath, and TLS needs some turns of the loop for it.
        await asyncio.sleep(GOODBYE_SECONDS)

    async def _flush(self, desk: statuses.Statuses) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            try:
                await desk.flush()
            except Exception:
                log.exception("statuses were not flushed")

    async def _keep_kopf(self, desk: statuses.Statuses, stop: asyncio.Event) -> None:
        attempt = 0
        while not stop.is_set():
            try:
                await run_kopf(desk, self._link, stop)
            except asyncio.CancelledError:
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    raise
                log.warning("Kopf ended: it was cancelled from within")
            except Exception as error:  # noqa: BLE001  Kopf ends with whatever the API gave it
                log.warning("Kopf ended: %s", str(error) or type(error).__name__)
            if not stop.is_set():
                pause = PAUSE_SECONDS[min(attempt, len(PAUSE_SECONDS) - 1)]
                attempt += 1
                log.info("Kopf starts again in %g s", pause)
                await _either(stop.wait(), asyncio.sleep(pause))


async def _either(*waits: Any) -> None:
    tasks = [asyncio.ensure_future(one) for one in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


class Blind(Exception):
    """Kopf did not find the kinds that it is to watch."""


async def _blindness(found: references.Insights) -> Blind:
    """Wait until Kopf has found out what there is; return only if our kinds are not all among it."""
    await found.ready_resources.wait()
    named = {one.plural for one in found.watched_resources}
    missing = [one for one in handlers.WATCHED if one not in named]
    if not missing:
        await asyncio.Event().wait()
    return Blind(f"the API server did not name {' and '.join(missing)} of {names.GROUP} yet")


async def _until_ended(
    work: Coroutine[Any, Any, None], blindness: Coroutine[Any, Any, Blind], stop: asyncio.Event
) -> None:
    """Await Kopf's work; once told to stop it has a moment to end by itself, and blind it has none."""
    # The work comes last: Kopf cancels every task that is younger than itself.
    stopping, blind, running = (
        asyncio.ensure_future(stop.wait()),
        asyncio.ensure_future(blindness),
        asyncio.ensure_future(work),
    )
    await asyncio.wait([stopping, blind, running], return_when=asyncio.FIRST_COMPLETED)
    await asyncio.wait([running], timeout=0 if blind.done() else GRACE_SECONDS)
    for one in (stopping, blind, running):
        one.cancel()
    await asyncio.wait([running])
    if blind.done() and not blind.cancelled():
        raise blind.result()
    await running


async def run_kopf(desk: statuses.Statuses, link: connection.Connection, stop: asyncio.Event) -> None:
    """Run Kopf once, until it is stopped or gives up."""
    registry = kopf.OperatorRegistry()
    handlers.register(registry, desk)

    @kopf.on.login(id="berth", registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(
            server=link.server, default_namespace=link.namespace, aiohttp_session=sessions.session(link)
        )

    found = references.Insights()
    work = kopf.operator(
        registry=registry,
        settings=settings(),
        insights=found,
        standalone=True,
        clusterwide=True,
        stop_flag=stop,
    )
    await _until_ended(work, _blindness(found), stop)


def settings() -> kopf.OperatorSettings:
    """Configure Kopf for a quiet reader: no scanning, no posting, no annotations, no finalizers."""
    chosen = kopf.OperatorSettings()
    chosen.scanning.disabled = True  # The CRDs exist before the operator starts; less RBAC, fewer watches.
    chosen.posting.enabled = False  # Events go through our own aggregator.
    chosen.peering.standalone = True  # Leadership is ours: Kopf's peering is no election.
    chosen.networking.request_timeout = 30
    chosen.networking.connect_timeout = 5
    chosen.watching.server_timeout = 600
    chosen.watching.client_timeout = 660  # For a server that does not end a watch as it was asked to.
    chosen.watching.chunk_size = 100  # A page of Devices as dicts is ten times as large as its bytes.
    chosen.queueing.exit_timeout = 2
    chosen.execution.max_workers = 2  # All handlers are asynchronous.
    chosen.persistence.progress_storage = NoProgress()
    chosen.persistence.diffbase_storage = NoDiffBase()
    return chosen


class NoProgress(kopf.ProgressStorage):
    """Progress is never stored: event handlers have none."""

    def fetch(self, **_: Any) -> None:
        """Find nothing."""

    def store(self, **_: Any) -> None:
        """Keep nothing."""

    def purge(self, **_: Any) -> None:
        """Remove nothing."""

    def touch(self, **_: Any) -> None:
        """Write nothing."""

    def clear(self, *, essence: Any) -> Any:
        """Give the object back as it is, without the deep copy that would cost most of an event's time."""
        return essence


class NoDiffBase(kopf.DiffBaseStorage):
    """The last handled state is never stored: our handlers are level-based."""

    def build(self, **_: Any) -> Any:
        """Remember nothing of an object."""
        return {}

    def fetch(self, **_: Any) -> None:
        """Find nothing."""

    def store(self, **_: Any) -> None:
        """Keep nothing."""
