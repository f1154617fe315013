"""A ledger whose loads come from a server that answers as Prometheus does."""

import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

from berth_crds.client import api
from berth_crds.vocabulary import Strategy
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.measured_loads import MeasuredLoads
from berth_operator.metrics import Metrics
from berth_operator.prometheus import client, poller, queries
from berth_operator.scheduling.policy import Policy, Prometheus, Weights
from support import ledgers, prometheus, stub
from support.clock import Clock

NODE: Final = "n1"
OLD_SECONDS: Final = 60.0  # By default a sample counts so long,
INTERVAL_SECONDS: Final = 15.0  # and Prometheus is asked so often.
LOG: Final = logging.getLogger("test.prometheus")
WEIGHED: Final = Policy(Strategy.WEIGHTED, Weights(utilization=100))


@dataclasses.dataclass(frozen=True, slots=True)
class Polling:
    """A poller, its ledger, the server that it asks, and its time."""

    poller: poller.Poller
    ledger: Ledger
    loads: MeasuredLoads
    prometheus: prometheus.Prometheus
    server: stub.Stub
    metrics: Metrics
    time: Clock

    async def step(self, seconds: float = 0.0) -> None:
        """Let time pass, for Prometheus as well, and do what is due."""
        self.time.advance(seconds)
        self.prometheus.now += seconds
        self.loads.refresh()
        await self.poller.step()

    def use(self, **source: Any) -> None:
        """Put a policy in force that takes loads from the server, unless told otherwise."""
        chosen = Prometheus(**{"url": self.server.link.server} | source)
        self.ledger.policy_seen(dataclasses.replace(WEIGHED, prometheus=chosen))

    def utilization(self, node: str = NODE, cards: int = 2) -> list[int]:
        """Return what counts as the utilization of the first cards of a node."""
        table = self.ledger.inventory.table
        found: list[int] = table.utilization[self.ledger.inventory.index[node], :cards].tolist()
        return found

    def counted(self, metric: str) -> float | None:
        """Return what a metric of the operator shows."""
        return self.metrics.registry.get_sample_value(metric)

    def failures(self) -> float | None:
        """Return how many looks have failed."""
        return self.metrics.registry.get_sample_value("berth_load_polls_total", {"result": "failed"})


@contextlib.asynccontextmanager
async def polling(
    *, nodes: int = 1, cards: int = 2, credentials: client.Credentials = client.NONE
) -> AsyncIterator[Polling]:
    """Lend a poller whose policy names a server that has nothing scraped."""
    time, metrics, known = Clock(), Metrics(), prometheus.Prometheus()
    ledger = ledgers.with_nodes(nodes, cards, now=time)
    loads = MeasuredLoads(ledger, clock=time)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("GET", queries.PATH, known.answer)
        around = poller.Surroundings(session, credentials, metrics.load_polls, time)
        found = Polling(
            poller.Poller(ledger, loads, around, LOG), ledger, loads, known, server, metrics, time
        )
        found.use()
        yield found
