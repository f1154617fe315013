"""A limit on the memory for long specs of bound pods.

The spec of a pod that its kubelet has not admitted matters only if it is admitted later. So a spec
that is longer than usual is charged to its namespace, and to all namespaces together. Of a pod
beyond these limits only its node is kept, and no resource is charged to it before it is admitted.
Of a running pod all that it asks for counts; only the order in which its containers start is not
kept, so that all its devices count as held at the same time.
"""

import dataclasses
from typing import Final

from berth_operator.engine import totals, waiting_pod_memory
from berth_operator.scheduling import allocation_recovery
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts


class BoundPodMemory:
    """The bytes that long specs of bound pods take."""

    def __init__(self) -> None:
        self._charged: dict[str, tuple[str, int]] = {}  # Namespace and weight, by uid.
        self._spent = totals.Totals()  # By namespace.

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<BoundPodMemory: {self._spent.total()} bytes of {len(self._charged)} pods>"

    def charge(self, uid: str, namespace: str, weight: int) -> bool:
        """Charge the spec of a pod in place of its earlier one; return whether there is room for it."""
        self.release(uid)
        if weight <= waiting_pod_memory.FREE_BYTES:
            return True
        if (
            self._spent[namespace] + weight > waiting_pod_memory.NAMESPACE_BYTES
            or self._spent.total() + weight > waiting_pod_memory.TOTAL_BYTES
        ):
            return False
        self._charged[uid] = namespace, weight
        self._spent.add(namespace, weight)
        return True

    def release(self, uid: str) -> None:
        """Forget a pod that is gone, or whose spec has changed."""
        namespace, weight = self._charged.pop(uid, ("", 0))
        self._spent.add(namespace, -weight)


def bare_hold(hold: Hold) -> Hold:
    """Return what is kept of a pod that is not admitted and for whose spec there is no room."""
    return Hold(hold.uid, hold.title, hold.node)


def is_bare(hold: Hold, where: facts.Where) -> bool:
    """Whether nothing else was kept of a pod: any other pod takes at least one pod of its node."""
    return where is facts.NOWHERE and not hold.amounts


def trimmed(
    hold: Hold, nameless: allocation_recovery.UnreadableAllocation | None, *, admitted: bool
) -> tuple[Hold, allocation_recovery.UnreadableAllocation | None]:
    """Return what must be known of a pod, and of its record that cannot be read, without what may be long."""
    if nameless is not None:
        nameless = dataclasses.replace(nameless, starts=()) if admitted else NOTHING_GRANTED
    return dataclasses.replace(hold, labels=()), nameless


# Its GpuPod, which may come first, is kept until the pod is admitted.
NOTHING_GRANTED: Final = allocation_recovery.UnreadableAllocation(plugged={})
