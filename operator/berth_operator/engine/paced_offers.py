"""Nodes that have improved are offered to the waiting pods, but none too often.

To offer a node means to compare it with each kind of waiting pod, and to try those that it may take. Whoever
has the token of its agent can have a card fall sick and recover many times in a second, and other pods would
wait meanwhile. So a node is offered at once, a few times in a row, and after that once in a second. What is
late is not lost: the node is offered when its time has come, as it is then. Room that pods leave is offered
at once in any case.
"""

import collections
from collections.abc import Callable
from typing import Final

from berth_operator.scheduling import node_offers, queued_pods
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent

OFFERS_IN_A_ROW: Final = 4
SECONDS_BETWEEN_OFFERS: Final = 1.0
UNPACED: Final = frozenset({ClusterEvent.CAPACITY_FREED})

Able = Callable[[queued_pods.PodInfo], bool]  # Whether a node may take a pod.
# The same for a node; with what it had left before, only its resources have changed.
Judge = Callable[[str, node_offers.Left | None], Able]


class PacedOffers:
    """Offers nodes that have improved, and remembers those that are to be offered later."""

    def __init__(self, backlog: Backlog, judge: Judge, clock: Callable[[], float]) -> None:
        self._backlog = backlog
        self._judge = judge
        self._clock = clock
        # By node: when all its offers so far would have been made, one each second. Mostly in that order.
        self._paid_until: collections.OrderedDict[str, float] = collections.OrderedDict()
        self._delayed: dict[str, set[ClusterEvent]] = {}

    def offer(self, node: str, change: ClusterEvent, before: node_offers.Left | None = None) -> None:
        """Wake the pods that a node may take after a change, now or soon."""
        if not self._backlog:
            return
        if change in UNPACED:
            self._backlog.node_changed(node, change, self._judge(node, before))
        elif self._free_at(node) > self._clock():
            self._delayed.setdefault(node, set()).add(change)
        else:
            self._offer_now(node, {change})

    def offer_delayed(self) -> None:
        """Offer the delayed nodes whose time has come."""
        now = self._clock()
        for node in [one for one in self._delayed if self._free_at(one) <= now]:
            self._offer_now(node, self._delayed.pop(node))

    def next_due(self) -> float | None:
        """Return when the next of the delayed nodes is to be offered."""
        return min(map(self._free_at, self._delayed), default=None)

    def _offer_now(self, node: str, changes: set[ClusterEvent]) -> None:
        now = self._clock()
        self._paid_until[node] = max(self._paid_until.get(node, 0.0), now) + SECONDS_BETWEEN_OFFERS
        self._paid_until.move_to_end(node)
        while next(iter(self._paid_until.values())) <= now:
            self._paid_until.popitem(last=False)
        able = self._judge(node, None)
        for change in sorted(changes):
            self._backlog.node_changed(node, change, able)

    def _free_at(self, node: str) -> float:
        return self._paid_until.get(node, 0.0) - (OFFERS_IN_A_ROW - 1) * SECONDS_BETWEEN_OFFERS
