"""The loop: wait for news, decide, act.

A short quiet window lets a burst of events arrive before a round, inside a longest one
that bounds the delay. Deciding awaits nothing. Acting assumes each bind before it is
sent, and never forgets an assumed hold until it is certain that the bind did not and
will not happen.
"""

import asyncio
from typing import Final, assert_never

from berth_operator.engine import (
    bind_sender,
    decision_records,
    dry_runs,
    ports,
    slow_namespaces,
    waiting_reasons,
)
from berth_operator.engine.hold_states import State
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import cycle, decisions, queued_pods

QUIET_SECONDS: Final = 0.001
LONGEST_SECONDS: Final = 0.01
# Nothing else happens in this process during a round, so one has an end, however hard its pods are: it
# decides for the first part, and looks closely at why pods wait for the rest. What is left comes next time.
DECIDE_SECONDS: Final = 0.02
SEARCH_SECONDS: Final = 0.01  # Of these, for one pod.
IN_ORDER_SECONDS: Final = 0.01  # Of these, for the first pods in order; the rest is for all in turns.
ROUND_SECONDS: Final = 0.03  # With what cannot be interrupted, about 50 ms.
DEFAULT_LIMITS: Final = bind_sender.Limits()
EDITED: Final = "what the pod asks for was changed while it was being bound; it is tried again"


