"""The wiring: every part is made and started here, readable from top to bottom.

The order: log in, watch the cluster, campaign. A new leader waits out the binds that the last one
may have under way, voids those that may arrive even later, catches up with the API, then decides.
On SIGTERM the binds under way are finished and the Lease is released. A process that loses
leadership ends at once, before it can write again.
"""

import asyncio
import contextlib
import functools
import logging
import secrets
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from berth_crds import http_server, tasks
from berth_crds.client import api, lease, lost_connections
from berth_operator.engine import (
    bind_declarer,
    bind_sender,
    decision_records,
    decision_reporter,
    device_audit,
    garbage_collection,
    inventory_metrics,
    loop,
    quiet_time,
)
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.rate_limiter import RateLimiter, lower_while_busy
from berth_operator.engine.watchdog import Watchdog
from berth_operator.http_api import auth, pages, server
from berth_operator.kube import (
    access_reviews,
    auditor,
    bind_log,
    binding_writer,
    cluster_snapshots,
    elections,
    events,
    evictor,
    feeds,
    kind_statuses,
    kopf_lag,
    leadership,
    login,
    misplaced_gpupods,
    pod_status,
    reconciler,
    summary_reporter,
    terms,
)
from berth_operator.kube.agent_taint_writer import AgentTaintWriter
from berth_operator.kube.node_capacity_writer import NodeCapacityWriter
from berth_operator.kube.pod_touches import PodTouches
from berth_operator.kube.rejected_pods import RejectionWatch
from berth_operator.metrics import Metrics, SideTask
from berth_operator.prometheus import client, poller
from berth_operator.scheduling import queued_pods
from berth_operator.settings import Settings

log = logging.getLogger(__name__)

AGENT: Final = "berth-operator"
# Events and changes of Nodes a second: few while binds are under way, more when none is.
SECONDARY_RATE: Final = {"meanwhile": 20.0, "otherwise": 200.0}
# Of Device summaries: each write of a large object costs the server as much as about eight binds.
SUMMARY_RATE: Final = {"meanwhile": 5.0, "otherwise": 200.0}
# Conditions of waiting pods a second: more important than Events, less than binds.
CONDITION_RATE: Final = {"meanwhile": 100.0, "otherwise": 400.0}
DRAIN_SECONDS: Final = 5.0


