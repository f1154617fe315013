"""Keeps the GpuPods of one node as they should be: level-based, one pod at a time.

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
from collections.abc import Callable, Iterable
from typing import Final

from berth_agent import patience
from berth_agent.gpupods import record
from berth_agent.publish import mirror, writer
from berth_crds import allocation, names, vocabulary, wire
from berth_crds.client import api, errors, informer, resources

log = logging.getLogger(__name__)

MOST_PAUSE_SECONDS: Final = 20.0


def _whole(part: wire.Struct) -> object:
    return part


# A GpuPod is the agent's as a whole.
FORM: Final = writer.Form(
    resources.GPU_PODS,
    wire.GpuPod,
    owned_by=resources.PODS.kind,
    parts=(
        writer.Part("spec", _whole, ("containers",)),
        writer.Part("status", _whole, ("phase", "minors", "granted", "conditions")),
    ),
)


class Dirty:
    """Names to look at: each at most once, in the order in which they became dirty."""

    def __init__(self) -> None:
        self._keys: dict[mirror.Key, None] = {}
        self._filled = asyncio.Event()

    def __repr__(self) -> str:
        """Tell the state in words."""
        return f"<Dirty: {len(self._keys)} names to look at>"

    def add(self, key: mirror.Key) -> None:
        """Have a name looked at."""
        self._keys[key] = None
        self._filled.set()

    async def take(self) -> mirror.Key:
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
        self._pods: dict[mirror.Key, record.Pod] = {}

    def upserted(self, pod: record.Pod, /) -> None:
        key = mirror.key_of(pod.metadata)
        if names.ALLOCATION in pod.metadata.annotations:
            self._pods[key] = pod
            self._dirty.add(key)
        elif self._pods.pop(key, None):
            self._dirty.add(key)

    def deleted(self, pod: record.Pod, /) -> None:
        key = mirror.key_of(pod.metadata)
        if self._pods.pop(key, None):
            self._dirty.add(key)

    def get(self, key: mirror.Key) -> record.Pod | None:
        return self._pods.get(key)

    def known(self) -> Iterable[mirror.Key]:
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
        self._view = record.View(node, {}, source)
        self._clock = clock
        self._chance = chance
        self._dirty = Dirty()
        self._furnished = asyncio.Event()
        self._complaints: dict[mirror.Key, patience.Complaint] = {}
        self._unclear: dict[mirror.Key, str] = {}
        self._pods = _Pods(self._dirty)
        self._mirror: mirror.Mirror[wire.GpuPod] = mirror.Mirror(self._dirty.add)
        self._writer = writer.Writer(session, FORM, self._mirror)
        self._informers = _informers(session, node, self._pods, self._mirror)

    def furnish(self, cards: Iterable[wire.Card]) -> None:
        """Learn which cards the node has; without that, nothing is written yet."""
        found = record.models(cards)
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

    async def _look(self, key: mirror.Key) -> None:
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

    async def _reconcile(self, key: mirror.Key) -> None:
        """Compare one pod with its GpuPod: (1) read, (2) remove what is not its, (3) write what is."""
        pod, seen = self._pods.get(key), self._mirror.get(key)
        told = record.given(pod, self._view.node) if pod else None
        self._report(key, pod, told)
        if seen and (not pod or told is None or seen.spec.pod_uid != pod.metadata.uid):
            await self._remove(key, seen)
            seen = None
        if pod and isinstance(told, allocation.Allocation):
            before = seen.status if seen else wire.GpuPodStatus()
            await self._write(key, pod, told, before)

    async def _write(
        self, key: mirror.Key, pod: record.Pod, told: allocation.Allocation, before: wire.GpuPodStatus
    ) -> None:
        owner = wire.OwnerReference(
            api_version=resources.PODS.api_version,
            kind=resources.PODS.kind,
            name=pod.metadata.name,
            uid=pod.metadata.uid,
        )
        wanted = writer.Wanted(
            key,
            owner,
            record.spec(pod, told, self._view),
            record.status(pod, told, before, self._view, now=self._clock()),
        )
        try:
            await self._writer.make_so(wanted)
        except errors.NotFound:
            self._writer.forget(key)
            raise

    async def _remove(self, key: mirror.Key, seen: wire.GpuPod) -> None:
        """Delete that very record; who finds it gone already, or made again, has nothing to do."""
        namespace, name = key
        try:
            await self._session.delete(resources.GPU_PODS, name, namespace=namespace, uid=seen.metadata.uid)
        except (errors.NotFound, errors.Conflict) as error:
            log.debug("GpuPod %s/%s is gone already: %s", namespace, name, error)
        # While we waited, the watch may have told of another record of this name.
        left = self._mirror.get(key)
        if left and left.metadata.uid == seen.metadata.uid:
            self._writer.forget(key)

    def _report(
        self, key: mirror.Key, pod: record.Pod | None, told: allocation.Allocation | record.Unclear | None
    ) -> None:
        """Tell of an allocation that cannot be read, once for each pod."""
        if pod is None or not isinstance(told, record.Unclear):
            self._unclear.pop(key, None)
        elif self._unclear.get(key) != pod.metadata.uid:
            self._unclear[key] = pod.metadata.uid
            log.error("pod %s/%s: its allocation cannot be used, so it gets no GpuPod: %s", *key, told.detail)


def _informers(
    session: api.Api, node: str, pods: _Pods, known: mirror.Mirror[wire.GpuPod]
) -> tuple[informer.Informer[record.Pod], informer.Informer[wire.GpuPod]]:
    of_pods = informer.Scope(fields=f"spec.nodeName={node}")
    of_records = informer.Scope(fields=f"spec.node={node}")
    return (
        informer.Informer(session, resources.PODS, record.Pod, pods, scope=of_pods),
        informer.Informer(session, resources.GPU_PODS, wire.GpuPod, known, scope=of_records),
    )
