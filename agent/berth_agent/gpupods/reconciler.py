"""Keeps the GpuPods of one node as they should be: level-based, one pod at a time.

The pods bound to the node are watched, and its GpuPods, which nobody else writes, are read now and
then (`poller`). Each change puts one name in the work queue, and a single worker compares the pod
of that name with its GpuPod. So it does not matter what was missed while the agent was away: a
GpuPod whose pod is gone, or was created again under the same name, is found by the same comparison.
A name whose write failed is queued again after a pause; none is ever dropped.

Answers of the kubelet and the driver queue names as well. A pod that has cards of the node which
Berth did not give it gets a GpuPod, too, and loses it when no source shows it on a card any more;
while a source has not answered yet, no GpuPod is removed. A pod that asks for cards and runs
without any also gets one, since the operator would withhold cards for it otherwise.

An allocation that cannot be read neither creates nor removes a GpuPod: the published one may be the
only readable record of who holds the cards.

The name of a pod may be taken: by the GpuPod of a pod that had the name on another node, or by
somebody with the token of another node's agent. Where the GpuPod is the only record of who holds
the cards, or the name stays taken, it is written under another name, which only this node's agent
may use.
"""

import asyncio
import collections
import dataclasses
import datetime as dt
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from berth_agent import backoff, device_status
from berth_agent.gpupods import desired, evidence, pod_cache, process_owners, verification, watched_pod
from berth_agent.kubelet import device_ids
from berth_agent.publish import object_cache, object_writer
from berth_crds import allocation, granted, logs, wire
from berth_crds.client import api, errors, informer, poller, resources, store

log = logging.getLogger(__name__)

MOST_PAUSE_SECONDS: Final = 20.0
# Another node's GpuPod may have the name. The operator removes it, which no watch of ours shows.
REFUSED_PAUSE_SECONDS: Final = 4.0
# The operator has removed it by then, unless somebody makes it again and again.
OTHER_NAME_AFTER_SECONDS: Final = 30.0


# A GpuPod is the agent's as a whole.
GPU_POD: Final = object_writer.ManagedKind(
    resources.GPU_PODS,
    wire.GpuPod,
    owned_by=resources.PODS.kind,
    parts=(
        object_writer.ManagedPart("spec", ("containers",)),
        object_writer.ManagedPart("status", ("phase", "minors", "share", "granted", "conditions")),
    ),
)


DecodedAllocation = allocation.Allocation | desired.UnusableAllocation | None


class WorkQueue(asyncio.Queue[store.Key]):
    """Names to reconcile: each at most once, in the order in which they were added."""

    def _init(self, maxsize: int) -> None:  # noqa: ARG002  it has no bound
        self._queue: collections.OrderedDict[store.Key, None] = collections.OrderedDict()

    def _put(self, item: store.Key) -> None:
        self._queue[item] = None

    def _get(self) -> store.Key:
        return self._queue.popitem(last=False)[0]


