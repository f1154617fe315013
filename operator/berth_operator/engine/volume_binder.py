"""Gets the claims of a pod their volumes, as a step before the pod is bound.

The pod is assumed on its node, so that its cards are held meanwhile. For each claim that waits for a node,
either a volume that exists is marked as meant for it, or the node is written on it as selected, so that its
provisioner makes a volume there. Then Kubernetes binds both, and only after that is the pod bound.

All that counts is in the API, and nothing is concluded from an answer. Every write names the revision that
was read, and after it the claim is read again: a write that is lost, or of which the answer is lost, is found
done or is repeated. A process that ends at any moment leaves claims that are not selected, selected or bound;
whoever leads next reads them, decides for the node that is selected, and goes on here. A write that arrives
late finds another revision, or selects a node that the next leader then finds selected.

A provisioner that cannot make the volume takes the node off the claim again. Then the pod's hold is released,
and the node is passed over for a time. The same is done if the volumes take too long.
"""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar, assert_never

from berth_crds import tasks
from berth_operator.engine import decision_records, ports, slots_in_turns
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.volumes import facts, matching, reach

log = logging.getLogger(__name__)

# A slower volume is waited for again later; meanwhile others may have the cards.
LONGEST_SECONDS: Final = 300.0
PASSED_OVER_SECONDS: Final = 30.0
READ_SECONDS: Final = 10.0  # Claims are read again after this time even if the watch shows no change.
RETRY_SECONDS: Final = 0.5  # After a call without a clear answer.
REPORTED_AFTER_SECONDS: Final = 2.0
CALLS_AT_ONCE: Final = 16
MOST_REMEMBERED: Final = 4096  # Claims that surely had a node.


