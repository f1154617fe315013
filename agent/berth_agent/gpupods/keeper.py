"""Keeps the GpuPods of one node as they should be: level-based, one pod at a time.

Two watches feed this module: the pods bound to the node, and the GpuPods there are. Each
change makes one name dirty, and a single worker compares, for one dirty name after the
other, what the pod's allocation says with the GpuPod that stands there. So it does not
matter what was missed while the agent was away: a GpuPod whose pod is gone, or was made
again under the same name, is found by the same comparison. A name whose write failed is
dirty again after a pause; none is ever dropped.

What the kubelet and the driver say makes names dirty as well. A pod that has cards of the
node without Berth having given them gets a GpuPod, too, and loses it when nobody sees it
on a card any more; while a source has not spoken yet, none is taken away for its silence.
So does a pod that asks for cards and runs without any, for the operator would keep some
back for it.

An allocation that cannot be read gives no GpuPod of its own, and takes none away: what
stands there may be the only readable word on who holds the cards.

The name of a pod may be taken: by the record of a pod that had the name on another node, or
by somebody who has the token of another node's agent. Where the GpuPod is the only word on
who holds the cards, it is then written under a name that only this node's agent may use.
"""

import asyncio
import dataclasses
import datetime as dt
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from berth_agent import backoff
from berth_agent.gpupods import evidence, pod_cache, record, residents, verdict
from berth_agent.kubelet import follower, ids
from berth_agent.publish import mirror, writer
from berth_crds import allocation, logs, vocabulary, wire
from berth_crds.client import api, errors, informer, resources

log = logging.getLogger(__name__)

MOST_PAUSE_SECONDS: Final = 20.0
# What stands under the name may be another node's record, which the operator removes: nobody tells us when.
REFUSED_PAUSE_SECONDS: Final = 4.0


def _whole(part: wire.Struct) -> object:
    return part


# A GpuPod is the agent's as a whole.
FORM: Final = writer.Form(
    resources.GPU_PODS,
    wire.GpuPod,
    owned_by=resources.PODS.kind,
    parts=(
        writer.Part("spec", _whole, ("containers",)),
        writer.Part("status", _whole, ("phase", "minors", "share", "granted", "conditions")),
    ),
)


Restless = Callable[[], None]
Told = allocation.Allocation | record.Unclear | None
NOBODY: Final = evidence.Sources()


@dataclasses.dataclass(frozen=True, slots=True)
class Means:
    """The time, chance between 0 and 1, and who tells of grants without being asked."""

    clock: Callable[[], dt.datetime]
    chance: Callable[[], float]
    source: vocabulary.GrantSource | None = None


class Dirty:
    """Names to look at: each at most once, in the order in which they became dirty."""

    def __init__(self) -> None:
        self._keys: dict[mirror.Key, None] = {}
        self._filled = asyncio.Event()

    def __repr__(self) -> str:
        """Return the state in words."""
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


