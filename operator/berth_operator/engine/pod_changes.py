"""What changes for pods that look at other pods: by topology spread, pod affinity and pod anti-affinity.

A pod on any node that comes, goes or changes its labels may let a waiting pod in on another node, and so may
the taints of a Node, those of its labels that a pod counts by, or the labels of a Namespace. What a Node does
is paced, as `paced_calls` says, and so is any change where too many selectors wait to be compared with it.
"""

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import Final

from berth_operator.engine import paced_calls
from berth_operator.scheduling import decisions, holds, node_offers, pod_index, queued_pods
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts

NO_LABELS: Final = frozenset[str]()


class PodChanges:
    """Wakes the pods that wait for such a change."""

    def __init__(
        self, inventory: Inventory, backlog: Backlog, wake: asyncio.Event, paced: paced_calls.PacedCalls
    ) -> None:
        self._inventory = inventory
        self._backlog = backlog
        self._wake = wake
        self._paced = paced
        # Of nodes for which no pod was woken yet.
        self._changed_labels: dict[str, node_offers.ChangedLabels] = {}

    def pod_changed(self, before: holds.Hold | None, after: holds.Hold | None) -> None:
        """Wake the pods that a pod may help that comes, goes or looks otherwise; None: it is not there."""
        concerns = self._inventory.pods.concerns
        if self._backlog and any(concerns(one) for one in (before, after) if one is not None):
            events = node_offers.pod_events(before, after)
            self._wake_waiting(node_offers.judge_pod(self._inventory, before, after), events)

    def pod_charged_otherwise(self, before: holds.Hold, after: holds.Hold) -> None:
        """Wake the pods that a pod may help if it also looks otherwise: it neither went nor came."""
        if pod_index.seen_by_others(before) != pod_index.seen_by_others(after):
            self.pod_changed(before, after)

    def node_changed(self, before: facts.Node | None, after: facts.Node | None) -> None:
        """Wake those for whom pods have to be counted otherwise because of a node."""
        labels = node_offers.changed_labels(before, after)
        if labels == NO_LABELS or (node := after or before) is None:
            return
        earlier = self._changed_labels.get(node.name, NO_LABELS)
        self._changed_labels[node.name] = None if labels is None or earlier is None else earlier | labels
        self._paced.call(paced_calls.pods_of(node.name), lambda: self._count_anew(node.name))

    def _count_anew(self, node: str) -> None:
        labels = self._changed_labels.pop(node)
        if labels is None:
            woken = self._wake_waiting(self._looks_at_pods)
        else:
            repelled = not labels.isdisjoint(self._inventory.pods.repelling_keys)
            woken = self._wake_waiting(lambda pod_info: repelled or _counts_by(pod_info.demand, labels))
        # An agent can have this happen again and again.
        self._paced.charge(paced_calls.pods_of(node), woken * paced_calls.PAUSE_FOR_KIND)

    def namespace_seen(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Record the labels of a namespace; None if it is gone."""
        if self._inventory.pods.set_namespace(name, labels):
            self._wake_waiting(self._looks_at_pods)

    def _looks_at_pods(self, pod_info: queued_pods.PodInfo) -> bool:
        """Whether a pod requires something of other pods, or may be repelled by some."""
        return pod_info.demand.inter_pod_rules is not None or self._inventory.pods.repels

    def _wake_waiting(
        self,
        able: Callable[[queued_pods.PodInfo], bool],
        events: decisions.AwaitedEvents = decisions.POD_EVENTS,
    ) -> int:
        """Wake the pods that await such events and are able; return how many kinds of them were."""
        if not self._backlog.awaits(events):
            return 0
        woken = 0

        def helped(pod_info: queued_pods.PodInfo) -> bool:
            nonlocal woken
            if helps := able(pod_info):
                woken += 1
                self._wake.set()
            return helps

        if not self._backlog.node_changed(None, events, helped):
            for event in sorted(events):
                self._paced.call(event, functools.partial(self._wake_all, event))
        return woken

    def _wake_all(self, event: ClusterEvent) -> None:
        """Wake all that wait for such an event: they have too many selectors to be compared with each pod."""
        self._backlog.wake_all(None, event)
        self._wake.set()


def _counts_by(demand: facts.NodeDemand, labels: frozenset[str]) -> bool:
    """Whether any of these labels of nodes says which pods a pod counts together, or on which nodes."""
    rules, selection = demand.inter_pod_rules, demand.node_selection
    return rules is not None and not labels.isdisjoint(rules.topology_keys | selection.label_keys)
