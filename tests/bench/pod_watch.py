"""Who answered whom, and after how long: what a watcher of all pods makes of what it sees.

One watch tells everything, so a card's end always comes before what becomes of it, and
one clock times both. Nothing here asks the scheduler: that a pod is over, bound or told
that it fits nowhere is read from the pod alone.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

from bench import bench_cluster
from berth_crds import allocation, names

PODS: Final = "/api/v1/pods"
NOWHERE: Final = "0/"  # Fits on none of so many nodes.

Thing = dict[str, Any]


class Card(NamedTuple):
    """One card of the cluster."""

    node: str
    minor: int

    def __str__(self) -> str:
        """Name it in a sentence."""
        return f"card {self.minor} of {self.node}"


class PodName(NamedTuple):
    """One pod, by its name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Name it in a sentence."""
        return f"{self.namespace}/{self.name}"


class PodWatch:
    """What was seen of all pods so far."""

    def __init__(self) -> None:
        self.held: dict[PodName, Card] = {}
        self.twice: list[str] = []  # A sentence for each card that was given out while it was held.
        self._holders: dict[Card, PodName] = {}
        self.freed: dict[Card, tuple[PodName, float]] = {}
        self.taken: dict[PodName, float] = {}  # Seconds until the card of a pod that ended was another's.
        self.told: dict[PodName, float] = {}  # When a pod was seen to be told that it fits nowhere.

    def saw(self, moment: float, change: str, pod: Thing) -> None:
        """Record one change of one pod."""
        who = PodName(pod["metadata"]["namespace"], pod["metadata"]["name"])
        if change == "DELETED" or pod["status"].get("phase") in {"Succeeded", "Failed"}:
            self._ended(moment, who)
        elif pod["spec"].get("nodeName"):
            self._bound(moment, who, pod)
        elif who not in self.told and hopeless(pod):
            self.told[who] = moment

    def _ended(self, moment: float, who: PodName) -> None:
        card = self.held.pop(who, None)
        if card is not None:
            self.freed[card] = who, moment
            self._holders.pop(card, None)

    def _bound(self, moment: float, who: PodName, pod: Thing) -> None:
        card = card_of(pod)
        if who in self.held or card is None:
            return
        if card in self._holders:
            self.twice.append(f"{card} of {self._holders[card]} was given to {who}")
        if card in self.freed:
            before, since = self.freed.pop(card)
            self.taken[before] = moment - since
        self.held[who], self._holders[card] = card, who


def card_of(pod: Thing) -> Card | None:
    """Read which card a pod of one card holds, from what its Binding wrote."""
    text = (pod["metadata"].get("annotations") or {}).get(names.ALLOCATION, "")
    record = allocation.decode(text)
    if isinstance(record, allocation.Unreadable):
        return None
    return Card(record.node, next(record.entries()).share.minor)


def hopeless(pod: Thing) -> bool:
    """Whether a pod says of itself that it fits on no node."""
    return any(
        one["type"] == "PodScheduled"
        and one["status"] == "False"
        and one.get("reason") == "Unschedulable"
        and one.get("message", "").startswith(NOWHERE)
        for one in pod["status"].get("conditions") or ()
    )


@contextlib.asynccontextmanager
async def watching(place: bench_cluster.BenchCluster) -> AsyncIterator[PodWatch]:
    """Follow all pods beside the block, and yield what is seen."""
    listed = await place.read(PODS)
    seen = PodWatch()
    for pod in listed["items"]:
        seen.saw(0.0, "ADDED", pod)
    following = asyncio.create_task(_follow(place, listed["metadata"]["resourceVersion"], seen))
    try:
        yield seen
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _follow(place: bench_cluster.BenchCluster, version: str, seen: PodWatch) -> None:
    while True:  # A watch that the server ends is taken up where it ended.
        async for moment, change in place.news(PODS, version):
            version = change["object"]["metadata"]["resourceVersion"]
            seen.saw(moment, change["type"], change["object"])
