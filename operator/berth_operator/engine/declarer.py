"""Keeps the leader's declaration ahead of its binds.

A bind waits until the Lease surely covers its pod. What is being written may be in force
already or not yet, so that a pod must be covered by the declaration before and by the one
that is under way. Each new one names the pods whose binds are under way, those that wait
to be covered, and those that come first in the backlog, so that one write serves many. It
is renewed when it has come to cover many pods without need, because a new leader has to
change each of them before it decides.
"""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from typing import Final

from berth_operator.engine import declaration, ledger, revisions

NAMED_AHEAD: Final = 512  # A write of the Lease for each so many old pods costs nothing beside their binds.
MOST_COVERED: Final = 1024  # A new leader changes so many in about a second.
LOOK_SECONDS: Final = 1.0


class Declarer:
    """Declares for which pods binds may be under way; `write` has the Lease carry a text, for certain."""

    def __init__(self, book: ledger.Ledger, write: Callable[[str], Awaitable[None]]) -> None:
        self._book = book
        self._write = write
        # Nothing is covered before the first declaration.
        self._in_force: tuple[declaration.Declaration, ...] = (declaration.Declaration(revisions.LATEST),)
        self._requested: set[str] = set()
        self._writing: asyncio.Task[None] | None = None

    async def permit(self, uid: str) -> None:
        """Wait until a bind of this pod is covered; a pod that waits no more needs no bind."""
        while not self._covered(uid):
            self._requested.add(uid)
            await self._declared()

    async def run(self) -> None:
        """Declare anew whenever far more is covered than need be, for ever."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._too_much():
                await self._declared()

    async def declare(self) -> None:
        """Declare for the first time, for what waits now."""
        await self._declared()

    def _covered(self, uid: str) -> bool:
        revision = self._book.revisions.get(uid)
        return revision is None or all(one.covers(uid, revision.number) for one in self._in_force)

    def _too_much(self) -> bool:
        known = self._book.revisions
        if len(known) <= MOST_COVERED:
            return False
        after = self._in_force[-1].after
        return sum(one.number > after for one in known.values()) > MOST_COVERED

    async def _declared(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._declare(), name="declare binds")
        await asyncio.shield(self._writing)

    async def _declare(self) -> None:
        await asyncio.sleep(0)  # Others that are decided in the same round join.
        new = self._next()
        self._in_force = (*self._in_force, new)
        await self._write(declaration.encode(new))
        self._in_force = (new,)

    def _next(self) -> declaration.Declaration:
        """Cover all that is newer than what is known, and by name what may be bound soon."""
        book, requested = self._book, self._requested
        self._requested = set()
        after = max((one.number for one in book.revisions.values()), default=0)
        first = heapq.nsmallest(NAMED_AHEAD, book.waiting.entries(), key=lambda entry: entry.turn)
        ahead = (entry.candidate.uid for entry in first)
        return declaration.Declaration(after, frozenset(itertools.chain(book.assumed, requested, ahead)))
