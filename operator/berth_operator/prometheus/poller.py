"""Keeps the loads of cards up to date from Prometheus, as long as the policy says so.

The leader asks every few seconds, a query for each metric and never one for a node or a pod, and no decision
waits for it. What was read counts until it is too old, whether or not Prometheus still answers; then the
ledger's figures decide. A fault is counted each time, and logged when it comes and when it is over. What it
is may change with each look, and so another one is logged only after a while.
"""

import asyncio
import dataclasses
import logging
import math
from typing import Final

from berth_crds import text
from berth_crds.client import api
from berth_operator.engine import ports, sampled_loads
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.measured_loads import MeasuredLoads
from berth_operator.metrics import LoadPolls, PollResult
from berth_operator.prometheus import answers, client, discovery, faults, queries
from berth_operator.scheduling.policy import Prometheus

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
POLL_SECONDS: Final = 15.0  # For the address and all metrics; meanwhile no sample expires.
ADDRESS_SECONDS: Final = 300.0  # So long the address of a Service counts that answers.
LOG_SECONDS: Final = 600.0  # Between two lines on faults that follow each other.
MOST_NAMED: Final = 3  # Unknown uuids in one line of the log.


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """What a poller has beside the ledger."""

    session: api.Api
    credentials: client.Credentials
    polls: LoadPolls
    clock: ports.Clock


class Poller:
    """Asks Prometheus for the loads of cards."""

    def __init__(
        self, ledger: Ledger, loads: MeasuredLoads, around: Surroundings, logger: logging.Logger = log
    ) -> None:
        self._ledger = ledger
        self._around = around
        self._logger = logger
        self._loads = sampled_loads.SampledLoads(ledger, loads, clock=around.clock)
        self._source: Prometheus | None = None
        self._due = -math.inf
        self._address, self._found_at = "", -math.inf
        self._answered = False  # Since the source is what it is, and the last time.
        self._logged_at = -math.inf
        self.fault = ""  # Why there are no loads, in words for people; empty while there are.

    async def run(self) -> None:
        """Keep the loads up to date for ever."""
        self._reset(None)
        while True:
            await self.step()
            await asyncio.sleep(LOOK_SECONDS)

    async def step(self) -> None:
        """Do what is due: ask Prometheus, and let nothing count that is too old."""
        source = self._ledger.policy.prometheus
        if source != self._source:
            self._reset(source)
        if source is None:
            return
        now = self._around.clock()
        if now >= self._due:
            self._due = now + source.interval_seconds
            await self._poll(source)
        elif now > self._loads.expires:
            await self._loads.apply()

    def _reset(self, source: Prometheus | None) -> None:
        self._source = source
        self._loads.clear()
        self._due = self._found_at = -math.inf
        self._address = self.fault = ""
        self._answered = False

    async def _poll(self, source: Prometheus) -> None:
        fault = ""
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._read(await self._address_of(source), source)
        except faults.Fault as error:
            fault = str(error)
            self._found_at = -math.inf
        except TimeoutError:
            fault = f"it takes more than {POLL_SECONDS:g} s for all metrics"
        if self._ledger.policy.prometheus != source:
            return  # Another source is in force by now.
        if fault:
            self._failed(fault)
        else:
            self._succeeded()
        await self._loads.apply()

    async def _address_of(self, source: Prometheus) -> str:
        """Return the address to ask, which is looked up anew after a failure and now and then."""
        if source.url:
            self._address = source.url
        elif self._around.clock() - self._found_at >= ADDRESS_SECONDS:
            self._address = ""
            self._address = await discovery.find(
                self._around.session, source, with_token=bool(self._around.credentials.token_file)
            )
            self._found_at = self._around.clock()
        return self._address

    async def _read(self, address: str, source: Prometheus) -> None:
        """Record what Prometheus has of each metric; raise the first fault once all have been asked for."""
        refused: faults.QueryRefused | None = None
        found = 0
        async with client.session(address, self._around.credentials) as session:
            for metric, name in queries.NAMES[source.metrics].items():
                asked = self._around.clock()
                try:
                    body = await session.query(queries.query(name, metric))
                except faults.QueryRefused as fault:
                    refused = refused or fault
                    continue
                samples = await answers.read(body, asked)
                self._loads.record(metric, samples)
                found += len(samples)
        if refused is not None:
            raise refused
        if not found:
            example = queries.NAMES[source.metrics][sampled_loads.Metric.UTILIZATION]
            raise faults.Fault(
                f"it has no sample of {example} or the other metrics: see that it scrapes the exporter, and "
                "spec.load.prometheus.metrics"
            )

    # ------------------------------------------------------------ what people are told

    def _failed(self, why: str) -> None:
        self._around.polls.count(PollResult.FAILED)
        at = f" at {text.line(self._address)}" if self._address else ""
        fault = f"no loads of cards from Prometheus{at}: {why}"
        now = self._around.clock()
        if not self.fault or (fault != self.fault and now - self._logged_at >= LOG_SECONDS):
            self._logged_at = now
            self._logger.warning("%s. What was measured counts until it is too old; then promises do", fault)
        self.fault, self._answered = fault, False

    def _succeeded(self) -> None:
        self._around.polls.count(PollResult.ANSWERED)
        if not self._answered:
            self._logger.info("the loads of cards come from Prometheus at %s", text.line(self._address))
            self._name_unknown()
        self.fault, self._answered = "", True

    def _name_unknown(self) -> None:
        """Log of which cards there are samples that no Device has."""
        inventory = self._ledger.inventory
        known = {card.uuid for info in inventory.each() if info.device for card in info.device.cards}
        unknown = sorted(self._loads.uuids - known)
        if unknown:
            some = text.line(", ".join(unknown[:MOST_NAMED]) + (", …" if len(unknown) > MOST_NAMED else ""))
            self._logger.info(
                "Prometheus has %d cards that are in no Device and do not count: %s", len(unknown), some
            )
