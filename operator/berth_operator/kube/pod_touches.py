"""Voids the binds that an earlier leader may have under way, by changing their pods.

A bind names the revision of its pod, and etcd refuses it once that is another. So a new
leader changes each pod that the one before had declared, before it gives away a card: the
time of the last probe in the condition PodScheduled, of which nobody takes notice. A pod
that shows no condition yet is given one. A pod that was changed by somebody else meanwhile
needs no other change; if that was a bind, the new leader has to know of it first.
"""

import asyncio
import collections
import contextlib
import datetime as dt
import itertools
import logging
import math
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import msgspec

from berth_crds import vocabulary
from berth_crds.client import api, errors, history, lease, resources
from berth_operator.engine import bind_declaration
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import pod_status
from berth_operator.scheduling import queued_pods

log = logging.getLogger(__name__)

AT_ONCE: Final = 32
BYTES_AT_ONCE: Final = 4 << 20  # The server reads and writes whole pods, and has our Lease to renew beside.
PAUSE_SECONDS: Final = (0.1, 0.2, 0.5, 1.0)
REFUSALS: Final = (errors.Forbidden, errors.Invalid, errors.Malformed)
REFUSALS_HEEDED: Final = 20  # A pod that nobody may change must not keep all others from their cards.
TROUBLE_HEEDED: Final = 60  # In seconds longer than any Lease: the server that renews ours fails at this pod.
TROUBLE_SECONDS: Final = 60.0  # Of all together, where each attempt takes long, as with a webhook that hangs.
SERVER_SECONDS: Final = 3  # A webhook may hang for the pods of one namespace: the server is to say so.
CLIENT_SECONDS: Final = 10.0  # Longer, for what the client gives up is taken for trouble that all have.
LOGGED_EACH: Final = 10
REASON: Final = "LeaderChanged"
MESSAGE: Final = "A new leader of Berth has taken over and decides anew."


class Touches:
    """Changes pods that wait."""

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        shown: Callable[[str], pod_status.Verdict | None],
        *,
        size: Callable[[str], int] = lambda _uid: 0,
        wall: Callable[[], dt.datetime],
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._shown = shown
        self._wall = wall
        self._size = size
        self._under_way = UnderWay()

    async def void(self, declared: bind_declaration.BindDeclaration) -> str:
        """Change all pods that wait and were declared; return the newest revision that came of it.

        Of a pod with a fault no bind was ever sent in the revision that it has.
        """
        revisions = self._ledger.revisions
        due = [
            (entry.candidate, revisions[entry.candidate.uid].text)
            for entry in self._ledger.backlog.entries()
            if not entry.candidate.faults
            and declared.covers(entry.candidate.uid, revisions[entry.candidate.uid].number)
        ]
        if due:
            log.info(
                "waiting pods changed, so that a late bind of an earlier leader is refused: %d", len(due)
            )
        until = asyncio.get_running_loop().time() + TROUBLE_SECONDS
        due.sort(key=lambda one: self._size(one[0].uid))
        versions = await asyncio.gather(
            *(self._touch_surely(candidate, before, until) for candidate, before in due)
        )
        return max(versions, key=lambda one: history.revision(one) or 0, default="")

    async def _touch_surely(self, candidate: queued_pods.Candidate, before: str, until: float) -> str:
        """Change one pod, whatever it takes within reason; return its revision then, nothing without one."""
        for attempt in itertools.count():
            pause = PAUSE_SECONDS[min(attempt, len(PAUSE_SECONDS) - 1)]
            try:
                # Anew for each attempt: one may take long, and others are quick.
                async with self._under_way.one(self._size(candidate.uid)):
                    version = await self._changed(candidate, before, attempt)
                if version != before:
                    return version
            except errors.ClientError as error:
                pause = max(pause, getattr(error, "retry_after", None) or 0.0)
                late = asyncio.get_running_loop().time() >= until and not errors.everybodys(error)
                if late or attempt >= _patience(error):
                    log.warning("%s cannot be changed, so a late bind may arrive: %s", candidate.title, error)
                    return ""
                if attempt % LOGGED_EACH == LOGGED_EACH - 1:
                    log.warning("%s is not changed yet (%d): %s", candidate.title, attempt + 1, error)
            await asyncio.sleep(pause)
        raise AssertionError("counting does not end")

    async def touch(self, candidate: queued_pods.Candidate, before: str) -> None:
        """Try once to change a pod that has this revision."""
        await self._write(candidate, before, 0)

    async def _changed(self, candidate: queued_pods.Candidate, before: str, attempt: int) -> str:
        """Change a pod unless that is another by now; return its revision, nothing if it is gone."""
        try:
            try:
                return await self._write(candidate, before, attempt)
            except errors.Conflict:
                return await self._read(candidate)
        except errors.AmbiguousNotFound:
            raise  # Taken for the pod's end, it would leave a bind of it in force.
        except errors.NotFound:
            return ""

    async def _read(self, candidate: queued_pods.Candidate) -> str:
        where = candidate.namespace
        found = await self._session.get(
            resources.PODS, candidate.name, into=pod_status.Written, namespace=where
        )
        return found.metadata.resource_version

    async def _write(self, candidate: queued_pods.Candidate, before: str, attempt: int) -> str:
        # Another second in each attempt: what changes nothing is not written at all.
        moment = lease.second(self._wall() + dt.timedelta(seconds=attempt))
        path = resources.PODS.path(candidate.name, namespace=candidate.namespace, sub="status")
        thing = touch(candidate, self._shown(candidate.uid), before=before, moment=moment)
        answer = await self._session.send(
            "PATCH",
            path,
            params={"timeout": f"{SERVER_SECONDS}s"},
            body=msgspec.json.encode(thing),
            content=api.STRATEGIC_PATCH,
            deadline=CLIENT_SECONDS,
        )
        version = api.decode(answer, pod_status.Written, path=path).metadata.resource_version
        if not version:
            raise errors.Unreachable(f"{path}: the answer names no revision", ambiguous=True)
        return version


