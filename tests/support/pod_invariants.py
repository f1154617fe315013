"""What must always hold of pods, judged independently at every revision that an administrator sees.

    async with pod_invariants.WatchedInvariants(cluster, namespace, cards) as seen:
        ...
    assert not seen.violations

It shares no code with the operator but the annotation protocol: its own watch, its own
sums. `Invariants` judges each event by I1 to I5 and by the order of terms (I7), so that a
promise that was broken for a moment is known even when all is well in the end.
"""

import asyncio
import contextlib
import dataclasses
import json
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from berth_crds import allocation, names
from berth_crds.vocabulary import PodPhase
from testbed import cluster as clusters
from testbed import sessions

# A watch event is one line, and aiohttp allows it 64 KiB by itself.
LONGEST_LINE: Final = 1 << 22
RETRY_SECONDS: Final = 0.2
FINISHED: Final = {"Succeeded", "Failed"}
OURS: Final = {names.ALLOCATION, names.MINORS, names.TERM}
FULL: Final = 100

Raw = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Card:
    """What one card has to give."""

    node: str
    memory: int
    core: int = FULL


UNKNOWN: Final = 0  # The revision of a bind that nobody has seen: no list is older.

Cards = Mapping[str, Card]
NO_OVERSALE: Final[Mapping[str, int]] = {}


@dataclasses.dataclass(frozen=True, slots=True)
class Bind:
    """The revision in which a pod got its node, and by whose term."""

    revision: int
    pod: str
    node: str
    term: str


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """What a pod has: its node, Berth's annotations, its share of each card as (core, memory), its limit."""

    title: str
    node: str
    words: Mapping[str, str]
    shares: Mapping[str, tuple[int, int]]
    limit: int = FULL  # Percent of a card's core that may be promised with it.


class Invariants:
    """The sums, and what was wrong with them at any revision."""

    def __init__(self, cards: Cards, limits: Mapping[str, int] = NO_OVERSALE) -> None:
        self.cards = dict(cards)
        self.limits = limits  # By PriorityClass, where the policy oversells core to it.
        self.violations: list[str] = []
        self.spoiled: set[str] = set()  # Pods whose records somebody changes: they have what they were given.
        self.forget()

    def forget(self) -> None:
        """Forget all that was seen, but not what was wrong with it."""
        self.binds: list[Bind] = []
        self.revisions: list[tuple[int, str, str]] = []
        self.pods: dict[str, Raw] = {}
        self._held: dict[str, Held] = {}
        self._everything: dict[str, Held] = {}
        self._terms: list[str] = []

    def take(self, change: str, pod: Raw) -> None:
        """Judge one event."""
        meta = pod["metadata"]
        uid, revision = meta["uid"], int(meta["resourceVersion"])
        self.revisions.append((revision, change, meta["name"]))
        if change == "DELETED":
            self.pods.pop(uid, None)
            self._held.pop(uid, None)
            return
        self.pods[uid] = pod
        self._judge(uid, revision, pod)
        if pod["status"].get("phase") in FINISHED:
            self._held.pop(uid, None)

    def take_listed(self, pods: Sequence[Raw]) -> None:
        """Judge what there is already: in which order terms have bound it shows in no list.

        Nor does when, of a pod of which its kubelet has written since.
        """
        known = len(self.violations)
        for pod in pods:
            bound = len(self.binds)
            self.take("ADDED", pod)
            if pod["status"].get("phase") != PodPhase.PENDING:
                self.binds[bound:] = [
                    dataclasses.replace(one, revision=UNKNOWN) for one in self.binds[bound:]
                ]
        self._terms.clear()
        self.violations[known:] = [one for one in self.violations[known:] if "I7" not in one]

    def unheld(self) -> dict[str, str]:
        """Return the names of the cards of which nothing is promised, and their nodes."""
        return {uuid: card.node for uuid, card in self.cards.items() if not self._holders(uuid)}

    def names(self) -> set[str]:
        """Return the names of the pods that there are."""
        return {pod["metadata"]["name"] for pod in self.pods.values()}

    def bound(self) -> set[str]:
        """Return the names of those that have a node."""
        return {pod["metadata"]["name"] for pod in self.pods.values() if pod["spec"].get("nodeName")}

    # ------------------------------------------------------------ one pod

    def _judge(self, uid: str, revision: int, pod: Raw) -> None:
        node, title = pod["spec"].get("nodeName", ""), pod["metadata"]["name"]
        words = {key: text for key, text in pod["metadata"].get("annotations", {}).items() if _ours(key)}
        before = self._everything.get(uid)
        if not node:
            if words:
                self._violated(revision, f"I4: {title} has no node and yet {', '.join(words)}")
            return
        if before is not None:
            if (before.node, before.words) != (node, words) and title not in self.spoiled:
                self._violated(revision, f"I3: {title} changed after its bind: {before.words} to {words}")
            return
        limit = self.limits.get(pod["spec"].get("priorityClassName", ""), FULL)
        held = Held(title, node, words, self._shares(revision, pod, words), limit)
        self._everything[uid] = held
        self.binds.append(Bind(revision, title, node, words.get(names.TERM, "")))
        self._order(self.binds[-1])
        if pod["status"].get("phase") not in FINISHED:
            self._charge(uid, revision, held)

    def _shares(self, revision: int, pod: Raw, words: Mapping[str, str]) -> dict[str, tuple[int, int]]:
        title, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        record = allocation.decode(words.get(names.ALLOCATION, ""))
        if isinstance(record, allocation.Unreadable):
            if asks(pod):
                self._violated(revision, f"I4: {title} is bound and has no allocation: {record.detail}")
            return {}
        if record.node != node:
            self._violated(revision, f"I2: {title} is on {node} and holds cards of {record.node}")
        shares: dict[str, tuple[int, int]] = {}
        for entry in record.entries():
            card = self.cards.get(entry.share.uuid)
            if card is None or card.node != node:
                self._violated(revision, f"I2: {title} on {node} holds {entry.share.uuid} of another node")
            core, memory = shares.get(entry.share.uuid, (0, 0))
            shares[entry.share.uuid] = core + entry.share.core, memory + entry.share.memory
        return shares

    def _order(self, bind: Bind) -> None:
        """I7: once a term has bound, no earlier one does any more."""
        if bind.term in self._terms[:-1]:
            self._violated(bind.revision, f"I7: {bind.pod} was bound in {bind.term} after {self._terms[-1]}")
        elif bind.term not in self._terms:
            self._terms.append(bind.term)

    # ------------------------------------------------------------ all cards

    def _holders(self, uuid: str) -> list[Held]:
        return [held for held in self._held.values() if uuid in held.shares]

    def _charge(self, uid: str, revision: int, held: Held) -> None:
        self._held[uid] = held
        for uuid in held.shares:
            card, holders = self.cards.get(uuid, Card("", 0)), self._holders(uuid)
            core, memory = (sum(one.shares[uuid][part] for one in holders) for part in (0, 1))
            guaranteed = sum(one.shares[uuid][0] for one in holders if one.limit == FULL)
            most = card.core * max(one.limit for one in holders) // FULL
            if core > most or guaranteed > card.core or memory > card.memory:
                titles = ", ".join(one.title for one in holders)
                said = f"I1: {core} % and {memory} bytes of {uuid} are promised, to {titles}"
                self._violated(revision, said)

    def _violated(self, revision: int, sentence: str) -> None:
        self.violations.append(f"revision {revision}: {sentence}")


