"""Summaries of nodes on their way from the ledger to those who show them.

All nodes are summed up once, for nobody has been told anything yet, and from then on those
that were touched. A thousand nodes take a while, so others have their turn in between.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from berth_operator.engine import node_summaries, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import node_news

PERIOD_SECONDS: Final = 0.5


class SummaryReporter:
    """Sums nodes up, and has that shown and told."""

    def __init__(
        self,
        ledger: Ledger,
        show: Callable[[list[node_summaries.NodeSummary]], None],
        news: node_news.NodeNews,
        *,
        clock: ports.Clock,
    ) -> None:
        self._ledger = ledger
        self._show = show
        self._news = news
        self._clock = clock

    async def run(self) -> None:
        """Report how all nodes stand, and for ever what becomes of them."""
        self._ledger.touched.update(info.name for info in self._ledger.inventory.each())
        self._news.begin([summary async for portion in self._portions() for summary in portion])
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            async for portion in self._portions():
                self._news.hear(portion)

    async def _portions(self) -> AsyncIterator[list[node_summaries.NodeSummary]]:
        """Sum up what was touched until now, and have it shown; after each portion others have their turn."""
        touched, self._ledger.touched = self._ledger.touched, set()
        for portion in node_summaries.portions(self._ledger.inventory, touched, self._clock):
            self._show(portion)
            yield portion
            await asyncio.sleep(0)
