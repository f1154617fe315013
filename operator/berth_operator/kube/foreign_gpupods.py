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

He can make as many as the API server takes, too. Of one node so many are kept as a node can
well have. Of what is beyond that only the names are kept until each has been judged once; that
goes faster than a pass, and costs the GpuPods of other nodes no turn.

A GpuPod of a pod that is gone is removed as well. Its agent and the garbage collector do so
by themselves, so that is no reason for an alarm, only help where both are slow.
"""

import asyncio
import collections
import dataclasses
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, Protocol, TypeVar

from berth_crds import logs, schema_limits, wire
from berth_crds.client import api, errors, resources, watch
from berth_operator import metrics
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import suspect_gpupods

T = TypeVar("T")

log = logging.getLogger(__name__)

PERIOD_SECONDS: Final = 10.0
AT_A_TIME: Final = 500  # Holds or GpuPods looked at before others have their turn.
MOST_GLANCED: Final = 20  # Those read anew in one look at what comes.
HISTORY_SECONDS: Final = 3600.0  # How long a node is remembered after a GpuPod of it was removed.
HASTE_SECONDS: Final = 1.0  # Between two glances at what came for such nodes.
MOST_HASTY: Final = 1000  # GpuPods that wait for a glance; the others are found by the next pass.
MOST_OF_A_NODE: Final = 1024  # GpuPods that are kept of one node; it has many times fewer pods that run.
MOST_THINNED: Final = 100  # GpuPods of nodes with more than that read anew in each second.
AT_ONCE: Final = 16  # Of these, at the same time.
POD: Final = resources.PODS.kind


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
    pod = (
        f"{meta.namespace}/{pods[0]}"
        if beside and pods and schema_limits.DNS_SUBDOMAIN.matches(pods[0])
        else ""
    )
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
    """The GpuPods that there are, by their titles, and which of them were seen to be of their pods.

    Of each node there are so many at most. What is to be judged soon because its node has more
    stands in `pressing`, and what is beyond the limit stands nowhere else.
    """

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.right: dict[str, Record] = {}
        self.pressing: dict[str, None] = {}
        self.heard: Callable[[str, Record], None] | None = None  # Told of each that is new.
        self._counts: collections.Counter[str] = collections.Counter()  # Of the records, by node.

    def put(self, title: str, one: Record) -> None:
        """Record a GpuPod."""
        if self.records.get(title) != one:
            self.drop(title)
            if self._counts[one.node] < MOST_OF_A_NODE:
                self._counts[one.node] += 1
                self.records[title] = one
            else:
                self.pressing[title] = None
            if self.heard is not None:
                self.heard(title, one)

    def proved(self, title: str, one: Record) -> None:
        """Record that a GpuPod is of its pod, if it is still there."""
        self.pressing.pop(title, None)
        if self.records.get(title) == one:
            self.right[title] = one

    def postpone(self, title: str) -> None:
        """Have a GpuPod come after all others that are there now."""
        _move_to_end(self.records, title)
        _move_to_end(self.pressing, title)

    def drop(self, title: str) -> None:
        """Forget a GpuPod that is gone."""
        one = self.records.pop(title, None)
        self.right.pop(title, None)
        self.pressing.pop(title, None)
        if one is not None:
            self._counts[one.node] -= 1
            if not self._counts[one.node]:
                del self._counts[one.node]


def _move_to_end(things: dict[str, T], key: str) -> None:
    if key in things:
        things[key] = things.pop(key)


class Cleaner:
    """Looks for misplaced GpuPods, and removes them."""

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        known: Known,
        lead: Lead,
        *,
        clock: Callable[[], float],
        removed: Callable[[metrics.Removal], None],
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._known = known
        self._lead = lead
        self._removed = removed
        self._clock = clock
        self._history: dict[str, float] = {}  # By node, until when it is remembered that one was removed.
        self._hasty: dict[str, None] = {}  # Titles to look at, in the order in which they came.
        self._due = asyncio.Event()
        self._crowds: dict[str, float] = {}  # By node, until when it is remembered that it had too many.
        self._crowded = asyncio.Event()
        known.heard = self._came
        self._suspects = suspect_gpupods.Suspects()

    async def run(self) -> None:
        """Look for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hurry_for_ever(self._due, self.glance))
            group.create_task(self._hurry_for_ever(self._crowded, self.thin))
            while True:
                await self._lead.sure()
                await self.look()
                await asyncio.sleep(PERIOD_SECONDS)

    async def _hurry_for_ever(self, due: asyncio.Event, judge: Callable[[], Awaitable[None]]) -> None:
        while True:
            await due.wait()
            await self._lead.sure()
            await judge()
            await asyncio.sleep(HASTE_SECONDS)

    async def look(self) -> None:
        """Go through all GpuPods once, and judge those that seemed misplaced the last time as well."""
        self._history, self._crowds = self._remembered(self._history), self._remembered(self._crowds)
        self._suspects.begin()
        await self._suspect()
        # Those that a known pod refutes wait for no others.
        for kind in suspect_gpupods.Kind:
            for title in self._suspects.due(kind):
                self._suspects.was_read(title)
                self._known.postpone(title)
                await self._try(title)

    def _remembered(self, nodes: dict[str, float]) -> dict[str, float]:
        """Return the nodes that are to be remembered still."""
        return {node: until for node, until in nodes.items() if self._clock() < until}

    async def glance(self) -> None:
        """Judge some of the GpuPods that came for nodes of which others were removed."""
        for title in list(itertools.islice(self._hasty, MOST_GLANCED)):
            del self._hasty[title]
            one = self._known.records.get(title)
            if one is not None and title not in self._known.right and not self._is_right(title, one):
                await self._try(title)
        if not self._hasty:
            self._due.clear()

    async def thin(self) -> None:
        """Judge some of the GpuPods of nodes that have too many, several at the same time."""
        titles = list(itertools.islice(self._known.pressing, MOST_THINNED))
        for start in range(0, len(titles), AT_ONCE):
            await asyncio.gather(*map(self._settle, titles[start : start + AT_ONCE]))
        if not self._known.pressing:
            self._crowded.clear()

    async def _settle(self, title: str) -> None:
        """Judge a GpuPod of a node that has too many; one that cannot be judged has another turn."""
        self._known.postpone(title)
        if await self._try(title):
            self._known.pressing.pop(title, None)

    def _came(self, title: str, one: Record) -> None:
        """Queue a new GpuPod if its node has a history or too many, unless it is known to be right."""
        if self._is_right(title, one):
            self._known.proved(title, one)
            return
        if title not in self._known.records:
            self._crowd(one.node)
        if one.node in self._crowds:
            self._press(title)
        elif self._clock() < self._history.get(one.node, 0.0) and len(self._hasty) < MOST_HASTY:
            self._hasty[title] = None
            self._due.set()

    def _crowd(self, node: str) -> None:
        """Remember that a node has too many GpuPods, and say so once."""
        if node not in self._crowds:
            said = "node %s has more than %d GpuPods: of the others the names are kept until each is judged"
            log.warning(said, node, MOST_OF_A_NODE, extra=logs.node(node))
            self._crowds[node] = self._clock() + HISTORY_SECONDS

    def _press(self, title: str) -> None:
        self._known.pressing[title] = None
        self._crowded.set()

    def _is_right(self, title: str, one: Record) -> bool:
        """Whether a GpuPod is known to be of a bound pod of its name."""
        hold = self._ledger.inventory.hold(one.pod_uid)
        return hold is not None and (hold.title, hold.node) == (one.pod or title, one.node)

    async def _try(self, title: str) -> bool:
        """Judge a GpuPod; return whether nothing of it is left to be found out or done."""
        try:
            return await self._judge(title)
        except errors.ClientError as error:
            log.info("whether GpuPod %s is misplaced is found out later: %s", title, error)
            return False

    async def _suspect(self) -> None:
        """Find the GpuPods that a bound pod of their name refutes, and those without one."""
        pods = await self._bound()
        for count, title in enumerate(list(self._known.records), 1):
            one = self._known.records.get(title)
            if one is not None:
                self._compare(title, one, pods.get(one.pod or title))
            if count % AT_A_TIME == 0:
                await asyncio.sleep(0)

    def _compare(self, title: str, one: Record, pod: tuple[str, str] | None) -> None:
        """Compare a GpuPod with the bound pod of its name, if there is one."""
        if pod is not None and objection(one, *pod) is None:
            self._known.proved(title, one)
        elif pod is None and title in self._known.right:
            pass  # Its pod has ended.
        elif one.node in self._crowds:
            self._press(title)
        else:
            self._suspects.add(
                title, suspect_gpupods.Kind.PODLESS if pod is None else suspect_gpupods.Kind.REFUTED
            )

    async def _bound(self) -> dict[str, tuple[str, str]]:
        """Return uid and node of all pods that have a node, by their titles."""
        found, looked = {}, 0
        for info in list(self._ledger.inventory.each()):
            for hold in info.holds.values():
                found[hold.title] = hold.uid, hold.node
            looked += len(info.holds) + 1
            if looked >= AT_A_TIME:
                looked = 0
                await asyncio.sleep(0)
        return found

    async def _judge(self, title: str) -> bool:
        """Read a GpuPod and its pod anew, in this order, and delete it if it is misplaced and may be."""
        namespace, _, name = title.partition("/")
        one = await self._gpupod(namespace, name)
        if one is None:
            return True
        pod = one.pod.partition("/")[2] or name
        found = objection(one, *await self._pod(namespace, pod))
        if found is None:
            self._known.proved(title, one)
        elif self._lead.leads():
            await self._remove(title, one, found)
        else:
            return False
        return True

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
        log.log(level, said, title, one.node, found.text, extra=logs.node(one.node))

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
