"""Telling people: the PodScheduled condition of a pod that waits, and Events.

A condition is written only when what it says changes, at a pace that makes way for binds,
and never over a pod that was bound meanwhile: the write names the very revision that was
judged, so that the server refuses it once the pod has moved on. Pods that show nothing yet
come first: a crowd whose sentence changes must not keep a newcomer from its first one. But a
part of each batch is kept for the others, which a stream of newcomers would keep from theirs.
And of both the namespaces take turns: no crowd keeps the pods of others from theirs. What is
shown is replaced only as fast as `rewrites` allows, because each write costs the whole pod.
"""

import asyncio
import contextlib
import dataclasses
import datetime as dt
import functools
import itertools
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from berth_crds import card_part, text, vocabulary, wire
from berth_crds.client import api, errors, lease, resources
from berth_crds.vocabulary import DeviceType
from berth_operator.engine import rate_limiter
from berth_operator.kube import events, fair_queue, verdict_budget
from berth_operator.scheduling import decisions, queued_pods, wording
from berth_operator.scheduling.devices import allocator
from berth_operator.translate import raw

log = logging.getLogger(__name__)

SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"  # The word on which cluster autoscalers act.
FAILED: Final = "SchedulerError"  # Kubernetes' word for a pod that fits and is not bound all the same.
RETRY_SECONDS: Final = 1.0
AT_ONCE: Final = 8
BATCH: Final = 64  # After so many it is looked again who comes first.
KEPT_FOR_KNOWN: Final = 8  # Of a batch, for pods that show a verdict already.
LONGEST_MESSAGE: Final = 4096
LATER: Final = errors.Conflict | errors.Unavailable | errors.AmbiguousNotFound

Bound = Callable[[queued_pods.Candidate, decisions.Placement, str], None]


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Why a pod waits: a machine's word and a sentence."""

    reason: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """What the API shows of a waiting pod: its revision, and the verdict on it."""

    version: str
    verdict: Verdict | None
    size: int = 0  # In bytes; of a small pod it is known once we have written it.


class Written(wire.Struct, frozen=True):
    """A pod as it was written, of which only the revision matters."""

    metadata: wire.Meta = wire.Meta()


