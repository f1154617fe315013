"""The periodic audit: it compares the ledger with the API.

It reads everything anew into a second ledger and compares the two. A difference that is seen once
may be an event on its way. A difference that is seen twice, some seconds apart, and is no such
event, is drift: it is logged, counted in a metric that should stay 0, and repaired by a resync,
which also forgets pods that the API does not have. What remains is reported by the next audit.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from berth_crds.client import api, errors
from berth_operator.engine import drift
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import feeds
from berth_operator.translate import raw

log = logging.getLogger(__name__)

SECOND_COMPARISON_SECONDS: Final = 10.0
MOST_NAMED: Final = 10


SILENT: Final = logging.getLogger(f"{__name__}.silence")
SILENT.disabled = True  # For the ledger that is only compared.


class NullObserver:
    """The pod observer of the ledger that is only compared."""

    def pod_waiting(self, pod: raw.Pod) -> None:
        """Ignore it."""

    def pod_left(self, uid: str) -> None:
        """Ignore it."""


class Auditor:
    """Compares the ledger with the API, periodically; with the options of the ledger's feeds."""

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        options: feeds.Options,
        *,
        report: Callable[[int], None],
        resync: Callable[[Iterable[str]], Awaitable[None]],
        revisions: Callable[[Collection[drift.Source]], drift.Revisions],
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._options = options
        self._report = report
        self._resync = resync
        self._revisions = revisions

    async def run(self, period: float) -> None:
        """Audit periodically, for ever."""
        while True:
            await asyncio.sleep(period)
            try:
                await self.audit()
            except errors.ClientError as error:
                log.info("the audit is put off: %s", error)

    async def audit(self) -> tuple[drift.Difference, ...]:
        """Compare once, and again if something differs; report and repair what differs both times."""
        if found := await self._compare():
            await asyncio.sleep(SECOND_COMPARISON_SECONDS)
            found = drift.lasting(found, await self._compare())
        self._report(len(found))
        if found:
            log.error("the ledger differs from the API in %s; everything is read anew", summarized(found))
            await self._resync(drift.pods_not_in_api(found))
        return found

    async def _compare(self) -> tuple[drift.Difference, ...]:
        clock = self._options.clock
        rebuilt = Ledger(clock, SILENT)
        rebuilt_feeds = feeds.Feeds(
            self._session,
            rebuilt,
            Watchdog(rebuilt, clock=clock),
            NullObserver(),
            dataclasses.replace(self._options, logger=SILENT),
        )
        await rebuilt_feeds.read()
        rebuilt.paced_calls.make_all_delayed()
        found: list[drift.Difference] = []
        for differing in drift.portions(self._ledger, rebuilt, clock):
            sources = set().union(*(one.sources for one in differing))
            known, current = self._revisions(sources), rebuilt_feeds.revisions_of(sources)
            found += (one.with_revisions(known, current) for one in differing)
            await asyncio.sleep(0)
        return tuple(found)


def summarized(found: tuple[drift.Difference, ...]) -> str:
    """Return the names of the first differences and the number of the others."""
    named = ", ".join(f"{one.kind} {one.name}" for one in found[:MOST_NAMED])
    more = len(found) - MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named
