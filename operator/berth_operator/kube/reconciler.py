"""Keeps Kopf running beside the engine.

Kopf hooks signals in the main thread, ends on several API errors, and sometimes stops
without a word; none of that may touch the loop that binds pods, nor the one that writes
statuses. So each run of it has a thread and a loop of its own, and is watched from here: one
that ends is followed by another after a growing pause, and one that falls behind what the
informers know is ended. What was missed meanwhile is made good by the list that the next one
begins with, and by the periodic flush. The ledger reaches this thread only as summaries,
which are plain values.
"""

import asyncio
import collections
import contextlib
import datetime as dt
import logging
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from berth_crds import names
from berth_crds.client import api, connection
from berth_operator import metrics
from berth_operator.engine import node_summaries, rate_limiter
from berth_operator.kube import kind_statuses, kopf_lag, kopf_runs

log = logging.getLogger(__name__)

FLUSH_SECONDS: Final = 0.5
PAUSE_SECONDS: Final = (1.0, 2.0, 5.0, 15.0)
STEADY_LOOKS: Final = 30  # A run that had all there is after so many looks was well.
STOP_SECONDS: Final = 5.0
END_SECONDS: Final = 8.0  # All that a run can take to end, unless its loop does not turn.


class Measure(Protocol):
    """What is measured of Kopf; from any thread."""

    def ended(self, why: metrics.KopfEnd) -> None:
        """Count a run that ended, or that was ended."""

    def behind(self, objects: int) -> None:
        """Note how many objects it has not delivered as they are."""


class Inbox:
    """What one run delivers, on its way from Kopf's thread to ours; once closed it takes nothing more."""

    def __init__(self, loop: asyncio.AbstractEventLoop, desk: kind_statuses.Statuses) -> None:
        self._loop = loop
        self._desk = desk
        self._passed: collections.deque[Callable[[], None]] = collections.deque()
        self._called = False
        self.lag = kopf_lag.Lag()
        self.closed = False

    def saw_device(self, name: str, status: dict[str, Any], version: str) -> None:
        """Record the status of a Device."""

        def take() -> None:
            self.lag.delivered(names.DEVICES, name, version)
            self._desk.saw_device(name, status)

        self._pass(take)

    def lost_device(self, name: str) -> None:
        """Forget a Device that was deleted."""

        def take() -> None:
            self.lag.gone(names.DEVICES, name)
            self._desk.lost_device(name)

        self._pass(take)

    def saw_policy(self, body: dict[str, Any]) -> None:
        """Record a policy."""

        def take() -> None:
            meta = body["metadata"]
            self.lag.delivered(names.POLICIES, meta["name"], meta.get("resourceVersion", ""))
            self._desk.saw_policy(body)

        self._pass(take)

    def lost_policy(self, name: str) -> None:
        """Forget a policy that was deleted."""
        self._pass(lambda: self.lag.gone(names.POLICIES, name))

    def _pass(self, take: Callable[[], None]) -> None:
        """Have something taken in our thread, which is called once for all that comes until it does."""
        self._passed.append(take)
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):  # The loop is closed once our thread has ended.
                self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._called = False  # First, so that whatever comes from now on calls again.
        while self._passed:
            take = self._passed.popleft()
            if self.closed:
                continue
            try:
                take()
            except Exception:
                log.exception("what Kopf delivered cannot be taken")


