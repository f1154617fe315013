"""The periodic audit, which asks whether the ledger still is what the API says.

Everything is read anew into a second ledger, and the two are compared. What differs once
may be an event on its way, and of what changes all the time there is always one; what differs
twice, some seconds apart, and is no such event is drift: it is logged, shown as a metric that
should stay 0, and mended: the first ledger is told everything once more, and forgets pods of
which the API knows nothing. What that does not mend is reported again the next time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from berth_crds.client import api, errors
from berth_operator.engine import drift, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import feeds
from berth_operator.translate import pods, raw

log = logging.getLogger(__name__)

SECOND_LOOK_SECONDS: Final = 10.0
MOST_NAMED: Final = 10


SILENCE: Final = logging.getLogger(f"{__name__}.silence")
SILENCE.disabled = True  # For the ledger that is only compared.


class Nobody:
    """The onlooker of that ledger."""

    def saw(self, pod: raw.Pod) -> None:
        """Ignore it."""

    def done(self, uid: str) -> None:
        """Ignore it."""


class Auditor:
    """Compares the ledger with the API, again and again.

    `schedulers` are the names to which Berth answers: the same as those of the feeds of the ledger.
    """

    schedulers: Collection[str] = pods.ANSWERING

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        *,
        clock: ports.Clock,
        report: Callable[[int], None],
        mend: Callable[[Iterable[str]], Awaitable[None]],
        revisions: Callable[[Collection[drift.Source]], drift.Revisions],
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._clock = clock
        self._report = report
        self._mend = mend
        self._revisions = revisions

    async def run(self, period: float) -> None:
        """Audit for ever."""
        while True:
            await asyncio.sleep(period)
            try:
                await self.audit()
            except errors.ClientError as error:
                log.info("the audit comes later: %s", error)

    async def audit(self) -> tuple[drift.Difference, ...]:
        """Look once, and a second time if something differs; report and mend what stays."""
        found = await self._look()
        if found:
            await asyncio.sleep(SECOND_LOOK_SECONDS)
            found = drift.lasting(found, await self._look())
        self._report(len(found))
        if found:
            log.error("the ledger has drifted from the API in %s; it is read anew", told(found))
            await self._mend(drift.pods_not_in_api(found))
        return found

    async def _look(self) -> tuple[drift.Difference, ...]:
        fresh = Ledger(self._clock, SILENCE)
        watchdog = Watchdog(fresh, clock=self._clock)
        options = feeds.Options(schedulers=self.schedulers, clock=self._clock, logger=SILENCE)
        reading = feeds.Feeds(self._session, fresh, watchdog, Nobody(), options)
        await reading.read()
        found: list[drift.Difference] = []
        for differing in drift.portions(self._ledger, fresh, self._clock):
            sources = set().union(*(one.sources for one in differing))
            mine, theirs = self._revisions(sources), reading.revisions_of(sources)
            found += (one.with_revisions(mine, theirs) for one in differing)
            await asyncio.sleep(0)
        return tuple(found)


def told(found: tuple[drift.Difference, ...]) -> str:
    """Name the first differences, and count the others."""
    named = ", ".join(f"{one.kind} {one.name}" for one in found[:MOST_NAMED])
    more = len(found) - MOST_NAMED
    return f"{named} and {more} more" if more > 0 else named
