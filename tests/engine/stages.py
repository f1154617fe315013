"""A stage for the loop: a ledger, hands in memory, and time that does not wait."""

from collections.abc import Callable

import pytest

from berth_operator.engine import bind_sender, loop
from berth_operator.engine.hold_states import State
from berth_operator.scheduling import cycle
from engine import books
from support import builders, hands, timeless


class Stage:
    """A ledger, a loop over it, and hands in memory."""

    def __init__(self, *, nodes: int = 1, cards: int = 4, limits: bind_sender.Limits | None = None) -> None:
        self.now = timeless.clock()
        self.ledger = books.of(nodes, cards, now=self.now)
        self.writer = hands.Writer(self.now)
        self.status_writer = hands.PodStatusWriter()
        self.loop = loop.Loop(
            self.ledger,
            self.writer,
            self.status_writer,
            clock=self.now,
            limits=limits or bind_sender.Limits(),
        )

    def state(self, name: str = "p") -> State:
        """Return where the hold of a pod stands."""
        return self.ledger.state(f"uid-{name}")

    def wait(self, name: str = "p", cards: int = 1, priority: int = 0) -> None:
        """Have a pod wait."""
        books.wait(self.ledger, name, cards, priority=priority)

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

    async def run(self, *, until: Callable[[], object]) -> None:
        """Run until something holds and no bind is under way."""
        async with timeless.beside(self.loop.run()):
            await timeless.until(until)
            await self.loop.binder.drain()


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """List what went wrong inside, and was only logged."""
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
