"""How much the bound pods may say together of which that is not needed to know what they take.

What a pod says that its kubelet has not admitted matters only if it is admitted, and the kubelet
tells when. So where pods say more than the usual, that is charged to their namespace, and to all
together. Of a pod beyond that nothing is kept but its node, and nothing is charged: it counts
once it is admitted. Of one that runs everything counts that it asks for; only in which order
its containers start is not kept, so that all that it was given counts as held at one time.
"""

import collections
import dataclasses
from typing import Final

from berth_operator.engine import waiting_pod_memory
from berth_operator.scheduling import allocation_recovery
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts


class BoundPodMemory:
    """What bound pods say, as far as that is much."""

    def __init__(self) -> None:
        self._charged: dict[str, tuple[str, int]] = {}  # Namespace and weight, by uid.
        self._spent: collections.Counter[str] = collections.Counter()  # By namespace.

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<BoundPodMemory: {self._spent.total()} bytes of {len(self._charged)} pods>"

    def charge(self, uid: str, namespace: str, weight: int) -> bool:
        """Return whether there is room for what a pod says, and charge that in the place of what it said."""
        self.release(uid)
        if weight <= waiting_pod_memory.FREE_BYTES:
            return True
        if self._spent[namespace] + weight > waiting_pod_memory.NAMESPACE_BYTES:
            return False
        if self._spent.total() + weight > waiting_pod_memory.TOTAL_BYTES:
            return False
        self._charged[uid] = namespace, weight
        self._spent[namespace] += weight
        return True

    def release(self, uid: str) -> None:
        """Forget a pod that is gone, or says something else."""
        namespace, weight = self._charged.pop(uid, ("", 0))
        if weight:
            self._spent[namespace] -= weight
            if not self._spent[namespace]:
                del self._spent[namespace]


def bare_hold(hold: Hold) -> Hold:
    """Return what is kept of a pod that is not admitted where there is no room for what it says."""
    return Hold(hold.uid, hold.title, hold.node)


def is_bare(hold: Hold, where: facts.Where) -> bool:
    """Return whether nothing else was kept of a pod: any other takes at least its place on the node."""
    return where is facts.NOWHERE and not hold.amounts


def trimmed(
    nameless: allocation_recovery.Nameless | None, *, admitted: bool
) -> allocation_recovery.Nameless | None:
    """Return what must be known of a pod whose record cannot be read, without what may be much of it."""
    if nameless is None:
        return None
    return dataclasses.replace(nameless, starts=()) if admitted else NOTHING_GRANTED


# Its GpuPod, which may come first, is kept for the time when it is admitted.
NOTHING_GRANTED: Final = allocation_recovery.Nameless(plugged={})
