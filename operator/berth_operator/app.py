"""The wiring: every part is made and started here, readable from top to bottom.

The order of a life: log in, follow the cluster, campaign; once leading, wait out what a
predecessor may still have under way, make void what may come even later, be up to date,
then decide. On SIGTERM the binds under way are finished and the Lease is given up; on
losing the lead the process ends at once, before it can write again.
"""

import asyncio
import contextlib
import datetime as dt
import logging
import os
import secrets
import signal
import threading
import time
from collections.abc import Coroutine
from typing import Any, Final, NoReturn

from aiohttp import web

from berth_crds import http_server
from berth_crds.client import api
from berth_operator import metrics
from berth_operator import settings as settings_
from berth_operator.engine import (
    bind_declaration,
    bind_sender,
    decision_records,
    device_audit,
    garbage_collection,
    inventory_metrics,
    loop,
    rate_limiter,
)
from berth_operator.engine.bind_declarer import BindDeclarer
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.http_api import auth, pages, server
from berth_operator.kube import (
    access_reviews,
    auditor,
    bind_log,
    cluster_snapshots,
    elector,
    events,
    feeds,
    foreign_gpupods,
    kopf_lag,
    leadership,
    login,
    node_news,
    pod_status,
    pod_touches,
    reconciler,
    summary_reporter,
    writer,
)
from berth_operator.scheduling import queued_pods

log = logging.getLogger(__name__)

AGENT: Final = "berth-operator"
# What is written for people alone, a second: little while binds are under way, more when none is.
ASIDE: Final = {"meanwhile": 20.0, "otherwise": 200.0}
# Why pods wait, a second: somebody looks for it, and yet it comes after the binds.
VERDICTS: Final = {"meanwhile": 100.0, "otherwise": 400.0}
# Kopf reads all Devices when it starts; the binds that wait for a new leader come first.
KOPF_WAITS_SECONDS: Final = (0.5, 30.0)
KOPF_LOOK_SECONDS: Final = 0.05
DRAIN_SECONDS: Final = 5.0
SETTLE_SECONDS: Final = writer.SERVER_SECONDS + 1.0  # What an old leader sent last is over after this.
EXIT_LOST: Final = 3
LAST_WORD_SECONDS: Final = 1.0  # A log that nobody reads must not keep a process that lost the lead.


def wall() -> dt.datetime:
    """Return the time of day, for records that people read."""
    return dt.datetime.now(dt.UTC)


