"""Binds that are sent as a dry run first, because the server may refuse them.

Nothing is written by a dry run and no card is kept for it, so hundreds of them hold nobody up: they
are sent beside the binds, a few at a time, and of a namespace whose answers take long fewer still.
An answer that is not clear needs no following. Which pods are meant is for `refusals` to say, and
which of them comes first for `dry_run_queue`.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Final

from berth_operator.engine import (
    bind_refusals,
    bind_sender,
    bind_slots,
    decision_records,
    dry_run_queue,
    ports,
)
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, queued_pods

log = logging.getLogger(__name__)

AT_ONCE: Final = 16  # Few, so that the server is quick to answer the binds of others.
MOST: Final = 1024  # Those that wait for their turn included; more come when their pause is over.
MOST_OF_ONE: Final = 512  # Of one namespace.

Failed = Callable[[queued_pods.Candidate, str], None]


class DryRuns:
    """Asks the server what it would say; `failed` is told of pods that it would refuse."""

    def __init__(
        self,
        ledger: Ledger,
        writer: ports.Writer,
        records: decision_records.Records,
        sent: bind_sender.Binds,
        *,
        clock: ports.Clock,
        failed: Failed,
    ) -> None:
        self._ledger = ledger
        self._binds = sent  # A server that asks for a rest means binds and dry runs alike.
        self._writer = writer
        self._records = records
        self._clock = clock
        self._failed = failed
        self._refusals = bind_refusals.Refusals()
        self._slots = bind_slots.Slots(AT_ONCE, lambda: None)
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: set[str] = set()  # The uids of the pods that these ask about.
        self._open = bind_slots.Counts()  # Of these.
        self._queues: dict[str, dry_run_queue.DryRunQueue] = {}  # By namespace; what is not sent yet.

    def __repr__(self) -> str:
        """Describe the state."""
        return f"<DryRuns: {len(self._tasks)} under way, {self._refusals!r}>"

    # ------------------------------------------------------------ what became of binds

    def refused(self, candidate: queued_pods.Candidate, placement: decisions.Placement) -> None:
        """Remember a bind that was refused."""
        self._refusals.bind_refused(candidate, placement, self._clock())

    def in_vain(self, candidate: queued_pods.Candidate) -> None:
        """Remember a pod that was gone before it was bound."""
        self._refusals.in_vain(candidate.namespace, self._clock())

    def edited_often(self, candidate: queued_pods.Candidate) -> bool:
        """Note a pod that was edited while it was bound; return whether that is a habit of its namespace."""
        return self._refusals.edited(candidate, self._clock())

    def bound(self, uid: str) -> None:
        """Forget the refusals of a pod that was bound."""
        self._refusals.forget(uid)

    # ------------------------------------------------------------ what is asked

    def needed(self, candidate: queued_pods.Candidate) -> bool:
        """Whether a pod may not be bound before the server has accepted a dry run."""
        return self._refusals.needs_dry_run(candidate, self._clock())

    def next_retry(self) -> float | None:
        """Return when `retry` has something to do."""
        return self._refusals.next_retry()

    def retry(self) -> None:
        """Ask about some of the refused again, where that is due."""
        for one in self._refusals.due(self._ledger.backlog, self._clock()):
            self._start(one.candidate, one.placement)

    def ask(self, candidate: queued_pods.Candidate, placement: decisions.Placement) -> None:
        """Ask whether the server would accept a bind, unless that has its own turn."""
        if not self._refusals.rests(candidate, placement):
            self._start(candidate, placement)

    def _start(self, candidate: queued_pods.Candidate, placement: decisions.Placement) -> None:
        width = self._slots.width(candidate.namespace)
        most = MOST_OF_ONE if width is None else width
        room = len(self._tasks) < MOST and self._open.of(candidate.namespace) < most
        if candidate.uid in self._asked or not room:
            return
        namespace = candidate.namespace
        self._asked.add(candidate.uid)
        self._open.add(namespace)
        queue = self._queues.setdefault(namespace, dry_run_queue.DryRunQueue())
        queue.push(dry_run_queue.Question(candidate, placement))
        # Each task asks one question, but which one is not known before it has its slot.
        task = asyncio.create_task(self._run(namespace), name=f"dry run in {namespace}")
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._ended, namespace))

    def _ended(self, namespace: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._open.drop(namespace)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)
            self._records.failed()

    async def stop(self) -> None:
        """Cancel what is under way; a dry run has no effect."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, namespace: str) -> None:
        slot = await self._slots.take(namespace)
        one = self._next(namespace)
        try:
            if slot is not None:  # Else it is asked about again when its pause is over.
                self._conclude(one.candidate, one.placement, await self._send(one, slot))
        finally:
            self._asked.discard(one.candidate.uid)

    def _next(self, namespace: str) -> dry_run_queue.Question:
        queue = self._queues[namespace]
        found = queue.pop()
        if not queue:
            del self._queues[namespace]
        return found

    async def _send(self, one: dry_run_queue.Question, slot: bind_slots.Slot) -> ports.Outcome:
        try:
            await self._binds.rested()
            await self._writer.sure()
            self._slots.send(slot)
            return await self._writer.dry_run(one.candidate, one.placement)
        finally:
            self._slots.give_back(slot)

    def _conclude(
        self, candidate: queued_pods.Candidate, placement: decisions.Placement, outcome: ports.Outcome
    ) -> None:
        if candidate.uid not in self._ledger.backlog:
            return
        match outcome:
            case ports.Bound():
                self._accepted(candidate)
            case ports.Refused(message):
                self._refusals.refused(candidate, placement, self._clock())
                self._ledger.backlog.demote(candidate.uid)
                self._records.dry_run_refused()
                self._failed(candidate, message)
            case ports.Throttled():
                self._binds.rest(outcome)
            case _:
                log.debug("%s: no clear answer to the dry run: %s", candidate.title, outcome)

    def _accepted(self, candidate: queued_pods.Candidate) -> None:
        for uid in self._refusals.accepted(candidate, self._clock()):
            self._ledger.backlog.reinstate(uid)
        self._ledger.wake.set()
