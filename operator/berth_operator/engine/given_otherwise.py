"""Cards that a kubelet gave to pods in place of those that their binds promised, as the nodes' agents say.

The record of the bind stays, and what it names stays charged, for the environment of the pod may still show
it. The other cards are marked: nothing more of them is given while the pod has them.
"""

import dataclasses
import logging
from collections.abc import Iterable
from typing import Final

from berth_crds import logs
from berth_operator.engine import totals
from berth_operator.scheduling import allocation_recovery
from berth_operator.scheduling.holds import Hold

log = logging.getLogger(__name__)

MOST_CARDS: Final = 64  # Of one pod; no node has more.
# Of all GpuPods of a node together, each of which counts as one more card than it names.
MOST_NAMED: Final = 8192

Place = tuple[str, str]  # The uid of a pod, and the node whose agent says something of it.


class GivenOtherwise:
    """What agents say of pods whose own record can be read."""

    def __init__(self, logger: logging.Logger = log) -> None:
        self._logger = logger
        self._said: dict[Place, dict[str, frozenset[str]]] = {}  # The cards, by the title of the GpuPod.
        self._places: dict[str, Place] = {}  # By the title of the GpuPod.
        self._named = totals.Totals()  # By node.
        self._limited: set[str] = set()  # The nodes of whose GpuPods some were once too many.
        self._marked: dict[str, frozenset[str]] = {}  # By the uid of the pod.

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<GivenOtherwise: {len(self._said)} pods>"

    def gpupod_seen(self, named: allocation_recovery.NamedDevices) -> set[str]:
        """Record what a GpuPod says; return the uids of the pods that it concerns."""
        affected = self.gpupod_gone(named.title)
        cards = named.given_otherwise
        if not cards or len(cards) > MOST_CARDS:
            return affected
        if self._named[named.node] + len(cards) >= MOST_NAMED:
            self._limited.add(named.node)
        else:
            place = self._places[named.title] = named.uid, named.node
            self._said.setdefault(place, {})[named.title] = cards
            self._named.add(named.node, len(cards) + 1)
            affected.add(named.uid)
        return affected

    def gpupod_gone(self, title: str) -> set[str]:
        """Forget a GpuPod; return the uids of the pods that it concerned."""
        if (place := self._places.pop(title, None)) is None:
            return set()
        uid, node = place
        self._named.add(node, -len(self._said[place].pop(title)) - 1)
        if not self._said[place]:
            del self._said[place]
        return {uid}

    def is_limited(self, node: str) -> bool:
        """Whether an agent says more than is read, so that it is chance which of it is."""
        return node in self._limited

    def marked(self, hold: Hold) -> Hold:
        """Return what a pod holds, with the cards marked that it was given otherwise, and no others."""
        if not self._said and hold.uid not in self._marked:
            return hold  # As on nearly every cluster.
        before = self._marked.pop(hold.uid, frozenset())
        own = hold.marked - before
        # Agents of other nodes have no say, nor do GpuPods under other names.
        by_title = self._said.get((hold.uid, hold.node), {})
        said = frozenset[str]().union(*(by_title.get(title, ()) for title in hold.gpupod_titles))
        extra = said - own - {share.uuid for share in hold.shares}
        if extra:
            self._marked[hold.uid] = extra
        if extra - before:
            self._logger.warning(
                "pod %s was given %s on %s, which is not in its allocation; no more of that is given out",
                hold.title,
                ", ".join(sorted(extra)),
                hold.node,
                extra=logs.pod(hold.title),
            )
        return dataclasses.replace(hold, marked=own | extra)

    def all(self) -> Iterable[tuple[str, frozenset[str]]]:
        """Return the uids of the pods that were given otherwise, each with these cards."""
        return self._marked.items()

    def pod_over(self, uid: str) -> None:
        """Forget what was marked of a pod that is over."""
        self._marked.pop(uid, None)