T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Ready:
    """All claims of the pod are bound to volumes that its node can reach."""


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """No volume came for a claim on that node: the node is passed over for a time."""

    message: str
    claim: facts.ClaimKey


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A claim has no volume yet; it is read again when it changes, or after so many seconds."""

    message: str = ""
    seconds: float = READ_SECONDS


Outcome = Ready | Failed | ports.Refused | ports.Unsent
OnOutcome = Callable[[queued_pods.PodInfo, decisions.Placement, Outcome], None]
READY: Final = Ready()
AT_ONCE: Final = Waiting(seconds=0.0)


class _Provisioned(NamedTuple):
    """A claim whose volume is being made, as it was read, and until when that is not to be read again."""

    claim: facts.Claim
    until: float


class _Selected(NamedTuple):
    """The node that a claim surely had, and since when."""

    node: str
    since: float


@dataclasses.dataclass(slots=True)
class _Step:
    """The claims of one pod on their way to volumes; `ready` are those whose volumes its node can reach."""

    pod_info: queued_pods.PodInfo
    node: str
    began: float
    ready: set[facts.ClaimKey]
    provisioned: dict[facts.ClaimKey, _Provisioned] = dataclasses.field(default_factory=dict)
    reported: str = ""

    @property
    def open(self) -> list[facts.ClaimKey]:
        """The claims whose volumes are not there yet."""
        keys = (one.key for one in self.pod_info.demand.claims)
        return [key for key in keys if key not in self.ready]


class VolumeBinder:
    """Gets claims their volumes; `on_outcome` is called with what became of those of each pod.

    While a pod waits for long, `on_delay` is called with what it waits for.
    """

    def __init__(
        self,
        ledger: Ledger,
        writer: ports.Writer,
        clock: ports.Clock,
        records: decision_records.DecisionRecords,
    ) -> None:
        self._ledger = ledger
        self._volumes = ledger.inventory.volumes
        self._writer = writer
        self._clock = clock
        self._records = records
        self._calls = slots_in_turns.SlotsInTurns(CALLS_AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}  # By the uid of the pod.
        self._passed_over: dict[tuple[facts.ClaimKey, str], float] = {}  # Until when, the first one first.
        # By the uid of the claim, also while its pod is decided anew; the last one comes last.
        self._selected: dict[str, _Selected] = {}
        self.on_outcome: OnOutcome = lambda *_: None
        self.on_delay: Callable[[queued_pods.PodInfo, str], None] = lambda *_: None

    # ------------------------------------------------------------ nodes that are passed over

    def next_due(self) -> float | None:
        """Return when a node is no longer passed over."""
        return next(iter(self._passed_over.values()), None)

    def resume_due(self, now: float) -> None:
        """No longer pass over the nodes whose time has come."""
        for (claim, node), until in list(self._passed_over.items()):
            if until > now:
                break
            del self._passed_over[claim, node]
            self._volumes.pass_over(claim, node, passed=False)

    def pass_over(self, claim: facts.ClaimKey, node: str) -> None:
        """Place no pod with this claim on a node for a time."""
        self._passed_over.pop((claim, node), None)
        self._passed_over[claim, node] = self._clock() + PASSED_OVER_SECONDS
        self._volumes.pass_over(claim, node)

    # ------------------------------------------------------------ the step of one pod

    def is_needed(self, pod_info: queued_pods.PodInfo) -> bool:
        """Whether a claim of a pod has no volume yet."""
        claims = pod_info.demand.claims
        return bool(claims) and len(self._bound(pod_info)) < len(claims)

    def _bound(self, pod_info: queued_pods.PodInfo) -> set[facts.ClaimKey]:
        """Return the claims that are bound; the decision depended on where their volumes can be reached."""
        found = (self._volumes.claims.get(one.key) for one in pod_info.demand.claims)
        return {claim.key for claim in found if claim is not None and claim.is_bound}

    def start(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        """Begin to get the claims of an assumed pod their volumes."""
        if (before := self._tasks.get(pod_info.uid)) is not None:
            before.cancel()
        self._ledger.assumed_pods.awaiting_volumes.add(pod_info.uid)
        task = asyncio.create_task(self._run(pod_info, placement), name=f"volumes of {pod_info.title}")
        self._tasks[pod_info.uid] = task
        task.add_done_callback(functools.partial(self._ended, pod_info.uid))

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        self._leave(uid, task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # The hold stays assumed: its cards are withheld, and never given out twice.
            log.error("%s failed", task.get_name(), exc_info=error)
            self._records.bind_failed()

    def _leave(self, uid: str, task: asyncio.Task[None] | None) -> bool:
        """Forget the step of a pod, unless another one has begun meanwhile; return whether it was known."""
        if self._tasks.get(uid) is not task:
            return False
        del self._tasks[uid]
        self._ledger.assumed_pods.volumes_there(uid)
        return True

    async def stop(self) -> None:
        """End all steps under way: whoever leads next reads what was done, and goes on."""
        await tasks.end(list(self._tasks.values()))

    async def _run(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        step = _Step(pod_info, placement.node, self._clock(), self._bound(pod_info))
        step.began = self._waited_since(step)
        with self._ledger.volumes.following(step.open) as changed:
            outcome = await self._until_ready(step, changed)
        if self._leave(pod_info.uid, asyncio.current_task()):
            self.on_outcome(pod_info, placement, outcome)

    async def _until_ready(self, step: _Step, changed: asyncio.Event) -> Outcome:
        while True:
            changed.clear()
            found = await self._advance(step)
            if not isinstance(found, Waiting):
                return found
            self._report(step, found)
            left = step.began + LONGEST_SECONDS - self._clock()
            if left <= 0:
                return self._too_late(step)
            soon = math.inf if step.reported else REPORTED_AFTER_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(found.seconds, left, soon)):
                    await changed.wait()

    def _waited_since(self, step: _Step) -> float:
        """Return since when the claims of a pod have waited, also before the pod was decided anew."""
        since = [found.since for uid in self._uids(step) if (found := self._selected.get(uid)) is not None]
        return min([step.began, *since])

    def _uids(self, step: _Step) -> list[str]:
        return [claim.uid for key in step.open if (claim := self._volumes.claims.get(key)) is not None]

    def _too_late(self, step: _Step) -> Failed:
        """Return that a volume has not come, and begin to count anew."""
        for uid in self._uids(step):
            self._selected.pop(uid, None)
        claim = step.open[0]
        return Failed(f"the volume of claim {claim[1]} was not there within {LONGEST_SECONDS:g} s", claim)

    def _report(self, step: _Step, waiting: Waiting) -> None:
        """Report what a pod waits for, once it takes long."""
        late = self._clock() - step.began >= REPORTED_AFTER_SECONDS
        if late and waiting.message not in {"", step.reported}:
            step.reported = waiting.message
            self.on_delay(step.pod_info, waiting.message)

    async def _advance(self, step: _Step) -> Outcome | Waiting:
        """Do for each claim what can be done now; return the outcome, or what is waited for."""
        waiting: list[Waiting] = []
        for key in step.open:
            if not self._ledger.assumed_pods.is_current(step.pod_info.uid):
                known = self._ledger.assumed_pods.get(step.pod_info.uid)
                return ports.Unsent(edited=known is not None and known.pod_info != step.pod_info)
            found = await self._advance_claim(step, key)
            if isinstance(found, Waiting):
                waiting.append(found)
            elif isinstance(found, Ready):
                step.ready.add(key)
            else:
                return found
        return min(waiting, key=lambda one: one.seconds, default=READY)

    async def _advance_claim(self, step: _Step, key: facts.ClaimKey) -> Outcome | Waiting:
        """Read a claim, and do the next thing for it.

        One whose volume is being made is read again only if it has changed, or after a time. Thousands of
        pods may use many claims, and go through them all whenever one of these changes.
        """
        if (known := self._volumes.claims.get(key)) is None:
            return ports.Unsent()  # It was deleted: the next decision says so.
        made, now = step.provisioned.get(key), self._clock()
        if made is not None and made.claim == known and now < made.until:
            return _being_made(known, step.node, made.until - now)
        match claim := await self._call(key[0], self._writer.volumes.read_claim, known):
            case ports.Gone():
                self._ledger.volumes.claim_gone(key, known.uid)
                return ports.Unsent()
            case ports.Unknown(message):
                return Waiting(message, RETRY_SECONDS)
            case facts.Claim():
                self._ledger.volumes.claim_read(claim)
                return await self._advance_to(step, claim)
        assert_never(claim)

    async def _advance_to(self, step: _Step, claim: facts.Claim) -> Outcome | Waiting:
        """Do the next thing for a claim as it is now."""
        selected = self._volumes.selected_node(claim)
        if claim.is_deleted or claim.is_lost or selected not in {"", step.node}:
            return ports.Unsent()  # The next decision depends on that.
        if claim.is_bound:
            self._selected.pop(claim.uid, None)
            return await self._check_volume(step, claim)
        if claim.volume:
            return Waiting(f"claim {claim.name} is being bound to volume {claim.volume}")
        if selected:
            self._remember(claim, step.node)
            step.provisioned[claim.key] = _Provisioned(claim, self._clock() + READ_SECONDS)
            return _being_made(claim, step.node)
        known = self._selected.pop(claim.uid, None)
        if known is not None and known.node == step.node:
            return Failed(f"the provisioner could make no volume for claim {claim.name} there", claim.key)
        if volume := self._volumes.assumed_volume(claim.key):
            return await self._reserve(claim, volume)
        return await self._select(step, claim)

    async def _select(self, step: _Step, claim: facts.Claim) -> Outcome | Waiting:
        """Have the volume of a claim made for the node."""
        if not self._volumes.provisions(claim):
            return ports.Unsent()  # The pod for which the volume was reserved is gone.
        answer = await self._call(claim.namespace, self._writer.volumes.select_node, claim, step.node)
        if isinstance(answer, ports.Written):
            self._remember(claim, step.node)
        return _after(answer)

    def _remember(self, claim: facts.Claim, node: str) -> None:
        """Record that a node was selected for a claim: if it is not any more, the provisioner said no."""
        known = self._selected.pop(claim.uid, None)
        same = known is not None and known.node == node
        self._selected[claim.uid] = known if known and same else _Selected(node, self._clock())
        if len(self._selected) > MOST_REMEMBERED:
            del self._selected[next(iter(self._selected))]

    async def _reserve(self, claim: facts.Claim, name: str) -> Outcome | Waiting:
        """Mark a volume that exists as meant for a claim, unless it is so already."""
        reserve, namespace = self._writer.volumes.reserve_volume, claim.namespace
        match volume := await self._read_volume(name, namespace):
            case facts.Volume() if volume.claim is None:
                return _after(await self._call(namespace, reserve, volume, claim))
            case facts.Volume() if matching.is_meant_for(volume, claim):
                if not volume.claim_uid:
                    return _after(await self._call(namespace, reserve, volume, claim))
                return Waiting(f"claim {claim.name} is being bound to volume {name}")
            case Waiting():
                return volume
            case _:
                return ports.Unsent()  # Another claim was faster, or it is gone.

    async def _check_volume(self, step: _Step, claim: facts.Claim) -> Outcome | Waiting:
        """Return whether the node can reach the volume that a claim has got."""
        match volume := await self._read_volume(claim.volume, claim.namespace):
            case facts.Volume():
                info = self._ledger.inventory.node(step.node)
                node = info.node if info is not None else None
                there = node is not None and reach.reachable(volume, node)
                return READY if there and volume.claim_uid == claim.uid else ports.Unsent()
            case Waiting():
                return volume
            case _:
                return ports.Unsent()

    async def _read_volume(self, name: str, namespace: str) -> facts.Volume | ports.Gone | Waiting:
        volume = await self._call(namespace, self._writer.volumes.read_volume, name)
        if isinstance(volume, ports.Unknown):
            return Waiting(volume.message, RETRY_SECONDS)
        if isinstance(volume, ports.Gone):
            self._volumes.drop_volume(name)
        else:
            self._ledger.volumes.volume_read(volume)
        return volume

    async def _call(
        self, namespace: str, call: Callable[..., Awaitable[T]], *args: object
    ) -> T | ports.Unknown:
        """Return the answer to a call, a few of which are sent at once, and only while the lead is sure."""
        async with self._calls.slot(namespace):
            await self._writer.wait_until_leading()
            try:
                return await call(*args)
            except Exception as error:
                log.exception("a claim or a volume cannot be read or written")
                return ports.Unknown(str(error) or type(error).__name__)


def _being_made(claim: facts.Claim, node: str, seconds: float = READ_SECONDS) -> Waiting:
    return Waiting(f"the volume of claim {claim.name} is being made for node {node}", seconds)


def _after(answer: ports.Written | ports.Refused | ports.Unknown) -> ports.Refused | Waiting:
    """Return what follows a write: whatever the answer was, the claim is read again, unless it is refused."""
    match answer:
        case ports.Written():
            return AT_ONCE
        case ports.Unknown(message):
            return Waiting(message, RETRY_SECONDS)
        case ports.Refused():
            return answer
    assert_never(answer)
