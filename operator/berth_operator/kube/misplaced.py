"""GpuPods that are not of the pod of their name, and how they go.

A GpuPod has the name of its pod, and only an agent of the pod's node may write it. (Where that
name is taken, it is named by the pod's uid and the node, and its owner says which pod it is.) The API
server cannot hold agents to the second part: it sees from which node a GpuPod is written,
but not where the pod is. So an agent whose token somebody else has can take the name of
any pod for its own node, and the agent of the pod's node is refused for as long as that
record stands. Nothing is given out by such a record; yet the true one is missing.

The leader looks for them now and then. Where the GpuPod of a name was misplaced in the look
before as well, it reads the GpuPod and then the pod anew, and removes what is misplaced still.
Node and uid of a GpuPod never change, so what was true of it then is true of it for ever, and
the uid is all that the delete depends on. A pod that has ended is not among those that the
operator follows: a GpuPod of such a pod was seen to be right while the pod ran, or is found
to be right by reading it once.

Whoever makes such a record can make it again at once. So what comes for a node of which one
was removed lately is judged as it comes, a few in each second.

A GpuPod of a pod that is gone is removed as well. Its agent and the garbage collector do so
by themselves, so that is no reason for an alarm, only help where both are slow.
"""

import asyncio
import dataclasses
import logging
import re
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from berth_crds import logs, wire
from berth_crds.client import api, errors, resources, watch
from berth_operator import metrics
from berth_operator.engine import ledger

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 10.0
AT_A_TIME: Final = 500  # Holds or GpuPods looked at before others have their turn.
MOST_READ: Final = 100  # GpuPods of either kind read anew in one pass: a restart finds many of ended pods.
MOST_GLANCED: Final = 20  # Those read anew in one look at what comes.
HISTORY_SECONDS: Final = 3600.0  # How long a node is remembered after a GpuPod of it was removed.
HASTE_SECONDS: Final = 1.0  # Between two glances at what came for such nodes.
MOST_HASTY: Final = 1000  # GpuPods that wait for a glance; the others are found by the next pass.
POD: Final = resources.PODS.kind
POD_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class Lead(Protocol):
    """Who knows whether anything may be deleted."""

    def leads(self) -> bool:
        """Whether the lead is surely ours."""

    async def sure(self) -> None:
        """Wait until the lead and the picture are sure."""


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One GpuPod: its own uid, and of which pod on which node it says to be.

    `pod` is the title of that pod; nothing where it is the GpuPod's own.
    """

    uid: str
    pod_uid: str
    node: str
    pod: str = ""


class _Spec(wire.Struct, frozen=True):
    node_name: str = ""


class _Pod(wire.Struct, frozen=True):
    metadata: wire.Meta
    spec: _Spec = _Spec()


def record(thing: wire.GpuPod) -> Record:
    """Return what matters here of a GpuPod."""
    meta, spec = thing.metadata, thing.spec
    beside = meta.name == f"{spec.pod_uid}.{spec.node}"
    pods = [one.name for one in meta.owner_references if one.kind == POD and one.uid == spec.pod_uid]
    # The API server takes any name of an owner; one that no pod can have must not get into a path.
    pod = f"{meta.namespace}/{pods[0]}" if beside and pods and POD_NAME.fullmatch(pods[0]) else ""
    return Record(meta.uid, spec.pod_uid, spec.node, pod)


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


class Known:
    """All GpuPods that there are, by their titles, and which of them were seen to be of their pods."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.right: dict[str, Record] = {}
        self.heard: Callable[[str, Record], None] | None = None  # Told of each that is new.

    def put(self, title: str, one: Record) -> None:
        """Record a GpuPod."""
        if self.records.get(title) != one:
            self.drop(title)
            self.records[title] = one
            if self.heard is not None:
                self.heard(title, one)

    def proved(self, title: str, one: Record) -> None:
        """Record that a GpuPod is of its pod, if it is still there."""
        if self.records.get(title) == one:
            self.right[title] = one

    def drop(self, title: str) -> None:
        """Forget a GpuPod that is gone."""
        self.records.pop(title, None)
        self.right.pop(title, None)


