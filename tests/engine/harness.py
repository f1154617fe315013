"""An engine in memory: a ledger, a loop over it, writers that answer as laid out, and time that jumps."""

import asyncio
import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pytest
from prometheus_client import samples

from berth_operator import metrics
from berth_operator.engine import bind_sender, decision_records, decision_reporter, loop, ports
from berth_operator.engine.hold_states import State
from berth_operator.scheduling import cycle
from support import builders, ledgers, timeless, writers

NOON: Final = dt.datetime(2025, 1, 1, 12, tzinfo=dt.UTC)


class Engine:
    """A ledger, a loop over it that runs while time advances, and writers in memory."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        cards: int = 4,
        limits: bind_sender.Limits | None = None,
        clock: ports.Clock | None = None,
    ) -> None:
        self.now = timeless.clock()
        self.ledger = ledgers.with_nodes(nodes, cards, now=self.now)
        self.writer = writers.Writer(self.now)
        self.status_writer = writers.PodStatusWriter()
        self.metrics = metrics.Metrics()
        self.records = decision_records.DecisionRecords(self.metrics.scheduling, wall=lambda: NOON)
        self.loop = loop.Loop(
            self.ledger,
            self.writer,
            decision_reporter.DecisionReporter(
                self.ledger, self.status_writer, clock=clock or self.now, cpu_clock=clock or self.now
            ),
            clock=clock or self.now,
            bind_limits=limits or bind_sender.Limits(),
            records=self.records,
        )
        self._running: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ what happens

    def wait(
        self, name: str = "p", *answers: writers.Outcome | writers.Reply, cards: int = 1, **fields: Any
    ) -> None:
        """Have a pod wait whose binds are answered like this; all are accepted if nothing is laid out."""
        if answers:
            self.writer.when_bound(name, *answers)
        ledgers.add_waiting(self.ledger, name, cards, **fields)

    def crowd(self, names: Iterable[str], *answers: writers.Outcome | writers.Reply, **fields: Any) -> None:
        """Have several such pods wait."""
        for name in names:
            self.wait(name, *answers, **fields)

    def confirm(self, name: str = "p") -> None:
        """Have the watch show what the writer bound."""
        placement = self.writer.placements[name]
        pod_info = builders.pod_info(name, cards=sum(len(grant.shares) for grant in placement.grants))
        self.ledger.pod_bound(cycle.hold_for(pod_info, placement))

    async def advance(self, until: float | Callable[[], object]) -> None:
        """Let time pass with the loop at work, until a moment or until something holds."""
        if self._running is None:
            self._running = asyncio.create_task(self.loop.run())
        await (timeless.until(until) if callable(until) else timeless.at(until))
        assert not self._running.done(), "the loop has ended by itself"

    async def stop(self) -> None:
        """End the loop, and have the binds under way come to their ends."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        await self.loop.binder.drain()

    async def run(self, *, until: Callable[[], object]) -> None:
        """Run until something holds and no bind is under way."""
        await self.advance(until)
        await self.loop.binder.drain()

    async def occupy(self, name: str = "holder") -> None:
        """Bind a pod that the watch then shows as bound."""
        self.wait(name)
        await self.advance(lambda: self.placed(name))
        self.confirm(name)

    async def place_later(self, name: str, moment: float) -> float:
        """Have one more pod wait from a moment on; return how long it takes until its bind is sent."""
        await self.advance(moment)
        self.wait(name)
        await self.advance(lambda: self.placed(name))
        return self.bound_at(name) - moment

    # ------------------------------------------------------------ what has become of it

    def state(self, name: str = "p") -> State:
        """Return where the hold of a pod stands."""
        return self.ledger.state(f"uid-{name}")

    def placed(self, name: str = "p") -> bool:
        """Whether it was reported that a pod has a place."""
        return any(message.startswith("placed on") for message in self.status_writer.of(name))

    def moments(self, name: str = "p") -> tuple[list[float], list[float]]:
        """Return when binds were sent for a pod, and when it was looked at."""
        binds, looks = (
            [round(call.moment, 3) for call in calls if call.name == name]
            for calls in (self.writer.binds, self.writer.looks)
        )
        return binds, looks

    def bound_at(self, name: str) -> float:
        """Return when the bind was sent by which a pod got its place."""
        assert self.placed(name)
        return self.moments(name)[0][-1]

    def value(self, name: str, **labels: str) -> float | None:
        """Read a sample of the metrics."""
        return next((one.value for one in self._samples(name) if one.labels == labels), None)

    def results(self) -> dict[str, float]:
        """Return how many attempts to schedule a pod ended with each result."""
        attempts = self._samples("scheduling_attempts_total")
        return {one.labels["result"]: one.value for one in attempts if one.value}

    def _samples(self, name: str) -> Iterator[samples.Sample]:
        """Yield the samples of one metric; tests may ask at each step, so no other one is collected."""
        sample = f"berth_{name}"
        for family in self.metrics.registry.restricted_registry([sample]).collect():
            yield from (one for one in family.samples if one.name == sample)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """List what went wrong inside, and was only logged."""
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
