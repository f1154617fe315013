"""The status of waiting pods: their PodScheduled condition, and Events.

A condition is written only when it changes, at a limited rate that makes way for binds, and never
to a pod that was bound meanwhile: the write names the revision that the decision was made on, so
the server refuses it once the pod has changed. Pods without a condition come first: a crowd whose
conditions change must not delay a new pod's first one. But a part of each batch is reserved for
rewrites, which a stream of new pods would delay. In both, the namespaces take turns. Conditions
are rewritten only as fast as the budget of bytes allows, because each write costs the whole pod.
"""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import functools
import itertools
import logging
import operator
from collections.abc import Callable
from typing import Any, Final

import msgspec

from berth_crds import card_part, text, vocabulary, wire
from berth_crds.client import api, errors, lease, resources
from berth_crds.vocabulary import DeviceType
from berth_operator.engine import fair_queue, rate_limiter
from berth_operator.kube import condition_budget, events
from berth_operator.scheduling import decisions, queued_pods, wording
from berth_operator.scheduling.devices import allocator
from berth_operator.translate import raw

log = logging.getLogger(__name__)

SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"  # The reason on which cluster autoscalers act.
ASSIGNED: Final = "Successfully assigned"  # So kube-scheduler's event begins, for which programs look.
FAILED: Final = "SchedulerError"  # Kubernetes' reason for a pod that fits and yet is not bound.
RETRY_SECONDS: Final = 1.0
AT_ONCE: Final = 8
BATCH: Final = 64  # After so many the order is found anew.
RESERVED_FOR_REWRITES: Final = 8  # Of a batch, for pods that have a condition already.
LONGEST_MESSAGE: Final = 4096
LATER: Final = errors.Conflict | errors.Unavailable | errors.AmbiguousNotFound
BY_MINOR: Final = operator.attrgetter("minor", "uuid")

Bound = Callable[[queued_pods.PodInfo, decisions.Placement, str], None]


@dataclasses.dataclass(frozen=True, slots=True)
class PodCondition:
    """The PodScheduled condition of a pod that waits: its reason and message."""

    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class ObservedPod:
    """A waiting pod in the API: its revision and its condition."""

    version: str
    condition: PodCondition | None
    size: int = 0  # In bytes; of a small pod it is 0 until we have written it.


class RevisionOnly(wire.Struct, frozen=True):
    """A written pod, of which only the revision is decoded."""

    metadata: wire.Meta = wire.Meta()


