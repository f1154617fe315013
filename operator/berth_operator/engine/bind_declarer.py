"""For which pods binds may be under way, as the leader declares it in its Lease ahead of its binds.

A bind may arrive long after its leader is gone, at an API server that does not know that yet. It
names the revision of the pod that it was decided for, so that a new leader can make it void by
changing the pod. The declaration says which pods must be changed: those that are newer than a
revision, and some older ones by uid. Both are coarse on purpose. A new pod is covered from the start
and costs no further write, and an old one is declared together with many others that are likely to
be next.

A bind waits until the Lease surely covers its pod. A declaration that is being written may or may not be in
force already, so a pod must be covered by it and by the one before. Each new declaration names the pods whose
binds are under way, those that wait to be covered, and the first pods of the backlog, so that one write
serves many binds. Only a few unschedulable pods, and pods in backoff, are among them. The declaration is
renewed when it covers many pods without need, because a new leader has to change each of these before it
decides. A large pod takes the server as long as a hundred others, so it is named only for its own bind. A pod
that still waits for its volumes has no bind under way. Where too many have one to be named, the declaration
covers all pods: the annotations of a Lease have a limit.
"""

import asyncio
import dataclasses
import heapq
import json
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from berth_operator.engine import pod_revisions, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import queued_pods

FORMAT: Final = 1
NAMED_AHEAD: Final = 512  # A write of the Lease for each so many old pods costs nothing beside their binds.
IDLE_AHEAD: Final = 64  # Of the pods of which no bind is sent for now, which all the same may be next.
MOST_IDLE: Final = 128
MOST_NAMED: Final = 4096  # 160 KB, of the 256 KiB that all annotations of an object may have.
MOST_COVERED: Final = 1024  # A new leader changes so many in about a second.
LARGE: Final = 1 << 16  # Bytes of a pod.
MOST_BYTES: Final = 4 << 20  # Of all large pods that are covered without need.
CHECK_SECONDS: Final = 1.0
COMPARED_PER_SECOND: Final = 10_000  # Pods of which no bind is sent for now, to find the first of them.


@dataclasses.dataclass(frozen=True, slots=True)
class BindDeclaration:
    """Binds may be under way for pods whose revision is above `after`, and for those with these uids."""

    after: int = 0
    uids: frozenset[str] = frozenset()

    def covers(self, uid: str, revision: int) -> bool:
        """Whether a bind of this pod, in this revision, may be under way."""
        return revision > self.after or uid in self.uids


EVERYTHING: Final = BindDeclaration(after=-1)


def encode(declared: BindDeclaration) -> str:
    """Return a declaration as text, the same for equal ones."""
    return json.dumps(
        {"v": FORMAT, "after": declared.after, "pods": sorted(declared.uids)}, separators=(",", ":")
    )


def decode(text: str | None) -> BindDeclaration:
    """Return the declaration of a text; one that is absent or cannot be read covers every pod."""
    try:
        record = json.loads(text or "")
        after, uids = record["after"], record["pods"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return EVERYTHING
    if record.get("v") != FORMAT or type(after) is not int or not _is_list_of_text(uids):
        return EVERYTHING
    return BindDeclaration(after, frozenset(uids))


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


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
        await self._write(encode(new))
        self._in_force = (new,)

    def _next(self) -> BindDeclaration:
        """Return a declaration that covers all newer pods, and by uid those that may be bound soon."""
        ledger, requested = self._ledger, self._requested
        self._requested = set()
        ahead = *ledger.backlog.first_in_line(NAMED_AHEAD), *self._first_idle()
        under_way = ledger.assumed_pods.keys() - ledger.assumed_pods.awaiting_volumes
        named = under_way | requested | {uid for uid in ahead if self._size(uid) < LARGE}
        newest = ledger.revisions.take_newest()
        return BindDeclaration(newest, frozenset(named)) if len(named) <= MOST_NAMED else EVERYTHING

    def _first_idle(self) -> list[str]:
        """Return the first of the idle; where there are many, as they were some seconds ago."""
        now, backlog = self._clock(), self._ledger.backlog
        until, found = self._idle
        if now >= until:
            idle = (entry for entry in backlog.entries() if entry.idle(now))
            first = heapq.nsmallest(IDLE_AHEAD, idle, key=queued_pods.SORT_KEY)
            found = [entry.pod_info.uid for entry in first]
            self._idle = now + len(backlog) / COMPARED_PER_SECOND, found
        return found
