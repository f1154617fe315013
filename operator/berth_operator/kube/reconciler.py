"""Keeps Kopf running beside the engine.

Kopf hooks signals in the main thread, ends on several API errors, and sometimes stops silently;
none of that may affect the loop that binds pods, nor the one that writes statuses. So each run of
Kopf has a thread and a loop of its own and is supervised here: a run that ends is followed by
another after a growing pause, and a run that falls behind the informers is ended. The next run
begins with a list, which with the periodic flush makes up for missed events. This thread gets
only summaries of the ledger, which are plain values; GpuPods go on to the engine's thread.
"""

import asyncio
import contextlib
import datetime as dt
import functools
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from berth_crds import names, tasks
from berth_crds.client import api, connection
from berth_operator import metrics
from berth_operator.engine import node_summaries
from berth_operator.kube import (
    call_queue,
    gpupod_store,
    kind_statuses,
    kopf_lag,
    kopf_runs,
    summary_reporter,
)

log = logging.getLogger(__name__)

Json = dict[str, Any]

PAUSE_SECONDS: Final = (1.0, 2.0, 5.0, 15.0)
FULL_PASS_SECONDS: Final = 300.0
STEADY_CHECKS: Final = 30  # A run that has delivered everything after so many checks was healthy.
STOP_SECONDS: Final = 5.0
END_SECONDS: Final = 8.0  # The longest that a run takes to end, unless its loop hangs.


class Inbox:
    """Passes the events of one run from Kopf's thread to where they are applied; once closed it drops them.

    Devices and policies concern our thread, and GpuPods that of the engine, which compares them with pods.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        statuses: kind_statuses.KindStatuses,
        gpupods: gpupod_store.StoreInbox,
    ) -> None:
        self._queue = call_queue.CallQueue(loop)
        self._statuses = statuses
        self._gpupods = gpupods
        self.lag = kopf_lag.KopfLag()
        self.closed = False

    def device_seen(self, name: str, version: str, status: Json) -> None:
        """Record the revision of a Device, and the operator's part of its status."""
        self._seen(names.DEVICES, name, version, status)

    def device_gone(self, name: str) -> None:
        """Forget a Device that was deleted."""
        self._gone(names.DEVICES, name)

    def policy_seen(self, name: str, version: str, body: Json) -> None:
        """Record the revision of a policy, and all of it."""
        self._seen(names.POLICIES, name, version, body)

    def policy_gone(self, name: str) -> None:
        """Forget a policy that was deleted."""
        self._gone(names.POLICIES, name)

    def gpupod_seen(self, title: str, one: gpupod_store.Record) -> None:
        """Record whose a GpuPod is."""
        self._pass(
            functools.partial(self.lag.delivered, names.GPU_PODS, title, one.uid),
            functools.partial(self._gpupods.put, title, one),
        )

    def gpupod_gone(self, title: str, uid: str) -> None:
        """Forget a GpuPod that was deleted; one that was made again under its name may have come before."""
        self._pass(
            functools.partial(self.lag.gone, names.GPU_PODS, title, uid),
            functools.partial(self._gpupods.drop, title, uid),
        )

    def _seen(self, kind: str, name: str, version: str, shown: Json) -> None:
        self._pass(
            functools.partial(self.lag.delivered, kind, name, version),
            functools.partial(self._statuses.seen, kind, name, shown),
        )

    def _gone(self, kind: str, name: str) -> None:
        self._pass(
            functools.partial(self.lag.gone, kind, name), functools.partial(self._statuses.gone, kind, name)
        )

    def _pass(self, *calls: call_queue.Call) -> None:
        self._queue.send(functools.partial(self._apply, calls))

    def _apply(self, calls: tuple[call_queue.Call, ...]) -> None:
        for call in () if self.closed else calls:
            call()


