"""Binds that are sent as a dry run first, because the server may refuse them.

Nothing is written by a dry run and no card is kept for it, so hundreds of them hold nobody up: they
are sent beside the binds, a few at a time, and of a namespace whose answers take long fewer still.
An answer that is not clear needs no following. Which pods are meant is for `refusals` to say.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Final

from berth_operator.engine import binds, ledger, ports, records, refusals, slots
from berth_operator.scheduling import backlog, decisions

log = logging.getLogger(__name__)

AT_ONCE: Final = 16  # Few, so that the server is quick to answer the binds of others.
MOST: Final = 1024  # Those that wait for their turn included; more come when their pause is over.
MOST_OF_ONE: Final = 512  # Of one namespace.

Failed = Callable[[backlog.Candidate, str], None]


class DryRuns:
    """Asks the server what it would say; `failed` is told of pods that it would refuse."""

    def __init__(
        self,
        book: ledger.Ledger,
        writer: ports.Writer,
        notes: records.Records,
        sent: binds.Binds,
        *,
        clock: ports.Clock,
        failed: Failed,
    ) -> None:
        self._book = book
        self._binds = sent  # A server that asks for a rest means binds and dry runs alike.
        self._writer = writer
        self._notes = notes
        self._clock = clock
        self._failed = failed
        self._refusals = refusals.Refusals()
        self._slots = slots.Slots(AT_ONCE, lambda: None)
        self._tasks: dict[str, asyncio.Task[None]] = {}  # By the pod's uid.
        self._open = slots.Counts()  # Of these.

    def __repr__(self) -> str:
        """Describe the state."""
        return f"<DryRuns: {len(self._tasks)} under way, {self._refusals!r}>"

    # ------------------------------------------------------------ what became of binds

    def refused(self, candidate: backlog.Candidate, placement: decisions.Placement) -> None:
        """Remember a bind that was refused."""
        self._refusals.bind_refused(candidate, placement, self._clock())

    def bound(self, uid: str) -> None:
        """Forget the refusals of a pod that was bound."""
        self._refusals.forget(uid)

    # ------------------------------------------------------------ what is asked

    def needed(self, candidate: backlog.Candidate) -> bool:
        """Whether a pod may not be bound before the server has accepted a dry run."""
        return self._refusals.needs_dry_run(candidate, self._clock())

    def next_retry(self) -> float | None:
        """Return when `retry` has something to do."""
        return self._refusals.next_retry()

    def retry(self) -> None:
        """Ask about some of the refused again, where that is due."""
        for one in self._refusals.due(self._book.waiting, self._clock()):
            self._start(one.candidate, one.placement)

    def ask(self, candidate: backlog.Candidate, placement: decisions.Placement) -> None:
        """Ask whether the server would accept a bind, unless that has its own turn."""
        if not self._refusals.rests(candidate, placement):
            self._start(candidate, placement)

    def _start(self, candidate: backlog.Candidate, placement: decisions.Placement) -> None:
        width = self._slots.width(candidate.namespace)
        most = MOST_OF_ONE if width is None else width
        room = len(self._tasks) < MOST and self._open.of(candidate.namespace) < most
        if candidate.uid not in self._tasks and room:
            work = self._run(candidate, placement)
            task = asyncio.create_task(work, name=f"dry run of {candidate.title}")
            self._tasks[candidate.uid] = task
            self._open.add(candidate.namespace)
            task.add_done_callback(functools.partial(self._ended, candidate))

    def _ended(self, candidate: backlog.Candidate, task: asyncio.Task[None]) -> None:
        self._tasks.pop(candidate.uid, None)
        self._open.drop(candidate.namespace)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)
            self._notes.failed()

    async def stop(self) -> None:
        """Cancel what is under way; a dry run has no effect."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, candidate: backlog.Candidate, placement: decisions.Placement) -> None:
        slot = await self._slots.take(candidate.namespace)
        if slot is None:
            return  # It is asked about again when its pause is over.
        try:
            await self._binds.rested()
            await self._writer.sure()
            self._slots.send(slot)
            outcome = await self._writer.dry_run(candidate, placement)
        finally:
            self._slots.give_back(slot)
        if candidate.uid not in self._book.waiting:
            return
        match outcome:
            case ports.Bound():
                self._accepted(candidate)
            case ports.Refused(message):
                self._refusals.refused(candidate, placement, self._clock())
                self._book.waiting.demote(candidate.uid)
                self._notes.dry_run_refused()
                self._failed(candidate, message)
            case ports.Throttled():
                self._binds.rest(outcome)
            case _:
                log.debug("%s: no clear answer to the dry run: %s", candidate.title, outcome)

    def _accepted(self, candidate: backlog.Candidate) -> None:
        for uid in self._refusals.accepted(candidate, self._clock()):
            self._book.waiting.reinstate(uid)
        self._book.wake.set()