class Loop:
    """Runs rounds of decisions for as long as this process leads."""

    def __init__(
        self,
        ledger: Ledger,
        writer: ports.Writer,
        status_writer: ports.PodStatusWriter,
        *,
        clock: ports.Clock,
        limits: bind_sender.Limits = DEFAULT_LIMITS,
        records: decision_records.DecisionRecords | None = None,
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._status_writer = status_writer
        self._clock = clock
        self._records = records or decision_records.unread_records()
        self._bind_sender = bind_sender.BindSender(ledger, writer, clock, limits, self._records)
        self._bind_sender.on_outcome, self._bind_sender.on_delay = self._conclude, self._fail
        self._slow = slow_namespaces.SlowNamespaces(ledger, self._bind_sender, self._held_up)
        self._dry_runs = dry_runs.DryRuns(
            ledger, writer, self._records, self._bind_sender, clock=clock, failed=self._fail
        )
        self.reasons = waiting_reasons.WaitingReasons(ledger, status_writer.shown_message, clock=clock)

    async def run(self) -> None:
        """Decide for ever."""
        while True:
            await self._news()
            await self._bind_sender.wait_for_room()
            await self._writer.sure()
            self.round()

    def round(self) -> None:
        """Make one round of decisions and start to act on them."""
        ledger, started = self._ledger, self._clock()
        self._dry_runs.retry()
        made: list[decision_records.RoundDecision] = []
        version = ledger.inventory.table.version
        self._slow.resume(started)
        time = cycle.Time(
            self._clock, started + DECIDE_SECONDS, SEARCH_SECONDS, turns=started + IN_ORDER_SECONDS
        )
        limits = cycle.Limits(time=time, held_up=self._slow.held_up)
        for answer in cycle.each(ledger.search, ledger.backlog, started, ledger.policy, limits):
            made.append(decision_records.RoundDecision(answer, version))
            if isinstance(answer, decisions.Bind):
                self._act(answer)
                version = ledger.inventory.table.version
                if self._bind_sender.full:
                    break  # Refusals cost the server nothing, binds do.
        self._records.record_round(ledger, made, started=started, ended=self._clock())
        # All binds are assumed before anything is said: words describe what is left after them.
        self.reasons.new_round(until=started + ROUND_SECONDS)
        # Before the new ones, which else would take all looks where there are some in each round.
        for candidate, message in self.reasons.renewed(
            self._clock(), diagnoses=1 if made else waiting_reasons.DIAGNOSES_PER_ROUND
        ):
            self._status_writer.unschedulable(candidate, message)
        for made_decision in made:
            self._say(made_decision.decision)
        if made:
            ledger.wake.set()  # There may be more than one round took.

    @property
    def busy(self) -> bool:
        """Whether binds are under way."""
        return self._bind_sender.busy

    async def drain(self) -> None:
        """Drop what is not sent, and wait for the binds under way; `run`, which adds to them, has ended."""
        await self._dry_runs.stop()
        await self._bind_sender.drain()

    # ------------------------------------------------------------ waiting

    async def _news(self) -> None:
        """Wait for an event, a pause to end or a look that is due, then for a moment of quiet."""
        wake = self._ledger.wake
        while not wake.is_set():
            due = self._due()
            patience = None if due is None else max(0.0, due - self._clock())
            try:
                async with asyncio.timeout(patience):
                    await wake.wait()
            except TimeoutError:
                due = self._due()
                if due is not None and due <= self._clock():
                    return
        latest = self._clock() + LONGEST_SECONDS
        while wake.is_set() and self._clock() < latest:
            wake.clear()
            await asyncio.sleep(QUIET_SECONDS)
        wake.clear()

    def _due(self) -> float | None:
        moments = (
            self._ledger.backlog.next_due(),
            self.reasons.next_due(self._clock()),
            self._dry_runs.next_retry(),
            self._slow.next_due(),
        )
        return min((one for one in moments if one is not None), default=None)

    # ------------------------------------------------------------ acting

    def _act(self, answer: decisions.Bind) -> None:
        """Bind a pod, or ask first whether the server would have it so."""
        candidate = self._ledger.backlog.get(answer.uid)
        if candidate is not None and self._dry_runs.is_needed(candidate):
            self._dry_runs.start(candidate, answer.placement)
        else:
            candidate = self._ledger.assume(answer)
            self._bind_sender.start(candidate, answer.placement)

    def _say(self, answer: decisions.Decision) -> None:
        match answer:
            case decisions.Bind() if answer.uid in self._ledger.backlog:
                # Whether the server would accept it is being asked, and what the pod shows stands till then.
                self._ledger.backlog.skip(answer.uid, now=self._clock())
            case decisions.Bind():
                self.reasons.pod_placed(answer.uid)  # Its bind is under way, and the pod itself will say so.
            case decisions.Wait() | decisions.Reject():
                self._put_off(answer)
            case _:
                assert_never(answer)

    def _put_off(self, answer: decisions.Wait | decisions.Reject) -> None:
        candidate = self._ledger.backlog.get(answer.uid)
        if candidate is not None:
            demoted = isinstance(answer, decisions.Wait) and answer.cut_short
            self._ledger.backlog.put_off(answer.uid, now=self._clock(), wants=answer.wants, demoted=demoted)
            word = answer.refusals[0].reason if isinstance(answer, decisions.Reject) else None
            self._status_writer.unschedulable(candidate, self.reasons.message(candidate, answer), fault=word)

    def _held_up(self, candidate: queued_pods.Candidate, message: str) -> None:
        if not self._status_writer.shown_message(candidate.uid):
            self._fail(candidate, message)

    def _fail(self, candidate: queued_pods.Candidate, message: str) -> None:
        self.reasons.bind_failed(candidate.uid, message)
        self._status_writer.bind_failed(candidate, message)

    def _conclude(
        self, candidate: queued_pods.Candidate, placement: decisions.Placement, outcome: ports.Outcome
    ) -> None:
        match outcome:
            case ports.Bound():
                self._dry_runs.bound(candidate.uid)
                self._status_writer.bound(candidate, placement)
            case ports.Gone():
                self._dry_runs.pod_deleted(candidate)
                self._ledger.pod_over(candidate.uid)
            case ports.Refused() | ports.Throttled() | ports.Unsent():
                self._take_back(candidate, placement, outcome)
            case ports.Unknown():
                raise AssertionError("looking goes on until the answer is clear")
            case _:
                assert_never(outcome)

    def _take_back(
        self,
        candidate: queued_pods.Candidate,
        placement: decisions.Placement,
        outcome: ports.Refused | ports.Throttled | ports.Unsent,
    ) -> None:
        if isinstance(outcome, ports.Throttled):
            self._bind_sender.back_off(outcome)
        # The watch may have been faster than the answer, and then it is right.
        if self._ledger.state(candidate.uid) is State.ASSUMED:
            why = self._fault(candidate, outcome)
            self._ledger.forget(candidate.uid, refused=bool(why))
            if why:
                self._dry_runs.bind_refused(candidate, placement)
                self._fail(candidate, why)

    def _fault(self, candidate: queued_pods.Candidate, outcome: ports.Outcome) -> str:
        """Return why a bind failed where that is the pod's own fault, so that it keeps no card any more.

        A pod may be edited while it is bound; who does that all the time would keep a card from all others.
        """
        match outcome:
            case ports.Refused(message):
                return message
            case ports.Unsent(edited=True) if self._dry_runs.pod_edited(candidate):
                return EDITED
        return ""