class Reconciler:
    """Runs Kopf beside the engine."""

    def __init__(
        self,
        link: connection.Connection,
        limiters: kind_statuses.Limiters,
        *,
        open_session: Callable[[], api.Api],
        wall: Callable[[], dt.datetime],
        gpupods: gpupod_store.GpuPodStore,
        kopf_metrics: metrics.Kopf,
    ) -> None:
        self._link = link
        self._limiters = limiters
        self._open_session = open_session
        # It is the engine's, which makes this and reads that in its own loop.
        self._gpupods = gpupod_store.StoreInbox(gpupods, call_queue.CallQueue(asyncio.get_running_loop()))
        self._wall = wall
        self._metrics = kopf_metrics
        self._thread = threading.Thread(target=self._main, name="reconciler", daemon=True)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._statuses: kind_statuses.KindStatuses | None = None
        self._stop: asyncio.Event | None = None
        self._inbox: Inbox | None = None
        # Why the present run is to be ended.
        self._fault_found: asyncio.Future[kopf_lag.KopfFault] | None = None
        self.fault = ""  # What is wrong with Kopf, until it has delivered everything again.

    def start(self) -> None:
        """Start the thread and wait until it is ready."""
        self._thread.start()
        # A thread that cannot start must not block the engine.
        self._ready.wait(STOP_SECONDS)

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._thread.ident is not None

    @property
    def failed(self) -> bool:
        """Whether the thread has ended without `stop`: then no status is written any more."""
        stopped = self._stop is not None and self._stop.is_set()
        return self.started and not self._thread.is_alive() and not stopped

    def update(self, changed: list[node_summaries.NodeSummary]) -> None:
        """Pass on the newest summaries of the ledger, from any thread."""
        if changed and self._statuses is not None:
            self._call(self._statuses.update, changed)

    def compare(self, revisions: kopf_lag.Revisions | None) -> None:
        """Compare Kopf's progress with the informers' revisions, from any thread."""
        if revisions is not None:
            self._call(self._check, revisions)

    def stop(self) -> None:
        """End the thread, within a few seconds."""
        if self._stop is not None and self._thread.is_alive():
            self._call(self._stop.set)
            self._thread.join(STOP_SECONDS)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        if self._loop is not None:
            # The loop is closed once the thread has ended.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function, *arguments)

    # ------------------------------------------------------------ inside the thread

    def _main(self) -> None:
        try:
            asyncio.run(self._work())
        except Exception:
            log.exception("the thread that keeps Kopf running has failed")

    async def _work(self) -> None:
        async with self._open_session() as session:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            self._statuses = kind_statuses.KindStatuses(session, self._limiters, wall=self._wall)
            flushing = asyncio.create_task(self._flush(self._statuses), name="flush statuses")
            self._ready.set()
            await self._keep_running(self._statuses, self._stop)
            await tasks.end([flushing])
            await self._statuses.cancel()

    async def _flush(self, statuses: kind_statuses.KindStatuses) -> None:
        clock = asyncio.get_running_loop().time
        last_full_pass = clock()
        while True:
            await asyncio.sleep(summary_reporter.FLUSH_SECONDS)
            if clock() - last_full_pass >= FULL_PASS_SECONDS:
                last_full_pass = clock()
                statuses.compare_all()
            try:
                await statuses.flush()
            except Exception:
                log.exception("statuses were not flushed")

    async def _keep_running(self, statuses: kind_statuses.KindStatuses, stop: asyncio.Event) -> None:
        attempt = 0
        while not stop.is_set():
            self._inbox = inbox = Inbox(asyncio.get_running_loop(), statuses, self._gpupods)
            try:
                await self._run(inbox, stop)
            except Exception as error:
                inbox.closed = True
                log.exception("Kopf cannot be run")
                self._ended(metrics.KopfEnd.ENDED, f"Kopf cannot be run: {kopf_runs.end_reason(error)}")
            if not stop.is_set():
                attempt = 0 if inbox.lag.checks >= STEADY_CHECKS and not inbox.lag.behind else attempt
                pause = PAUSE_SECONDS[min(attempt, len(PAUSE_SECONDS) - 1)]
                attempt += 1
                log.info("Kopf starts again in %g s", pause)
                await _either(stop.wait(), asyncio.sleep(pause))

    async def _run(self, inbox: Inbox, stop: asyncio.Event) -> None:
        """Run Kopf once, until it ends, `stop` is set, or it turns out to be lifeless."""
        run = kopf_runs.KopfRun(self._link, inbox)
        self._fault_found = fault_found = asyncio.get_running_loop().create_future()
        run.start()
        ended = asyncio.wrap_future(run.ended)
        await _either(asyncio.wait([ended]), stop.wait(), asyncio.wait([fault_found]))
        cause = metrics.KopfEnd.ENDED if ended.done() else None
        inbox.closed = True
        run.stop()
        await asyncio.wait([ended], timeout=END_SECONDS)
        if fault_found.done():
            self._ended(fault_found.result().cause, f"Kopf is ended: {fault_found.result().text}")
        elif cause is not None:
            self._ended(cause, f"Kopf ended: {kopf_runs.end_reason(ended.exception())}")
        if not ended.done():
            log.warning("Kopf does not end; its thread is abandoned, and has no effect any more")
        ended.add_done_callback(lambda late: late.exception())  # Logged above, or of no interest any more.

    def _ended(self, why: metrics.KopfEnd, what: str) -> None:
        log.warning("%s", what)
        self.fault = f"{what}; summaries and conditions may be out of date"
        self._metrics.ends[why].inc()

    def _check(self, revisions: kopf_lag.Revisions) -> None:
        """Check whether Kopf still delivers all objects."""
        inbox, fault_found = self._inbox, self._fault_found
        if inbox is None or fault_found is None or inbox.closed or fault_found.done():
            return
        if (found := inbox.lag.check(revisions)) is not None:
            fault_found.set_result(found)
        elif not inbox.lag.behind:
            self.fault = ""
        if self._statuses is not None:
            self._statuses.keep_only(revisions.known[names.DEVICES].keys() | inbox.lag.names(names.DEVICES))
        self._metrics.behind.set(inbox.lag.behind)


async def _either(*waits: Any) -> None:
    started = [asyncio.ensure_future(one) for one in waits]
    await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
    for task in started:
        task.cancel()
