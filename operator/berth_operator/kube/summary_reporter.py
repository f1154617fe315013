"""Reports summaries of nodes: to the statuses and to the log.

All nodes are summed up once, and from then on those that have changed. A thousand nodes take a
while, so other tasks run in between.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from berth_operator.engine import node_summaries, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import node_log

PERIOD_SECONDS: Final = 0.5


class SummaryReporter:
    """Sums nodes up, and reports the summaries."""

    def __init__(
        self,
        ledger: Ledger,
        show: Callable[[list[node_summaries.NodeSummary]], None],
        log: node_log.NodeLog,
        *,
        clock: ports.Clock,
    ) -> None:
        self._ledger = ledger
        self._show = show
        self._log = log
        self._clock = clock
        self._changes = ledger.changes.reader()

    async def run(self) -> None:
        """Report all nodes once, and changed ones periodically, for ever."""
        self._log.begin([summary async for portion in self._portions() for summary in portion])
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            async for portion in self._portions():
                self._log.update(portion)

    async def _portions(self) -> AsyncIterator[list[node_summaries.NodeSummary]]:
        """Sum up and show what has changed until now; other tasks run after each portion."""
        changed, inventory = self._changes.read(), self._ledger.inventory
        for portion in node_summaries.portions(
            inventory, set(inventory.index) if changed is None else changed, self._clock
        ):
            self._show(portion)
            yield portion
            await asyncio.sleep(0)
