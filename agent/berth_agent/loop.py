"""The agent of one node: each tick samples the cards, publishes the Device and renews the Lease.

The Lease is renewed last, because it says "what you read in this Device is true now". That
holds for a source that failed or hangs too, because then the Device says so. When the API
refuses or is away, the last good state is kept, the Lease expires, and the tick is repeated
after a pause that grows.

The time of day and the identity are parameters (`ProcessContext`); nothing here reads them by itself.
"""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import logging
import random
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from berth_agent import (
    backoff,
    card_loads,
    card_modes,
    device_spec,
    device_status,
    flag_table,
    health_monitor,
    node_labels,
    other_holders,
    probe,
    sampler,
)
from berth_agent.gpupods import desired, evidence, process_owners, reconciler
from berth_agent.gpupods.watched_pod import keys_by_uid
from berth_agent.health import health_rules
from berth_agent.kubelet import podresources, poller
from berth_agent.kubelet.checkpoint import CompletedLister
from berth_agent.kubelet.poller import KubeletPoller, condition
from berth_agent.node_view import NodeView
from berth_agent.publish import device_publisher, heartbeat
from berth_agent.publish.label_writer import LabelWriter
from berth_agent.way import MakeWay, NodeAccess
from berth_crds import named_cards, names, vocabulary, wire
from berth_crds.client import api, errors, informer, resources

log = logging.getLogger(__name__)

# Between two ticks at least, even when somebody keeps changing our Device.
SHORTEST_REST_SECONDS: Final = 0.5
# Agents that were started at the same time must not renew their Leases at the same time for ever.
SPREAD: Final = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class NodeConfig:
    """A node, its probe, and the sources that say which pod holds which cards.

    `boot_id` is that of the boot that goes on, empty where it is unknown.
    `grants` is the source named in GpuPods of simulated cards, where no other source is asked.
    `kubelet` is asked about `resources` and claims. A probe that lists processes is asked as well, and their
    cgroups are read in `procfs`. `rules` are the node's own rules of health; a policy adds to them.
    `modes` says how cards are given out. With `labels` the Node gets labels
    with what its cards have in common. `ways` make what brings cards to
    containers, or checks whether something else does.
    """

    node: str
    probe: probe.Probe
    grants: vocabulary.GrantSource | None = None
    boot_id: str = ""
    kubelet: podresources.PodResourcesLister | None = None
    checkpoint: Path | None = None
    resources: tuple[str, ...] = flag_table.GPU_RESOURCES
    others: other_holders.OtherHolders = other_holders.USUAL
    procfs: Path = flag_table.PROCFS
    rules: health_rules.HealthRules = health_rules.DEFAULT
    labels: bool = False
    modes: card_modes.CardModes = card_modes.USUAL
    ways: tuple[MakeWay, ...] = ()
    # Held while a sampler runs: after a restart, an earlier sample may still hang in the driver.
    probe_lock: contextlib.AbstractContextManager[object] = dataclasses.field(
        default_factory=threading.Lock, compare=False
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """Seconds between two samples, for one sample at most, and until the Lease expires."""

    interval: float
    deadline: float
    lease_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class ProcessContext:
    """The time of day and the name of this process, and what signals say.

    `hangup` is set for a moment at each SIGHUP, `ending` once the process shall end, and `ended` once the
    ways have come to their end.
    """

    clock: Callable[[], dt.datetime]
    identity: str
    hangup: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    ending: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    ended: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)


