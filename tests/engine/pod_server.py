"""The pods of an API server in memory, a watch that shows them later, and binds that arrive later.

Each change of a pod is an object of its own that waits to be delivered; those of one pod
arrive in order, those of different pods in any. Binds stay under way until a history goes on with them.
"""

import asyncio
import collections
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.translate import raw
from support import builders, ledgers, writers

GATE = {"schedulingGates": [{"name": "g"}]}
ENDED = {"Succeeded", "Failed"}
ADMITTED = {"admitted": True}
Seen = TypeVar("Seen", ports.Answer, ports.ReadResult)
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


class Server:
    """Keeps pods by name."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.news: dict[str, collections.deque[raw.Pod | None]] = collections.defaultdict(collections.deque)
        self.delivered: dict[str, raw.Pod | None] = {}
        self.ours: set[str] = set()
        self.gone: set[str] = set()  # Known to the operator before the watch shows it.

    # What people, kubelets and other schedulers do.

    def create(self, name: str, **fields: Any) -> None:
        """Create a pod."""
        self._change(name, fields)

    def ungate(self, name: str) -> None:
        """Lift the gate of a pod."""
        self._change(name, {key: value for key, value in self.pods[name].items() if key not in GATE})

    def change(self, name: str, fields: Mapping[str, Any]) -> None:
        """Change a pod: what a waiting one asks for, or its node."""
        self._change(name, self.pods[name] | dict(fields))

    def go_on(self, name: str, fields: Mapping[str, Any]) -> None:
        """Have a bound pod be admitted, or its containers start or end; what has ended stays so."""
        if self.pods[name].get("phase") not in ENDED:
            self.change(name, fields)

    def delete(self, name: str) -> None:
        """Delete a pod: at once where no kubelet has it, else when its containers have ended."""
        if self.node(name):
            self.change(name, {"meta": LEAVING})
        else:
            self.vanish(name)

    def vanish(self, name: str) -> None:
        """Have a pod be gone."""
        del self.pods[name]
        self.news[name].append(None)

    # What our binds meet.

    def bind(self, name: str, placement: decisions.Placement) -> ports.Answer:
        """Accept a Binding, or refuse it."""
        if name not in self.pods:
            return ports.Gone()
        if self.node(name):
            return ports.Bound()
        if "schedulingGates" in self.pods[name]:
            return ports.Refused("gated")
        self.ours.add(name)
        self.change(name, {"nodeName": placement.node, "annotations": builders.answered(placement)})
        return ports.Bound()

    def learn(self, name: str, seen: Seen) -> Seen:
        """Note that the operator learns of a pod's end before the watch shows it."""
        if isinstance(seen, ports.Gone):
            self.gone.add(name)
        return seen

    def look(self, name: str) -> ports.ReadResult:
        """Return whether a pod is bound."""
        if name not in self.pods:
            return ports.Gone()
        return ports.Bound() if self.node(name) else ports.Unbound()

    # What is true, and who is told of it.

    def having(self, *, node: bool) -> list[str]:
        """Name the pods that have a node, or have none."""
        return [name for name in self.pods if bool(self.node(name)) is node]

    def pending(self) -> list[str]:
        """Name the pods of which there is news to tell."""
        return [name for name, news in self.news.items() if news]

    def node(self, name: str) -> str:
        """Return the node of a pod, if it is bound."""
        return str(self.pods[name].get("nodeName", ""))

    def deliver(self, name: str, ledger: Ledger) -> None:
        """Apply the next news of a pod to a ledger."""
        self.delivered[name] = self.news[name].popleft()
        ledgers.pod_seen(ledger, self.delivered[name], f"uid-{name}")

    def objects(self) -> dict[str, raw.Pod]:
        """Return all pods as they are."""
        return {name: made(name, fields) for name, fields in self.pods.items()}

    def cards_in_use(self) -> list[str]:
        """List the cards of all unfinished pods that we bound."""
        mine = [pod for name, pod in self.objects().items() if name in self.ours]
        return [card for pod in mine if pod.status.phase not in ENDED for card in ledgers.held_cards(pod)]

    def _change(self, name: str, fields: Mapping[str, Any]) -> None:
        self.pods[name] = dict(fields)
        self.news[name].append(made(name, fields))


def made(name: str, fields: Mapping[str, Any]) -> raw.Pod:
    """Make the object of a pod."""
    pod = builders.pod(name, **{key: value for key, value in fields.items() if key not in ADMITTED})
    return builders.admitted(pod) if ADMITTED.keys() <= fields.keys() else pod


# ---------------------------------------------------------------- binds on their way to it

LOST: Final = ports.Unknown("timed out", version="some")  # Of a bind that named its pod's revision.


@dataclasses.dataclass(slots=True)
class PendingBind:
    """A bind that was sent, and whoever waits for its answer."""

    placement: decisions.Placement
    answer: asyncio.Future[ports.Answer]


class PendingBinds(writers.Lead):
    """Writes binds that stay under way until the history goes on with them."""

    def __init__(
        self, server: Server, check: Callable[[queued_pods.PodInfo, decisions.Placement], None]
    ) -> None:
        self.server = server
        self.check = check  # Called at the moment at which a bind is sent.
        self.under_way: dict[str, PendingBind] = {}
        self.lost: list[tuple[str, decisions.Placement]] = []  # Given up by us; they may still arrive.
        self.sent: set[tuple[str, str]] = set()

    async def bind(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> ports.Answer:
        """Send a bind; the first time what it gives must be right at this very moment (I6)."""
        known = pod_info.name, repr(placement)
        if known not in self.sent or not self.lost:
            self.check(pod_info, placement)
        self.sent.add(known)
        pending = PendingBind(placement, asyncio.get_running_loop().create_future())
        self.under_way[pod_info.name] = pending
        return await pending.answer

    async def dry_run(self, *_: object) -> ports.Answer:
        """Accept it: what is said of the bind itself matters here."""
        return ports.Bound()

    async def void(self, pod_info: queued_pods.PodInfo) -> ports.ReadResult:
        """Void the binds that are on their way, and read the pod as it is."""
        self.lost = [one for one in self.lost if one[0] != pod_info.name]
        return await self.read_pod(pod_info)

    async def read_pod(self, pod_info: queued_pods.PodInfo) -> ports.ReadResult:
        """Read a pod as it is."""
        return self.server.learn(pod_info.name, self.server.look(pod_info.name))
