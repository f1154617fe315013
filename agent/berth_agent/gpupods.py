"""A GpuPod for each pod of the node that was given cards: level-based, one pod at a time.

Two watches feed this module: the pods bound to the node, and the GpuPods there are. Each
change makes one name dirty, and a single worker compares, for one dirty name after the
other, what the pod's allocation says with the GpuPod that stands there. So it does not
matter what was missed while the agent was away: a GpuPod whose pod is gone, or was made
again under the same name, is found by the same comparison. A name whose write failed is
dirty again after a pause; none is ever dropped.

An allocation that cannot be read gives no GpuPod, and takes none away: what stands there
may be the only readable word on who holds the cards.
"""

import asyncio
import dataclasses
import datetime as dt
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from berth_agent import patience, publish
from berth_crds import allocation, names, vocabulary, wire
from berth_crds.client import api, errors, informer, lease, resources

log = logging.getLogger(__name__)

MOST_PAUSE_SECONDS: Final = 20.0


class PodSpec(wire.Struct, frozen=True):
    """Where a pod runs."""

    node_name: str = ""


class PodStatus(wire.Struct, frozen=True):
    """How far a pod has come."""

    phase: str = ""


class Pod(wire.Struct, frozen=True):
    """A pod, as much of it as matters here."""

    metadata: wire.Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# ---------------------------------------------------------------- what should be


@dataclasses.dataclass(frozen=True, slots=True)
class Unclear:
    """A pod that was given something, but not in words that can be trusted."""

    detail: str


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """Through which eyes pods are seen: the node, the models of its cards, who tells of grants."""

    node: str
    models: Mapping[int, str]
    source: vocabulary.GrantSource | None


def given(pod: Pod, node: str) -> allocation.Allocation | Unclear | None:
    """Read what a pod was given on this node; None means nothing at all."""
    text = pod.metadata.annotations.get(names.ALLOCATION)
    if text is None:
        return None
    found = allocation.decode(text)
    if isinstance(found, allocation.Unreadable):
        return Unclear(f"{found.reason}: {found.detail}")
    if found.node != node:
        return Unclear(f"it names the node {found.node}, and the pod is bound to {node}")
    return found


def spec(pod: Pod, told: allocation.Allocation, view: View) -> wire.GpuPodSpec:
    """Say who was given what."""
    return wire.GpuPodSpec(
        node=view.node,
        pod_uid=pod.metadata.uid,
        containers=tuple(
            wire.HoldingContainer(
                name, tuple(_held(kind, share, view) for kind, shares in types for share in shares)
            )
            for name, types in told.containers
        ),
    )


def _held(kind: str, share: allocation.Share, view: View) -> wire.HeldCard:
    return wire.HeldCard(
        uuid=share.uuid,
        minor=share.minor,
        type=kind,
        core=share.core,
        memory=share.memory,
        model=view.models.get(share.minor, "") if kind == vocabulary.DeviceType.GPU else "",
        profile=share.profile,
        vf=share.vf,
    )


def status(
    pod: Pod, told: allocation.Allocation, before: wire.GpuPodStatus, view: View, *, now: dt.datetime
) -> wire.GpuPodStatus:
    """Say how far the pod is, and what its containers hold as far as a source can tell."""
    phase = pod.status.phase
    running = phase == vocabulary.PodPhase.RUNNING
    return wire.GpuPodStatus(
        phase=phase,
        minors=allocation.gpu_minors(told),
        granted=_grants(told, view.source) if running and view.source else (),
        conditions=(_verified(phase, before, now=now),) if view.source else (),
    )


def _grants(told: allocation.Allocation, source: vocabulary.GrantSource) -> tuple[wire.Grant, ...]:
    return tuple(
        wire.Grant(name, tuple(share.uuid for _, shares in types for share in shares), source)
        for name, types in told.containers
    )