class NodeAgent:
    """Samples, publishes and renews the Lease of one node, again and again; its parts run beside that."""

    def __init__(
        self,
        session: api.Api,
        config: NodeConfig,
        timing: Timing,
        process: ProcessContext,
        node_view: NodeView,
    ) -> None:
        self._config = config
        self.node = config.node
        self._timing = timing
        self._process = process
        self._node_view = node_view
        self._wake = asyncio.Event()
        self._failure_log = backoff.FailureLog(log, f"node {config.node} is not published")
        self._sampler = sampler.Sampler(
            config.probe,
            deadline=timing.deadline,
            procfs=config.procfs,
            on_change=self._wake.set,
            probe_lock=config.probe_lock,
        )
        self._last: tuple[wire.DeviceSpec, wire.DeviceStatus] | None = None
        self._has_sampled_cards = False
        self._health_monitor = health_monitor.HealthMonitor(config.rules)
        self._policy_informer = informer.Informer(
            session,
            resources.POLICIES,
            wire.PlacementPolicy,
            self._health_monitor,
            scope=resources.Scope(fields=f"metadata.name={names.DEFAULT_POLICY}"),
        )
        self._repaired = health_monitor.RepairedAnnotation()
        self._publisher = device_publisher.DevicePublisher(session, config.node, on_change=self._wake.set)
        self._heartbeat = heartbeat.Heartbeat(
            session, config.node, identity=process.identity, seconds=timing.lease_seconds, clock=process.clock
        )
        self._label_writer = LabelWriter(session, config.node, ours=node_labels.ours)
        self._wake_poller = asyncio.Event()
        self._gpupods = _reconciler(session, config, process, on_pod_change=self._pod_changed)
        node_view.gpupods = self._gpupods.gpupods.objects
        self._poller = _poller(config, timing, self._wake_poller, self._gpupods, self._kubelet_reported)
        access = self._access()
        self._ways = [make(access) for make in config.ways]

    def _access(self) -> NodeAccess:
        """Return what the ways can learn of the node."""
        return NodeAccess(
            self.node,
            self._deliverable_cards,
            self._gpupods,
            self._gpupods.requested,
            self._process.hangup,
            on_change=self._wake.set,
        )

    async def run(self) -> None:
        """Run until cancelled, and record what is seen in the node view."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick_forever(), name=f"tick {self.node}")
            group.create_task(self._gpupods.run(), name=f"gpupods of {self.node}")
            group.create_task(self._policy_informer.run(), name=f"policy for {self.node}")
            if self._config.labels:
                group.create_task(self._label_writer.run(), name=f"labels of {self.node}")
            if self._poller:
                group.create_task(self._poller.run(), name=f"kubelet of {self.node}")
            for way in self._ways:
                group.create_task(way.run(), name=f"{type(way).__name__} of {self.node}")
            group.create_task(self._end_ways(), name=f"the end of the ways of {self.node}")

    async def _end_ways(self) -> None:
        await self._process.ending.wait()
        await asyncio.gather(*(way.end(lambda: self._published()[1]) for way in self._ways))
        self._process.ended.set()

    def _pod_changed(self) -> None:
        """Have the kubelet asked, which may know more about the pod now."""
        self._wake_poller.set()
        for way in self._ways:
            way.pods_changed()

    def _kubelet_reported(self, report: poller.KubeletReport) -> None:
        self._gpupods.evidence.kubelet_reported(report)
        if report.pods is not None:
            for way in self._ways:
                way.set_listed(report.pods)

    async def _tick_forever(self) -> None:
        with contextlib.closing(self._sampler):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._publisher.informer.run())
                await self._sample_first()
                # The published Device is the memory of the agent that ran before this one.
                await self._publisher.informer.wait_synced()
                while True:
                    await self._rest(await self._tick_or_back_off())

    async def _sample_first(self) -> None:
        """Sample before the API is known: from now on the driver reports the errors of its cards."""
        observation = await self._sampler.sample()
        self._sampler.carry_over_xids(observation)
        self._record(observation)

    async def _tick_or_back_off(self) -> float:
        """Tick once, and return how long to rest."""
        try:
            await self._tick()
        except errors.ClientError as error:
            # Never slower than the usual rhythm: it is one request, as a renewal would be, and
            # the Lease is fresh again one interval after the API is back.
            return self._failure_log.failed(error, most=self._timing.interval)
        self._failure_log.succeeded()
        return self._timing.interval * random.uniform(1 - SPREAD, 1)

    async def _tick(self) -> None:
        time = asyncio.get_running_loop().time
        started = time()
        observation = await self._sampler.sample()
        self._record(observation)
        spec, status = self._describe(observation)
        owner = await self._publisher.publish(spec, status)
        await self._clear_repaired_annotation()
        await self._heartbeat.renew(owner, card_loads.annotation(observation.outcome))
        self._node_view.record_tick(seconds=time() - started, now=time())

    def _record(self, observation: sampler.Observation) -> None:
        """Record in the node view what was seen, and when."""
        self._node_view.record_sample(observation.outcome, asyncio.get_running_loop().time())
        if self._poller and self._poller.answered_at is not None:
            self._node_view.answered_at["podresources"] = self._poller.answered_at

    async def _clear_repaired_annotation(self) -> None:
        """Remove from the annotation the names of cards: the verdicts have heeded them."""
        annotation = self._repaired
        if not annotation.cards:
            return
        try:
            await self._publisher.replace_annotation(names.REPAIRED, annotation.text, annotation.unknown)
        except errors.ClientError as error:
            # The next tick reads it once more, which does no harm, and the Lease matters more.
            log.warning("node %s: the annotation %s stays: %s", self.node, names.REPAIRED, error)

    def _describe(self, observation: sampler.Observation) -> tuple[wire.DeviceSpec, wire.DeviceStatus]:
        """Return the desired Device: (1) its spec, (2) the verdicts on its cards, (3) its status."""
        outcome = observation.outcome
        known, before = self._last or self._published()
        spec = device_spec.spec(self.node, outcome, known, self._config.modes)
        self._set_cards(observation, spec)
        found = self._gpupods.processes_seen(
            observation.processes, process_owners.published_occupants(before.devices)
        )
        now = self._process.clock()
        # Cards that people call repaired wait for a sample that shows cards.
        is_sample = isinstance(outcome, probe.Sample)
        self._has_sampled_cards |= is_sample
        repaired = self._publisher.annotation(names.REPAIRED) if is_sample else ""
        self._repaired = health_monitor.read_annotation(repaired, spec)
        verdicts = self._health_monitor.judge(
            outcome,
            spec,
            known,
            before,
            repaired=self._repaired.cards,
            now=asyncio.get_running_loop().time(),
        )
        standing = device_status.of_kind(vocabulary.DeviceCondition.POD_RESOURCES_READY, before.conditions)
        kubelet = (condition(self._poller.report) or standing) if self._poller else None
        status = device_status.status(
            outcome,
            verdicts,
            before,
            occupants=device_status.listed_occupants(spec, found),
            others=(
                kubelet,
                *(way.condition() for way in self._ways),
                device_status.mig_ready(spec.devices, self._config.modes),
            ),
            now=now,
        )
        device_status.log_changes(
            self.node, before, status, listed=spec.devices, repaired=self._repaired.cards
        )
        self._notify_ways(spec, status)
        self._node_view.status = status
        self._last = spec, status
        return spec, status

    def _notify_ways(self, spec: wire.DeviceSpec, status: wire.DeviceStatus) -> None:
        """Notify the ways which cards there are, and which are sick or cordoned, as soon as that is known."""
        if not self._is_of_this_boot(spec):
            return
        published, _ = self._published()
        words = published.cordon if published else ()
        cordoned = (uuid for word in words for uuid in named_cards.uuids_named(word.strip(), spec.devices))
        sick = (card.uuid for card in status.devices if card.health != vocabulary.Health.HEALTHY)
        unusable = frozenset((*cordoned, *sick))
        for way in self._ways:
            way.set_device(spec, unusable)

    def _set_cards(self, observation: sampler.Observation, spec: wire.DeviceSpec) -> None:
        """Set the cards that GpuPods and labels are made of."""
        self._gpupods.set_cards(spec.devices)
        if spec.devices or isinstance(observation.outcome, probe.Sample):
            self._label_writer.set_labels(node_labels.labels(spec))

    def _published(self) -> tuple[wire.DeviceSpec | None, wire.DeviceStatus]:
        device = self._publisher.device()
        return (device.spec, device.status) if device else (None, wire.DeviceStatus())

    def _deliverable_cards(self) -> Sequence[wire.Card] | None:
        """Return the cards as last sampled, else as published in this boot; None where neither is known."""
        spec, _ = self._last or self._published()
        return spec.devices if spec and self._is_of_this_boot(spec) else None

    def _is_of_this_boot(self, spec: wire.DeviceSpec) -> bool:
        """Whether minors are those of now: at a boot they may move from one card to another."""
        return self._has_sampled_cards or bool(spec.boot_id and spec.boot_id == self._config.boot_id)

    async def _rest(self, seconds: float) -> None:
        """Wait for the next tick, or until woken; while the API fails, nothing ends the wait early."""
        if self._failure_log.failures:
            await asyncio.sleep(seconds)
            return
        await asyncio.sleep(min(SHORTEST_REST_SECONDS, seconds))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds - SHORTEST_REST_SECONDS)):
                await self._wake.wait()
        self._wake.clear()


def _reconciler(
    session: api.Api, config: NodeConfig, process: ProcessContext, *, on_pod_change: Callable[[], None]
) -> reconciler.GpuPodReconciler:
    sources = evidence.EvidenceSources(
        kubelet=config.kubelet is not None,
        driver=isinstance(config.probe, probe.ProcessLister),
        resources=config.resources,
        drivers=config.others.drivers,
        least_process_memory=config.others.least_process_memory,
    )
    return reconciler.GpuPodReconciler(
        session,
        desired.NodeCards(config.node, source=config.grants),
        sources,
        clock=process.clock,
        on_pod_change=on_pod_change,
    )


def _poller(
    config: NodeConfig,
    timing: Timing,
    wake: asyncio.Event,
    gpupods: reconciler.GpuPodReconciler,
    on_change: Callable[[poller.KubeletReport], None],
) -> KubeletPoller | None:
    if config.kubelet is None:
        return None
    lister = config.kubelet
    if config.checkpoint is not None:
        lister = CompletedLister(lister, config.checkpoint, lambda: keys_by_uid(gpupods.pods()))
    return KubeletPoller(
        lister,
        config.node,
        wake,
        interval=timing.interval,
        on_change=on_change,
        on_request=gpupods.evidence.kubelet_requested,
    )
