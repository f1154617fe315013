"""The loop: wait for news, decide, act.

A short quiet window lets a burst of events arrive before a round, inside a longest one
that bounds the delay. Deciding awaits nothing. Acting assumes each bind before it is
sent, and never forgets an assumed hold until it is certain that the bind did not and
will not happen.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Coroutine
from typing import Any, Final, assert_never

from berth_operator.engine import ledger, ports, reasons
from berth_operator.scheduling import backlog, cycle, decisions

log = logging.getLogger(__name__)

QUIET_SECONDS: Final = 0.001
LONGEST_SECONDS: Final = 0.01
AHEAD: Final = 128  # Binds that may be decided and not yet answered; half of them are left when more are.
LOOK_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How much is done at once, and how long a bind may stay open on the server."""

    binds_at_once: int = 64
    bind_deadline: float = 3.0


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
    ) -> None:
        self._book = book
        self._writer = writer
        self._teller = teller
        self._clock = clock
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.binds_at_once)
        self._flying: set[asyncio.Task[None]] = set()
        self._ahead = max(AHEAD, 2 * limits.binds_at_once)
        self._unanswered = 0
        self._room = asyncio.Event()
        self._reasons = reasons.Reasons(book)

    async def run(self) -> None:
        """Decide for ever."""
        while True:
            await self._news()
            await self._until_room()
            self.round()

    def round(self) -> None:
        """Make one round of decisions and start to act on them."""
        book = self._book
        limit = max(1, self._ahead - self._unanswered)
        answers = cycle.decide(book.places, book.waiting, self._clock(), book.rules, limit=limit)
        # All binds are assumed before anything is said: words describe what is left after them.
        self._reasons.new_round()
        for answer in sorted(answers, key=lambda answer: not isinstance(answer, decisions.Bind)):
            self._act(answer)
        if answers:
            book.wake.set()  # There may be more than one round took.

    async def drain(self) -> None:
        """Wait for the binds under way; none is started meanwhile because `run` has ended."""
        while self._flying:
            await asyncio.wait(self._flying)

    # ------------------------------------------------------------ waiting

    async def _news(self) -> None:
        """Wait for an event or for a pause to end, then for a moment of quiet."""
        wake = self._book.wake
        due = self._book.waiting.next_due()
        patience = None if due is None else max(0.0, due - self._clock())
        try:
            async with asyncio.timeout(patience):
                await wake.wait()
        except TimeoutError:
            return
        latest = self._clock() + LONGEST_SECONDS
        while wake.is_set() and self._clock() < latest:
            wake.clear()
            await asyncio.sleep(QUIET_SECONDS)
        wake.clear()

    async def _until_room(self) -> None:
        """Wait until enough of the binds decided so far have an answer."""
        while self._unanswered > self._ahead // 2:
            self._room.clear()
            await self._room.wait()

    def _answered(self) -> None:
        self._unanswered -= 1
        if self._unanswered <= self._ahead // 2:
            self._room.set()

    # ------------------------------------------------------------ acting

    def _act(self, answer: decisions.Decision) -> None:
        match answer:
            case decisions.Bind():
                candidate = self._book.assume(answer)
                self._start(self._bind(candidate, answer.placement), candidate)
            case decisions.Wait():
                self._put_off(answer, answer.wants)
            case decisions.Reject():
                self._put_off(answer, frozenset())
            case _:
                assert_never(answer)

    def _put_off(self, answer: decisions.Wait | decisions.Reject, wants: frozenset[decisions.Help]) -> None:
        candidate = self._book.waiting.get(answer.uid)
        if candidate is not None:
            self._book.waiting.put_off(answer.uid, now=self._clock(), wants=wants)
            word = answer.refusals[0].reason if isinstance(answer, decisions.Reject) else None
            self._teller.refused(candidate, self._reasons.sentence(candidate, answer), fault=word)

    def _start(self, work: Coroutine[Any, Any, None], candidate: backlog.Candidate) -> None:
        task = asyncio.create_task(work, name=f"bind {candidate.title}")
        self._flying.add(task)
        self._unanswered += 1
        task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._flying.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # The hold stays assumed: cards too many withheld, never given out twice.
            log.error("%s failed", task.get_name(), exc_info=error)

    async def _bind(self, candidate: backlog.Candidate, placement: decisions.Placement) -> None:
        try:
            async with self._slots:
                outcome = await self._writer.bind(candidate, placement)
        finally:
            self._answered()
        if isinstance(outcome, ports.Unknown):
            log.warning("%s: no clear answer to the bind: %s", candidate.title, outcome.message)
            # The server counts from when the bind reached it, which may have been only just now.
            pause = self._limits.bind_deadline if outcome.open else 0.0
            outcome = await self._look(candidate, pause=pause)
        self._conclude(candidate, placement, outcome)

    async def _look(self, candidate: backlog.Candidate, *, pause: float) -> ports.Outcome:
        """Read the pod once the server's own deadline has passed, until the answer is clear."""
        await asyncio.sleep(pause)
        attempt = 0
        while True:
            outcome = await self._writer.look(candidate)
            if not isinstance(outcome, ports.Unknown):
                return outcome
            await asyncio.sleep(LOOK_SECONDS[min(attempt, len(LOOK_SECONDS) - 1)])
            attempt += 1

    def _conclude(
        self, candidate: backlog.Candidate, placement: decisions.Placement, outcome: ports.Outcome
    ) -> None:
        uid = candidate.uid
        assumed = self._book.state(uid) is ledger.State.ASSUMED
        match outcome:
            case ports.Bound():
                self._teller.placed(candidate, placement)
            case ports.Gone():
                self._book.pod_over(uid)
            case ports.Refused(message):
                # The watch may have been faster than the answer, and then it is right.
                if assumed:
                    self._book.forget(uid)
                    self._teller.failed(candidate, message)
            case ports.Unknown():
                raise AssertionError("looking goes on until the answer is clear")
            case _:
                assert_never(outcome)
