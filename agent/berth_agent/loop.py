"""One node, for ever: sample, describe, publish, beat.

A tick looks at the cards, says what follows, makes the API agree, and only then renews
the Lease: the Lease says "what you read in this Device is true now", and that holds for
a source that failed or hangs too, because then the Device says so. When the API refuses
or is away, the last good state is kept, the Lease is left to lapse, and the tick comes
again after a pause that grows.

Time, chance and identity come in by `Means`; nothing here reads them by itself.
"""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from berth_agent import (
    backoff,
    card_processes,
    describe,
    health_monitor,
    node_view,
    nodelabels,
    policy,
    probe,
    repaired,
    sampler,
    settings,
)
from berth_agent.gpupods import evidence, keeper, residents
from berth_agent.health import rules
from berth_agent.kubelet import follower, podresources
from berth_agent.publish import device, heartbeat, labels
from berth_crds import names, vocabulary, wire
from berth_crds.client import api, errors

log = logging.getLogger(__name__)

# Between two ticks at least, even when somebody keeps changing our Device.
SHORTEST_REST_SECONDS: Final = 0.5
# Agents that were started all at once must not beat all at once for ever.
SPREAD: Final = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """A node, the probe that looks at it, and who tells which pod holds what there, if anybody.

    `grants` stands for those who are not asked (the simulated cards); `kubelet` is asked,
    for `resources`, and so is the probe where it can tell processes, whose cgroups are
    then read in `procfs`. What is `chosen` about health is the node's own, which a policy adds to.
    `sharing` is how the node's device plugin shares its cards.
    With `labels` the Node is labelled with what its cards have in common.
    """

    node: str
    probe: probe.Probe
    grants: vocabulary.GrantSource | None = None
    kubelet: podresources.Lister | None = None
    resources: tuple[str, ...] = settings.GPU_RESOURCES
    procfs: Path = settings.PROCFS
    chosen: rules.Rules = rules.DEFAULT
    labels: bool = False
    sharing: wire.Sharing | None = None
    # Held by whoever looks: after a restart, an earlier look may still hang in the driver.
    alone: contextlib.AbstractContextManager[object] = dataclasses.field(
        default_factory=threading.Lock, compare=False
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How often to look, how long one look may take, and how long the Lease vouches; in seconds."""

    interval: float
    deadline: float
    lease_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class Means:
    """What the world lends: the time, chance between 0 and 1, who we are, and seconds that nobody sets."""

    clock: Callable[[], dt.datetime]
    chance: Callable[[], float]
    identity: str
    seconds: Callable[[], float]


async def run_node(
    session: api.Api, subject: Subject, pace: Pace, means: Means, seen: node_view.Board | None = None
) -> None:
    """Be the agent of one node until cancelled, and write what is seen on its board."""
    sources = evidence.Sources(
        kubelet=subject.kubelet is not None,
        driver=isinstance(subject.probe, card_processes.Processes),
        resources=subject.resources,
    )
    hurry = asyncio.Event()
    gpupods = keeper.Keeper(
        session,
        subject.node,
        keeper.Means(means.clock, means.chance, subject.grants),
        sources,
        restless=hurry.set,
    )
    listener = _listener(subject, pace, means, gpupods, hurry)
    chosen = policy.Policy(subject.chosen)
    labeller = labels.Labeller(session, subject.node, ours=nodelabels.ours, chance=means.chance)
    seen = seen or node_view.Board(subject.node)
    seen.held = gpupods.records
    reports = Reports(gpupods, chosen, seen, labeller, listener)
    ticker = Ticker(session, subject, pace, means, reports=reports)
    async with asyncio.TaskGroup() as group:
        group.create_task(ticker.run(), name=f"tick {subject.node}")
        group.create_task(gpupods.run(), name=f"gpupods of {subject.node}")
        group.create_task(policy.follow(session, chosen).run(), name=f"policy for {subject.node}")
        if subject.labels:
            group.create_task(labeller.run(), name=f"labels of {subject.node}")
        if listener:
            group.create_task(listener.run(), name=f"kubelet of {subject.node}")


def _listener(
    subject: Subject, pace: Pace, means: Means, gpupods: keeper.Keeper, hurry: asyncio.Event
) -> follower.Follower | None:
    if subject.kubelet is None:
        return None
    manner = follower.Pace(pace.interval, means.chance)
    return follower.Follower(
        subject.kubelet,
        subject.node,
        manner,
        hurry,
        on_change=gpupods.kubelet_reported,
        asking=gpupods.asking,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Reports:
    """To whom a tick tells what it found, and who tells it what else is known."""

    gpupods: keeper.Keeper
    policy: policy.Policy
    board: node_view.Board
    labeller: labels.Labeller
    listener: follower.Follower | None = None

    def looked(self, look: sampler.Look, now: float) -> None:
        """Write on the board what was seen, and when."""
        self.board.looked(look.outcome, now)
        if self.listener and self.listener.answered is not None:
            self.board.answered["podresources"] = self.listener.answered

    def beside(self, look: sampler.Look, spec: wire.DeviceSpec, before: wire.DeviceStatus) -> describe.Beside:
        """Have GpuPods and labels follow the cards, and give what follows for the Device."""
        self.gpupods.furnish(spec.devices)
        if spec.devices or isinstance(look.outcome, probe.Sample):
            self.labeller.want(nodelabels.labels(spec))
        occupants = self.gpupods.looked(look.crowd, residents.told(before.devices))
        stated = follower.condition(self.listener.report) if self.listener else None
        stands = _said(before) if self.listener else None
        return describe.beside(spec, occupants, stated or stands)


def _said(before: wire.DeviceStatus) -> wire.Condition | None:
    """Return what was said of the kubelet before it was asked for the first time."""
    kind = vocabulary.DeviceCondition.POD_RESOURCES_READY
    return next((each for each in before.conditions if each.type == kind), None)


def tell(node: str, before: wire.DeviceStatus, now: wire.DeviceStatus) -> None:
    """Log what changed in the verdicts, once; what is wrong as a warning."""
    troubles = describe.troubles(now)
    for line in describe.changes(before, now):
        log.log(logging.WARNING if line in troubles else logging.INFO, "node %s: %s", node, line)


class Ticker:
    """Ticks for one node."""

    def __init__(
        self,
        session: api.Api,
        subject: Subject,
        pace: Pace,
        means: Means,
        *,
        reports: Reports,
    ) -> None:
        self._node = subject.node
        self._sharing = subject.sharing
        self._pace = pace
        self._means = means
        self._reports = reports
        self._hurry = asyncio.Event()
        self._complaint = backoff.Complaint(log, f"node {subject.node} is not published")
        self._sampler = sampler.Sampler(
            subject.probe,
            deadline=pace.deadline,
            procfs=subject.procfs,
            on_change=self._hurry.set,
            alone=subject.alone,
        )
        self._said: tuple[wire.DeviceSpec, wire.DeviceStatus] | None = None
        self._health = health_monitor.HealthMonitor()
        self._word = repaired.NO_WORD
        self._publisher = device.Publisher(session, subject.node, astray=self._hurry.set)
        self._heartbeat = heartbeat.Heartbeat(
            session, subject.node, identity=means.identity, seconds=pace.lease_seconds, clock=means.clock
        )

    async def run(self) -> None:
        """Tick for ever."""
        with contextlib.closing(self._sampler):
            async with asyncio.TaskGroup() as group:
                group.create_task(self._publisher.informer.run())
                await self._listen()
                # What stands in the API is the memory of the agent that ran before us.
                await self._publisher.informer.wait_synced()
                while True:
                    await self._rest(await self._try())

    async def _listen(self) -> None:
        """Look before anything is known of the API: from then on no error of a card goes unheard."""
        look = await self._sampler.sample()
        self._sampler.keep(look)
        self._reports.looked(look, asyncio.get_running_loop().time())

    async def _try(self) -> float:
        """Tick once, and give how long to rest."""
        try:
            await self._tick()
        except errors.ClientError as error:
            self._complaint.failed(error)
            # Never slower than the usual rhythm: it is one request, as a renewal would be, and
            # the Lease is fresh again one interval after the API is back.
            most, chance = self._pace.interval, self._means.chance()
            return backoff.pause(error, self._complaint.failures, most=most, chance=chance)
        self._complaint.succeeded()
        return self._pace.interval * (1 - SPREAD * self._means.chance())

    async def _tick(self) -> None:
        time = asyncio.get_running_loop().time
        started = time()
        look = await self._sampler.sample()
        self._reports.looked(look, time())
        spec, status = self._describe(look)
        owner = await self._publisher.publish(spec, status)
        await self._heed(self._word)
        await self._heartbeat.beat(owner)
        self._reports.board.ticked(seconds=time() - started, now=time())

    async def _heed(self, word: repaired.Word) -> None:
        """Report to whoever wrote that cards were repaired that it was heeded."""
        if word.text != word.rest:
            log.info("node %s: heard that cards were repaired: %s", self._node, word.text)
            try:
                await self._publisher.heed(names.REPAIRED, word.text, word.rest)
            except errors.ClientError as error:
                # It is taken for a new word at the next look, which does no harm, and the Lease matters more.
                log.warning("node %s: the annotation %s stays: %s", self._node, names.REPAIRED, error)

    def _describe(self, look: sampler.Look) -> tuple[wire.DeviceSpec, wire.DeviceStatus]:
        known, before = self._said or self._seen()
        spec = describe.spec(self._node, look.outcome, known, self._sharing)
        beside, now = self._reports.beside(look, spec, before), self._means.clock()
        # A word is heeded by a look that shows cards, and waits for one.
        seen = isinstance(look.outcome, probe.Sample)
        self._word = repaired.read(self._publisher.note(names.REPAIRED), spec) if seen else repaired.NO_WORD
        asked = health_monitor.Known(known, before, self._reports.policy.rules, self._word.cards)
        verdicts = self._health.judge(look.outcome, spec, asked, now=self._means.seconds())
        status = describe.status(look.outcome, verdicts, before, beside, now=now)
        tell(self._node, before, status)
        self._reports.board.status = status
        self._said = spec, status
        return spec, status

    def _seen(self) -> tuple[wire.DeviceSpec | None, wire.DeviceStatus]:
        seen = self._publisher.seen()
        return (seen.spec, seen.status) if seen else (None, wire.DeviceStatus())

    async def _rest(self, seconds: float) -> None:
        """Wait for the next tick, or for news; an API that refuses takes nothing sooner because of those."""
        if self._complaint.failures:
            await asyncio.sleep(seconds)
            return
        await asyncio.sleep(min(SHORTEST_REST_SECONDS, seconds))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds - SHORTEST_REST_SECONDS)):
                await self._hurry.wait()
        self._hurry.clear()