class PodStatusWriter:
    """Writes conditions and records Events."""

    def __init__(
        self,
        session: api.Api,
        recorder: events.EventRecorder,
        limiter: rate_limiter.RateLimiter,
        *,
        wall: Callable[[], dt.datetime],
        revised: Callable[[str, str], None] = lambda _uid, _version: None,
        bound: Bound = lambda _pod_info, _placement, _where: None,
    ) -> None:
        """Call `revised` with uid and revision of each written pod, and `bound` after each bind."""
        self._revised = revised
        self._bound = bound
        self._session = session
        self._recorder = recorder
        self._rate_limiter = limiter
        self._budget = condition_budget.ConditionBudget(lambda: asyncio.get_running_loop().time())
        self._wall = wall
        self._shown: dict[str, ObservedPod] = {}
        self._due: dict[str, tuple[queued_pods.PodInfo, PodCondition]] = {}
        # The pods that are due, by namespace.
        self._first_due = fair_queue.FairQueue[str]()
        self._rewrites_due = fair_queue.FairQueue[str]()
        self._in_flight: dict[str, PodCondition] = {}  # Writes under way.
        self._stuck: set[str] = set()  # Pods whose write waits for a newer revision, or for time.
        self._changed = asyncio.Event()

    # ------------------------------------------------------------ called by the feeds

    def pod_waiting(self, pod: raw.Pod) -> None:
        """Record the revision and condition of a waiting pod."""
        uid = pod.metadata.uid
        self._shown[uid] = ObservedPod(
            pod.metadata.resource_version, observed_condition(pod), pod.length or self.size(uid)
        )
        if uid in self._stuck:
            self._stuck.discard(uid)
            self._changed.set()

    def size(self, uid: str) -> int:
        """Return the size of a waiting pod in bytes; 0 for small ones of unknown size."""
        shown = self._shown.get(uid)
        return shown.size if shown is not None else 0

    def condition(self, uid: str) -> PodCondition | None:
        """Return the condition that a waiting pod has in the API, if any."""
        shown = self._shown.get(uid)
        return shown.condition if shown is not None else None

    def pod_left(self, uid: str) -> None:
        """Forget a pod that does not wait any more."""
        self._shown.pop(uid, None)
        self._due.pop(uid, None)

    # ------------------------------------------------------------ called by the engine

    def bound(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        """Report that a pod has its node and cards."""
        self._due.pop(pod_info.uid, None)
        where = placement_text(pod_info, placement)
        self._record(pod_info, "Scheduled", f"{ASSIGNED} {where}", warning=False)
        self._bound(pod_info, placement, where)

    def unschedulable(
        self, pod_info: queued_pods.PodInfo, message: str, *, fault: decisions.Reason | None = None
    ) -> None:
        """Report that a pod does not fit, if that is new; without a fault the reason is Unschedulable."""
        # Cut here and not when it is written: the condition in the API is compared with this one.
        condition = PodCondition(fault or UNSCHEDULABLE, text.line(message, most=LONGEST_MESSAGE))
        if self._show(pod_info, condition):
            self._record(pod_info, "FailedScheduling", condition.message, warning=True)

    def shown_message(self, uid: str) -> str:
        """Return the message of a waiting pod's condition, as it is or will be once it is written."""
        _, condition = self._due.get(uid, (None, self.condition(uid)))
        return condition.message if condition is not None and condition.reason == UNSCHEDULABLE else ""

    def not_bound(self, pod_info: queued_pods.PodInfo, message: str) -> None:
        """Report why a pod that fits is not bound, each time anew."""
        condition = PodCondition(FAILED, text.line(message, most=LONGEST_MESSAGE))
        self._show(pod_info, condition)
        self._record(pod_info, "FailedBinding", condition.message, warning=True)

    def _show(self, pod_info: queued_pods.PodInfo, condition: PodCondition) -> bool:
        """Queue the write of a condition; return whether it is a new one."""
        uid = pod_info.uid
        sent, shown = self._in_flight.get(uid), self._shown.get(uid)
        if sent == condition:
            self._due[uid] = pod_info, condition  # Should that write fail, it is still wanted.
            return False
        if sent is None and shown is not None and shown.condition == condition:
            self._due.pop(uid, None)
            return False
        if self._due.get(uid, (None, None))[1] == condition:
            return False
        self._due[uid] = pod_info, condition
        self._changed.set()
        return True

    def _record(self, pod_info: queued_pods.PodInfo, reason: str, message: str, *, warning: bool) -> None:
        self._recorder.record(
            events.Event(
                events.InvolvedObject(pod_info.namespace, pod_info.name, pod_info.uid),
                reason,
                message,
                warning,
            )
        )

    # ------------------------------------------------------------ writing conditions

    async def run(self) -> None:
        """Write conditions for ever, a few at a time."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if uids := self._next():
                await asyncio.sleep(await self._write_all(uids))
            else:
                await self._wait_more()
            # The next batch forgets pods that are gone.
            if self._due or self._first_due or self._rewrites_due:
                self._changed.set()

    async def _write_all(self, uids: list[str]) -> float:
        """Write a batch; return for how many seconds all writes must pause for the server."""
        # The first goes alone: while the server is unavailable, no other is tried.
        for start, end in itertools.pairwise((0, *range(1, len(uids), AT_ONCE), len(uids))):
            pause = max(await asyncio.gather(*map(self._try, uids[start:end])), default=0.0)
            if pause:
                return pause
        return 0.0

    def _next(self) -> list[str]:
        """Return the pods of the next batch: those without a condition first, each namespace in turn."""
        due: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
        may_rewrite = functools.cache(lambda namespace: not self._budget.exhausted(namespace))
        for uid, (pod_info, _) in self._due.items():
            if uid not in self._stuck and (
                not (has_condition := self.condition(uid) is not None) or may_rewrite(pod_info.namespace)
            ):
                due[has_condition].append((pod_info.namespace, uid))
        self._first_due.replace(due[False])
        self._rewrites_due.replace(due[True])
        new = self._first_due.pop_many(BATCH - min(RESERVED_FOR_REWRITES, len(self._rewrites_due)))
        return [*new, *self._rewrites_due.pop_many(BATCH - len(new))]

    async def _try(self, uid: str) -> float:
        """Write one condition; return for how many seconds all writes must pause for the server."""
        await self._rate_limiter.acquire()
        try:
            await self._write(uid)
        except errors.ClientError as error:
            self._keep_or_drop(uid, error)
            if errors.is_systemic(error):
                return max(RETRY_SECONDS, getattr(error, "retry_after", None) or 0.0)
            self._stuck.add(uid)
        return 0.0

    async def _wait_more(self) -> None:
        """Wait until more can be written: a new condition, a new revision, or a retry."""
        self._stuck &= self._due.keys()
        if self._due:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._changed.wait()
                    return
            self._stuck.clear()

    async def _write(self, uid: str) -> None:
        due, shown = self._due.get(uid), self._shown.get(uid)
        if due is None or shown is None:
            self._due.pop(uid, None)
            return
        pod_info, condition = due
        if shown.condition == condition:
            self._drop(uid, condition)  # An earlier write of it arrived by the watch only.
            return
        if shown.condition is not None and self._budget.exhausted(pod_info.namespace):
            return  # It stays due.
        answer = await self._send(pod_info, condition, shown)
        self._drop(uid, condition)
        self._revised(uid, api.decode(answer, RevisionOnly, path=pod_info.title).metadata.resource_version)
        if (now := self._shown.get(uid)) is not None:
            self._shown[uid] = ObservedPod(
                now.version, condition if now == shown else now.condition, len(answer)
            )

    async def _send(
        self, pod_info: queued_pods.PodInfo, condition: PodCondition, shown: ObservedPod
    ) -> bytes:
        """Write a condition, and charge the budget of the namespace if it replaces another."""
        body = patch(pod_info, condition, shown, moment=lease.rfc3339(self._wall()))
        path = resources.PODS.path(pod_info.name, namespace=pod_info.namespace, sub="status")
        answer, replaces = b"", shown.condition is not None
        self._in_flight[pod_info.uid] = condition
        if replaces:
            self._budget.spend(pod_info.namespace, shown.size)
        try:
            answer = await self._session.send(
                "PATCH", path, body=msgspec.json.encode(body), content=api.STRATEGIC_PATCH
            )
        finally:
            del self._in_flight[pod_info.uid]
            if replaces:
                self._budget.spend(pod_info.namespace, len(answer) - shown.size)
        return answer

    def _keep_or_drop(self, uid: str, error: errors.ClientError) -> None:
        if errors.is_systemic(error) or isinstance(error, LATER):
            # A newer revision is on its way to us, or the server is; both are soon.
            log.debug("a condition is written later: %s", error)
            return
        if not isinstance(error, errors.NotFound):
            log.warning("a condition cannot be written: %s", error)
        self._due.pop(uid, None)

    def _drop(self, uid: str, condition: PodCondition) -> None:
        """Remove a written condition from the queue, unless a newer one came meanwhile."""
        if self._due.get(uid, (None, None))[1] == condition:
            del self._due[uid]


def observed_condition(pod: raw.Pod) -> PodCondition | None:
    """Return the condition that a pod has in the API, if any."""
    for one in pod.status.conditions or ():
        if one.type == SCHEDULED and one.status == vocabulary.Truth.FALSE:
            # Anybody may have written it; one that is longer than ours may be is cut.
            reason, message = ((word or "")[: LONGEST_MESSAGE + 1] for word in (one.reason, one.message))
            return PodCondition(reason, message)
    return None


def placement_text(pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> str:
    """Return a pod's title, its node and its cards or parts of cards, and what enforces these, in words."""
    held = [one for one in allocator.peak_shares(placement.grants) if one.type == DeviceType.GPU]
    whole = sorted(one.minor for one in held if not _part(one))
    parts = [f"{_part(one)} of card {one.minor}" for one in sorted(held, key=BY_MINOR) if _part(one)]
    cards = [f"card{'s' if len(whole) > 1 else ''} {','.join(map(str, whole))}"] if whole else []
    given = f" with {wording.listed([*cards, *parts])}" if held else ""
    # Instances are enforced by the hardware.
    enforced = placement.isolation if any(_part(one) and not one.profile for one in held) else ""
    return f"{pod_info.title} to {placement.node}{given}{enforced and f', {enforced}'}"


def _part(share: decisions.Share) -> str:
    """Return the part of a card that a share is, in words; empty for the whole card."""
    return share.profile or card_part.describe(share.core, share.memory, share.card_memory)


def patch(
    pod_info: queued_pods.PodInfo, condition: PodCondition, shown: ObservedPod, *, moment: str
) -> dict[str, Any]:
    """Return the status patch of a condition, valid for exactly one revision of the pod."""
    body = {
        "type": SCHEDULED,
        "status": vocabulary.Truth.FALSE,
        "reason": condition.reason,
        "message": condition.message,
    }
    if shown.condition is None:
        body["lastTransitionTime"] = moment
    return {
        "metadata": {"uid": pod_info.uid, "resourceVersion": shown.version},
        "status": {"conditions": [body]},
    }
