"""Keeps the leader's declaration ahead of its binds.

A bind waits until the Lease surely covers its pod. A declaration that is being written may or may not
be in force already, so a pod must be covered by it and by the one before. Each new declaration names
the pods whose binds are under way, those that wait to be covered, and the first pods of the backlog,
so that one write serves many binds. Only a few unschedulable pods, and pods in backoff, are among
them. The declaration is renewed when it covers many pods without need, because a new leader has to
change each of these before it decides. A large pod takes the server as long as a hundred others, so
it is named only for its own bind.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from berth_operator.engine import bind_declaration, pod_revisions, ports
from berth_operator.engine.bind_declaration import BindDeclaration
from berth_operator.engine.ledger import Ledger

NAMED_AHEAD: Final = 512  # A write of the Lease for each so many old pods costs nothing beside their binds.
IDLE_AHEAD: Final = 64  # Of the pods of which no bind is sent for now, which all the same may be next.
MOST_IDLE: Final = 128
MOST_COVERED: Final = 1024  # A new leader changes so many in about a second.
LARGE: Final = 1 << 16  # Bytes of a pod.
MOST_BYTES: Final = 4 << 20  # Of all large pods that are covered without need.
CHECK_SECONDS: Final = 1.0
COMPARED_PER_SECOND: Final = 10_000  # Pods of which no bind is sent for now, to find the first of them.


class BindDeclarer:
    """Declares for which pods binds may be under way.

    `write` returns once the Lease carries a text; `size` returns how many bytes a pod has, if it is large.
    """

    def __init__(
        self,
        ledger: Ledger,
        write: Callable[[str], Awaitable[None]],
        size: Callable[[str], int] = lambda _uid: 0,
        *,
        clock: ports.Clock,
    ) -> None:
        self._ledger = ledger
        self._write = write
        self._size = size
        self._clock = clock
        # Nothing is covered before the first declaration.
        self._in_force: tuple[BindDeclaration, ...] = (BindDeclaration(pod_revisions.LATEST),)
        self._requested: set[str] = set()
        # The first of the idle, and until when they count.
        self._idle: tuple[float, list[str]] = (-math.inf, [])
        self._writing: asyncio.Task[None] | None = None

    async def permit(self, uid: str) -> None:
        """Wait until a bind of this pod is covered, or the pod does not wait any more."""
        while not self._covered(uid):
            self._requested.add(uid)
            await self.declare()

    async def run(self) -> None:
        """Renew the declaration for ever, whenever far more is covered than necessary."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self._covers_too_much():
                await self.declare()

    async def declare(self) -> None:
        """Declare anew, for the pods that wait now, unless that is under way; wait until it is done."""
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_next(), name="declare binds")
        await asyncio.shield(self._writing)

    def _covered(self, uid: str) -> bool:
        revision = self._ledger.revisions.get(uid)
        return revision is None or all(one.covers(uid, revision.number) for one in self._in_force)

    def _covers_too_much(self) -> bool:
        """Whether far more is covered than necessary; only pods that may be covered are examined."""
        known, declared = self._ledger.revisions, self._in_force[-1]
        newer = {uid for uid in known.changed if known[uid].number > declared.after}
        covered = newer | declared.uids
        if len(newer) > MOST_COVERED or self._bytes_of_large(covered) > MOST_BYTES:
            return True
        now, backlog = self._clock(), self._ledger.backlog
        if len(backlog) <= MOST_IDLE:
            return False
        return sum(backlog.idle(uid, now) for uid in covered) > MOST_IDLE

    def _bytes_of_large(self, covered: Iterable[str]) -> int:
        """Count the bytes of the large pods whose binds are not under way."""
        sizes = (self._size(uid) for uid in covered if uid not in self._ledger.assumed_pods)
        return sum(size for size in sizes if size >= LARGE)

    async def _write_next(self) -> None:
        await asyncio.sleep(0)  # Other binds of the same round join.
        new = self._next()
        self._in_force = (*self._in_force, new)
        await self._write(bind_declaration.encode(new))
        self._in_force = (new,)

    def _next(self) -> BindDeclaration:
        """Return a declaration that covers all newer pods, and by uid those that may be bound soon."""
        ledger, requested = self._ledger, self._requested
        self._requested = set()
        ahead = *ledger.backlog.first_in_line(NAMED_AHEAD), *self._first_idle()
        return BindDeclaration(
            ledger.revisions.take_newest(),
            frozenset((*ledger.assumed_pods, *requested, *(uid for uid in ahead if self._size(uid) < LARGE))),
        )

    def _first_idle(self) -> list[str]:
        """Return the first of the idle; where there are many, as they were some seconds ago."""
        now, backlog = self._clock(), self._ledger.backlog
        until, found = self._idle
        if now >= until:
            found = backlog.first_idle(IDLE_AHEAD, now)
            self._idle = now + len(backlog) / COMPARED_PER_SECOND, found
        return found