class Operator:
    """All parts of one operator, from start to end."""

    def __init__(self, session: api.Api, settings: Settings, metrics: Metrics) -> None:
        clock = time.monotonic
        identity = f"{settings.name}_{secrets.token_hex(4)}"
        self._session, self._settings, self._clock, self._metrics = session, settings, clock, metrics
        self._ledger = Ledger(clock, day=time.time)
        self._ledger.paced_calls.cpu_clock = time.thread_time
        self._watchdog = Watchdog(self._ledger, clock=clock)
        self._events = events.EventRecorder(
            session,
            self._behind_binds(SECONDARY_RATE),
            wall=lease.wall,
            instance=identity,
            on_drop=metrics.events_dropped.inc,
        )
        self._bind_log = bind_log.BindLog(clock)
        writer = self._status_writer = self._pod_status_writer(session)
        self._options = feeds.Options(schedulers=settings.scheduler_names, clock=clock)
        self._feeds = feeds.Feeds(session, self._ledger, self._watchdog, writer, self._options)
        election = self._election = elections.make(
            session, identity, settings, metrics, self._watchdog, self._feeds
        )
        self._declarer = bind_declarer.BindDeclarer(self._ledger, election.declare, writer.size, clock=clock)
        self._touches = PodTouches(
            session, self._ledger, writer.condition, writer.size, election.wait_confirmed, wall=lease.wall
        )
        self._leader = binding_writer.Leader(
            election.leads, election.doubt, self._until_leading, self._declarer.permit, self._touches.touch
        )
        self._reconciler = reconciler.Reconciler(
            session.link,
            kind_statuses.Limiters(self._behind_binds(SUMMARY_RATE), self._behind_binds(SECONDARY_RATE)),
            open_session=functools.partial(api.Api, session.link, agent=AGENT, count_request=metrics.writes),
            wall=lease.wall,
            gpupods=self._feeds.gpupods,
            kopf_metrics=metrics.kopf,
        )
        self._gpupod_cleaner = misplaced_gpupods.GpuPodCleaner(
            session,
            self._ledger,
            self._feeds.gpupods,
            self._leader,
            clock=clock,
            removed=lambda why: metrics.gpupods_removed[why].inc(),
        )
        self._prometheus = self._poller(session, metrics)
        self._records = decision_records.DecisionRecords(metrics.scheduling, wall=lease.wall)
        self._loop: loop.Loop | None = None
        metrics.registry.register(inventory_metrics.InventoryCollector(self._ledger, clock))
        self._webhook_trusted, self._leading = not settings.listen_webhook, False
        self._binds_ended = False  # Whether surely no bind of any term is under way.

    def _poller(self, session: api.Api, metrics: Metrics) -> poller.Poller:
        """Return what asks Prometheus for the loads of cards, where the policy says so."""
        files = self._settings.prometheus_token_file, self._settings.prometheus_ca_file
        credentials = client.Credentials(*files)
        around = poller.Surroundings(session, credentials, metrics.load_polls, self._clock)
        return poller.Poller(self._ledger, self._watchdog.loads, around)

    def _behind_binds(self, rate: dict[str, float]) -> RateLimiter:
        return RateLimiter(self._clock, lower_while_busy(self._binding, **rate))

    def _pod_status_writer(self, session: api.Api) -> pod_status.PodStatusWriter:
        """Return the writer of conditions, Events and log lines of pods."""
        return pod_status.PodStatusWriter(
            session,
            self._events,
            self._behind_binds(CONDITION_RATE),
            wall=lease.wall,
            revised=self._ledger.revisions.see,
            bound=self._bind_log.bound,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Run until stopped."""
        async with (
            self._served(self._settings.listen_probes, limits=http_server.PROBES),
            self._served(self._settings.listen, more=self._routes()),
            self._admitting(),
            tasks.running(
                self._feeds.run(),
                self._watchdog.run(),
                self._events.run(),
                self._status_writer.run(),
                self._election.heartbeat(),
            ) as background,
        ):
            await tasks.until(stop, self._feeds.wait_synced(), *background)
            if not stop.is_set():
                log.info("the picture is complete: %s", inventory_metrics.description(self._ledger))
                audit = auditor.Auditor(
                    self._session,
                    self._ledger,
                    self._options,
                    report=self._metrics.audited,
                    resync=self._feeds.resync,
                    revisions=self._feeds.revisions_of,
                )
                async with tasks.running(audit.run(self._settings.audit_period)) as auditing:
                    await self._lead_when_elected(stop, [*background, *auditing])

    def state(self) -> str:
        """Return the state in words."""
        role = "leading" if self._leading else "standing by"
        faults = self._reconciler.fault, self._prometheus.fault
        parts = role, inventory_metrics.description(self._ledger), *faults
        return "; ".join(filter(None, parts))

    def _served(self, address: str, **rest: Any) -> contextlib.AbstractAsyncContextManager[None]:
        """Serve the probes, and `rest`, at an address, if there is one."""
        return server.serve(address, ready=self._ready, state=self.state, **rest)

    def _ready(self) -> bool:
        """Whether it could lead, and the API server can ask it about new pods if it may."""
        return self._feeds.synced and self._webhook_trusted

    @contextlib.asynccontextmanager
    async def _admitting(self) -> AsyncIterator[None]:
        """Answer the API server about new pods, leading or not, if that is asked for."""
        if not self._settings.listen_webhook:
            yield
            return
        # It loads a library for certificates, which few operators need.
        from berth_operator.admission import serving  # noqa: PLC0415

        address, namespace = self._settings.listen_webhook, self._settings.namespace
        trusted = self._trust_webhook
        async with serving.serving(self._session, address, namespace, wall=lease.wall, trusted=trusted):
            yield

    def _trust_webhook(self) -> None:
        self._webhook_trusted = True

    def _routes(self) -> list[web.RouteDef]:
        """Return the routes beside the probes."""
        guard = auth.Guard(
            functools.partial(access_reviews.review, self._session),
            clock=self._clock,
            local=auth.is_loopback(self._settings.listen),
        )
        shown = pages.Pages(
            ledger=self._ledger,
            records=self._records,
            clock=self._clock,
            ready=lambda: self._feeds.synced,
            reason_of=self._reason_of,
            snapshot=functools.partial(cluster_snapshots.pages, self._session, self._ledger),
        )
        return [
            server.metrics_route(self._metrics, guard if self._settings.metrics_auth == "token" else None),
            *shown.routes(guard),
        ]

    def _reason_of(self, pod_info: queued_pods.PodInfo) -> str:
        """Return the reason that was written for a waiting pod; empty while we do not lead."""
        return self._loop.reporter.reasons.last_message(pod_info) if self._loop is not None else ""

    async def _lead_when_elected(self, stop: asyncio.Event, background: list[asyncio.Task[Any]]) -> None:
        await self._election.start()
        async with tasks.running(self._election.campaign()) as campaign:
            await tasks.until(stop, *campaign, *background)
            if campaign[0].done():
                await self._lead(campaign[0].result(), stop, background)
        if campaign[0].cancelled():
            await self._election.withdraw()
        await self._election.stop()

    async def _lead(self, term: terms.Term, stop: asyncio.Event, background: list[asyncio.Task[Any]]) -> None:
        log.info("leading, term %s", term.name)
        self._binds_ended = term.clean
        self._metrics.leader_transitions.set(term.number)
        await tasks.until(stop, self._take_over(term), *background)
        if not stop.is_set():
            await self._decide(term, stop, background)
        await self._step_down()

    async def _take_over(self, term: terms.Term) -> None:
        """Wait for the old leader's last binds, void later ones, and catch up with the API."""
        if term.waits_for_binds:
            await asyncio.sleep(leadership.SETTLE_SECONDS)
        await self._feeds.catch_up()
        self._watchdog.inherit(term.stale_revision)
        if not term.clean:
            await self._feeds.wait_pods(await self._touches.void(bind_declarer.decode(term.inherited)))
        self._binds_ended = True
        await self._declarer.declare()
        for finding in device_audit.audit(self._ledger.inventory):
            log.warning("audit: %s", finding)
        garbage_collection.settle()

    async def _decide(self, term: terms.Term, stop: asyncio.Event, others: list[asyncio.Task[Any]]) -> None:
        loop_ = self._loop = loop.Loop(
            self._ledger,
            binding_writer.BindingWriter(
                self._session, self._ledger, self._leader, term=term.name, clock=self._clock
            ),
            decision_reporter.DecisionReporter(
                self._ledger, self._status_writer, clock=self._clock, cpu_clock=time.thread_time
            ),
            clock=self._clock,
            bind_limits=bind_sender.Limits(
                binds_at_once=self._settings.binds_at_once,
                binds_per_second=self._settings.binds_per_second,
                bind_deadline=binding_writer.SERVER_SECONDS,
            ),
            records=self._records,
        )
        self._leading, self._binds_ended = True, False
        self._metrics.leader.set(1)
        async with tasks.running(
            loop_.run(),
            self._supervise_kopf(),
            self._declarer.run(),
            self._beside(SideTask.SUMMARIES, self._report_summaries),
            self._beside(SideTask.NODE_CAPACITY, self._list_capacities),
            self._beside(SideTask.GPUPODS, self._gpupod_cleaner.run),
            self._beside(SideTask.REJECTIONS, self._watch_rejections),
            self._beside(SideTask.TAINTS, self._taint_nodes),
            self._beside(SideTask.EVICTIONS, self._evict_pods),
            self._beside(SideTask.BIND_LOG, self._bind_log.run),
            self._beside(SideTask.LOADS, self._prometheus.run),
        ) as deciding:
            log.info("deciding: %s", inventory_metrics.description(self._ledger))
            await tasks.until(stop, *deciding, *others)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await loop_.binder.drain()
                self._binds_ended = True

    async def _until_leading(self) -> None:
        """Wait until leadership is confirmed after an outage, and the ledger after a restore."""
        await self._election.wait_confirmed()
        await self._feeds.wait_relisted()

    # ------------------------------------------------------------ beside the binds

    async def _beside(self, task: SideTask, work: Callable[[], Awaitable[None]]) -> None:
        """Keep something running whose faults must not cost the lead, for then no pod would be bound."""

        def failed(error: Exception) -> None:
            self._metrics.task_failures[task].inc()
            log.error("%s failed, and begins again", task, exc_info=error)

        await tasks.keep_running(work, failed)

    async def _report_summaries(self) -> None:
        await self._wait_for_first_binds()
        if not self._reconciler.started:
            await asyncio.to_thread(self._reconciler.start)
        await summary_reporter.report_summaries(
            self._ledger,
            self._reconciler.update,
            summary_reporter.NodeLog(self._events.record, self._feeds.uid_of_device),
            clock=self._clock,
        )

    async def _list_capacities(self) -> None:
        await self._wait_for_first_binds()
        limiter = self._behind_binds(SECONDARY_RATE)
        await NodeCapacityWriter(self._session, self._ledger, limiter, clock=self._clock).run()

    async def _taint_nodes(self) -> None:
        await self._wait_for_first_binds()
        await AgentTaintWriter(
            self._session,
            self._ledger,
            self._behind_binds(SECONDARY_RATE),
            clock=self._clock,
            state_of=self._watchdog.known_state,
            report_write=self._metrics.consequences.tainted,
        ).run()

    async def _evict_pods(self) -> None:
        await self._wait_for_first_binds()
        limiter = RateLimiter(self._clock, lambda: evictor.EVICTIONS_PER_SECOND)
        leads, is_ready = self._election.leads, self._watchdog.is_ready
        around = evictor.Surroundings(
            self._clock, self._events.record, self._metrics.consequences, leads, is_ready
        )
        await evictor.Evictor(self._session, self._ledger, limiter, around).run()

    async def _watch_rejections(self) -> None:
        await RejectionWatch(self._session, self._ledger, self._feeds.admissions, clock=self._clock).run()

    async def _supervise_kopf(self) -> None:
        while True:
            await asyncio.sleep(kopf_lag.CHECK_SECONDS)
            if self._reconciler.failed:
                raise RuntimeError("Kopf cannot be kept running any more; a new process can.")
            self._reconciler.compare(self._feeds.revisions())

    async def _wait_for_first_binds(self) -> None:
        await quiet_time.wait(self._binding, self._clock)

    def _binding(self) -> bool:
        return self._loop is not None and self._loop.binder.busy

    async def _step_down(self) -> None:
        self._leading = False
        self._metrics.leader.set(0)
        self._bind_log.sum_up()
        await self._events.drain(1.0)
        await asyncio.to_thread(self._reconciler.stop)
        await self._election.release(clean=self._binds_ended)


async def main(settings: Settings) -> None:
    """Run an operator until a signal comes."""
    stop, event_loop = asyncio.Event(), asyncio.get_running_loop()
    lost_connections.report_quietly(event_loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        event_loop.add_signal_handler(number, stop.set)
    link = await login.connect(settings.kubeconfig, context=settings.context)
    log.info("talking to %s (%s)", link.server, link.origin)
    log.info("binding pods whose schedulerName is %s", " or ".join(sorted(settings.scheduler_names)))
    metrics = Metrics()
    async with api.Api(link, agent=AGENT, count_request=metrics.writes) as session:
        await Operator(session, settings, metrics).run(stop)
    log.info("stopped")