class PodStatusWriter:
    """Writes verdicts and posts Events."""

    def __init__(
        self,
        session: api.Api,
        notes: events.Events,
        rhythm: rate_limiter.RateLimiter,
        *,
        wall: Callable[[], dt.datetime],
        revised: Callable[[str, str], None] = lambda _uid, _version: None,
        bound: Bound = lambda _candidate, _placement, _where: None,
    ) -> None:
        """Remember who is told of revisions that were written, by uid, and where pods went, in words."""
        self._revised = revised
        self._bound = bound
        self._session = session
        self._notes = notes
        self._rhythm = rhythm
        self._rewrites = verdict_budget.Rewrites(lambda: asyncio.get_running_loop().time())
        self._wall = wall
        self._shown: dict[str, Shown] = {}
        self._due: dict[str, tuple[queued_pods.Candidate, Verdict]] = {}
        self._new, self._known = fair_queue.InTurns[str](), fair_queue.InTurns[str]()  # Due, by namespace.
        self._sent: dict[str, Verdict] = {}  # Under way: what is shown soon.
        self._stuck: set[str] = set()  # Those of which only a newer revision, or time, helps the verdict on.
        self._news = asyncio.Event()

    # ------------------------------------------------------------ what the feeds see

    def saw(self, pod: raw.Pod) -> None:
        """Remember what a waiting pod shows now."""
        uid = pod.metadata.uid
        size = pod.length or self.size(uid)
        self._shown[uid] = Shown(pod.metadata.resource_version, shown_verdict(pod), size)
        if uid in self._stuck:
            self._stuck.discard(uid)
            self._news.set()

    def size(self, uid: str) -> int:
        """Return how many bytes a waiting pod has, as far as that is known: of small ones it is 0."""
        shown = self._shown.get(uid)
        return shown.size if shown is not None else 0

    def verdict(self, uid: str) -> Verdict | None:
        """Return the verdict that a waiting pod shows now, if any."""
        shown = self._shown.get(uid)
        return shown.verdict if shown is not None else None

    def done(self, uid: str) -> None:
        """Forget a pod that waits no more."""
        self._shown.pop(uid, None)
        self._due.pop(uid, None)

    # ------------------------------------------------------------ what the engine tells

    def bound(self, candidate: queued_pods.Candidate, placement: decisions.Placement) -> None:
        """Report that a pod has its node and cards."""
        self._due.pop(candidate.uid, None)
        where = placed(candidate, placement)
        self._note(candidate, "Scheduled", f"Assigned {where}", warning=False)
        self._bound(candidate, placement, where)

    def unschedulable(
        self, candidate: queued_pods.Candidate, message: str, *, fault: decisions.Reason | None = None
    ) -> None:
        """Report that a pod does not fit, if that is news; only what nodes could cure is Unschedulable."""
        # Cut here and not when it is written: what is shown later must equal what was meant.
        verdict = Verdict(fault or UNSCHEDULABLE, text.line(message, most=LONGEST_MESSAGE))
        if self._show(candidate, verdict):
            self._note(candidate, "FailedScheduling", verdict.message, warning=True)

    def shown_message(self, uid: str) -> str:
        """Return what a waiting pod shows of why it waits, or will when its verdict is written."""
        due, shown = self._due.get(uid), self._shown.get(uid)
        verdict = due[1] if due is not None else shown.verdict if shown is not None else None
        return verdict.message if verdict is not None and verdict.reason == UNSCHEDULABLE else ""

    def bind_failed(self, candidate: queued_pods.Candidate, message: str) -> None:
        """Report that a pod has its place, and why its bind does not come about, each time anew."""
        verdict = Verdict(FAILED, text.line(f"The bind failed: {message}", most=LONGEST_MESSAGE))
        self._show(candidate, verdict)
        self._note(candidate, "FailedBinding", verdict.message, warning=True)

    def _show(self, candidate: queued_pods.Candidate, verdict: Verdict) -> bool:
        """Have a pod show a verdict, and tell whether that is news."""
        uid = candidate.uid
        sent, shown = self._sent.get(uid), self._shown.get(uid)
        if sent == verdict:
            self._due[uid] = candidate, verdict  # Should that write fail, it is still wanted.
            return False
        if sent is None and shown is not None and shown.verdict == verdict:
            self._due.pop(uid, None)
            return False
        if self._due.get(uid, (None, None))[1] == verdict:
            return False
        self._due[uid] = candidate, verdict
        self._news.set()
        return True

    def _note(self, candidate: queued_pods.Candidate, word: str, message: str, *, warning: bool) -> None:
        subject = events.Subject(candidate.namespace, candidate.name, candidate.uid)
        self._notes.tell(events.Note(subject, word, message, warning))

    # ------------------------------------------------------------ writing verdicts

    async def run(self) -> None:
        """Write verdicts for ever, a few at a time."""
        while True:
            await self._news.wait()
            self._news.clear()
            if uids := self._next():
                await asyncio.sleep(await self._write_all(uids))
            else:
                await self._until_more()
            if self._due or self._new or self._known:  # Who has gone since is forgotten by another look.
                self._news.set()

    async def _write_all(self, uids: list[str]) -> float:
        """Write some of what is due, and say how long everybody must wait for the server."""
        # The first goes alone: while the server is away, nobody else is tried.
        for start, end in itertools.pairwise((0, *range(1, len(uids), AT_ONCE), len(uids))):
            pause = max(await asyncio.gather(*map(self._try, uids[start:end])), default=0.0)
            if pause:
                return pause
        return 0.0

    def _next(self) -> list[str]:
        """Return the pods of the next batch: new ones first, and of both kinds each namespace in turn."""
        due: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
        may_rewrite = functools.cache(lambda namespace: not self._rewrites.owes(namespace))
        for uid, (candidate, _) in self._due.items():
            if uid not in self._stuck and (
                not (shows := self._shows(uid)) or may_rewrite(candidate.namespace)
            ):
                due[shows].append((candidate.namespace, uid))
        self._new.replace(due[False])
        self._known.replace(due[True])
        new = self._new.take(BATCH - min(KEPT_FOR_KNOWN, len(self._known)))
        return [*new, *self._known.take(BATCH - len(new))]

    def _shows(self, uid: str) -> bool:
        shown = self._shown.get(uid)
        return shown is not None and shown.verdict is not None

    async def _try(self, uid: str) -> float:
        """Write one verdict, if that can be done; say how long everybody must wait for the server."""
        await self._rhythm.acquire()
        try:
            await self._write(uid)
        except errors.ClientError as error:
            self._keep_or_drop(uid, error)
            if errors.everybodys(error):
                return max(RETRY_SECONDS, getattr(error, "retry_after", None) or 0.0)
            self._stuck.add(uid)
        return 0.0

    async def _until_more(self) -> None:
        """Wait until more can be written: a new verdict, a pod that has moved on, or what time allows."""
        self._stuck &= self._due.keys()
        if self._due:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RETRY_SECONDS):
                    await self._news.wait()
                    return
            self._stuck.clear()

    async def _write(self, uid: str) -> None:
        due, shown = self._due.get(uid), self._shown.get(uid)
        if due is None or shown is None:
            self._due.pop(uid, None)
            return
        candidate, verdict = due
        if shown.verdict == verdict:
            self._drop(uid, verdict)  # An earlier write of it was heard of by the watch alone.
            return
        if shown.verdict is not None and self._rewrites.owes(candidate.namespace):
            return  # It stays due.
        answer = await self._send(candidate, verdict, shown)
        self._drop(uid, verdict)
        version = api.decode(answer, Written, path=candidate.title).metadata.resource_version
        self._revised(uid, version)
        if (now := self._shown.get(uid)) is not None:
            says = verdict if now == shown else now.verdict
            self._shown[uid] = Shown(now.version, says, len(answer))

    async def _send(self, candidate: queued_pods.Candidate, verdict: Verdict, shown: Shown) -> bytes:
        """Write a verdict, and have the namespace pay for it where it replaces another."""
        body = patch(candidate, verdict, shown, moment=lease.second(self._wall()))
        path = resources.PODS.path(candidate.name, namespace=candidate.namespace, sub="status")
        answer, replaces = b"", shown.verdict is not None
        self._sent[candidate.uid] = verdict
        if replaces:
            self._rewrites.spend(candidate.namespace, shown.size)
        try:
            answer = await self._session.send(
                "PATCH", path, body=msgspec.json.encode(body), content=api.STRATEGIC_PATCH
            )
        finally:
            del self._sent[candidate.uid]
            if replaces:
                self._rewrites.spend(candidate.namespace, len(answer) - shown.size)
        return answer

    def _keep_or_drop(self, uid: str, error: errors.ClientError) -> None:
        if errors.everybodys(error) or isinstance(error, LATER):
            # A newer revision is on its way to us, or the server is; both are soon.
            log.debug("a verdict waits: %s", error)
            return
        if not isinstance(error, errors.NotFound):
            log.warning("a verdict cannot be written: %s", error)
        self._due.pop(uid, None)

    def _drop(self, uid: str, verdict: Verdict) -> None:
        """Remove a written verdict from the list, unless a newer one came meanwhile."""
        if self._due.get(uid, (None, None))[1] == verdict:
            del self._due[uid]