class Keeper:
    """Keeps the GpuPods of one node as they should be."""

    def __init__(
        self,
        session: api.Api,
        node: str,
        means: Means,
        sources: evidence.Sources = NOBODY,
        *,
        restless: Restless,
    ) -> None:
        """Remember whom to tell that a pod has changed of which a source may know more: `restless`."""
        self._session = session
        self._view = record.View(node, {}, means.source)
        self._means = means
        self._restless = restless
        self._dirty = Dirty()
        self._furnished = asyncio.Event()
        self._complaints: dict[mirror.Key, backoff.Complaint] = {}
        self._unclear: dict[mirror.Key, str] = {}
        self._beside: dict[mirror.Key, mirror.Key] = {}  # By pod, the record that has not the pod's name.
        self._pods = pod_cache.Roster(self._pod_changed)
        self._mirror: mirror.Mirror[wire.GpuPod] = mirror.Mirror(self._dirty.add)
        self._witnesses = evidence.Witnesses(
            sources, self._pods.living, self._pods.runs, on_change=self._told_otherwise
        )
        self._writer = writer.Writer(session, FORM, self._mirror)
        self._informers = _informers(session, node, self._pods, self._mirror)

    def furnish(self, cards: Sequence[wire.Card]) -> None:
        """Learn which cards the node has; without that, nothing is written yet."""
        pieces = ids.pieces(cards)
        view = dataclasses.replace(
            self._view, models=record.models(cards), pieces=pieces, memory=record.memory(cards)
        )
        if view != self._view:
            self._view = view
            for key in self._pods.placed():
                self._dirty.add(key)
        self._witnesses.furnished(pieces)
        self._furnished.set()

    def kubelet_reported(self, report: follower.KubeletReport) -> None:
        """Apply what the kubelet says of who holds what."""
        self._witnesses.kubelet_reported(report)

    def asking(self) -> None:
        """Learn that the kubelet is asked now."""
        self._witnesses.asking()

    def looked(
        self, found: Iterable[residents.Resident] | None, said: residents.Occupants
    ) -> residents.Occupants:
        """Apply what the driver shows, and say who is on a card that nobody gave him.

        `said` is what was said so far. It stands while there is nothing better to say: before all pods
        are known, each process would seem to be a stray.
        """
        if not self._witnesses.sources.driver:
            return {}
        if found is None or not self._pods_known():
            return said
        self._witnesses.looked(found, self._pods.join)
        strays = self._witnesses.strays(self._given)
        return said if strays is None else residents.occupants(strays, said)

    def records(self) -> list[wire.GpuPod]:
        """Return all GpuPods of the node, as far as is known."""
        return self._mirror.things()

    def _pods_known(self) -> bool:
        return self._informers[0].synced

    def _given(self, key: mirror.Key) -> Iterable[str]:
        """Return what Berth gave to a pod."""
        pod = self._pods.get(key)
        told = record.given(pod, self._view.node) if pod else None
        return (
            (entry.share.uuid for entry in told.entries()) if isinstance(told, allocation.Allocation) else ()
        )

    def _pod_changed(self, key: mirror.Key) -> None:
        self._dirty.add(key)
        self._witnesses.changed(key)
        self._restless()

    def _told_otherwise(self, keys: Iterable[mirror.Key] | None) -> None:
        """Look at these names again, or at all: something else is said of who holds what."""
        for key in (*self._pods.keys(), *self._mirror.keys()) if keys is None else keys:
            self._dirty.add(key)

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
                for key in self._concerned(await self._dirty.take()):
                    await self._look(key)

    def _concerned(self, key: mirror.Key) -> set[mirror.Key]:
        """Return the pods to look at: the one of this name, and the one whose record may stand here."""
        owner = self._owner(key, key[1].partition(".")[0])
        return {key, owner} if owner else {key}

    def _owner(self, where: mirror.Key, uid: str) -> mirror.Key | None:
        """Return the name of the pod with this uid, if its record may stand here."""
        owner = self._pods.of_uid(uid)
        pod = self._pods.get(owner) if owner else None
        return owner if owner and pod and where in {owner, self._key_beside(pod)} else None

    async def _look(self, key: mirror.Key) -> None:
        """Put one name right, or come back to it later."""
        try:
            await self._reconcile(key)
        except errors.ClientError as error:
            complaint = self._complaints.setdefault(key, backoff.Complaint(log, "GpuPod {}/{}".format(*key)))
            complaint.failed(error)
            chance, most = self._means.chance(), longest_pause(error)
            pause = backoff.pause(error, complaint.failures, most=most, chance=chance)
            asyncio.get_running_loop().call_later(pause, self._dirty.add, key)
        else:
            if key in self._complaints:
                self._complaints.pop(key).succeeded()

    async def _reconcile(self, key: mirror.Key) -> None:
        """Compare one pod with its GpuPod: (1) read, (2) remove what is not its, (3) write what is."""
        pod = self._pods.get(key)
        told = record.given(pod, self._view.node) if pod else None
        self._report(key, pod, told)
        seen = await self._found(key, pod)
        if pod is None:
            return
        spec = self._spec(pod, told, seen)
        if spec is not None:
            before = seen.status if seen else wire.GpuPodStatus()
            evidence = self._evidence(pod, told, before.granted)
            status = record.status(pod, spec, before, self._view, evidence=evidence, now=self._means.clock())
            await self._write(seen, pod, spec, status, needed=not isinstance(told, allocation.Allocation))
        elif seen and told is None and (self._witnesses.complete(key) or record.finished(pod)):
            await self._remove(mirror.key_of(seen.metadata), seen)

    async def _found(self, key: mirror.Key, pod: record.Pod | None) -> wire.GpuPod | None:
        """Return the record of a pod, by its name or beside it, and remove those that are nobody's."""
        found = None
        places = dict.fromkeys([key, self._key_beside(pod) if pod else key, self._beside.pop(key, key)])
        for where in places:
            seen = self._mirror.get(where)
            owner = self._owner(where, seen.spec.pod_uid) if seen else None
            if seen and (owner is None or (owner == key and found)):
                await self._remove(where, seen)
            elif seen and owner == key:
                found = seen
                if where != key:
                    self._beside[key] = where
        return found

    def _key_beside(self, pod: record.Pod) -> mirror.Key:
        """Return where a pod's record stands if the name is taken: only this node's agent may write it."""
        return pod.metadata.namespace, f"{pod.metadata.uid}.{self._view.node}"

    def _spec(self, pod: record.Pod, told: Told, seen: wire.GpuPod | None) -> wire.GpuPodSpec | None:
        """Return what the pod was given, or None where its record, if there is one, is left as it is."""
        if isinstance(told, allocation.Allocation):
            return record.spec(pod, told, self._view)
        key = mirror.key_of(pod.metadata)
        evidence = self._evidence(pod, told)
        if evidence is None or not evidence.speakers() or record.finished(pod):
            return None
        holdings = self._witnesses.holdings.get(key, {})
        handed = record.spec(pod, record.handed(self._view.node, holdings), self._view)
        whole = told is None and self._witnesses.kubelet_knows(key)
        return record.kept(seen.spec, handed) if seen and not whole else handed

    def _evidence(
        self, pod: record.Pod, told: Told, said: Iterable[wire.Grant] = ()
    ) -> verdict.Evidence | None:
        """Return what is known of a pod; one that asks for devices and runs without any surely has none.

        That is said of pods alone that Berth gave nothing. What Berth gives needs no device plugin, so
        there the kubelet's silence means nothing.
        """
        key = mirror.key_of(pod.metadata)
        evidence = self._witnesses.evidence(key, said)
        if evidence is None or evidence.speakers() or told is not None or not pod.runs:
            return evidence
        if not self._witnesses.empty_handed(key, pod.metadata.uid):
            return evidence
        return dataclasses.replace(evidence, kubelet={one.name: () for one in record.askers(pod)})

    async def _write(
        self,
        seen: wire.GpuPod | None,
        pod: record.Pod,
        spec: wire.GpuPodSpec,
        status: wire.GpuPodStatus,
        *,
        needed: bool,
    ) -> None:
        """Write a pod's record: where it stands, or else under the pod's name, or beside that if needed."""
        key = mirror.key_of(pod.metadata)
        try:
            await self._make_so(mirror.key_of(seen.metadata) if seen else key, pod, spec, status)
        except (errors.Forbidden, errors.Invalid) as error:
            if seen or not needed:
                raise
            self._beside[key] = self._key_beside(pod)
            await self._make_so(self._beside[key], pod, spec, status)
            log.info("GpuPod %s/%s is written as %s: %s", *key, self._beside[key][1], error)

    async def _make_so(
        self, key: mirror.Key, pod: record.Pod, spec: wire.GpuPodSpec, status: wire.GpuPodStatus
    ) -> None:
        owner = wire.OwnerReference(
            api_version=resources.PODS.api_version,
            kind=resources.PODS.kind,
            name=pod.metadata.name,
            uid=pod.metadata.uid,
        )
        try:
            await self._writer.make_so(writer.Wanted(key, owner, spec, status))
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

    def _report(self, key: mirror.Key, pod: record.Pod | None, told: Told) -> None:
        """Log an allocation that cannot be read, once for each pod."""
        if pod is None or not isinstance(told, record.Unclear):
            self._unclear.pop(key, None)
        elif self._unclear.get(key) != pod.metadata.uid:
            self._unclear[key] = pod.metadata.uid
            about = logs.pod("/".join(key))
            log.error(
                "pod %s/%s: its allocation cannot be used for a GpuPod: %s", *key, told.detail, extra=about
            )


def longest_pause(error: errors.ClientError) -> float:
    """Return the most seconds that a name rests after a failure.

    Where the name is taken by another node's record, the schema refuses: a node never changes.
    """
    refused = isinstance(error, errors.Forbidden | errors.Invalid)
    return REFUSED_PAUSE_SECONDS if refused else MOST_PAUSE_SECONDS


def _informers(
    session: api.Api, node: str, pods: pod_cache.Roster, known: mirror.Mirror[wire.GpuPod]
) -> tuple[informer.Informer[record.Pod], informer.Informer[wire.GpuPod]]:
    of_pods = informer.Scope(fields=f"spec.nodeName={node}")
    of_records = informer.Scope(fields=f"spec.node={node}")
    return (
        informer.Informer(session, resources.PODS, record.Pod, pods, scope=of_pods),
        informer.Informer(session, resources.GPU_PODS, wire.GpuPod, known, scope=of_records),
    )