class Operator:
    """All parts of one operator, and their life."""

    def __init__(self, session: api.Api, chosen: settings_.Settings, measured: metrics.Metrics) -> None:
        clock = time.monotonic
        identity = f"{chosen.name}_{secrets.token_hex(4)}"
        self._session = session
        self._chosen = chosen
        self._clock = clock
        self._ledger = Ledger(clock, day=time.time)
        self._watchdog = Watchdog(self._ledger, clock=clock)
        aside = rate_limiter.lower_while_busy(self._binding, **ASIDE)
        limiter = rate_limiter.RateLimiter(clock, aside)
        self._events = events.Events(
            session, limiter, wall=wall, instance=identity, on_drop=measured.event_dropped
        )
        self._bind_log = bind_log.BindLog(clock)
        writer = self._status_writer = self._pod_status_writer(session)
        options = feeds.Options(schedulers=chosen.scheduler_names, clock=clock)
        self._feeds = feeds.Feeds(session, self._ledger, self._watchdog, self._status_writer, options)
        self._lead = make_lead(session, identity, chosen, measured)
        self._declarer = BindDeclarer(self._ledger, self._lead.declare, writer.size, clock=clock)
        self._touches = self._pod_touches(writer)
        self._reconciler = reconciler.Reconciler(
            session.link,
            rate_limiter.RateLimiter(clock, aside),
            agent=AGENT,
            wall=wall,
            tally=measured.writes,
            measure=measured.kopf,
        )
        self._measured = measured
        self._auditor = auditor.Auditor(
            session,
            self._ledger,
            clock=clock,
            report=measured.audited,
            mend=self._feeds.mend,
            revisions=self._feeds.revisions_of,
        )
        self._auditor.schedulers = chosen.scheduler_names
        self._cleaner = foreign_gpupods.Cleaner(
            session, self._ledger, self._feeds.gpupods, self, clock=clock, removed=measured.gpupod_removed
        )
        self._records = decision_records.DecisionRecords(measured.scheduling, wall=wall)
        self._rounds: loop.Loop | None = None
        measured.watch(lambda: inventory_metrics.count_stock(self._ledger, clock()))
        self._leading = False
        self._settled = False  # Whether surely no bind of any term is under way.

    def _pod_touches(self, writer: pod_status.PodStatusWriter) -> pod_touches.Touches:
        """Make what voids the binds that an earlier leader may have under way."""
        return pod_touches.Touches(self._session, self._ledger, writer.verdict, size=writer.size, wall=wall)

    def _pod_status_writer(self, session: api.Api) -> pod_status.PodStatusWriter:
        """Make what writes why pods wait, and where they went: as Events, and into the log."""
        return pod_status.PodStatusWriter(
            session,
            self._events,
            rate_limiter.RateLimiter(self._clock, rate_limiter.lower_while_busy(self._binding, **VERDICTS)),
            wall=wall,
            revised=self._ledger.pod_revised,
            bound=self._bind_log.bound,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Live until stopped."""
        async with (
            self._served(self._chosen.listen_probes, limits=http_server.PROBES),
            self._served(self._chosen.listen, more=self._routes()),
            tasks(
                self._feeds.run(),
                self._watchdog.run(),
                self._events.run(),
                self._status_writer.run(),
                self._lead.pulse(),
            ) as background,
        ):
            await until(stop, self._feeds.wait_synced(), *background)
            if not stop.is_set():
                log.info("the picture is complete: %s", inventory_metrics.description(self._ledger))
                async with tasks(self._auditor.run(self._chosen.audit_period)) as auditing:
                    await self._lead_when_elected(stop, [*background, *auditing])

    def state(self) -> str:
        """Return the state in words."""
        role = "leading" if self._leading else "standing by"
        return "; ".join(
            filter(None, (role, inventory_metrics.description(self._ledger), self._reconciler.trouble))
        )

    def _served(self, address: str, **rest: Any) -> contextlib.AbstractAsyncContextManager[None]:
        """Serve the probes at an address, if there is one."""
        return server.serve(address, ready=lambda: self._feeds.synced, state=self.state, **rest)

    def _routes(self) -> list[web.RouteDef]:
        """Return what is served beside the probes."""
        guard = auth.Guard(
            access_reviews.Reviews(self._session), clock=self._clock, local=auth.loopback(self._chosen.listen)
        )
        sources = pages.Sources(
            ledger=self._ledger,
            records=self._records,
            clock=self._clock,
            ready=lambda: self._feeds.synced,
            said=self._said,
            snapshot=cluster_snapshots.Snapshots(self._session, self._ledger).pages,
        )
        wary = guard if self._chosen.metrics_auth == "token" else None
        return [server.metrics_route(self._measured, wary), *pages.routes(sources, guard)]

    def _said(self, candidate: queued_pods.Candidate) -> str:
        """Repeat why a pod waits; who does not lead has told nobody anything."""
        return self._rounds.reporter.reasons.last_message(candidate) if self._rounds is not None else ""

    async def _lead_when_elected(self, stop: asyncio.Event, background: list[asyncio.Task[Any]]) -> None:
        await self._lead.start()
        async with tasks(self._lead.campaign()) as campaign:
            await until(stop, *campaign, *background)
            if campaign[0].done():
                await self._reign(campaign[0].result(), stop, background)
        await self._lead.stop()

    async def _reign(
        self, term: elector.Term, stop: asyncio.Event, background: list[asyncio.Task[Any]]
    ) -> None:
        log.info("leading, term %s", term.name)
        self._settled = term.clean
        self._measured.leadership.won(term.transitions)
        await until(stop, self._take_over(term), *background)
        if not stop.is_set():
            await self._decide(term, stop, background)
        await self._step_down()

    async def _take_over(self, term: elector.Term) -> None:
        """Let the old leader's last binds land, void those that may come later, and be up to date."""
        if not term.clean:
            await asyncio.sleep(SETTLE_SECONDS)
        await self._feeds.catch_up()
        if not term.clean:
            await self._feeds.reach_pods(await self._touches.void(bind_declaration.decode(term.inherited)))
        self._settled = True
        await self._declarer.declare()
        for finding in device_audit.audit(self._ledger.inventory):
            log.warning("audit: %s", finding)
        garbage_collection.settle()

    async def _decide(self, term: elector.Term, stop: asyncio.Event, others: list[asyncio.Task[Any]]) -> None:
        limits = bind_sender.Limits(
            binds_at_once=self._chosen.binds_at_once,
            binds_per_second=self._chosen.binds_per_second,
            bind_deadline=writer.SERVER_SECONDS,
        )
        hand = writer.Writer(self._session, self._ledger, self, term=term.name, clock=self._clock)
        rounds = self._rounds = loop.Loop(
            self._ledger, hand, self._status_writer, clock=self._clock, limits=limits, records=self._records
        )
        self._leading, self._settled = True, False
        self._measured.leadership.leads(now=True)
        async with tasks(
            rounds.run(),
            self._summarise(),
            self._attend_kopf(),
            self._declarer.run(),
            self._cleaner.run(),
            self._bind_log.run(),
        ) as deciding:
            log.info("deciding: %s", inventory_metrics.description(self._ledger))
            await until(stop, *deciding, *others)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await rounds.binder.drain()
                self._settled = True

    # ------------------------------------------------------------ what the writer asks

    def leads(self) -> bool:
        """Whether the lead is surely still ours."""
        return self._lead.leads()

    def doubt(self) -> None:
        """Have the lead confirmed before anything else is sent."""
        self._lead.doubt()

    async def sure(self) -> None:
        """Wait until the lead and the picture are sure, which an outage and a restore put in question."""
        await self._lead.wait_steady()
        await self._feeds.wait_sure()

    async def permit(self, uid: str) -> None:
        """Wait until the Lease declares that a bind of this pod may be under way."""
        await self._declarer.permit(uid)

    async def touch(self, candidate: queued_pods.Candidate, version: str) -> None:
        """Change a pod, so that no bind arrives which names this revision or an earlier one."""
        await self._touches.touch(candidate, version)

    # ------------------------------------------------------------ beside the binds

    async def _summarise(self) -> None:
        await self._first_binds()
        await asyncio.to_thread(self._reconciler.start)
        news = node_news.NodeNews(self._events.tell, self._feeds.uid_of_device)
        await summary_reporter.SummaryReporter(
            self._ledger, self._reconciler.want, news, clock=self._clock
        ).run()

    async def _attend_kopf(self) -> None:
        while True:
            await asyncio.sleep(kopf_lag.LOOK_SECONDS)
            if self._reconciler.failed:
                raise RuntimeError("Kopf cannot be kept running any more; a new process can.")
            self._reconciler.compare(self._feeds.revisions())

    async def _first_binds(self) -> None:
        """Let the pods that waited for a leader go first, within reason: until none is bound for a moment."""
        quiet, patience = KOPF_WAITS_SECONDS
        started = last = self._clock()
        while (now := self._clock()) < min(last + quiet, started + patience):
            if self._binding():
                last = now
            await asyncio.sleep(KOPF_LOOK_SECONDS)

    def _binding(self) -> bool:
        return self._rounds is not None and self._rounds.binder.busy

    async def _step_down(self) -> None:
        self._leading = False
        self._measured.leadership.leads(now=False)
        self._bind_log.sum_up()
        await self._events.drain(1.0)
        await asyncio.to_thread(self._reconciler.stop)
        if self._settled:
            await self._lead.release()
        else:
            log.info("binds may still be under way: the Lease is left to lapse, so that the next one waits")


def make_lead(
    session: api.Api, identity: str, chosen: settings_.Settings, measured: metrics.Metrics
) -> leadership.Lead:
    """Make what campaigns for the lead and keeps it, in a thread and with a session of its own."""
    timing = elector.Timing(chosen.lease_duration, chosen.renew_deadline, chosen.retry_period)
    main = asyncio.get_running_loop()

    def restored(evidence: str) -> None:
        main.call_soon_threadsafe(session.history.restored, evidence)

    def make(own: api.Api, idle: leadership.Idle) -> elector.Elector:
        means = elector.Means(time.monotonic, wall, idle, restored)
        return elector.Elector(own, identity, timing, means)

    return leadership.Lead(
        lambda: api.Api(session.link, agent=AGENT, tally=measured.writes),
        make,
        clock=time.monotonic,
        lost=exit_lost,
    )


def exit_lost(why: str) -> NoReturn:
    """End the process the moment the lead is lost, from whatever thread, so that no write can follow."""
    last = threading.Timer(LAST_WORD_SECONDS, os._exit, [EXIT_LOST])
    last.daemon = True
    last.start()
    log.error("leadership lost: %s", why)
    logging.shutdown()
    os._exit(EXIT_LOST)


@contextlib.asynccontextmanager
async def tasks(*work: Coroutine[Any, Any, Any]) -> Any:
    """Run coroutines beside the block, and end them with it."""
    started = [asyncio.ensure_future(one) for one in work]
    try:
        yield started
    finally:
        for task in started:
            task.cancel()
        await asyncio.gather(*started, return_exceptions=True)


async def until(stop: asyncio.Event, *work: Any) -> None:
    """Wait until we are asked to stop or one of these ends; if it ended badly, so do we."""
    stopping = asyncio.ensure_future(stop.wait())
    mine = [asyncio.ensure_future(one) for one in work]
    given = {one for one in work if isinstance(one, asyncio.Task)}
    try:
        done, _ = await asyncio.wait([stopping, *mine], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stopping.cancel()
        for task in mine:
            if task not in given:
                task.cancel()


async def main(chosen: settings_.Settings) -> None:
    """Run an operator until a signal comes."""
    stop = asyncio.Event()
    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, stop.set)
    link = await login.connect(chosen.kubeconfig, context=chosen.context)
    log.info("talking to %s (%s)", link.server, link.origin)
    log.info("binding pods whose schedulerName is %s", " or ".join(sorted(chosen.scheduler_names)))
    measured = metrics.Metrics()
    async with api.Api(link, agent=AGENT, tally=measured.writes) as session:
        await Operator(session, chosen, measured).run(stop)
    log.info("stopped")