class Cleaner:
    """Looks for misplaced GpuPods, and removes them."""

    def __init__(
        self,
        session: api.Api,
        book: ledger.Ledger,
        known: Known,
        lead: Lead,
        *,
        clock: Callable[[], float],
        removed: Callable[[metrics.Removal], None],
    ) -> None:
        self._session = session
        self._book = book
        self._known = known
        self._lead = lead
        self._removed = removed
        self._clock = clock
        self._history: dict[str, float] = {}  # By node, until when it is remembered that one was removed.
        self._hasty: dict[str, None] = {}  # Titles to look at, in the order in which they came.
        self._due = asyncio.Event()
        known.heard = self._came
        self._before: set[str] = set()  # The titles of those that seemed misplaced in the last pass.
        self._passes = 0
        self._tried: dict[str, int] = {}  # By title, in which pass it was tried last, or due first.

    async def run(self) -> None:
        """Look for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._glance_for_ever())
            while True:
                await self._lead.sure()
                await self.look()
                await asyncio.sleep(PERIOD_SECONDS)

    async def _glance_for_ever(self) -> None:
        while True:
            await self._due.wait()
            await self._lead.sure()
            await self.glance()
            await asyncio.sleep(HASTE_SECONDS)

    async def look(self) -> None:
        """Go through all GpuPods once, and judge those that seemed misplaced the last time as well."""
        self._history = {node: until for node, until in self._history.items() if self._clock() < until}
        refuted, podless = await self._misplaced()
        due = [those & self._before for those in (refuted, podless)]
        self._before = podless | refuted
        self._passes += 1
        self._tried = {title: self._tried.get(title, self._passes) for titles in due for title in titles}
        # Those that a known pod refutes wait for no others; among equals nobody keeps others from their turn.
        for titles in due:
            for title in sorted(titles, key=lambda one: (self._tried[one], one))[:MOST_READ]:
                self._tried[title] = self._passes
                await self._try(title)

    async def glance(self) -> None:
        """Judge some of the GpuPods that came for nodes of which others were removed."""
        for title in list(self._hasty)[:MOST_GLANCED]:
            del self._hasty[title]
            one = self._known.records.get(title)
            if one is not None and title not in self._known.right and not self._is_right(title, one):
                await self._try(title)
        if not self._hasty:
            self._due.clear()

    def _came(self, title: str, one: Record) -> None:
        """Queue a new GpuPod if its node has a history, unless it is known to be right."""
        if self._is_right(title, one):
            self._known.proved(title, one)
        elif self._clock() < self._history.get(one.node, 0.0) and len(self._hasty) < MOST_HASTY:
            self._hasty[title] = None
            self._due.set()

    def _is_right(self, title: str, one: Record) -> bool:
        """Whether a GpuPod is known to be of a bound pod of its name."""
        hold = self._book.picture.hold(one.pod_uid)
        return hold is not None and (hold.title, hold.node) == (one.pod or title, one.node)

    async def _try(self, title: str) -> None:
        try:
            await self._judge(title)
        except errors.ClientError as error:
            log.info("whether GpuPod %s is misplaced is found out later: %s", title, error)

    async def _misplaced(self) -> tuple[set[str], set[str]]:
        """Return the titles of GpuPods that a bound pod of their name refutes, and of those without one."""
        pods = await self._bound()
        refuted, podless = set(), set()
        for count, (title, one) in enumerate(list(self._known.records.items()), 1):
            pod = one.pod or title
            if pod in pods and objection(one, *pods[pod]):
                refuted.add(title)
            elif pod in pods:
                self._known.proved(title, one)
            elif title not in self._known.right:
                podless.add(title)
            if count % AT_A_TIME == 0:
                await asyncio.sleep(0)
        return refuted, podless

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
        pod = one.pod.partition("/")[2] or name
        found = objection(one, *await self._pod(namespace, pod))
        if found is None:
            self._known.proved(title, one)
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
        self._history[one.node] = self._clock() + HISTORY_SECONDS
        level = logging.WARNING if found.why is metrics.Removal.OTHER_NODE else logging.INFO
        said = "GpuPod %s, which was written for node %s, is removed: %s"
        log.log(level, said, title, one.node, found.text, extra=logs.about(one.node))

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
        except errors.AmbiguousNotFound:
            raise  # It proves nothing.
        except errors.NotFound:
            return None, ""
        return pod.metadata.uid, pod.spec.node_name


GPU_PODS: Final = watch.Codec(wire.GpuPod)


def _standing(items: list[wire.GpuPod | watch.Unreadable]) -> Iterator[Record]:
    for one in items:
        if isinstance(one, wire.GpuPod) and one.metadata.deletion_timestamp is None:
            yield record(one)
