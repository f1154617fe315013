"""GpuPods that are not of the pod of their name, and how they go.

A GpuPod has the name of its pod, and only an agent of the pod's node may write it. The API
server cannot hold agents to the second part: it sees from which node a GpuPod is written,
but not where the pod is. So an agent whose token somebody else has can take the name of
any pod for its own node, and the agent of the pod's node is refused for as long as that
record stands. Nothing is given out by such a record; yet the true one is missing.

The leader looks for them now and then, and removes one that was found misplaced twice in a
row, after it has read the GpuPod and then the pod anew. Node and uid of a GpuPod never
change, so what was true of it then is true of it for ever, and the uid is all that the
delete depends on. A pod that has ended is not among those that the operator follows: that
a GpuPod is of such a one is found out by reading it once.

A GpuPod of a pod that is gone is removed as well. Its agent and the garbage collector do so
by themselves, so that is no reason for an alarm, only help where both are slow.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from berth_crds import wire
from berth_crds.client import api, errors, resources, watch
from berth_operator import metrics
from berth_operator.engine import ledger

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 10.0
AT_A_TIME: Final = 500  # Holds or GpuPods looked at before others have their turn.
MOST_READ: Final = 20  # GpuPods read anew in one pass.


class Lead(Protocol):
    """Who knows whether anything may be deleted."""

    def leads(self) -> bool:
        """Whether the lead is surely ours."""

    async def sure(self) -> None:
        """Wait until the lead and the picture are sure."""


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One GpuPod: its own uid, and of which pod on which node it says to be."""

    uid: str
    pod_uid: str
    node: str


class _Spec(wire.Struct, frozen=True):
    node_name: str = ""


class _Pod(wire.Struct, frozen=True):
    metadata: wire.Meta
    spec: _Spec = _Spec()


def record(thing: wire.GpuPod) -> Record:
    """Return what matters here of a GpuPod."""
    return Record(thing.metadata.uid, thing.spec.pod_uid, thing.spec.node)


@dataclasses.dataclass(frozen=True, slots=True)
class Objection:
    """Why a GpuPod is not of the pod of its name."""

    why: metrics.Removal
    text: str


def objection(known: Record, pod_uid: str | None, node: str) -> Objection | None:
    """Return why a GpuPod does not belong to the pod of its name, if so; no uid means no such pod."""
    if pod_uid is None:
        return Objection(metrics.Removal.NO_SUCH_POD, "there is no pod of that name")
    if known.pod_uid != pod_uid:
        text = f"it is of a pod with the uid {known.pod_uid}, and that of the pod is {pod_uid}"
        return Objection(metrics.Removal.NO_SUCH_POD, text)
    if known.node != node:
        text = f"it is of node {known.node}, and the pod is {f'on {node}' if node else 'on no node'}"
        return Objection(metrics.Removal.OTHER_NODE, text)
    return None


class Cleaner:
    """Looks for misplaced GpuPods, and removes them."""

    def __init__(
        self,
        session: api.Api,
        book: ledger.Ledger,
        known: Mapping[str, Record],
        lead: Lead,
        *,
        removed: Callable[[metrics.Removal], None],
    ) -> None:
        self._session = session
        self._book = book
        self._known = known
        self._lead = lead
        self._removed = removed
        self._before: dict[str, Record] = {}  # What seemed misplaced in the last pass.
        self._right: set[str] = set()  # The uids of GpuPods whose pod has ended, or is new to us.
        self._tries: dict[str, int] = {}

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self._lead.sure()
            await self.look()
            await asyncio.sleep(PERIOD_SECONDS)

    async def look(self) -> None:
        """Go through all GpuPods once, and judge those that seemed misplaced the last time as well."""
        now = await self._misplaced()
        due = [title for title, one in now.items() if self._before.get(title) == one]
        self._before = now
        self._right &= {one.uid for one in self._known.values()}
        self._tries = {title: self._tries.get(title, 0) for title in due}
        # One of which nothing can be made must not keep others from their turn.
        for title in sorted(due, key=lambda one: self._tries[one])[:MOST_READ]:
            self._tries[title] += 1
            try:
                await self._judge(title)
            except errors.ClientError as error:
                log.info("whether GpuPod %s is misplaced is found out later: %s", title, error)

    async def _misplaced(self) -> dict[str, Record]:
        """Return the GpuPods that seem to be of no bound pod of their name, the surest first."""
        pods = await self._bound()
        found, podless = {}, {}
        for count, (title, one) in enumerate(list(self._known.items()), 1):
            if title not in pods:
                if one.uid not in self._right:
                    podless[title] = one
            elif objection(one, *pods[title]):
                found[title] = one
            if count % AT_A_TIME == 0:
                await asyncio.sleep(0)
        return found | podless

    async def _bound(self) -> dict[str, tuple[str, str]]:
        """Return uid and node of all pods that have a node, by their titles."""
        found, looked = {}, 0
        for row in list(self._book.picture.each()):
            for hold in row.holds.values():
                found[hold.title] = hold.uid, hold.node
            looked += len(row.holds) + 1
            if looked >= AT_A_TIME:
                looked = 0
                await asyncio.sleep(0)
        return found

    async def _judge(self, title: str) -> None:
        """Read a GpuPod and its pod anew, in this order, and delete it if it is misplaced."""
        namespace, _, name = title.partition("/")
        one = await self._gpupod(namespace, name)
        if one is None:
            return
        found = objection(one, *await self._pod(namespace, name))
        if found is None:
            self._right.add(one.uid)
        elif self._lead.leads():
            await self._remove(title, one, found)

    async def _remove(self, title: str, one: Record, found: Objection) -> None:
        namespace, _, name = title.partition("/")
        try:
            await self._session.delete(resources.GPU_PODS, name, namespace=namespace, uid=one.uid)
        except (errors.NotFound, errors.Conflict) as error:
            log.debug("GpuPod %s is gone already: %s", title, error)
            return
        self._removed(found.why)
        level = logging.WARNING if found.why is metrics.Removal.OTHER_NODE else logging.INFO
        log.log(
            level, "GpuPod %s, which was written for node %s, is removed: %s", title, one.node, found.text
        )

    async def _gpupod(self, namespace: str, name: str) -> Record | None:
        """Read a GpuPod; None where there is none, or where it is about to go."""
        path = resources.GPU_PODS.path(namespace=namespace)
        selectors = {"fieldSelector": f"metadata.name={name}"}
        listed = await watch.pages(self._session, path, GPU_PODS, selectors=selectors, size=1)
        return next(_standing(listed.items), None)

    async def _pod(self, namespace: str, name: str) -> tuple[str | None, str]:
        """Read uid and node of a pod; no uid where there is none."""
        try:
            pod = await self._session.get(resources.PODS, name, into=_Pod, namespace=namespace)
        except errors.Astray:
            raise  # It proves nothing.
        except errors.NotFound:
            return None, ""
        return pod.metadata.uid, pod.spec.node_name


GPU_PODS: Final = watch.Codec(wire.GpuPod)


def _standing(items: list[wire.GpuPod | watch.Unreadable]) -> Iterator[Record]:
    for one in items:
        if isinstance(one, wire.GpuPod) and one.metadata.deletion_timestamp is None:
            yield record(one)
