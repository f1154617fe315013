"""Binds that are sent as a dry run first, because the server may refuse them.

A dry run writes nothing and no card is kept for it, so hundreds of them do not delay other pods: they
are sent beside the binds, a few at a time, and even fewer of a namespace whose answers take long. An
unclear answer need not be followed. `bind_refusals` decides which pods need a dry run.

The order need not be that of the backlog. If a server refuses the binds of hundreds of pods, the few that
it would accept should be found soon, wherever they are in the backlog. Pods with the same request and
priority are likely to get the same answer: so the kinds take turns, and of each kind the first and the last
take turns.
"""

import asyncio
import collections
import dataclasses
import functools
import logging
from collections.abc import Callable
from typing import Final

from berth_crds import tasks
from berth_operator.engine import (
    bind_refusals,
    bind_sender,
    bind_slots,
    decision_records,
    ports,
    totals,
)
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, queued_pods

log = logging.getLogger(__name__)

AT_ONCE: Final = 16  # Few, so that the server is quick to answer the binds of others.
MOST_OPEN: Final = 1024  # Those in the queues included; others are tried after their next backoff.
MOST_OPEN_OF_NAMESPACE: Final = 512  # Of one namespace.

Failed = Callable[[queued_pods.PodInfo, str], None]
Kind = tuple[object, int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class DryRun:
    """A pod, and where the server is asked to bind it."""

    pod_info: queued_pods.PodInfo
    placement: decisions.Placement


@dataclasses.dataclass(slots=True)
class _KindQueue:
    """The dry runs of one kind of pods."""

    dry_runs: collections.deque[DryRun] = dataclasses.field(default_factory=collections.deque)
    take_last: bool = False  # Whether the last one comes next.

    def pop(self) -> DryRun:
        found = self.dry_runs.pop() if self.take_last else self.dry_runs.popleft()
        self.take_last = not self.take_last
        return found


class DryRunQueue:
    """The dry runs of one namespace that are not sent yet."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, _KindQueue] = {}  # The kind that comes next is the first.

    def __bool__(self) -> bool:
        """Whether any dry run waits."""
        return bool(self._kinds)

    def push(self, dry_run: DryRun) -> None:
        """Add a dry run."""
        pod_info = dry_run.pod_info
        self._kinds.setdefault(
            (pod_info.asks, pod_info.priority, pod_info.label), _KindQueue()
        ).dry_runs.append(dry_run)

    def pop(self) -> DryRun:
        """Remove the next dry run, and return it."""
        kind = next(iter(self._kinds))
        queue = self._kinds.pop(kind)
        found = queue.pop()
        if queue.dry_runs:
            self._kinds[kind] = queue
        return found


class DryRuns:
    """Sends dry runs; `failed` is called for pods whose binds the server would refuse."""

    def __init__(
        self,
        ledger: Ledger,
        writer: ports.Writer,
        records: decision_records.DecisionRecords,
        sender: bind_sender.BindSender,
        *,
        clock: ports.Clock,
        failed: Failed,
    ) -> None:
        self._ledger = ledger
        self._bind_sender = sender  # A server that asks for backoff means binds and dry runs.
        self._writer = writer
        self._records = records
        self._clock = clock
        self._on_refusal = failed
        self.refusals = bind_refusals.BindRefusals()
        self._bind_slots = bind_slots.BindSlots(AT_ONCE, lambda: None)
        self._tasks: set[asyncio.Task[None]] = set()
        self._open_uids: set[str] = set()  # The uids of the pods that these ask about.
        self._open = totals.Totals()  # Of these, by namespace.
        self._queues: dict[str, DryRunQueue] = {}  # By namespace; what is not sent yet.

    def retry(self) -> None:
        """Send the dry runs again that are due."""
        for refused in self.refusals.due_retries(self._ledger.backlog, self._clock()):
            self._start(refused.pod_info, refused.placement)

    def start(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        """Send a dry run of a bind, unless it is postponed."""
        if not self.refusals.is_postponed(pod_info, placement):
            self._start(pod_info, placement)

    def _start(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        width = self._bind_slots.width(pod_info.namespace)
        most = MOST_OPEN_OF_NAMESPACE if width is None else width
        room = len(self._tasks) < MOST_OPEN and self._open[pod_info.namespace] < most
        if pod_info.uid in self._open_uids or not room:
            return
        namespace = pod_info.namespace
        self._open_uids.add(pod_info.uid)
        self._open.add(namespace, 1)
        self._queues.setdefault(namespace, DryRunQueue()).push(DryRun(pod_info, placement))
        # Each task sends one dry run, but which one is not known before it has its slot.
        task = asyncio.create_task(self._run(namespace), name=f"dry run in {namespace}")
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._ended, namespace))

    def _ended(self, namespace: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._open.add(namespace, -1)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)
            self._records.bind_failed()

    async def stop(self) -> None:
        """Cancel the dry runs under way; they have no effect."""
        await tasks.end(list(self._tasks))

    async def _run(self, namespace: str) -> None:
        await self._bind_sender.pauses.wait(namespace)
        slot = await self._bind_slots.acquire(namespace)
        dry_run = self._next(namespace)
        try:
            if slot is not None:  # Otherwise it is tried again after its backoff.
                self._conclude(dry_run, await self._send(dry_run, slot))
        finally:
            self._open_uids.discard(dry_run.pod_info.uid)

    def _next(self, namespace: str) -> DryRun:
        queue = self._queues[namespace]
        found = queue.pop()
        if not queue:
            del self._queues[namespace]
        return found

    async def _send(self, dry_run: DryRun, slot: bind_slots.Slot) -> ports.Outcome:
        try:
            await self._bind_sender.rate_limiter.wait_backoff()
            await self._writer.wait_until_leading()
            self._bind_slots.start_timing(slot)
            return await self._writer.dry_run(dry_run.pod_info, dry_run.placement)
        finally:
            self._bind_slots.release(slot)

    def _conclude(self, dry_run: DryRun, outcome: ports.Outcome) -> None:
        pod_info = dry_run.pod_info
        if pod_info.uid not in self._ledger.backlog:
            return
        match outcome:
            case ports.Bound():
                self._accepted(pod_info)
            case ports.Refused(message):
                self.refusals.dry_run_refused(pod_info, dry_run.placement, self._clock())
                self._ledger.backlog.demote(pod_info.uid)
                self._records.bind_failed()
                self._on_refusal(pod_info, message)
            case ports.Throttled():
                self._bind_sender.back_off(pod_info.namespace, outcome)
            case _:
                log.debug("%s: no clear answer to the dry run: %s", pod_info.title, outcome)

    def _accepted(self, pod_info: queued_pods.PodInfo) -> None:
        for uid in self.refusals.dry_run_accepted(pod_info, self._clock()):
            self._ledger.backlog.reinstate(uid)
        self._ledger.wake.set()
