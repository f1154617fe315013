"""Nodes that have improved are offered to the waiting pods: those that a node may take are woken.

That is paced, as `paced_calls` says. Room that pods leave as they end is offered at once in any case.
"""

from collections.abc import Callable
from typing import Final

from berth_operator.engine import paced_calls
from berth_operator.scheduling import node_offers, queued_pods
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent

UNPACED: Final = frozenset({ClusterEvent.CAPACITY_FREED})

Able = Callable[[queued_pods.PodInfo], bool]  # Whether a node may take a pod.
# The same for a node; with what it had left before, only its resources have changed.
Judge = Callable[[str, node_offers.Left | None], Able]


class PacedOffers:
    """Offers nodes, and remembers what has changed of those that are to be offered later."""

    def __init__(self, backlog: Backlog, judge: Judge, paced: paced_calls.PacedCalls) -> None:
        self._backlog = backlog
        self._judge = judge
        self._paced = paced
        self._changes: dict[str, set[ClusterEvent]] = {}

    def offer(self, node: str, change: ClusterEvent, before: node_offers.Left | None = None) -> None:
        """Wake the pods that a node may take after a change, now or soon."""
        if change not in UNPACED:
            self.offer_in_turn(node, change)
        elif self._backlog:
            self._wake(node, change, self._judge(node, before))

    def offer_in_turn(self, node: str, change: ClusterEvent) -> None:
        """Wake the pods that a node may take, now or soon, whatever has changed."""
        if self._backlog:
            self._changes.setdefault(node, set()).add(change)
            self._paced.call(paced_calls.improved_node(node), lambda: self._offer_now(node))

    def _offer_now(self, node: str) -> None:
        able, awake = self._judge(node, None), len(self._backlog.reservations)
        for change in sorted(self._changes.pop(node)):
            self._wake(node, change, able)
        woken = len(self._backlog.reservations) - awake
        self._paced.charge(paced_calls.improved_node(node), woken * paced_calls.PAUSE_FOR_KIND)

    def _wake(self, node: str, change: ClusterEvent, able: Able) -> None:
        if not self._backlog.node_changed(node, frozenset({change}), able):
            self._backlog.wake_all(node, change)
