"""Voids the binds that an earlier leader may have under way, by changing their pods.

A bind names the revision of its pod, and etcd refuses it for any other revision. So a new leader
changes each pod that the last leader had declared, before it assigns any card: it sets
`lastProbeTime` of the condition PodScheduled, which nothing reads. A pod without that condition
gets one. A pod that has changed meanwhile needs no other change; if that change was a bind, the
new leader has to read it first.
"""

import asyncio
import collections
import contextlib
import datetime as dt
import itertools
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import msgspec

from berth_crds import vocabulary
from berth_crds.client import api, errors, history, lease, resources
from berth_operator.engine import bind_declarer
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import pod_status
from berth_operator.scheduling import queued_pods

log = logging.getLogger(__name__)

# The server has to renew our Lease meanwhile: so few at first, and one more after each answer.
FIRST_AT_ONCE: Final = 4
MOST_AT_ONCE: Final = 32
BYTES_AT_ONCE: Final = 4 << 20  # It handles whole pods.
PAUSE_SECONDS: Final = (0.1, 0.2, 0.5, 1.0)
REFUSALS: Final = (errors.Forbidden, errors.Invalid, errors.BadRequest)
MOST_REFUSALS: Final = 20  # A pod that nobody may change must not block all others.
MOST_FAILURES: Final = 60  # In seconds longer than any Lease: the server fails only at this pod.
FAILING_SECONDS: Final = 60.0  # For all pods: where each attempt takes long, as with a webhook that hangs.
SERVER_SECONDS: Final = 3  # A webhook may hang for the pods of one namespace: the server is to report that.
CLIENT_SECONDS: Final = 10.0  # Longer: a request that the client gives up looks like an outage.
LOGGED_EACH: Final = 10
REASON: Final = "LeaderChanged"
MESSAGE: Final = "A new leader of Berth has taken over and decides anew."


class PodTouches:
    """Changes waiting pods, so that earlier binds of them are void."""

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        condition_of: Callable[[str], pod_status.PodCondition | None],
        size_of: Callable[[str], int],
        wait_confirmed: Callable[[], Awaitable[None]],
        *,
        wall: Callable[[], dt.datetime],
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._condition_of = condition_of
        self._wall = wall
        self._size_of = size_of
        self._wait_confirmed = wait_confirmed
        self._slots = WriteSlots()

    async def void(self, declared: bind_declarer.BindDeclaration) -> str:
        """Change all waiting pods that were declared; return the newest of their revisions.

        Those with a fault, too: the last leader need not have found it, above all if that is the memory
        which they take together.
        """
        revisions = self._ledger.revisions
        due = [
            (entry.pod_info, revisions[entry.pod_info.uid].text)
            for entry in self._ledger.backlog.entries()
            if declared.covers(entry.pod_info.uid, revisions[entry.pod_info.uid].number)
        ]
        if due:
            log.info(
                "waiting pods changed, so that a late bind of an earlier leader is refused: %d", len(due)
            )
        until = asyncio.get_running_loop().time() + FAILING_SECONDS
        due.sort(key=lambda one: self._size_of(one[0].uid))
        versions = await asyncio.gather(
            *(self._touch_until_changed(pod_info, before, until) for pod_info, before in due)
        )
        return max(versions, key=lambda one: history.revision(one) or 0, default="")

    async def _touch_until_changed(self, pod_info: queued_pods.PodInfo, before: str, until: float) -> str:
        """Change one pod, with retries; return its new revision, empty if there is none."""
        for attempt in itertools.count():
            pause = PAUSE_SECONDS[min(attempt, len(PAUSE_SECONDS) - 1)]
            try:
                # A slot for each attempt: one may take long, and others are quick.
                async with self._slots.slot(self._size_of(pod_info.uid)):
                    await self._wait_confirmed()
                    version = await self._changed(pod_info, before, attempt)
                if version != before:
                    return version
            except errors.ClientError as error:
                pause = max(pause, getattr(error, "retry_after", None) or 0.0)
                late = asyncio.get_running_loop().time() >= until and not errors.is_systemic(error)
                if late or attempt >= _most_attempts(error):
                    log.warning("%s cannot be changed, so a late bind may arrive: %s", pod_info.title, error)
                    return ""
                if attempt % LOGGED_EACH == LOGGED_EACH - 1:
                    log.warning("%s is not changed yet (%d): %s", pod_info.title, attempt + 1, error)
            await asyncio.sleep(pause)
        raise AssertionError("counting does not end")

    async def touch(self, pod_info: queued_pods.PodInfo, before: str) -> None:
        """Try once to change a pod that has this revision."""
        await self._write(pod_info, before, 0)

    async def _changed(self, pod_info: queued_pods.PodInfo, before: str, attempt: int) -> str:
        """Change a pod, unless its revision is another already; return its revision, empty if it is gone."""
        try:
            try:
                return await self._write(pod_info, before, attempt)
            except errors.Conflict:
                return await self._read(pod_info)
        except errors.NotFound:
            return ""

    async def _read(self, pod_info: queued_pods.PodInfo) -> str:
        found = await self._session.get(
            resources.PODS, pod_info.name, into=pod_status.RevisionOnly, namespace=pod_info.namespace
        )
        return found.metadata.resource_version

    async def _write(self, pod_info: queued_pods.PodInfo, before: str, attempt: int) -> str:
        # Another second in each attempt: a patch that changes nothing makes no revision.
        moment = lease.rfc3339(self._wall() + dt.timedelta(seconds=attempt))
        path = resources.PODS.path(pod_info.name, namespace=pod_info.namespace, sub="status")
        answer = await self._session.send(
            "PATCH",
            path,
            params={"timeout": f"{SERVER_SECONDS}s"},
            body=msgspec.json.encode(
                touch(pod_info, self._condition_of(pod_info.uid), before=before, moment=moment)
            ),
            content=api.STRATEGIC_PATCH,
            deadline=CLIENT_SECONDS,
        )
        version = api.decode(answer, pod_status.RevisionOnly, path=path).metadata.resource_version
        if not version:
            raise errors.Unreachable(f"{path}: the answer names no revision", ambiguous=True)
        return version


