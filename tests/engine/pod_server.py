"""The pods of an API server in memory: the truth, and a watch that tells of it later.

Each change of a pod is an object of its own that waits to be delivered; those of one pod
arrive in order, those of different pods in any.
"""

import collections
from collections.abc import Mapping
from typing import Any

from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions
from berth_operator.translate import raw
from support import builders, ledgers

GATE = {"schedulingGates": [{"name": "g"}]}
ENDED = {"Succeeded", "Failed"}
ADMITTED = {"admitted": True}
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


class Server:
    """Keeps pods by name."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.news: dict[str, collections.deque[raw.Pod | None]] = collections.defaultdict(collections.deque)
        self.delivered: dict[str, raw.Pod | None] = {}
        self.ours: set[str] = set()

    # What people, kubelets and other schedulers do.

    def create(self, name: str, **fields: Any) -> None:
        """Create a pod."""
        self._change(name, fields)

    def ungate(self, name: str) -> None:
        """Lift the gate of a pod."""
        self._change(name, {key: value for key, value in self.pods[name].items() if key not in GATE})

    def edit(self, name: str, annotations: Mapping[str, str]) -> None:
        """Edit what a waiting pod asks for."""
        if not self.node(name):
            self._change(name, self.pods[name] | {"annotations": dict(annotations)})

    def delete(self, name: str) -> None:
        """Delete a pod: at once where no kubelet has it, else when its containers have ended."""
        if self.node(name):
            self._change(name, self.pods[name] | {"meta": LEAVING})
        else:
            self.vanish(name)

    def finish(self, name: str, phase: str) -> None:
        """Have the containers of a bound pod start or end; what has ended stays so."""
        if self.node(name) and self.pods[name].get("phase") not in ENDED:
            self._change(name, self.pods[name] | {"phase": phase})

    def admit(self, name: str) -> None:
        """Have the kubelet of a bound pod admit it."""
        if self.node(name) and self.pods[name].get("phase") not in ENDED:
            self._change(name, self.pods[name] | ADMITTED)

    def vanish(self, name: str) -> None:
        """Have a pod be gone."""
        del self.pods[name]
        self.news[name].append(None)

    def bind_by_another(self, name: str, node: str) -> None:
        """Have another scheduler bind a pod, without any record."""
        if not self.node(name):
            self._change(name, self.pods[name] | {"nodeName": node})

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
        answer = {"nodeName": placement.node, "annotations": builders.answered(placement)}
        self._change(name, self.pods[name] | answer)
        return ports.Bound()

    def look(self, name: str) -> ports.ReadResult:
        """Return whether a pod is bound."""
        if name not in self.pods:
            return ports.Gone()
        return ports.Bound() if self.node(name) else ports.Unbound()

    # What is true, and who is told of it.

    def unbound(self) -> list[str]:
        """Name the pods that have no node."""
        return [name for name in self.pods if not self.node(name)]

    def bound(self) -> list[str]:
        """Name the pods that have one."""
        return [name for name in self.pods if self.node(name)]

    def pending(self) -> list[str]:
        """Name the pods of which there is news to tell."""
        return [name for name, news in self.news.items() if news]

    def node(self, name: str) -> str:
        """Return the node of a pod, if it is bound."""
        return str(self.pods[name].get("nodeName", ""))

    def deliver(self, name: str, ledger: Ledger) -> None:
        """Apply the next news of a pod to a ledger."""
        thing = self.news[name].popleft()
        self.delivered[name] = thing
        ledgers.pod_seen(ledger, thing, f"uid-{name}")

    def objects(self) -> dict[str, raw.Pod]:
        """Return all pods as they are."""
        return {name: made(name, fields) for name, fields in self.pods.items()}

    def cards_in_use(self) -> list[str]:
        """List the cards of all unfinished pods that we bound."""
        pods = self.objects()
        mine = [pods[name] for name in self.ours if name in pods]
        running = [pod for pod in mine if pod.status.phase not in ENDED]
        return [card for pod in running for card in ledgers.held_cards(pod)]

    def _change(self, name: str, fields: Mapping[str, Any]) -> None:
        self.pods[name] = dict(fields)
        self.news[name].append(made(name, fields))


def made(name: str, fields: Mapping[str, Any]) -> raw.Pod:
    """Make the object of a pod."""
    pod = builders.pod(name, **{key: value for key, value in fields.items() if key not in ADMITTED})
    return builders.admitted(pod) if ADMITTED.keys() <= fields.keys() else pod
