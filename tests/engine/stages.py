"""A stage for the loop: a ledger, hands in memory, and time that does not wait."""

import datetime as dt
from collections.abc import Callable, Iterable
from typing import Final

import pytest

from berth_operator import metrics
from berth_operator.engine import bind_sender, decision_records, loop, ports
from berth_operator.engine.hold_states import State
from berth_operator.scheduling import cycle
from support import builders, hands, ledgers, timeless

NOON: Final = dt.datetime(2025, 1, 1, 12, tzinfo=dt.UTC)


class Stage:
    """A ledger, a loop over it, and hands in memory."""

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
        self.writer = hands.Writer(self.now)
        self.status_writer = hands.PodStatusWriter()
        self.metrics = metrics.Metrics()
        self.records = decision_records.DecisionRecords(self.metrics.scheduling, wall=lambda: NOON)
        self.loop = loop.Loop(
            self.ledger,
            self.writer,
            self.status_writer,
            clock=clock or self.now,
            limits=limits or bind_sender.Limits(),
            records=self.records,
        )

    def state(self, name: str = "p") -> State:
        """Return where the hold of a pod stands."""
        return self.ledger.state(f"uid-{name}")

    def wait(self, name: str = "p", cards: int = 1, priority: int = 0) -> None:
        """Have a pod wait."""
        ledgers.add_waiting(self.ledger, name, cards, priority=priority)

    def crowd(self, names: Iterable[str], *replies: hands.Reply, priority: int = 0) -> None:
        """Have pods wait whose binds are answered like this."""
        for name in names:
            self.writer.when_bound(name, *(replies or [hands.Reply()]))
            self.wait(name, priority=priority)

    def confirm(self, name: str = "p") -> None:
        """Have the watch show what the writer bound."""
        placement = self.writer.placements[name]
        candidate = builders.candidate(name, cards=sum(len(grant.shares) for grant in placement.grants))
        self.ledger.pod_bound(cycle.hold_for(candidate, placement))

    def moments(self, name: str = "p") -> tuple[list[float], list[float]]:
        """Return when binds were sent for a pod, and when it was looked at."""
        binds, looks = (
            [round(call.moment, 3) for call in calls if call.name == name]
            for calls in (self.writer.binds, self.writer.looks)
        )
        return binds, looks

    def value(self, name: str, **labels: str) -> float | None:
        """Read a sample of the metrics."""
        return self.metrics.registry.get_sample_value(f"berth_{name}", labels)

    def placed(self, name: str = "p") -> bool:
        """Whether a pod was told that it has a place."""
        return any(message.startswith("placed on") for message in self.status_writer.of(name))

    async def place_later(self, name: str, moment: float) -> None:
        """Run, have one more pod wait from a moment on, and run until it is placed."""
        async with timeless.beside(self.loop.run()):
            await timeless.at(moment)
            self.wait(name)
            await timeless.until(lambda: self.placed(name))

    async def run(self, *, until: Callable[[], object]) -> None:
        """Run until something holds and no bind is under way."""
        async with timeless.beside(self.loop.run()):
            await timeless.until(until)
            await self.loop.binder.drain()


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """List what went wrong inside, and was only logged."""
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