class Reconciler:
    """Runs Kopf beside the engine."""

    def __init__(
        self,
        link: connection.Connection,
        rhythm: rate_limiter.RateLimiter,
        *,
        agent: str,
        wall: Callable[[], dt.datetime],
        tally: api.Tally = api.uncounted,
        measure: Measure | None = None,
    ) -> None:
        self._link = link
        self._rhythm = rhythm
        self._agent = agent
        self._tally = tally
        self._wall = wall
        self._measure = measure
        self._thread = threading.Thread(target=self._main, name="reconciler", daemon=True)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._desk: kind_statuses.Statuses | None = None
        self._stop: asyncio.Event | None = None
        self._inbox: Inbox | None = None
        self._verdict: asyncio.Future[kopf_lag.Finding] | None = None  # Why the present run is to be ended.
        self.trouble = ""  # What is wrong with Kopf, in a few words, until it has delivered everything again.

    def start(self) -> None:
        """Start the thread and wait until it takes news."""
        self._thread.start()
        # A thread that cannot even begin must not keep the engine from working.
        self._ready.wait(STOP_SECONDS)

    @property
    def failed(self) -> bool:
        """Whether the thread has ended though nobody told it to: nothing is shown any more then."""
        told = self._stop is not None and self._stop.is_set()
        return self._thread.ident is not None and not self._thread.is_alive() and not told

    def want(self, news: list[node_summaries.NodeSummary]) -> None:
        """Hand over the ledger's newest summaries, from any thread."""
        if news and self._desk is not None:
            self._call(self._desk.want, news)

    def compare(self, revisions: kopf_lag.Revisions | None) -> None:
        """Compare Kopf with what the informers surely know now, from any thread."""
        if revisions is not None:
            self._call(self._look, revisions)

    def stop(self) -> None:
        """End the thread, within a few seconds."""
        if self._stop is not None and self._thread.is_alive():
            self._call(self._stop.set)
            self._thread.join(STOP_SECONDS)

    def _call(self, what: Callable[..., object], *words: object) -> None:
        if self._loop is not None:
            # The loop is closed once the thread has ended.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(what, *words)

    # ------------------------------------------------------------ inside the thread

    def _main(self) -> None:
        try:
            asyncio.run(self._work())
        except Exception:
            log.exception("the thread that keeps Kopf has failed")

    async def _work(self) -> None:
        async with api.Api(self._link, agent=self._agent, tally=self._tally) as session:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            self._desk = kind_statuses.Statuses(session, self._rhythm, wall=self._wall)
            flushing = asyncio.create_task(self._flush(self._desk), name="flush statuses")
            self._ready.set()
            await self._keep_kopf(self._desk, self._stop)
            flushing.cancel()
            await asyncio.wait([flushing])
            await self._desk.end()

    async def _flush(self, desk: kind_statuses.Statuses) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            try:
                await desk.flush()
            except Exception:
                log.exception("statuses were not flushed")

    async def _keep_kopf(self, desk: kind_statuses.Statuses, stop: asyncio.Event) -> None:
        attempt = 0
        while not stop.is_set():
            self._inbox = inbox = Inbox(asyncio.get_running_loop(), desk)
            try:
                await self._run(inbox, stop)
            except Exception as error:
                inbox.closed = True
                log.exception("Kopf cannot be run")
                self._ended(metrics.KopfEnd.ENDED, f"Kopf cannot be run: {kopf_runs.reason(error)}")
            if not stop.is_set():
                attempt = 0 if inbox.lag.looks >= STEADY_LOOKS and not inbox.lag.behind else attempt
                pause = PAUSE_SECONDS[min(attempt, len(PAUSE_SECONDS) - 1)]
                attempt += 1
                log.info("Kopf starts again in %g s", pause)
                await _either(stop.wait(), asyncio.sleep(pause))

    async def _run(self, inbox: Inbox, stop: asyncio.Event) -> None:
        """Run Kopf once, until it ends, is stopped, or has stopped by itself."""
        run = kopf_runs.Run(self._link, inbox)
        self._verdict = verdict = asyncio.get_running_loop().create_future()
        run.start()
        over = asyncio.wrap_future(run.over)
        await _either(asyncio.wait([over]), stop.wait(), asyncio.wait([verdict]))
        fault = metrics.KopfEnd.ENDED if over.done() else None
        inbox.closed = True
        run.end()
        await asyncio.wait([over], timeout=END_SECONDS)
        if verdict.done():
            self._ended(verdict.result().cause, f"Kopf is ended: {verdict.result().text}")
        elif fault is not None:
            self._ended(fault, f"Kopf ended: {kopf_runs.reason(over.exception())}")
        if not over.done():
            log.warning("Kopf does not end; its thread is left alone, and can do nothing more")
        over.add_done_callback(lambda late: late.exception())  # Known, or of no interest any more.

    def _ended(self, why: metrics.KopfEnd, what: str) -> None:
        log.warning("%s", what)
        self.trouble = f"{what}; summaries and conditions may be out of date"
        if self._measure is not None:
            self._measure.ended(why)

    def _look(self, revisions: kopf_lag.Revisions) -> None:
        """Find out whether Kopf still delivers what there is."""
        inbox, verdict = self._inbox, self._verdict
        if inbox is None or verdict is None or inbox.closed or verdict.done():
            return
        found = inbox.lag.look(revisions)
        if found is not None:
            verdict.set_result(found)
        elif not inbox.lag.behind:
            self.trouble = ""
        if self._desk is not None:
            self._desk.keep_only(revisions.known[names.DEVICES].keys() | inbox.lag.names(names.DEVICES))
        if self._measure is not None:
            self._measure.behind(inbox.lag.behind)


async def _either(*waits: Any) -> None:
    tasks = [asyncio.ensure_future(one) for one in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