# Status, reason and message of the condition Verified, by the pod's phase. Where no real
# source is asked, what runs holds by definition what it was given, and the reason says so.
VERIFIED: Final[Mapping[str, tuple[vocabulary.Truth, str, str]]] = {
    vocabulary.PodPhase.RUNNING: (
        vocabulary.Truth.TRUE,
        "Simulated",
        "The cards are simulated: what was given is granted.",
    ),
    vocabulary.PodPhase.PENDING: (
        vocabulary.Truth.UNKNOWN,
        "NotRunning",
        "The pod does not run yet, so it holds nothing.",
    ),
    vocabulary.PodPhase.SUCCEEDED: (
        vocabulary.Truth.UNKNOWN,
        "Finished",
        "The pod has ended and holds nothing.",
    ),
    vocabulary.PodPhase.FAILED: (
        vocabulary.Truth.UNKNOWN,
        "Finished",
        "The pod has ended and holds nothing.",
    ),
}
UNSEEN: Final = (vocabulary.Truth.UNKNOWN, "PhaseUnknown", "The kubelet does not tell whether the pod runs.")


def _verified(phase: str, before: wire.GpuPodStatus, *, now: dt.datetime) -> wire.Condition:
    truth, reason, message = VERIFIED.get(phase, UNSEEN)
    kind = vocabulary.GpuPodCondition.VERIFIED
    earlier = next((each for each in before.conditions if each.type == kind), None)
    since = earlier.last_transition_time if earlier and earlier.status == truth else ""
    return wire.Condition(
        type=kind,
        status=truth,
        reason=reason,
        message=message,
        last_transition_time=since or lease.second(now),
    )


def models(cards: Iterable[wire.Card]) -> Mapping[int, str]:
    """Index the models of a node's GPUs by minor, which MIG instances share with their card."""
    return {card.minor: card.model for card in cards if card.type == vocabulary.DeviceType.GPU}


# ---------------------------------------------------------------- making it so


class Dirty:
    """Names to look at: each at most once, in the order in which they became dirty."""

    def __init__(self) -> None:
        self._keys: dict[publish.Key, None] = {}
        self._filled = asyncio.Event()

    def __repr__(self) -> str:
        """Tell the state in words."""
        return f"<Dirty: {len(self._keys)} names to look at>"

    def add(self, key: publish.Key) -> None:
        """Have a name looked at."""
        self._keys[key] = None
        self._filled.set()

    async def take(self) -> publish.Key:
        """Wait for the next name."""
        await self._filled.wait()
        key = next(iter(self._keys))
        del self._keys[key]
        if not self._keys:
            self._filled.clear()
        return key


class _Pods:
    """The pods of the node that have an allocation, as the watch tells them."""

    def __init__(self, dirty: Dirty) -> None:
        self._dirty = dirty
        self._pods: dict[publish.Key, Pod] = {}

    def upserted(self, pod: Pod, /) -> None:
        key = publish.key_of(pod.metadata)
        if names.ALLOCATION in pod.metadata.annotations:
            self._pods[key] = pod
            self._dirty.add(key)
        elif self._pods.pop(key, None):
            self._dirty.add(key)

    def deleted(self, pod: Pod, /) -> None:
        key = publish.key_of(pod.metadata)
        if self._pods.pop(key, None):
            self._dirty.add(key)

    def get(self, key: publish.Key) -> Pod | None:
        return self._pods.get(key)

    def known(self) -> Iterable[publish.Key]:
        return self._pods.keys()