class UnderWay:
    """The writes that are under way: some, of so many bytes together, or a single one that has more."""

    def __init__(self) -> None:
        self._waiting: collections.deque[tuple[int, asyncio.Future[None]]] = collections.deque()
        self._count = 0
        self._bytes = 0

    @contextlib.asynccontextmanager
    async def one(self, size: int) -> AsyncIterator[None]:
        """Wait until there is room for a write of this size, and keep it during the block."""
        come = asyncio.get_running_loop().create_future()
        self._waiting.append((size, come))
        self._admit()
        await come
        try:
            yield
        finally:
            self._count, self._bytes = self._count - 1, self._bytes - size
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, come = self._waiting.popleft()
            if not come.done():
                self._count, self._bytes = self._count + 1, self._bytes + size
                come.set_result(None)

    def _has_room(self, size: int) -> bool:
        return not self._count or (self._count < AT_ONCE and self._bytes + size <= BYTES_AT_ONCE)


def _patience(error: errors.ClientError) -> float:
    """Return after how many failed attempts a pod is left as it is.

    A bind makes a pod longer as well, so a pod that etcd finds too large is left at once. Trouble
    that other requests have, too, is waited out: either it ends, or the lead does.
    """
    if isinstance(error, errors.Oversized):
        return 0
    if isinstance(error, REFUSALS):
        return REFUSALS_HEEDED
    return math.inf if errors.everybodys(error) else TROUBLE_HEEDED


def touch(
    candidate: queued_pods.Candidate, shown: pod_status.Verdict | None, *, before: str, moment: str
) -> dict[str, Any]:
    """Make the patch that changes a pod, good for one revision of it, without changing what it says."""
    condition = {"type": pod_status.SCHEDULED, "status": str(vocabulary.Truth.FALSE), "lastProbeTime": moment}
    if shown is None:
        condition |= {"reason": REASON, "message": MESSAGE, "lastTransitionTime": moment}
    return {
        "metadata": {"uid": candidate.uid, "resourceVersion": before},
        "status": {"conditions": [condition]},
    }
