"""A limit on the memory for long requests of waiting pods.

A request that is longer than usual is charged to its namespace, and to all namespaces together; pods of
a namespace with the same request share one copy, which is charged once. A request beyond these limits is
not kept: its pod waits with a fault that is not its own, and is to be read again when there is room, the
oldest of a namespace first, and the namespaces in turns.
"""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from berth_operator.engine import totals
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts

FREE_BYTES: Final = 4 << 10  # Nearly all pods take less, and are not charged.
MEBIBYTE: Final = 1 << 20
NAMESPACE_BYTES: Final = 32 * MEBIBYTE
TOTAL_BYTES: Final = 128 * MEBIBYTE

Key = tuple[str, requests.Request, facts.Demand]


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

    def add(self, candidate: queued_pods.Candidate, weight: int) -> None:
        """Add a pod at the end of its namespace; one that is already here keeps its position."""
        self._namespaces[candidate.uid] = candidate.namespace
        self._pods.setdefault(candidate.namespace, OrderedDict())[candidate.uid] = candidate.name, weight

    def remove(self, uid: str) -> None:
        """Forget a pod, if it is here."""
        namespace = self._namespaces.pop(uid, None)
        if namespace is not None:
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
        self._spent = totals.Totals()  # By namespace.
        self._total = 0

    def __repr__(self) -> str:
        """Return the state in words."""
        kept, unkept = len(self._kept_by_uid), len(self._unkept)
        return f"<WaitingPodMemory: {self._total} bytes of {kept} pods, {unkept} pods not kept>"

    def admit(self, candidate: queued_pods.Candidate, weight: int) -> queued_pods.Candidate:
        """Return a waiting pod with the request that is kept of it, given how many bytes it takes."""
        if weight <= FREE_BYTES:
            self.release(candidate.uid)
            return candidate
        key = (candidate.namespace, *candidate.asks)
        kept = self._kept.get(key)
        if kept is None or candidate.uid not in kept.uids:
            self._remove(candidate.uid)
            if kept is None and not self._fits(candidate.namespace, weight):
                self._unkept.add(candidate, weight)
                return _without(candidate, self._exceeded(candidate.namespace, weight))
            self._unkept.remove(candidate.uid)
            kept = kept or self._keep(key, weight)
            kept.uids.add(candidate.uid)
            self._kept_by_uid[candidate.uid] = kept
        _, request, demand = kept.key
        return dataclasses.replace(candidate, request=request, demand=demand)

    def release(self, uid: str) -> None:
        """Forget a pod that does not wait any more, or whose request has changed."""
        self._unkept.remove(uid)
        self._remove(uid)

    def _remove(self, uid: str) -> None:
        kept = self._kept_by_uid.pop(uid, None)
        if kept is not None:
            kept.uids.discard(uid)
            if not kept.uids:
                del self._kept[kept.key]
                self._charge(kept.key[0], -kept.weight)

    def next_unkept(self) -> tuple[str, str] | None:
        """Return namespace and name of the next pod to read again, for which there is room now."""
        return self._unkept.next(self._fits)

    def _keep(self, key: Key, weight: int) -> KeptRequest:
        self._kept[key] = kept = KeptRequest(key, weight)
        self._charge(key[0], weight)
        return kept

    def _charge(self, namespace: str, weight: int) -> None:
        self._total += weight
        self._spent.add(namespace, weight)

    def _fits(self, namespace: str, weight: int) -> bool:
        """Whether there is room for so many more bytes."""
        return self._spent[namespace] + weight <= NAMESPACE_BYTES and self._total + weight <= TOTAL_BYTES

    def _exceeded(self, namespace: str, weight: int) -> str:
        """Return which limit so many more bytes would exceed, as a sentence."""
        if self._spent[namespace] + weight > NAMESPACE_BYTES:
            return _sentence("the requests of the waiting pods of this namespace are", NAMESPACE_BYTES)
        return _sentence("the requests of all waiting pods are", TOTAL_BYTES)


def _sentence(who: str, most: int) -> str:
    return (
        f"{who} too long together: Berth keeps {most // MEBIBYTE} MiB of them; "
        f"this pod is read again when others are placed or deleted"
    )


def _without(candidate: queued_pods.Candidate, detail: str) -> queued_pods.Candidate:
    return dataclasses.replace(
        candidate,
        request=requests.NO_DEVICES,
        demand=facts.NO_DEMAND,
        faults=(decisions.Refusal(decisions.Reason.TOO_MUCH_TOGETHER, detail=detail),),
        small=(),
        labels=(),
    )
