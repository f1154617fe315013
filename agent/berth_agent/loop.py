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
from typing import Final

from berth_agent import describe, patience, probe
from berth_agent.gpupods import keeper
from berth_agent.publish import device, heartbeat
from berth_crds import vocabulary, wire
from berth_crds.client import api, errors

log = logging.getLogger(__name__)

# Between two ticks at least, even when somebody keeps changing our Device.
SHORTEST_REST_SECONDS: Final = 0.5
# Agents that were started all at once must not beat all at once for ever.
SPREAD: Final = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """A node, the probe that looks at it, and who tells which pod holds what there, if anybody."""

    node: str
    probe: probe.Probe
    grants: vocabulary.GrantSource | None


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How often to look, how long one look may take, and how long the Lease vouches; in seconds."""

    interval: float
    deadline: float
    lease_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class Means:
    """What the world lends: the time, chance between 0 and 1, and who we are."""

    clock: Callable[[], dt.datetime]
    chance: Callable[[], float]
    identity: str


async def run_node(session: api.Api, subject: Subject, pace: Pace, means: Means) -> None:
    """Be the agent of one node until cancelled."""
    gpupods = keeper.Keeper(
        session, subject.node, source=subject.grants, clock=means.clock, chance=means.chance
    )
    ticker = Ticker(session, subject, pace, means, furnish=lambda spec: gpupods.furnish(spec.devices))
    async with asyncio.TaskGroup() as group:
        group.create_task(ticker.run(), name=f"tick {subject.node}")
        group.create_task(gpupods.run(), name=f"gpupods of {subject.node}")


class Ticker:
    """Ticks for one node."""

    def __init__(
        self,
        session: api.Api,
        subject: Subject,
        pace: Pace,
        means: Means,
        *,
        furnish: Callable[[wire.DeviceSpec], None],
    ) -> None:
        self._node = subject.node
        self._pace = pace
        self._means = means
        self._furnish = furnish
        self._hurry = asyncio.Event()
        self._complaint = patience.Complaint(log, f"node {subject.node} is not published")
        self._sampler = Sampler(subject.probe, deadline=pace.deadline)
        self._said: tuple[wire.DeviceSpec, wire.DeviceStatus] | None = None
        self._publisher = device.Publisher(session, subject.node, astray=self._hurry.set)
        self._heartbeat = heartbeat.Heartbeat(
            session, subject.node, identity=means.identity, seconds=pace.lease_seconds, clock=means.clock
        )

    async def run(self) -> None:
        """Tick for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._publisher.informer.run())
            # What stands in the API is the memory of the agent that ran before us.
            await self._publisher.informer.wait_synced()
            while True:
                await self._rest(await self._try())

    async def _try(self) -> float:
        """Tick once, and give how long to rest."""
        try:
            await self._tick()
        except errors.ClientError as error:
            self._complaint.failed(error)
            # Never slower than the usual rhythm: it is one request, as a renewal would be, and
            # the Lease is fresh again one interval after the API is back.
            most, chance = self._pace.interval, self._means.chance()
            return patience.pause(error, self._complaint.failures, most=most, chance=chance)
        self._complaint.succeeded()
        return self._pace.interval * (1 - SPREAD * self._means.chance())

    async def _tick(self) -> None:
        outcome = await self._sampler.sample()
        spec, status = self._describe(outcome)
        self._furnish(spec)
        owner = await self._publisher.publish(spec, status)
        await self._heartbeat.beat(owner)

    def _describe(self, outcome: probe.Outcome) -> tuple[wire.DeviceSpec, wire.DeviceStatus]:
        known, before = self._said or self._seen()
        spec = describe.spec(self._node, outcome, known)
        status = describe.status(outcome, spec, before, now=self._means.clock())
        self._tell(before, status)
        self._said = spec, status
        return spec, status

    def _seen(self) -> tuple[wire.DeviceSpec | None, wire.DeviceStatus]:
        seen = self._publisher.seen()
        return (seen.spec, seen.status) if seen else (None, wire.DeviceStatus())

    def _tell(self, before: wire.DeviceStatus, now: wire.DeviceStatus) -> None:
        """Log what changed in the verdicts, once."""
        for line in describe.changes(before, now):
            log.info("node %s: %s", self._node, line)

    async def _rest(self, seconds: float) -> None:
        """Wait for the next tick, or for somebody to change the Device under us."""
        await asyncio.sleep(min(SHORTEST_REST_SECONDS, seconds))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), max(0.0, seconds - SHORTEST_REST_SECONDS))
        self._hurry.clear()


class Sampler:
    """Asks a probe in a thread of its own, and never waits longer than the deadline.

    The thread is a daemon and not one of the event loop's: a driver that hangs cannot be
    interrupted, and must keep neither the next tick nor the end of the program waiting.
    A second look never starts over one that hangs.
    """

    def __init__(self, source: probe.Probe, *, deadline: float) -> None:
        self._probe = source
        self._deadline = deadline
        self._look: asyncio.Future[probe.Outcome] | None = None

    async def sample(self) -> probe.Outcome:
        """Look once, or say that the probe hangs."""
        # The deadline is waited for once: a hung look must not slow down the heartbeat. What
        # it finds when it ends after all is old by then, and is dropped.
        if self._look is None or self._look.done():
            self._look = self._start()
            await asyncio.wait({self._look}, timeout=self._deadline)
            if self._look.done():
                return self._look.result()
        return probe.SourceFailed("Hung", f"The probe has not answered within {self._deadline:g} s.")

    def _start(self) -> asyncio.Future[probe.Outcome]:
        loop = asyncio.get_running_loop()
        look: asyncio.Future[probe.Outcome] = loop.create_future()

        def settle(outcome: probe.Outcome) -> None:
            if not look.done():
                look.set_result(outcome)

        def work() -> None:
            outcome = _guarded(self._probe)
            # The loop may have been closed while the driver hung.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, outcome)

        threading.Thread(target=work, name="probe", daemon=True).start()
        return look


def _guarded(source: probe.Probe) -> probe.Outcome:
    try:
        return source.sample()
    except Exception as error:
        # A fault in a probe is one failed source; the agent lives on and says so.
        log.exception("the probe failed")
        return probe.SourceFailed("ProbeFailed", f"{type(error).__name__}: {error}")
