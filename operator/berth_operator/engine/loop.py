"""The loop: wait for events, decide, bind, report.

A short quiet window lets a burst of events arrive before a round, and a maximum bounds the delay.
A round awaits nothing: after it the binder sends what was decided (`binder`; the limits are in
`bind_sender`), and other tasks write the statuses. The ledger has all that is known of the cluster; its
`wake` is set whenever that has changed.
"""

import asyncio
from typing import Final

from berth_operator.engine import bind_sender, binder, decision_records, ports
from berth_operator.engine.decision_reporter import DecisionReporter
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import cycle, decisions, round_limits

QUIET_WINDOW_SECONDS: Final = 0.001
LONGEST_WINDOW_SECONDS: Final = 0.01
# Nothing else runs on this event loop during a round, so a round has an end, however hard its pods are: first
# it decides, then it finds out why pods wait, if there is time. What is left comes in the next round.
DECIDE_SECONDS: Final = 0.02
SEARCH_SECONDS: Final = 0.01  # The part of DECIDE_SECONDS that one pod may search.
# The part of DECIDE_SECONDS in which pods are tried in the order of the queue. The rest is for pods further
# back (`scheduling.rotation`).
IN_ORDER_SECONDS: Final = 0.01
# Deciding and explaining together. No explanation is begun unless `waiting_reasons.LEAST_SECONDS` of this are
# left, so where deciding took long there is none. Each explanation has a time limit of its own.
ROUND_SECONDS: Final = 0.03


class Loop:
    """Runs rounds of decisions for as long as this process leads."""

    def __init__(
        self,
        ledger: Ledger,
        writer: ports.Writer,
        reporter: DecisionReporter,
        *,
        clock: ports.Clock,
        bind_limits: bind_sender.Limits,
        records: decision_records.DecisionRecords,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._records = records
        self.reporter = reporter
        self.binder = binder.Binder(
            ledger, writer, self.reporter, clock=clock, limits=bind_limits, records=self._records
        )

    async def run(self) -> None:
        """Make a round whenever something has happened or is due."""
        while True:
            await self._wait_for_events()
            # Nothing is decided while too many binds are unanswered, the server has asked for a pause, or the
            # lead is not confirmed: the binds would only wait.
            await self.binder.wait_until_it_may_bind()
            self.round()

    def round(self) -> None:
        """Make one round of decisions, and start to act on them."""
        started = self._clock()
        # Go on with what is due: dry runs, by which refused binds are tried again (`bind_refusals`), binds
        # that the watch has not shown (`bind_sender`), nodes where no volume could be made (`volume_binder`),
        # and namespaces suspended for slow binds (`slow_namespaces`).
        self.binder.resume_due(started)
        # Wake the pods whose waking was put off, because one object had changed too often.
        self._ledger.paced_calls.make_delayed()
        round_decisions = self._schedule(started)
        self._records.record_round(self._ledger, round_decisions, started=started, ended=self._clock())
        # All binds but those that need a dry run first are assumed before anything is reported, so that
        # reasons describe what is left after them.
        self.reporter.requeue_and_report(
            (decision for decision, _ in round_decisions), until=started + ROUND_SECONDS
        )
        if round_decisions:
            # This round may not have tried all: the next one follows, without waiting for an event. Where
            # nothing was decided, pods that are still active are due at once (`Backlog.next_due`): a pod that
            # might fit on reserved nodes alone is tried again and again, for `rotation.HELD_BACK_SECONDS`.
            self._ledger.wake.set()

    def _schedule(self, started: float) -> list[decision_records.RoundDecision]:
        """Decide for the pods that are due, as far as time allows, and start to bind those that fit."""
        ledger, round_decisions = self._ledger, list[decision_records.RoundDecision]()
        version = ledger.inventory.table.version  # The state that each decision is based on.
        deadlines = round_limits.RoundDeadlines(
            self._clock,
            ends=started + DECIDE_SECONDS,
            seconds_per_search=SEARCH_SECONDS,
            out_of_order_from=started + IN_ORDER_SECONDS,
            cpu_clock=self.reporter.cpu_clock,
        )
        limits = round_limits.RoundLimits(deadlines=deadlines, is_suspended=self.binder.is_suspended)
        for decision in cycle.schedule(ledger.search, ledger.backlog, started, ledger.policy, limits):
            round_decisions.append((decision, version))
            if isinstance(decision, decisions.Bind):
                self.binder.bind(decision)  # The ledger has it from now on, so the next pod sees it.
                version = ledger.inventory.table.version
                if self.binder.has_too_many_unanswered:
                    break  # Only a bind adds to them.
        return round_decisions

    async def _wait_for_events(self) -> None:
        """Wait until something is due, or for an event and then for a quiet window."""
        wake = self._ledger.wake
        while not wake.is_set():
            due = self._next_due()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - self._clock())):
                    await wake.wait()
            except TimeoutError:
                # What was due may have moved meanwhile.
                if (due := self._next_due()) is not None and due <= self._clock():
                    return
        # Then collect what comes in the same burst.
        latest = self._clock() + LONGEST_WINDOW_SECONDS
        while wake.is_set() and self._clock() < latest:
            wake.clear()
            await asyncio.sleep(QUIET_WINDOW_SECONDS)
        wake.clear()

    def _next_due(self) -> float | None:
        ledger, reporter = self._ledger, self.reporter
        dues = (
            ledger.backlog.next_due(),
            ledger.paced_calls.next_due(),
            reporter.next_explanation_due(),
            self.binder.next_due(),
        )
        return min((due for due in dues if due is not None), default=None)