class GpuPodReconciler:
    """Keeps the GpuPods of one node as they should be."""

    def __init__(
        self,
        session: api.Api,
        node_cards: desired.NodeCards,
        sources: evidence.EvidenceSources,
        *,
        clock: Callable[[], dt.datetime],
        on_pod_change: Callable[[], None],
    ) -> None:
        """The cards of the node are set later.

        `on_pod_change` is called when a pod has changed, since a source may know more about it now.
        """
        self._session = session
        self._node_cards = node_cards
        self._clock = clock
        self._on_pod_change = on_pod_change
        self._queue = WorkQueue()
        self._cards_known = asyncio.Event()
        self._failure_logs: dict[store.Key, backoff.FailureLog] = {}
        self._reported_unusable: dict[store.Key, str] = {}
        self._other_names: dict[store.Key, store.Key] = {}  # By pod, a GpuPod with another name.
        self._pods = pod_cache.PodCache(self._pod_changed)
        self.gpupods: object_cache.ObjectCache[wire.GpuPod] = object_cache.ObjectCache(self._queue.put_nowait)
        self.evidence = evidence.EvidenceCache(
            sources, self._pods.living_uid, self._pods.is_running, on_change=self._on_evidence_change
        )
        self._writer = object_writer.ObjectWriter(session, GPU_POD, self.gpupods)
        self._pod_informer = informer.Informer(
            session,
            resources.PODS,
            watched_pod.Pod,
            self._pods,
            scope=resources.Scope(fields=f"spec.nodeName={node_cards.node}"),
        )
        self._gpupod_poller = poller.Poller(
            session,
            resources.GPU_PODS,
            wire.GpuPod,
            self.gpupods,
            scope=resources.Scope(fields=f"spec.node={node_cards.node}"),
        )

    def pods(self) -> Iterable[watched_pod.Pod]:
        """Return the pods that are bound to the node."""
        return self._pods.pods()

    def requested(self, pod: tuple[str, str], container: str) -> Iterable[str]:
        """Return which resources a container asks the kubelet for; none while its pod is not known."""
        found = self._pods.get(pod)
        some = watched_pod.containers(found) if found else ()
        asked = (watched_pod.amounts(one) for one in some if one.name == container)
        return (name for amounts in asked for name, amount in amounts.items() if amount)

    @property
    def are_current(self) -> bool:
        """Whether these are all pods that are bound to the node now, as far as the server says."""
        return self._pod_informer.live

    def set_cards(self, cards: Sequence[wire.Card]) -> None:
        """Set the cards of the node; nothing is written before they are known."""
        allocatable = device_ids.allocatable_devices(cards)
        node_cards = dataclasses.replace(
            self._node_cards,
            gpus=desired.gpus_by_minor(cards),
            allocatable=allocatable,
        )
        if node_cards != self._node_cards:
            self._node_cards = node_cards
            for key in self._pods.placed_by_berth():
                self._queue.put_nowait(key)
        self.evidence.set_allocatable(allocatable)
        self._cards_known.set()

    def processes_seen(
        self, found: Iterable[process_owners.LocatedProcess] | None, published: device_status.Occupants
    ) -> device_status.Occupants:
        """Apply the processes that the driver lists, and return the unauthorized ones by card.

        `published` stands while that is not known: before all pods are known, each process would seem
        to be unauthorized.
        """
        if not self.evidence.sources.driver:
            return {}
        if found is None or not self._pod_informer.synced:
            return published
        self.evidence.processes_seen(found, self._pods.owner_of)
        unauthorized = self.evidence.unauthorized(self._allocated_uuids, published)
        if unauthorized is None:
            return published
        least = self.evidence.sources.least_process_memory
        return process_owners.occupants(unauthorized, published, least_memory=least)

    def _allocated_uuids(self, key: store.Key) -> Iterable[str]:
        """Return the uuids that Berth gave to a pod."""
        pod = self._pods.get(key)
        decoded = desired.decode_allocation(pod, self._node_cards.node) if pod else None
        return (
            (entry.share.uuid for entry in decoded.entries())
            if isinstance(decoded, allocation.Allocation)
            else ()
        )

    def _pod_changed(self, key: store.Key) -> None:
        self._queue.put_nowait(key)
        self.evidence.pod_changed(key)
        self._on_pod_change()

    def _on_evidence_change(self, keys: Iterable[store.Key] | None) -> None:
        """Queue these pods, or all for None, because the evidence about them has changed."""
        for key in (*self._pods.keys(), *self.gpupods.keys()) if keys is None else keys:
            self._queue.put_nowait(key)

    async def run(self) -> None:
        """Follow both kinds, and reconcile for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pod_informer.run())
            group.create_task(self._gpupod_poller.run())
            # A GpuPod is an orphan only if all pods are known.
            await self._pod_informer.wait_synced()
            await self._gpupod_poller.wait_synced()
            group.create_task(self._read_again_after_outages())
            await self._cards_known.wait()
            while True:
                for key in self._pods_to_reconcile(await self._queue.get()):
                    await self._reconcile_or_retry(key)

    async def _read_again_after_outages(self) -> None:
        """Read the GpuPods whenever the pods are listed again: the server was away, and restored perhaps."""
        lists = self._pod_informer.lists
        while True:
            await self._pod_informer.wait_listed(lists)
            lists = self._pod_informer.lists
            await self._gpupod_poller.resync()

    def _pods_to_reconcile(self, key: store.Key) -> set[store.Key]:
        """Return the pods to reconcile: the one of this name, and the one whose GpuPod may have this name."""
        owner = self._owner(key, key[1].partition(".")[0])
        return {key, owner} if owner else {key}

    def _owner(self, name: store.Key, uid: str) -> store.Key | None:
        """Return the name of the pod with this uid, if its GpuPod may have this name."""
        owner = self._pods.of_uid(uid)
        pod = self._pods.get(owner) if owner else None
        return owner if owner and pod and name in {owner, self._other_name(pod)} else None

    async def _reconcile_or_retry(self, key: store.Key) -> None:
        """Reconcile one name, and queue it again after a pause if that fails."""
        try:
            await self._reconcile(key)
        except errors.ClientError as error:
            failure_log = self._failure_logs.setdefault(
                key, backoff.FailureLog(log, "GpuPod {}/{}".format(*key))
            )
            pause = failure_log.failed(error, most=longest_pause(error))
            asyncio.get_running_loop().call_later(pause, self._queue.put_nowait, key)
        else:
            if key in self._failure_logs:
                self._failure_logs.pop(key).succeeded()

    async def _reconcile(self, key: store.Key) -> None:
        """Bring the GpuPod of one pod up to date: (1) read, (2) remove foreign ones, (3) write or remove."""
        pod = self._pods.get(key)
        decoded = desired.decode_allocation(pod, self._node_cards.node) if pod else None
        self._log_unusable(key, pod, decoded)
        gpupod = await self._found(key, pod)
        if pod is None:
            return
        if (spec := self._spec(pod, decoded, gpupod)) is not None:
            before = gpupod.status if gpupod else wire.GpuPodStatus()
            pod_evidence = self._evidence(pod, decoded, before.granted)
            status = desired.status(
                pod, spec, before, self._node_cards, evidence=pod_evidence, now=self._clock()
            )
            needed = self._is_needed(key, decoded, spec, status)
            await self._write(gpupod, pod, spec, status, needed=needed)
        elif gpupod and decoded is None and (self.evidence.is_complete(key) or watched_pod.has_ended(pod)):
            await self._remove(store.key_of(gpupod.metadata), gpupod)

    def _is_needed(
        self, key: store.Key, decoded: DecodedAllocation, spec: wire.GpuPodSpec, status: wire.GpuPodStatus
    ) -> bool:
        """Whether the GpuPod is written under another name if the pod's is taken."""
        if not isinstance(decoded, allocation.Allocation) or granted.otherwise(spec, status.granted):
            return True  # Nothing else tells the operator what the pod has.
        failure_log = self._failure_logs.get(key)
        return failure_log is not None and failure_log.seconds >= OTHER_NAME_AFTER_SECONDS

    async def _found(self, key: store.Key, pod: watched_pod.Pod | None) -> wire.GpuPod | None:
        """Return the GpuPod of a pod, by its name or another one, and remove those without a pod."""
        found = None
        places = dict.fromkeys([key, self._other_name(pod) if pod else key, self._other_names.pop(key, key)])
        for name in places:
            gpupod = self.gpupods.get(name)
            owner = self._owner(name, gpupod.spec.pod_uid) if gpupod else None
            if gpupod and (owner is None or (owner == key and found)):
                await self._remove(name, gpupod)
            elif gpupod and owner == key:
                found = gpupod
                if name != key:
                    self._other_names[key] = name
        return found

    def _other_name(self, pod: watched_pod.Pod) -> store.Key:
        """Return the key of a pod's GpuPod where the name is taken: only this node's agent may write it."""
        return pod.metadata.namespace, f"{pod.metadata.uid}.{self._node_cards.node}"

    def _spec(
        self, pod: watched_pod.Pod, decoded: DecodedAllocation, gpupod: wire.GpuPod | None
    ) -> wire.GpuPodSpec | None:
        """Return the spec that a pod's GpuPod should have; None to leave it as it is, or not to have one."""
        if isinstance(decoded, allocation.Allocation):
            return desired.spec(pod, decoded, self._node_cards)
        key = store.key_of(pod.metadata)
        pod_evidence = self._evidence(pod, decoded)
        if pod_evidence is None or not pod_evidence.answering_sources() or watched_pod.has_ended(pod):
            return None
        holdings = self.evidence.holdings.get(key, {})
        by_kubelet = desired.spec(
            pod, desired.allocation_by_kubelet(self._node_cards.node, holdings), self._node_cards
        )
        is_complete = decoded is None and self.evidence.kubelet_knows(key)
        return desired.merged(gpupod.spec, by_kubelet) if gpupod and not is_complete else by_kubelet

    def _evidence(
        self, pod: watched_pod.Pod, decoded: DecodedAllocation, published: Iterable[wire.Grant] = ()
    ) -> verification.Evidence | None:
        """Return the evidence about a pod: one that asks for devices and runs without any has none.

        That holds only for pods to which Berth gave nothing. What Berth gives needs no device plugin, so
        the kubelet does not list it.
        """
        key = store.key_of(pod.metadata)
        pod_evidence = self.evidence.of_pod(key, published)
        if pod_evidence is None or pod_evidence.answering_sources() or decoded is not None or not pod.runs:
            return pod_evidence
        if not self.evidence.listed_without_devices(key, pod.metadata.uid):
            return pod_evidence
        return dataclasses.replace(
            pod_evidence, kubelet={one.name: () for one in watched_pod.requesting_containers(pod)}
        )

    async def _write(
        self,
        gpupod: wire.GpuPod | None,
        pod: watched_pod.Pod,
        spec: wire.GpuPodSpec,
        status: wire.GpuPodStatus,
        *,
        needed: bool,
    ) -> None:
        """Write a pod's GpuPod: the existing one, or else under the pod's name, or another name if needed."""
        key = store.key_of(pod.metadata)
        try:
            await self._ensure(store.key_of(gpupod.metadata) if gpupod else key, pod, spec, status)
        except (errors.Forbidden, errors.Invalid) as error:
            if gpupod or not needed:
                raise
            self._other_names[key] = self._other_name(pod)
            await self._ensure(self._other_names[key], pod, spec, status)
            log.info("GpuPod %s/%s is written as %s: %s", *key, self._other_names[key][1], error)

    async def _ensure(
        self, key: store.Key, pod: watched_pod.Pod, spec: wire.GpuPodSpec, status: wire.GpuPodStatus
    ) -> None:
        owner = wire.OwnerReference(
            api_version=resources.PODS.api_version,
            kind=resources.PODS.kind,
            name=pod.metadata.name,
            uid=pod.metadata.uid,
        )
        await self._writer.ensure(
            object_writer.DesiredObject(key, owner, desired.within_limits(spec), status)
        )

    async def _remove(self, key: store.Key, gpupod: wire.GpuPod) -> None:
        """Delete that very GpuPod; one that is gone already, or was created again, is left alone."""
        namespace, name = key
        try:
            await self._session.delete(resources.GPU_PODS, name, namespace=namespace, uid=gpupod.metadata.uid)
        except (errors.NotFound, errors.Conflict) as error:
            log.debug("GpuPod %s/%s is gone already: %s", namespace, name, error)
        # A list may have brought another GpuPod of this name meanwhile.
        left = self.gpupods.get(key)
        if left and left.metadata.uid == gpupod.metadata.uid:
            self._writer.forget(key)

    def _log_unusable(self, key: store.Key, pod: watched_pod.Pod | None, decoded: DecodedAllocation) -> None:
        """Log an allocation that cannot be read, once for each pod."""
        if pod is None or not isinstance(decoded, desired.UnusableAllocation):
            self._reported_unusable.pop(key, None)
        elif self._reported_unusable.get(key) != pod.metadata.uid:
            self._reported_unusable[key] = pod.metadata.uid
            log.error(
                "pod %s/%s: its allocation cannot be used for a GpuPod: %s",
                *key,
                decoded.detail,
                extra=logs.pod("/".join(key)),
            )


def longest_pause(error: errors.ClientError) -> float:
    """Return the longest pause after a failure, in seconds.

    Where another node's GpuPod has the name, the schema refuses: the node of a GpuPod never changes.
    """
    refused = isinstance(error, errors.Forbidden | errors.Invalid)
    return REFUSED_PAUSE_SECONDS if refused else MOST_PAUSE_SECONDS
