"""Finds and removes misplaced GpuPods: those that do not belong to the pod of their name.

A GpuPod has the name of its pod, and only an agent of the pod's node may write it. (Where that
name is taken, it is named by the pod's uid and the node, and its owner says which pod it is.) The API
server cannot hold agents to the second part: it sees from which node a GpuPod is written,
but not where the pod is. So with a stolen agent token anybody can take the name of any
pod for the agent's node, and the agent of the pod's node is refused as long as that GpuPod
exists. Such a GpuPod grants nothing; yet the right one is missing.

The leader scans for them periodically. A GpuPod that seemed misplaced in two scans in a row is
read anew, then its pod, and it is deleted if it still is misplaced. Node and uid of a GpuPod never
change, so that is final, and the delete names the uid only. The operator does not watch pods that
have ended: a GpuPod of such a pod was verified while the pod ran, or is verified by one read.

The same attacker can write the GpuPod again at once. So new GpuPods of a node that had one removed
lately, an offender, are checked as they come, a few in each second.

The attacker can also write as many as the API server takes. Each node has a limit, as many as a
node can well have. Beyond it, only the names are kept until each GpuPod has been checked once;
that is faster than a scan, and delays no GpuPod of another node.

A GpuPod of a pod that is gone is removed as well. Its agent and the garbage collector do the
same, so that is logged without a warning.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from berth_crds import logs, wire
from berth_crds.client import api, errors, resources, watch
from berth_operator import metrics
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import gpupod_store, suspect_gpupods

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 10.0
YIELD_EVERY: Final = 500  # Holds or GpuPods between two awaits.
MOST_RECENT_READ: Final = 20  # New GpuPods read anew in one check.
OFFENDER_SECONDS: Final = 3600.0  # For so long a node is an offender after a GpuPod of it was removed.
RECENT_SECONDS: Final = 1.0  # Between two checks of the new GpuPods of offenders.
MOST_RECENT: Final = 1000  # New GpuPods that wait for a check; the others are found by the next scan.
MOST_CROWDED_READ: Final = 100  # GpuPods of nodes beyond that limit read anew in each second.
AT_ONCE: Final = 16  # Of these, at the same time.
GPU_PODS: Final = watch.Codec(wire.GpuPod)


class LeaderCheck(Protocol):
    """Tells whether anything may be deleted."""

    def leads(self) -> bool:
        """Whether we surely lead."""

    async def wait_until_leading(self) -> None:
        """Wait until leadership and ledger are confirmed."""


class _Spec(wire.Struct, frozen=True):
    node_name: str = ""


class _Pod(wire.Struct, frozen=True):
    metadata: wire.Meta
    spec: _Spec = _Spec()


Mismatch = tuple[metrics.Removal, str]  # Why a GpuPod does not belong to the pod of its name: also in words.


def mismatch(known: gpupod_store.Record, pod_uid: str | None, node: str) -> Mismatch | None:
    """Return why a GpuPod does not belong to the pod of its name, if so; no uid means no such pod."""
    if pod_uid is None:
        return metrics.Removal.NO_SUCH_POD, "there is no pod of that name"
    if known.pod_uid != pod_uid:
        text = f"it is of a pod with the uid {known.pod_uid}, and that of the pod is {pod_uid}"
        return metrics.Removal.NO_SUCH_POD, text
    if known.node != node:
        text = f"it is of node {known.node}, and the pod is {f'on {node}' if node else 'on no node'}"
        return metrics.Removal.OTHER_NODE, text
    return None


class GpuPodCleaner:
    """Scans for misplaced GpuPods and removes them."""

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        store: gpupod_store.GpuPodStore,
        leader: LeaderCheck,
        *,
        clock: Callable[[], float],
        removed: Callable[[metrics.Removal], None],
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._store = store
        self._leader = leader
        self._removed = removed
        self._clock = clock
        self._offenders: dict[str, float] = {}  # By node, until when it is one.
        self._recent: dict[str, None] = {}  # Titles of new GpuPods to check, in order.
        self._recent_waits = asyncio.Event()
        self._crowded_nodes: dict[str, float] = {}  # By node, until when it counts as crowded.
        self._crowded_waits = asyncio.Event()
        store.on_new = self._on_new
        self._suspects = suspect_gpupods.SuspectGpuPods()

    async def run(self) -> None:
        """Scan and check, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._check_when(self._recent_waits, self.check_recent))
            group.create_task(self._check_when(self._crowded_waits, self.check_crowded))
            while True:
                await self._leader.wait_until_leading()
                await self.scan()
                await asyncio.sleep(PERIOD_SECONDS)

    async def _check_when(self, waits: asyncio.Event, check: Callable[[], Awaitable[None]]) -> None:
        while True:
            await waits.wait()
            await self._leader.wait_until_leading()
            await check()
            await asyncio.sleep(RECENT_SECONDS)

    async def scan(self) -> None:
        """Scan all GpuPods once, and check those that seemed misplaced in the last scan as well."""
        self._offenders = self._unexpired(self._offenders)
        self._crowded_nodes = self._unexpired(self._crowded_nodes)
        self._suspects.begin()
        await self._find_suspects()
        # Those that a known pod refutes come first.
        for suspicion in suspect_gpupods.Suspicion:
            for title in self._suspects.due(suspicion):
                self._suspects.was_read(title)
                self._store.postpone(title)
                await self._try_check(title)

    def _unexpired(self, nodes: dict[str, float]) -> dict[str, float]:
        """Return the nodes whose time has not expired."""
        return {node: until for node, until in nodes.items() if self._clock() < until}

    async def check_recent(self) -> None:
        """Check some of the new GpuPods of offenders."""
        for title in list(itertools.islice(self._recent, MOST_RECENT_READ)):
            del self._recent[title]
            one = self._store.records.get(title)
            if one is not None and title not in self._store.verified and not self._is_right(title, one):
                await self._try_check(title)
        if not self._recent:
            self._recent_waits.clear()

    async def check_crowded(self) -> None:
        """Check some of the GpuPods of crowded nodes, several at the same time."""
        titles = list(itertools.islice(self._store.crowded, MOST_CROWDED_READ))
        for start in range(0, len(titles), AT_ONCE):
            await asyncio.gather(*map(self._check_one_crowded, titles[start : start + AT_ONCE]))
        if not self._store.crowded:
            self._crowded_waits.clear()

    async def _check_one_crowded(self, title: str) -> None:
        """Check a GpuPod of a crowded node; if that fails, it has another turn."""
        self._store.postpone(title)
        if await self._try_check(title):
            self._store.crowded.pop(title, None)

    def _on_new(self, title: str, one: gpupod_store.Record) -> None:
        """Queue a new GpuPod if its node is an offender or crowded, unless it is known to be right."""
        if self._is_right(title, one):
            self._store.verify(title, one)
            return
        if title not in self._store.records:
            self._mark_crowded(one.node)
        if one.node in self._crowded_nodes:
            self._queue_crowded(title, one.uid)
        elif self._clock() < self._offenders.get(one.node, 0.0) and len(self._recent) < MOST_RECENT:
            self._recent[title] = None
            self._recent_waits.set()

    def _mark_crowded(self, node: str) -> None:
        """Record that a node has too many GpuPods, and log that once."""
        if node not in self._crowded_nodes:
            log.warning(
                "node %s has more than %d GpuPods: only the names of the others are kept for a check",
                node,
                gpupod_store.MOST_OF_A_NODE,
                extra=logs.node(node),
            )
            self._crowded_nodes[node] = self._clock() + OFFENDER_SECONDS

    def _queue_crowded(self, title: str, uid: str) -> None:
        self._store.crowded[title] = uid
        self._crowded_waits.set()

    def _is_right(self, title: str, one: gpupod_store.Record) -> bool:
        """Whether a GpuPod is known to be of a bound pod of its name."""
        hold = self._ledger.inventory.hold(one.pod_uid)
        return hold is not None and (hold.title, hold.node) == (one.pod or title, one.node)

    async def _try_check(self, title: str) -> bool:
        """Check a GpuPod; return whether that is concluded."""
        try:
            return await self._check(title)
        except errors.ClientError as error:
            log.info("GpuPod %s is checked later: %s", title, error)
            return False

    async def _find_suspects(self) -> None:
        """Collect the GpuPods that a bound pod of their name refutes, and those without one."""
        pods = await self._bound_pods()
        for count, title in enumerate(list(self._store.records), 1):
            if (one := self._store.records.get(title)) is not None:
                self._compare(title, one, pods.get(one.pod or title))
            if count % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    def _compare(self, title: str, one: gpupod_store.Record, pod: tuple[str, str] | None) -> None:
        """Compare a GpuPod with the bound pod of its name, if there is one."""
        if pod is not None and mismatch(one, *pod) is None:
            self._store.verify(title, one)
        elif pod is not None or title not in self._store.verified:  # Else its pod has ended.
            if one.node in self._crowded_nodes:
                self._queue_crowded(title, one.uid)
            else:
                suspicion = suspect_gpupods.Suspicion
                self._suspects.add(title, suspicion.PODLESS if pod is None else suspicion.REFUTED)

    async def _bound_pods(self) -> dict[str, tuple[str, str]]:
        """Return uid and node of all pods that have a node, by their titles."""
        found, count = {}, 0
        for info in list(self._ledger.inventory.each()):
            for hold in info.holds.values():
                found[hold.title] = hold.uid, hold.node
            count += len(info.holds) + 1
            if count >= YIELD_EVERY:
                count = 0
                await asyncio.sleep(0)
        return found

    async def _check(self, title: str) -> bool:
        """Read a GpuPod and its pod anew, in this order, and delete it if it is misplaced and we lead."""
        namespace, _, name = title.partition("/")
        known = self._store.uid(title)
        if (one := await self._gpupod(namespace, name)) is None:
            self._store.drop_uid(title, known)  # The event of its end may never come.
            return True
        found = mismatch(one, *await self._pod(namespace, one.pod.partition("/")[2] or name))
        if found is None:
            self._store.verify(title, one)
        elif self._leader.leads():
            await self._remove(title, one, *found)
        else:
            return False
        return True

    async def _remove(self, title: str, one: gpupod_store.Record, cause: metrics.Removal, words: str) -> None:
        namespace, _, name = title.partition("/")
        try:
            await self._session.delete(resources.GPU_PODS, name, namespace=namespace, uid=one.uid)
        except (errors.NotFound, errors.Conflict) as error:
            log.debug("GpuPod %s is gone already: %s", title, error)
            return
        self._removed(cause)
        self._offenders[one.node] = self._clock() + OFFENDER_SECONDS
        level = logging.WARNING if cause is metrics.Removal.OTHER_NODE else logging.INFO
        log.log(
            level,
            "GpuPod %s, which was written for node %s, is removed: %s",
            title,
            one.node,
            words,
            extra=logs.node(one.node),
        )

    async def _gpupod(self, namespace: str, name: str) -> gpupod_store.Record | None:
        """Read a GpuPod; None where there is none, or where it is being deleted."""
        path = resources.GPU_PODS.path(namespace=namespace)
        pages = watch.list_pages(
            self._session, path, GPU_PODS, selectors={"fieldSelector": f"metadata.name={name}"}, size=1
        )
        found = [
            gpupod_store.record(one)
            async for page in pages
            for one in page.items
            if isinstance(one, wire.GpuPod) and one.metadata.deletion_timestamp is None
        ]
        return found[0] if found else None

    async def _pod(self, namespace: str, name: str) -> tuple[str | None, str]:
        """Read uid and node of a pod; None as uid where there is no pod."""
        pod = await self._session.find(resources.PODS, name, into=_Pod, namespace=namespace)
        return (pod.metadata.uid, pod.spec.node_name) if pod is not None else (None, "")
