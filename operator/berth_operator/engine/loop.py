"""The loop: wait for news, decide, act.

A short quiet window lets a burst of events arrive before a round, inside a longest one
that bounds the delay. Deciding awaits nothing. Acting assumes each bind before it is
sent, and never forgets an assumed hold until it is certain that the bind did not and
will not happen.
"""

import asyncio
import dataclasses
import itertools
import logging
import math
from collections.abc import Coroutine
from typing import Any, Final, assert_never

from berth_operator.engine import dry_runs, ledger, pace, ports, reasons, records
from berth_operator.scheduling import backlog, cycle, decisions

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 0.001
LONGEST_SECONDS: Final = 0.01
AHEAD: Final = 2  # Times the binds at once: so many are decided and unanswered, half of them when more are.
LOOK_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
REVISIONS_TRIED: Final = 3  # A pod that somebody changes all the time is tried again later.
# Nothing else happens in this process during a round, so one has an end, however hard its pods are: it
# decides for the first part, and looks closely at why pods wait for the rest. What is left comes next time.
DECIDE_SECONDS: Final = 0.02
SEARCH_SECONDS: Final = 0.01  # Of these, for one pod.
IN_ORDER_SECONDS: Final = 0.01  # Of these, for the first pods in order; the rest is for all in turns.
ROUND_SECONDS: Final = 0.03  # With what cannot be interrupted, about 50 ms.
TOLD_AFTER_LOOKS: Final = 3  # An answer that is lost is found again at once, or people should know of it.


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How much is done at once and a second, and how long a bind may stay open on the server."""

    binds_at_once: int = 128
    binds_a_second: float = pace.UNLIMITED
    bind_deadline: float = 3.0

    @property
    def ahead(self) -> int:
        """How many binds may be decided and not yet answered: what is sent late was decided on old news."""
        most = AHEAD * self.binds_at_once
        return min(most, max(1, math.ceil(self.binds_a_second))) if self.binds_a_second else most


class Loop:
    """Runs rounds of decisions for as long as this process leads."""

    def __init__(
        self,
        book: ledger.Ledger,
        writer: ports.Writer,
        teller: ports.Teller,
        *,
        clock: ports.Clock,
        limits: Limits = Limits(),
        notes: records.Records | None = None,
    ) -> None:
        self._book = book
        self._writer = writer
        self._teller = teller
        self._clock = clock
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.binds_at_once)
        self._pace = pace.Pace(clock, pace.steady(limits.binds_a_second))
        self._flying: set[asyncio.Task[None]] = set()
        self._unsent: set[asyncio.Task[None]] = set()
        self._unanswered = 0
        self._room = asyncio.Event()
        self._notes = notes or records.unread()
        self._dry_runs = dry_runs.DryRuns(book, writer, self._notes, clock, self._fail)
        self.reasons = reasons.Reasons(book, teller.shown, clock=clock)

    async def run(self) -> None:
        """Decide for ever."""
        while True:
            await self._news()
            await self._until_room()
            await self._writer.sure()
            self.round()

    def round(self) -> None:
        """Make one round of decisions and start to act on them."""
        book, started = self._book, self._clock()
        self._dry_runs.retry()
        made: list[records.Made] = []
        version = book.picture.columns.version
        time = cycle.Time(
            self._clock, started + DECIDE_SECONDS, SEARCH_SECONDS, turns=started + IN_ORDER_SECONDS
        )
        for answer in cycle.each(book.places, book.waiting, started, book.rules, time=time):
            made.append(records.Made(answer, version))
            if isinstance(answer, decisions.Bind):
                self._act(answer)
                version = book.picture.columns.version
                if self._unanswered >= self._limits.ahead:
                    break  # Refusals cost the server nothing, binds do.
        self._notes.round_made(book, made, started=started, ended=self._clock())
        # All binds are assumed before anything is said: words describe what is left after them.
        self.reasons.new_round(until=started + ROUND_SECONDS)
        # Before the new ones, which else would take all looks where there are some in each round.
        for candidate, message in self.reasons.later(self._clock(), looks=1 if made else reasons.CLOSE_LOOKS):
            self._teller.refused(candidate, message)
        for one in made:
            self._say(one.answer)
        if made:
            book.wake.set()  # There may be more than one round took.

    @property
    def busy(self) -> bool:
        """Whether binds are under way."""
        return bool(self._flying)

    async def drain(self) -> None:
        """Drop what is not sent, and wait for the binds under way; `run`, which adds to them, has ended."""
        await self._dry_runs.stop()
        for task in self._unsent:
            task.cancel()
        while self._flying:
            await asyncio.wait(self._flying)

    # ------------------------------------------------------------ waiting

    async def _news(self) -> None:
        """Wait for an event, a pause to end or a look that is due, then for a moment of quiet."""
        wake = self._book.wake
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
            self._book.waiting.next_due(),
            self.reasons.next_look(self._clock()),
            self._dry_runs.next_retry(),
        )
        return min((one for one in moments if one is not None), default=None)

    async def _until_room(self) -> None:
        """Wait until enough of the binds decided so far have an answer, and the server wants more."""
        while self._crowded:
            self._room.clear()
            await self._room.wait()
        await self._pace.rested()

    @property
    def _crowded(self) -> bool:
        return self._unanswered > self._limits.ahead // 2

    def _answered(self) -> None:
        self._unanswered -= 1
        if not self._crowded:
            self._room.set()

    # ------------------------------------------------------------ acting

    def _act(self, answer: decisions.Bind) -> None:
        """Bind a pod, or ask first whether the server would have it so."""
        candidate = self._book.waiting.get(answer.uid)
        if candidate is not None and self._dry_runs.needed(candidate):
            self._dry_runs.ask(candidate, answer.placement)
        else:
            candidate = self._book.assume(answer)
            self._start(self._bind(candidate, answer.placement), candidate)

    def _say(self, answer: decisions.Decision) -> None:
        match answer:
            case decisions.Bind() if answer.uid in self._book.waiting:
                # Whether the server would accept it is being asked, and what the pod shows stands till then.
                self._book.waiting.skip(answer.uid, now=self._clock())
            case decisions.Bind():
                self.reasons.placed(answer.uid)  # Its bind is under way, and the pod itself will say so.
            case decisions.Wait():
                self._put_off(answer, answer.wants)
            case decisions.Reject():
                self._put_off(answer, frozenset())
            case _:
                assert_never(answer)

    def _put_off(
        self, answer: decisions.Wait | decisions.Reject, wants: frozenset[decisions.Help] | None
    ) -> None:
        candidate = self._book.waiting.get(answer.uid)
        if candidate is not None:
            demoted = isinstance(answer, decisions.Wait) and answer.cut_short
            self._book.waiting.put_off(answer.uid, now=self._clock(), wants=wants, demoted=demoted)
            word = answer.refusals[0].reason if isinstance(answer, decisions.Reject) else None
            self._teller.refused(candidate, self.reasons.sentence(candidate, answer), fault=word)

    def _start(self, work: Coroutine[Any, Any, None], candidate: backlog.Candidate) -> None:
        task = asyncio.create_task(work, name=f"bind {candidate.title}")
        self._flying.add(task)
        self._unsent.add(task)
        self._unanswered += 1
        task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._flying.discard(task)
        self._unsent.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # The hold stays assumed: cards too many withheld, never given out twice.
            log.error("%s failed", task.get_name(), exc_info=error)
            self._notes.failed()

    async def _bind(self, candidate: backlog.Candidate, placement: decisions.Placement) -> None:
        since = self._book.since(candidate.uid)
        try:
            sent, outcome = await self._send(candidate, placement)
        finally:
            self._answered()
        if isinstance(outcome, ports.Unknown):
            level = logging.WARNING if outcome.open else logging.DEBUG
            log.log(level, "%s: no clear answer to the bind: %s", candidate.title, outcome.message)
            outcome = await self._follow(candidate, placement, outcome)
        self._notes.concluded(outcome, since=since, sent=sent, now=self._clock())
        self._conclude(candidate, placement, outcome)

    async def _send(
        self, candidate: backlog.Candidate, placement: decisions.Placement, *, again: bool = False
    ) -> tuple[float, ports.Outcome]:
        """Send a bind in its turn, unless its turn came too late; tell when it was sent, too."""
        async with self._slots:
            await self._pace.turn()
            await self._permitted(candidate)
            if (task := asyncio.current_task()) is not None:
                self._unsent.discard(task)
            sent = self._clock()
            if not again and not self._book.stands(candidate.uid):
                self._pace.give_back()
                return sent, self._seen(candidate, placement) or ports.Unsent()
            try:
                return sent, await self._writer.bind(candidate, placement)
            except Exception as error:
                log.exception("the bind of %s failed", candidate.title)
                self._notes.failed()
                return sent, ports.Unknown(str(error) or type(error).__name__)

    async def _permitted(self, candidate: backlog.Candidate) -> None:
        """Wait until nothing speaks against sending a bind but, perhaps, what has changed meanwhile."""
        await self._writer.sure()
        await self._writer.permit(candidate.uid)

    async def _follow(
        self, candidate: backlog.Candidate, placement: decisions.Placement, answer: ports.Outcome
    ) -> ports.Outcome:
        """Find out what became of a bind whose answer is not clear, or is lost: it may still be on its way.

        That the pod has no node proves nothing then: what is on its way may arrive at any time, and is valid
        for as long as we lead. So its cards are given to nobody else, and the same bind is sent again until
        the pod has its place, is somebody else's, or is gone: whichever copy arrives, these are its cards.
        A bind that the server refused for the pod's revision alone is sent again at once, too; where that is
        what it was, the bind was refused for something else.
        """
        lost = _may_arrive(answer)
        # The server counts from when the bind reached it, which may have been only just now.
        await asyncio.sleep(self._limits.bind_deadline if lost else 0.0)
        for attempt in itertools.count():
            seen = self._seen(candidate, placement) or await self._look(candidate)
            if isinstance(seen, ports.Unbound):
                if not lost and not seen.same:
                    await asyncio.sleep(LOOK_SECONDS[0])  # The watch will soon tell what it asks for now.
                    return ports.Unsent()
                if not lost and _of_same_revision(answer, seen):
                    return _refusal(answer)
                _, answer = await self._send(candidate, placement, again=True)
                if isinstance(answer, ports.Bound | ports.Gone):
                    return answer
                lost = lost or _may_arrive(answer)
                if not lost and (attempt >= REVISIONS_TRIED or not isinstance(answer, ports.Unknown)):
                    return _refusal(answer)
                self._heed(candidate, answer, attempt)
            elif isinstance(seen, ports.Unknown):
                self._heed(candidate, seen, attempt)
            else:
                return seen
            await asyncio.sleep(LOOK_SECONDS[min(attempt, len(LOOK_SECONDS) - 1)])
        raise AssertionError("counting does not end")

    def _seen(
        self, candidate: backlog.Candidate, placement: decisions.Placement
    ) -> ports.Bound | ports.Refused | ports.Gone | None:
        """Return what the watch has shown of a pod's bind; None as long as that is nothing."""
        state, hold = self._book.state(candidate.uid), self._book.picture.hold(candidate.uid)
        if state is ledger.State.ASSUMED:
            return None
        if state is ledger.State.FREE or hold is None:
            waits = self._book.asked(candidate.uid) is not None
            return ports.Refused("the pod has lost its place again") if waits else ports.Gone()
        ours = cycle.hold_for(candidate, placement)
        if (hold.node, hold.shares) == (ours.node, ours.shares):
            return ports.Bound()
        return ports.Refused(f"somebody else bound the pod to {hold.node}")

    async def _look(self, candidate: backlog.Candidate) -> ports.Seen:
        try:
            return await self._writer.look(candidate)
        except Exception as error:
            log.exception("%s cannot be looked at", candidate.title)
            return ports.Unknown(str(error) or type(error).__name__)

    def _heed(self, candidate: backlog.Candidate, outcome: ports.Outcome, attempt: int) -> None:
        """Take what the server says of a bind that is followed, which is no reason to give it up."""
        if isinstance(outcome, ports.Throttled):
            self._rest(outcome)
        elif isinstance(outcome, ports.Refused):
            self._fail(candidate, outcome.message)
        elif isinstance(outcome, ports.Unknown) and attempt >= TOLD_AFTER_LOOKS:
            self._fail(candidate, f"no clear answer yet: {outcome.message}")

    def _fail(self, candidate: backlog.Candidate, message: str) -> None:
        self.reasons.failed(candidate.uid, message)
        self._teller.failed(candidate, message)

    def _rest(self, throttled: ports.Throttled) -> None:
        log.info("binds rest for %g s, as the server asks: %s", throttled.seconds, throttled.message)
        self._pace.rest(throttled.seconds)

    def _conclude(
        self, candidate: backlog.Candidate, placement: decisions.Placement, outcome: ports.Outcome
    ) -> None:
        match outcome:
            case ports.Bound():
                self._dry_runs.bound(candidate.uid)
                self._teller.placed(candidate, placement)
            case ports.Gone():
                self._book.pod_over(candidate.uid)
            case ports.Refused() | ports.Throttled() | ports.Unsent():
                self._take_back(candidate, placement, outcome)
            case ports.Unknown():
                raise AssertionError("looking goes on until the answer is clear")
            case _:
                assert_never(outcome)

    def _take_back(
        self,
        candidate: backlog.Candidate,
        placement: decisions.Placement,
        outcome: ports.Refused | ports.Throttled | ports.Unsent,
    ) -> None:
        if isinstance(outcome, ports.Throttled):
            self._rest(outcome)
        # The watch may have been faster than the answer, and then it is right.
        if self._book.state(candidate.uid) is ledger.State.ASSUMED:
            self._book.forget(candidate.uid, refused=isinstance(outcome, ports.Refused))
            if isinstance(outcome, ports.Refused):
                self._dry_runs.refused(candidate, placement)
                self._fail(candidate, outcome.message)


def _may_arrive(answer: ports.Outcome) -> bool:
    """Whether a bind may yet be carried out, because nobody has answered it."""
    return isinstance(answer, ports.Unknown) and answer.open


def _of_same_revision(answer: ports.Outcome, seen: ports.Unbound) -> bool:
    """Whether a bind was answered for the very revision that the pod still has."""
    return isinstance(answer, ports.Unknown) and bool(seen.version) and answer.version == seen.version


def _refusal(answer: ports.Outcome) -> ports.Outcome:
    """Return what an answer means for a bind that surely was not carried out."""
    return ports.Refused(answer.message) if isinstance(answer, ports.Unknown) else answer
