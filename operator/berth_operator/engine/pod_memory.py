"""Limits on the memory for long requests of waiting pods, and for long specs of bound pods.

A request that is longer than usual is charged to its namespace, and to all namespaces together; pods of
a namespace with the same request share one copy, which is charged once. A request beyond these limits is
not kept: its pod waits with a fault that is not its own, and is to be read again when there is room, the
oldest of a namespace first, and the namespaces in turns.

The spec of a pod that its kubelet has not admitted matters only if it is admitted later. So a spec
that is longer than usual is charged in the same way, with limits of its own. Of a pod beyond these limits
only its node is kept, and no resource is charged to it before it is admitted. Of a running pod all that it
asks for counts; only the order in which its containers start is not kept, so that all its devices count as
held at the same time.
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from berth_operator.engine import totals
from berth_operator.scheduling import allocation_recovery, decisions, pod_terms, queued_pods
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import facts

FREE_BYTES: Final = 4 << 10  # Nearly all pods take less, and are not charged.
LONG_BYTES: Final = 16 << 10  # A pod that takes as much takes a millisecond or more to be read.
MEBIBYTE: Final = 1 << 20
NAMESPACE_BYTES: Final = 32 * MEBIBYTE
TOTAL_BYTES: Final = 128 * MEBIBYTE

# Of an unadmitted pod: its GpuPod, which may come first, is kept until the pod is admitted.
NOTHING_GRANTED: Final = allocation_recovery.UnreadableAllocation(plugged={})

Images = tuple[str, ...]
Key = tuple[str, requests.DeviceRequest, facts.NodeDemand, Images, Images]


class MemoryBudget(totals.Totals):
    """The bytes that are charged, by namespace."""

    def fits(self, namespace: str, weight: int) -> bool:
        """Whether there is room for so many more bytes."""
        return self[namespace] + weight <= NAMESPACE_BYTES and self.sum + weight <= TOTAL_BYTES


@dataclasses.dataclass(slots=True)
class KeptRequest:
    """A request that some pods of a namespace share."""

    key: Key
    weight: int
    uids: set[str] = dataclasses.field(default_factory=set)


class UnkeptPods:
    """Pods whose requests are not kept: the oldest of a namespace first, and the namespaces in turns."""

    def __init__(self) -> None:
        # Name and weight by uid; an ordinary dict is slow to find its first after many moves.
        self._pods: OrderedDict[str, OrderedDict[str, tuple[str, int]]] = OrderedDict()
        self._namespaces: dict[str, str] = {}  # By uid.

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._namespaces)

    def add(self, pod_info: queued_pods.PodInfo, weight: int) -> None:
        """Add a pod at the end of its namespace; one that is already here keeps its position."""
        self._namespaces[pod_info.uid] = pod_info.namespace
        self._pods.setdefault(pod_info.namespace, OrderedDict())[pod_info.uid] = pod_info.name, weight

    def remove(self, uid: str) -> None:
        """Forget a pod, if it is here."""
        if (namespace := self._namespaces.pop(uid, None)) is not None:
            del self._pods[namespace][uid]
            if not self._pods[namespace]:
                del self._pods[namespace]

    def next(self, fits: Callable[[str, int], bool]) -> tuple[str, str] | None:
        """Return namespace and name of the first pod that fits; both come last from now on."""
        for namespace, pods in self._pods.items():
            # All of them are longer than this: if not even this fits, none has to be examined.
            for uid, (name, weight) in pods.items() if fits(namespace, FREE_BYTES) else ():
                if fits(namespace, weight):
                    pods.move_to_end(uid)
                    self._pods.move_to_end(namespace)
                    return namespace, name
        return None


class WaitingPodMemory:
    """The bytes that long requests of waiting pods take."""

    def __init__(self) -> None:
        self._kept: dict[Key, KeptRequest] = {}
        self._kept_by_uid: dict[str, KeptRequest] = {}  # By uid.
        self._unkept = UnkeptPods()
        self._spent = MemoryBudget()

    def __repr__(self) -> str:
        """Return the state in words."""
        kept, unkept = len(self._kept_by_uid), len(self._unkept)
        return f"<WaitingPodMemory: {self._spent.sum} bytes of {kept} pods, {unkept} pods not kept>"

    def admit(self, pod_info: queued_pods.PodInfo, weight: int) -> queued_pods.PodInfo:
        """Return a waiting pod with the request that is kept of it, given how many bytes it takes."""
        if weight <= FREE_BYTES:
            self.release(pod_info.uid)
            return pod_info
        key = _key(pod_info)
        if (kept := self._kept.get(key)) is None or pod_info.uid not in kept.uids:
            self._remove(pod_info.uid)
            if kept is None and not self._spent.fits(pod_info.namespace, weight):
                self._unkept.add(pod_info, weight)
                return _without(pod_info, self._exceeded(pod_info.namespace, weight))
            self._unkept.remove(pod_info.uid)
            kept = kept or self._keep(key, weight)
            kept.uids.add(pod_info.uid)
            self._kept_by_uid[pod_info.uid] = kept
        _, request, demand, *_ = kept.key
        demand = dataclasses.replace(demand, controller=pod_info.demand.controller)
        return dataclasses.replace(pod_info, request=request, demand=demand)

    def release(self, uid: str) -> None:
        """Forget a pod that does not wait any more, or whose request has changed."""
        self._unkept.remove(uid)
        self._remove(uid)

    def _remove(self, uid: str) -> None:
        if (kept := self._kept_by_uid.pop(uid, None)) is not None:
            kept.uids.discard(uid)
            if not kept.uids:
                del self._kept[kept.key]
                self._spent.add(kept.key[0], -kept.weight)

    def next_unkept(self) -> tuple[str, str] | None:
        """Return namespace and name of the next pod to read again, for which there is room now."""
        return self._unkept.next(self._spent.fits)

    def _keep(self, key: Key, weight: int) -> KeptRequest:
        self._kept[key] = kept = KeptRequest(key, weight)
        self._spent.add(key[0], weight)
        return kept

    def _exceeded(self, namespace: str, weight: int) -> str:
        """Return which limit so many more bytes would exceed, as a sentence."""
        if self._spent[namespace] + weight > NAMESPACE_BYTES:
            return _sentence("this namespace", NAMESPACE_BYTES)
        return _sentence("all namespaces", TOTAL_BYTES)


def _key(pod_info: queued_pods.PodInfo) -> Key:
    """Return all that a pod shares with others: its demand is equal to one that names other images."""
    demand = pod_info.demand
    return pod_info.namespace, pod_info.request, demand, demand.images, demand.volume_images


def _sentence(whose: str, most: int) -> str:
    return (
        f"the pending pods of {whose} together exceed Berth's limit of {most // MEBIBYTE} MiB for stored "
        f"requests; this pod is retried when others are scheduled or deleted"
    )


def _without(pod_info: queued_pods.PodInfo, detail: str) -> queued_pods.PodInfo:
    return dataclasses.replace(
        pod_info,
        request=requests.NO_DEVICES,
        demand=facts.NO_DEMAND,
        faults=(decisions.Refusal(decisions.Reason.TOO_MUCH_TOGETHER, detail=detail),),
        small=(),
        labels=(),
    )


class BoundPodMemory:
    """The bytes that long specs of bound pods take."""

    def __init__(self) -> None:
        self._charged: dict[str, tuple[str, int]] = {}  # Namespace and weight, by uid.
        self._spent = MemoryBudget()

    def charge(self, uid: str, namespace: str, weight: int) -> bool:
        """Charge the spec of a pod in place of its earlier one; return whether there is room for it."""
        self.release(uid)
        if weight <= FREE_BYTES:
            return True
        if not self._spent.fits(namespace, weight):
            return False
        self._charged[uid] = namespace, weight
        self._spent.add(namespace, weight)
        return True

    def release(self, uid: str) -> None:
        """Forget a pod that is gone, or whose spec has changed."""
        namespace, weight = self._charged.pop(uid, ("", 0))
        self._spent.add(namespace, -weight)


def bare_hold(hold: Hold) -> Hold:
    """Return a pod on its node that is charged nothing; to other pods it is there all the same."""
    return Hold(
        hold.uid,
        hold.title,
        hold.node,
        labels=hold.labels,
        anti_affinity=hold.anti_affinity,
        weighted_terms=hold.weighted_terms,
        leaving=hold.leaving,
        labels_known=hold.labels_known,
        controller=hold.controller,
    )


def is_bare(hold: Hold, node_selection: facts.NodeSelection) -> bool:
    """Whether nothing else was kept of a pod: any other pod takes at least one pod of its node."""
    return node_selection is facts.NOWHERE and not hold.amounts


def trimmed(
    hold: Hold, nameless: allocation_recovery.UnreadableAllocation | None, *, admitted: bool
) -> tuple[Hold, allocation_recovery.UnreadableAllocation | None]:
    """Return what must be known of a pod, and of its record that cannot be read, without what may be long."""
    if nameless is not None:
        nameless = dataclasses.replace(nameless, starts=()) if admitted else NOTHING_GRANTED
    about_pods = (one for one in hold.anti_affinity if one.selector.expressions is not None)
    far = dict.fromkeys(pod_terms.all_of_namespaces(one, hold.namespace) for one in about_pods)
    hold = dataclasses.replace(hold, labels=(), labels_known=False)
    return dataclasses.replace(hold, anti_affinity=tuple(far), weighted_terms=()), nameless