class WriteSlots:
    """Slots for writes: a number that grows, with a limited sum of bytes, or a single larger one."""

    def __init__(self) -> None:
        self._most = FIRST_AT_ONCE
        self._waiting: collections.deque[tuple[int, asyncio.Future[None]]] = collections.deque()
        self._count = 0
        self._bytes = 0

    @contextlib.asynccontextmanager
    async def slot(self, size: int) -> AsyncIterator[None]:
        """Wait for a slot for a write of this size, and hold it during the block."""
        admitted = asyncio.get_running_loop().create_future()
        self._waiting.append((size, admitted))
        self._admit()
        await admitted
        try:
            yield
        finally:
            self._count, self._bytes = self._count - 1, self._bytes - size
            self._most = min(self._most + 1, MOST_AT_ONCE)
            self._admit()

    def _admit(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, admitted = self._waiting.popleft()
            if not admitted.done():
                self._count, self._bytes = self._count + 1, self._bytes + size
                admitted.set_result(None)

    def _has_room(self, size: int) -> bool:
        return not self._count or (self._count < self._most and self._bytes + size <= BYTES_AT_ONCE)


def _most_attempts(error: errors.ClientError) -> float:
    """Return after how many failed attempts a pod is given up.

    A bind makes a pod larger as well, so a pod that is too large for etcd is given up at once. An
    outage is waited out: either it ends, or our leadership does.
    """
    if isinstance(error, errors.Oversized):
        return 0
    if isinstance(error, REFUSALS):
        return MOST_REFUSALS
    return math.inf if errors.is_systemic(error) else MOST_FAILURES


def touch(
    pod_info: queued_pods.PodInfo, condition: pod_status.PodCondition | None, *, before: str, moment: str
) -> dict[str, Any]:
    """Return the patch that makes a new revision of a pod without changing its condition."""
    body = {"type": pod_status.SCHEDULED, "status": str(vocabulary.Truth.FALSE), "lastProbeTime": moment}
    if condition is None:
        body |= {"reason": REASON, "message": MESSAGE, "lastTransitionTime": moment}
    return {
        "metadata": {"uid": pod_info.uid, "resourceVersion": before},
        "status": {"conditions": [body]},
    }
