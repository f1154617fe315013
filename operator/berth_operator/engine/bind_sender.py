"""Sends binds, and follows each until its outcome is certain.

A lost answer proves nothing: the bind may still be on its way. So the bind is sent again, which is harmless,
since every copy gives the same cards to the same pod. If that brings no answer either, or the bind is stale,
the pod is changed: a bind names the revision of its pod, so that no earlier copy can be carried out any more,
and the cards are free for others. An answer is final, but for a restore of etcd, which may undo the bind: if
the watch does not show it for a minute, it is followed like one that was lost. When a bind that the server
refused is tried again is said in `bind_refusals`.
"""

import asyncio
import dataclasses
import functools
import itertools
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from berth_crds import logs
from berth_operator.engine import bind_pauses, bind_slots, decision_records, ports, rate_limiter, totals
from berth_operator.engine.hold_states import State
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import cycle, decisions, queued_pods

log = logging.getLogger(__name__)

UNANSWERED_FACTOR: Final = (
    2  # Times the binds at once: the most that are decided and unanswered; more are decided at half of it.
)
READ_SECONDS: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
MOST_REVISIONS: Final = 3  # A pod that is changed all the time is tried again later.
REVISION_SECONDS: Final = 0.02  # Meanwhile its cards are kept from others.
MOST_RESENT: Final = 1  # After that, the pod is changed.
REPORTED_AFTER: Final = 3  # Reads of the pod: most outcomes are found by the first.
LOOK_SECONDS: Final = 30.0  # Between two looks for binds that are over and not seen.
UNSEEN: Final = "the bind is over, and the pod has no node"
WITHDRAWN: Final = "the pod's placement was withdrawn before it was bound; it will be scheduled again"


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How much is done at once and a second, and how long a bind may stay open on the server."""

    binds_at_once: int = 64
    binds_per_second: float = rate_limiter.UNLIMITED
    bind_deadline: float = 3.0

    @property
    def most_unanswered(self) -> int:
        """How many binds may be decided and not yet answered: late binds depend on old inventories."""
        most = UNANSWERED_FACTOR * self.binds_at_once
        return min(most, max(1, math.ceil(self.binds_per_second))) if self.binds_per_second else most


class BindSender:
    """Sends binds; `on_outcome` is called with the outcome of each.

    While one is not confirmed, `on_delay` is called with the last answer to it.
    """

    def __init__(
        self,
        ledger: Ledger,
        writer: ports.Writer,
        clock: ports.Clock,
        limits: Limits,
        records: decision_records.DecisionRecords,
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._clock = clock
        self._limits = limits
        self._most_unanswered = limits.most_unanswered
        self._records = records
        self._bind_slots = bind_slots.BindSlots(limits.binds_at_once, self._slots_changed)
        self.rate_limiter = rate_limiter.RateLimiter(clock, lambda: limits.binds_per_second)
        self.pauses = bind_pauses.BindPauses(clock, self.rate_limiter)
        self._tasks: dict[asyncio.Task[None], str] = {}  # With the uid of the pod.
        self._next_look = 0.0  # For binds that are over and that the watch has not shown.
        self._unsent: set[asyncio.Task[None]] = set()
        self._open = totals.Totals()  # Decided, and not concluded; by namespace.
        self._unanswered = totals.Totals()  # Of these.
        self._has_room = asyncio.Event()
        self.on_outcome: Callable[[queued_pods.PodInfo, decisions.Placement, ports.Outcome], None] = (
            lambda *_: None
        )
        self.on_delay: Callable[[queued_pods.PodInfo, str], None] = lambda *_: None

    @property
    def busy(self) -> bool:
        """Whether binds are under way."""
        return bool(self._tasks)

    # ------------------------------------------------------------ how many there may be

    @property
    def full(self) -> bool:
        """Whether so many are decided and unanswered that no more should be decided."""
        return self._unanswered_elsewhere >= self._most_unanswered

    def room(self, namespace: str) -> float:
        """Return how many more binds of a namespace may be decided."""
        if self.pauses.seconds_left(namespace):
            return 0
        width, slow = self._bind_slots.width(namespace), self._bind_slots.slow
        if width is None:
            return math.inf
        room = width - self._open[namespace]
        return (
            min(room, self._bind_slots.most_slow - sum(self._open[one] for one in slow))
            if namespace in slow
            else room
        )

    async def wait_for_room(self) -> None:
        """Wait until enough of the binds decided so far have an answer, and no backoff is left."""
        while self._crowded:
            self._has_room.clear()
            await self._has_room.wait()
        await self.rate_limiter.wait_backoff()

    def back_off(self, namespace: str, throttled: ports.Throttled) -> None:
        """Send no binds of a namespace for as long as the server asks; none at all if others pause, too."""
        self._bind_slots.narrow(namespace)
        whose = "all" if self.pauses.add(namespace, throttled.seconds) else f"those of {namespace}"
        log.info(
            "the server throttles binds; %s pause for %g s: %s", whose, throttled.seconds, throttled.message
        )

    @property
    def _unanswered_elsewhere(self) -> int:
        """How many binds are decided and unanswered, without those of slow namespaces."""
        return self._unanswered.sum - sum(self._unanswered[one] for one in self._bind_slots.slow)

    @property
    def _crowded(self) -> bool:
        return self._unanswered_elsewhere > self._most_unanswered // 2

    def _slots_changed(self) -> None:
        """Let the loop decide for other namespaces, or for one that is not slow any more."""
        self._ledger.wake.set()
        self._announce_room()

    def _announce_room(self) -> None:
        if not self._crowded:
            self._has_room.set()

    # ------------------------------------------------------------ from the decision to its outcome

    def start(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        """Send the bind of a pod whose hold is assumed."""
        self._unsent.add(self._begin(pod_info, self._bind(pod_info, placement)))
        self._unanswered.add(pod_info.namespace, 1)

    def _begin(self, pod_info: queued_pods.PodInfo, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"bind {pod_info.title}")
        self._tasks[task] = pod_info.uid
        self._open.add(pod_info.namespace, 1)
        task.add_done_callback(functools.partial(self._ended, pod_info.namespace))
        return task

    def _ended(self, namespace: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._unsent.discard(task)
        self._open.add(namespace, -1)
        if self._bind_slots.width(namespace) is not None:
            self._ledger.wake.set()  # The next of a slow namespace may be decided.
        if not task.cancelled() and (error := task.exception()) is not None:
            # The hold stays assumed: its cards are withheld, and never given out twice.
            log.error("%s failed", task.get_name(), exc_info=error)
            self._records.bind_failed()

    def follow_unseen(self, now: float) -> None:
        """Follow the binds that have long been over, and that the watch has not shown."""
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        for uid in set(self._ledger.assumed_pods.overdue()) - set(self._tasks.values()):
            assumed = self._ledger.assumed_pods[uid]
            self._begin(assumed.pod_info, self._follow_unseen(assumed.pod_info, assumed.placement))

    def next_look(self) -> float | None:
        """Return when `follow_unseen` has something to do, if ever."""
        return self._next_look if self._ledger.assumed_pods else None

    async def _follow_unseen(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        log.warning("%s: %s; it is followed", pod_info.title, UNSEEN, extra=logs.pod(pod_info.title))
        known = self._ledger.revisions.get(pod_info.uid)
        answer = ports.Unknown(UNSEEN, version=known.text if known is not None else "")
        outcome = await self._follow(pod_info, placement, answer)
        if not isinstance(outcome, ports.Bound):  # Otherwise the watch will show it.
            self.on_outcome(pod_info, placement, outcome)

    async def drain(self) -> None:
        """Drop what is not sent, and wait for the binds under way; `start` must not be called any more."""
        for task in self._unsent:
            task.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _bind(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        since = self._ledger.waiting_since.get(pod_info.uid)
        try:
            sent, outcome = await self._send(pod_info, placement)
        finally:
            self._unanswered.add(pod_info.namespace, -1)
            self._announce_room()
        if isinstance(outcome, ports.Unknown):
            level = logging.WARNING if outcome.open else logging.DEBUG
            log.log(
                level,
                "%s: no clear answer to the bind: %s",
                pod_info.title,
                outcome.message,
                extra=logs.fields(namespace=pod_info.namespace, pod=pod_info.name, node=placement.node),
            )
            outcome = await self._follow(pod_info, placement, outcome)
        self._records.bind_ended(outcome, since=since, sent=sent, now=self._clock())
        self.on_outcome(pod_info, placement, outcome)

    async def _send(
        self,
        pod_info: queued_pods.PodInfo,
        placement: decisions.Placement,
        *,
        again: bool = False,
        anyway: bool = False,
    ) -> tuple[float, ports.Outcome]:
        """Send a bind when a slot is free, and return when; a stale bind is only sent if `anyway`."""
        take = self._bind_slots.acquire_patiently if again else self._bind_slots.acquire
        if again:
            await self.pauses.wait(pod_info.namespace)
        if (slot := await take(pod_info.namespace)) is None:
            return self._clock(), self._unsent_outcome(pod_info, placement)
        try:
            await self.rate_limiter.acquire()
            # Until the lead is sure, and the Lease declares a bind of this pod.
            await self._writer.wait_until_leading()
            await self._writer.permit(pod_info.uid)
            if (task := asyncio.current_task()) is not None:
                self._unsent.discard(task)
            sent = self._clock()
            paused = not again and self.pauses.seconds_left(pod_info.namespace) > 0
            if paused or (not anyway and not self._ledger.assumed_pods.is_current(pod_info.uid)):
                self.rate_limiter.release()
                return sent, self._unsent_outcome(pod_info, placement)
            self._bind_slots.start_timing(slot)
            return sent, await self._call(pod_info, placement)
        finally:
            self._bind_slots.release(slot)

    async def _call(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> ports.Outcome:
        try:
            return await self._writer.bind(pod_info, placement)
        except Exception as error:
            log.exception("the bind of %s failed", pod_info.title)
            self._records.bind_failed()
            return ports.Unknown(str(error) or type(error).__name__)

    def _unsent_outcome(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> ports.Outcome:
        known = self._ledger.assumed_pods.get(pod_info.uid)
        return self._watched_outcome(pod_info, placement) or ports.Unsent(
            edited=known is not None and known.pod_info != pod_info
        )

    # ------------------------------------------------------------ without a clear answer

    async def _follow(
        self, pod_info: queued_pods.PodInfo, placement: decisions.Placement, answer: ports.Outcome
    ) -> ports.Outcome:
        """Return the outcome of a bind whose answer is unclear or lost.

        A lost bind may arrive at any time while we lead, even if the pod has no node yet. So its cards are
        given to no other pod, and the same bind is sent again until the pod is bound by us or by others, is
        deleted, or was changed, so that no copy can arrive. A pod whose bind is stale is changed at once.
        A bind that the server refused only for the pod's revision is sent again at once, too; if it named
        the current revision, it was refused for another reason.
        """
        lost = _may_arrive(answer)
        named = isinstance(answer, ports.Unknown) and bool(answer.version)
        # The server's deadline starts when the bind reaches it, which may have been only now. Of copies that
        # name a revision only one is carried out, so the next copy need not wait for that deadline.
        await asyncio.sleep(self._limits.bind_deadline if lost and not named else 0.0)
        for attempt in itertools.count():
            seen: ports.Outcome | ports.ReadResult = self._watched_outcome(
                pod_info, placement
            ) or await self._read(self._writer.read_pod, pod_info)
            if isinstance(seen, ports.Unbound) and lost and named:
                seen = await self._void_if_needed(pod_info, answer, seen, last=attempt >= MOST_RESENT)
            elif isinstance(seen, ports.Unbound) and not lost:
                seen = self._after_refusal(pod_info, answer, seen)
            if isinstance(seen, ports.Unbound):
                _, answer = await self._send(pod_info, placement, again=True, anyway=lost and not named)
                if isinstance(answer, ports.Bound | ports.Gone):
                    return answer
                lost = lost or _may_arrive(answer)
                if not lost and (attempt >= MOST_REVISIONS or not isinstance(answer, ports.Unknown)):
                    return _refusal(answer)
                self._report_progress(pod_info, answer, attempt)
            elif isinstance(seen, ports.Unknown):
                self._report_progress(pod_info, seen, attempt)
            else:
                return seen
            await asyncio.sleep(_pause(attempt, lost=lost))
        raise AssertionError("counting does not end")

    async def _void_if_needed(
        self, pod_info: queued_pods.PodInfo, answer: ports.Outcome, seen: ports.Unbound, *, last: bool
    ) -> ports.Outcome | ports.ReadResult:
        """Change a pod whose bind is lost, if the bind is stale or was sent for the last time."""
        stale = self._stale(pod_info, seen)
        if not (stale or last):
            return seen
        after = await self._read(self._writer.void, pod_info)
        if not isinstance(after, ports.Unbound):
            return after
        return ports.Unsent(edited=not seen.same) if stale else _refusal(answer)

    def _after_refusal(
        self, pod_info: queued_pods.PodInfo, answer: ports.Outcome, seen: ports.Unbound
    ) -> ports.Outcome | ports.Unbound:
        """Return the outcome of a bind that surely was refused; Unbound if it is to be sent again."""
        if _of_same_revision(answer, seen):
            return _refusal(answer)
        return ports.Unsent(edited=not seen.same) if self._stale(pod_info, seen) else seen

    def _stale(self, pod_info: queued_pods.PodInfo, seen: ports.Unbound) -> bool:
        return not (seen.same and self._ledger.assumed_pods.is_current(pod_info.uid))

    def _watched_outcome(
        self, pod_info: queued_pods.PodInfo, placement: decisions.Placement
    ) -> ports.Bound | ports.Refused | ports.Gone | None:
        """Return the outcome that the watch has shown; None as long as there is none."""
        state, hold = self._ledger.state(pod_info.uid), self._ledger.inventory.hold(pod_info.uid)
        if state is State.ASSUMED:
            return None
        if state is State.FREE or hold is None:
            return (
                ports.Refused(WITHDRAWN) if self._ledger.unbound(pod_info.uid) is not None else ports.Gone()
            )
        ours = cycle.hold_for(pod_info, placement)
        if (hold.node, hold.shares) == (ours.node, ours.shares):
            return ports.Bound()
        return ports.Refused(f"another scheduler bound the pod to {hold.node}")

    async def _read(
        self,
        ask: Callable[[queued_pods.PodInfo], Awaitable[ports.ReadResult]],
        pod_info: queued_pods.PodInfo,
    ) -> ports.ReadResult:
        try:
            return await ask(pod_info)
        except Exception as error:
            log.exception("%s cannot be read", pod_info.title)
            return ports.Unknown(str(error) or type(error).__name__)

    def _report_progress(self, pod_info: queued_pods.PodInfo, outcome: ports.Outcome, attempt: int) -> None:
        """Back off, or report a delay, depending on the answer to a bind that is still followed."""
        if isinstance(outcome, ports.Throttled):
            self.back_off(pod_info.namespace, outcome)
        elif isinstance(outcome, ports.Refused) or (
            isinstance(outcome, ports.Unknown) and attempt >= REPORTED_AFTER
        ):
            self.on_delay(pod_info, outcome.message)


def _pause(attempt: int, *, lost: bool) -> float:
    """Return how long to wait before the next attempt; short if only the revision was refused."""
    return READ_SECONDS[min(attempt, len(READ_SECONDS) - 1)] if lost else REVISION_SECONDS


def _may_arrive(answer: ports.Outcome) -> bool:
    """Whether a bind may yet be carried out, because its answer is lost."""
    return isinstance(answer, ports.Unknown) and answer.open


def _of_same_revision(answer: ports.Outcome, seen: ports.Unbound) -> bool:
    """Whether a bind was answered for the revision that the pod still has."""
    return isinstance(answer, ports.Unknown) and bool(seen.version) and answer.version == seen.version


def _refusal(answer: ports.Outcome) -> ports.Outcome:
    """Return what an answer means for a bind that surely was not carried out."""
    return ports.Refused(answer.message) if isinstance(answer, ports.Unknown) else answer