class Keeper:
    """Keeps the GpuPods of one node as they should be."""

    def __init__(
        self,
        session: api.Api,
        node: str,
        *,
        source: vocabulary.GrantSource | None,
        clock: Callable[[], dt.datetime],
        chance: Callable[[], float],
    ) -> None:
        self._session = session
        self._view = View(node, {}, source)
        self._clock = clock
        self._chance = chance
        self._dirty = Dirty()
        self._furnished = asyncio.Event()
        self._complaints: dict[publish.Key, patience.Complaint] = {}
        self._unclear: dict[publish.Key, str] = {}
        self._pods = _Pods(self._dirty)
        self._mirror: publish.Mirror[wire.GpuPod] = publish.Mirror(self._dirty.add)
        self._writer = publish.Writer(session, publish.GPU_POD, self._mirror)
        self._informers = _informers(session, node, self._pods, self._mirror)

    def furnish(self, cards: Iterable[wire.Card]) -> None:
        """Learn which cards the node has; without that, nothing is written yet."""
        found = models(cards)
        if found != self._view.models:
            self._view = dataclasses.replace(self._view, models=found)
            for key in self._pods.known():
                self._dirty.add(key)
        self._furnished.set()

    async def run(self) -> None:
        """Follow both collections and keep the GpuPods for ever."""
        async with asyncio.TaskGroup() as group:
            for each in self._informers:
                group.create_task(each.run())
            # A GpuPod may be called an orphan only once all pods are known.
            for each in self._informers:
                await each.wait_synced()
            await self._furnished.wait()
            while True:
                await self._look(await self._dirty.take())

    async def _look(self, key: publish.Key) -> None:
        """Put one name right, or come back to it later."""
        try:
            await self._reconcile(key)
        except errors.ClientError as error:
            complaint = self._complaints.setdefault(key, patience.Complaint(log, "GpuPod {}/{}".format(*key)))
            complaint.failed(error)
            pause = patience.pause(error, complaint.failures, most=MOST_PAUSE_SECONDS, chance=self._chance())
            asyncio.get_running_loop().call_later(pause, self._dirty.add, key)
        else:
            if key in self._complaints:
                self._complaints.pop(key).succeeded()

    async def _reconcile(self, key: publish.Key) -> None:
        """Compare one pod with its GpuPod: (1) read, (2) remove what is not its, (3) write what is."""
        pod, seen = self._pods.get(key), self._mirror.get(key)
        told = given(pod, self._view.node) if pod else None
        self._report(key, pod, told)
        if seen and (not pod or told is None or seen.spec.pod_uid != pod.metadata.uid):
            await self._remove(key, seen)
            seen = None
        if pod and isinstance(told, allocation.Allocation):
            before = seen.status if seen else wire.GpuPodStatus()
            await self._write(key, pod, told, before)

    async def _write(
        self, key: publish.Key, pod: Pod, told: allocation.Allocation, before: wire.GpuPodStatus
    ) -> None:
        owner = wire.OwnerReference(
            api_version=resources.PODS.api_version,
            kind=resources.PODS.kind,
            name=pod.metadata.name,
            uid=pod.metadata.uid,
        )
        wanted = publish.Wanted(
            key, owner, spec(pod, told, self._view), status(pod, told, before, self._view, now=self._clock())
        )
        try:
            await self._writer.make_so(wanted)
        except errors.NotFound:
            self._writer.forget(key)
            raise

    async def _remove(self, key: publish.Key, seen: wire.GpuPod) -> None:
        """Delete that very record; who finds it gone already, or made again, has nothing to do."""
        namespace, name = key
        try:
            await self._session.delete(resources.GPU_PODS, name, namespace=namespace, uid=seen.metadata.uid)
        except (errors.NotFound, errors.Conflict) as error:
            log.debug("GpuPod %s/%s is gone already: %s", namespace, name, error)
        self._writer.forget(key)

    def _report(
        self, key: publish.Key, pod: Pod | None, told: allocation.Allocation | Unclear | None
    ) -> None:
        """Tell of an allocation that cannot be read, once for each pod."""
        if pod is None or not isinstance(told, Unclear):
            self._unclear.pop(key, None)
        elif self._unclear.get(key) != pod.metadata.uid:
            self._unclear[key] = pod.metadata.uid
            log.error("pod %s/%s: its allocation cannot be used, so it gets no GpuPod: %s", *key, told.detail)


class _OfNode:
    """Lets through the GpuPods of one node."""

    def __init__(self, node: str, mirror: publish.Mirror[wire.GpuPod]) -> None:
        self._node = node
        self._mirror = mirror

    def upserted(self, thing: wire.GpuPod, /) -> None:
        if thing.spec.node == self._node:
            self._mirror.upserted(thing)

    def deleted(self, thing: wire.GpuPod, /) -> None:
        self._mirror.deleted(thing)


def _informers(
    session: api.Api, node: str, pods: _Pods, mirror: publish.Mirror[wire.GpuPod]
) -> tuple[informer.Informer[Pod], informer.Informer[wire.GpuPod]]:
    scope = informer.Scope(fields=f"spec.nodeName={node}")
    return (
        informer.Informer(session, resources.PODS, Pod, pods, scope=scope),
        informer.Informer(session, resources.GPU_PODS, wire.GpuPod, _OfNode(node, mirror)),
    )
