"""What changes for pods that look at other pods: by topology spread, pod affinity and pod anti-affinity.

A pod on any node that comes, goes or changes its labels may let a waiting pod in on another node, and so may
the labels and taints of a Node or the labels of a Namespace.
"""

import asyncio
from collections.abc import Callable, Mapping

from berth_operator.scheduling import holds, node_offers, queued_pods
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts


class PodChanges:
    """Wakes the pods that wait for such a change."""

    def __init__(self, inventory: Inventory, backlog: Backlog, wake: asyncio.Event) -> None:
        self._inventory = inventory
        self._backlog = backlog
        self._wake = wake

    def pod_changed(self, before: holds.Hold | None, after: holds.Hold | None) -> None:
        """Wake the pods that a pod may help that comes, goes or looks otherwise; None: it is not there."""
        concerns = self._inventory.pods.concerns
        if self._backlog and any(concerns(one) for one in (before, after) if one is not None):
            self._wake_waiting(node_offers.judge_pod(self._inventory, before, after))

    def node_changed(self, before: facts.Node | None, after: facts.Node | None) -> None:
        """Wake all of them if pods have to be counted otherwise because of a node."""
        if node_offers.other_domains(before, after):
            self._wake_waiting(self._looks_at_pods)

    def namespace_seen(self, name: str, labels: Mapping[str, str] | None) -> None:
        """Record the labels of a namespace; None if it is gone."""
        if self._inventory.pods.set_namespace(name, labels):
            self._wake_waiting(self._looks_at_pods)

    def _looks_at_pods(self, pod_info: queued_pods.PodInfo) -> bool:
        """Whether a pod requires something of other pods, or may be repelled by some."""
        return pod_info.demand.inter_pod_rules is not None or self._inventory.pods.repels

    def _wake_waiting(self, able: Callable[[queued_pods.PodInfo], bool]) -> None:
        if not self._backlog.awaits(ClusterEvent.PODS_CHANGED):
            return

        def helped(pod_info: queued_pods.PodInfo) -> bool:
            if helps := able(pod_info):
                self._wake.set()
            return helps

        self._backlog.node_changed(None, ClusterEvent.PODS_CHANGED, helped)
        if not self._backlog.awaits(ClusterEvent.PODS_CHANGED):
            self._wake.set()  # All were woken, perhaps because there are too many kinds to be compared.