def overtaken(binds: Sequence[Bind], pictures: Mapping[str, int]) -> list[str]:
    """I7: find binds of an older term that a newer one did not have in its picture when it began.

    `pictures` tells for each term the revision of the list on which its decisions began.
    """
    firsts: dict[str, Bind] = {}
    for bind in binds:
        firsts.setdefault(bind.term, bind)
    found, older = list[str](), set[str]()
    for term in firsts:
        began = pictures.get(term)
        late = [one for one in binds if began is not None and one.term in older and one.revision > began]
        found += [f"I7: {term} did not see {one.pod} bound, at {one.revision}" for one in late]
        older.add(term)
    return found


def _ours(key: str) -> bool:
    return key in OURS or names.CONTAINER_INFIX in key


def asks(pod: Raw) -> bool:
    """Whether a pod asks for cards."""
    limits = (one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"])
    return any(key == names.NVIDIA_GPU or key.startswith(f"{names.GROUP}/") for one in limits for key in one)


def cards_of(devices: Mapping[str, Raw]) -> dict[str, Card]:
    """Read what Devices, as they were published, have to give."""
    return {
        card["uuid"]: Card(node, int(card.get("memory", 0)))
        for node, one in devices.items()
        for card in one["spec"]["devices"]
    }


class WatchedInvariants(Invariants):
    """The invariants, kept by a watch over the pods of one namespace."""

    def __init__(
        self,
        cluster: clusters.Cluster,
        namespace: str,
        cards: Cards,
        limits: Mapping[str, int] = NO_OVERSALE,
    ) -> None:
        super().__init__(cards, limits)
        self._path = f"{cluster.server}/api/v1/namespaces/{namespace}/pods"
        self._tls = ssl.create_default_context(cafile=str(cluster.ca_file))
        self._tls.load_cert_chain(cluster.admin.certificate, cluster.admin.key)
        self._version = ""
        self._task: asyncio.Task[None]
        self._close = contextlib.AsyncExitStack()
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        """List, and watch from there."""
        lent = sessions.session(
            tls=self._tls, timeout=aiohttp.ClientTimeout(total=None), read_bufsize=LONGEST_LINE
        )
        self._session = await self._close.enter_async_context(lent)
        await self._begin()
        return self

    async def _begin(self) -> None:
        async with self._session.get(self._path) as answer:
            listed = await answer.json()
        self.take_listed(listed["items"])
        self._version = listed["metadata"]["resourceVersion"]
        self._task = asyncio.create_task(self._follow())

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """See nothing during the block, in which the history is another one, and begin anew after it."""
        await self._end()
        yield
        self.forget()
        await self._begin()

    async def _end(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching; one whose watch has ended says so."""
        await self._end()
        await self._close.aclose()

    async def _follow(self) -> None:
        """Watch for ever, from where the last watch ended: no revision is left out."""
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                await self._watch()
            await asyncio.sleep(RETRY_SECONDS)

    async def _watch(self) -> None:
        params = {"watch": "true", "resourceVersion": self._version}
        async with self._session.get(self._path, params=params) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    self.violations.append(f"the watch ended: {event['object'].get('message')}")
                    raise asyncio.CancelledError
                self.take(event["type"], event["object"])
                self._version = event["object"]["metadata"]["resourceVersion"]