def shown_verdict(pod: raw.Pod) -> Verdict | None:
    """Read the verdict that a pod shows, if any."""
    for one in pod.status.conditions or ():
        if one.type == SCHEDULED and one.status == vocabulary.Truth.FALSE:
            # Anybody may have written it, and more than we would write is not ours anyway.
            reason, message = ((word or "")[: LONGEST_MESSAGE + 1] for word in (one.reason, one.message))
            return Verdict(reason, message)
    return None


def placed(candidate: queued_pods.Candidate, placement: decisions.Placement) -> str:
    """Return where a pod went, and which cards or parts of them it was given."""
    held = [one for one in allocator.held(placement.grants) if one.type == DeviceType.GPU]
    whole = sorted(one.minor for one in held if not _part(one))
    parts = [f"{_part(one)} of card {one.minor}" for one in sorted(held, key=_by_minor) if _part(one)]
    cards = [f"card{'s' if len(whole) > 1 else ''} {','.join(map(str, whole))}"] if whole else []
    given = f" with {wording.listed([*cards, *parts])}" if held else ""
    return f"{candidate.title} to {placement.node}{given}"


def _by_minor(share: decisions.Share) -> tuple[int, str]:
    return share.minor, share.uuid


def _part(share: decisions.Share) -> str:
    """Return which part of a card a share is; nothing where it is all of it."""
    return share.profile or card_part.words(share.core, share.memory, share.card_memory)


def patch(candidate: queued_pods.Candidate, verdict: Verdict, shown: Shown, *, moment: str) -> dict[str, Any]:
    """Make the status patch of a verdict, good for exactly the revision that was judged."""
    condition = {
        "type": SCHEDULED,
        "status": vocabulary.Truth.FALSE,
        "reason": verdict.reason,
        "message": verdict.message,
    }
    if shown.verdict is None:
        condition["lastTransitionTime"] = moment
    meta = {"uid": candidate.uid, "resourceVersion": shown.version}
    return {"metadata": meta, "status": {"conditions": [condition]}}
