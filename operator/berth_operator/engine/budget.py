"""How much all waiting pods may say together, for each of them may say much within its own limits.

Of a pod that says more than the usual, what it asks for is charged to its namespace, and to all
together; pods of a namespace that ask for the same share one copy, which is charged once. What
goes beyond that is not kept: such a pod waits with a fault that is not its own, and is to be
read again when there is room.
"""

import collections
import dataclasses
from typing import Final

from berth_operator.scheduling import backlog, decisions
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts

FREE: Final = 4 << 10  # Bytes; nearly all pods take less, and cost nothing here.
MEBIBYTE: Final = 1 << 20
OF_A_NAMESPACE: Final = 32 * MEBIBYTE
OF_ALL: Final = 128 * MEBIBYTE

Key = tuple[str, requests.Request, facts.Demand]


@dataclasses.dataclass(slots=True)
class Kept:
    """What some pods of a namespace ask for, and which pods these are."""

    key: Key
    weight: int
    uids: set[str] = dataclasses.field(default_factory=set)


class Budget:
    """What waiting pods ask for, as far as that is much."""

    def __init__(self) -> None:
        self._kept: dict[Key, Kept] = {}
        self._of: dict[str, Kept] = {}  # By uid.
        self._beyond: dict[str, tuple[str, int]] = {}  # Namespace and weight of those not kept, by uid.
        self._spent: collections.Counter[str] = collections.Counter()  # By namespace.
        self._total = 0

    def __repr__(self) -> str:
        """Return the state in words."""
        return f"<Budget: {self._total} bytes of {len(self._of)} pods, {len(self._beyond)} pods beyond it>"

    def admitted(self, candidate: backlog.Candidate, weight: int) -> backlog.Candidate:
        """Return a waiting pod with what is kept of it, given how many bytes that takes."""
        if weight <= FREE:
            self.release(candidate.uid)
            return candidate
        key = (candidate.namespace, *candidate.asks)
        kept = self._kept.get(key)
        if kept is None or candidate.uid not in kept.uids:
            self.release(candidate.uid)
            if fault := "" if kept is not None else self._exceeded(candidate.namespace, weight):
                self._beyond[candidate.uid] = candidate.namespace, weight
                return _without(candidate, fault)
            kept = kept or self._enter(key, weight)
            kept.uids.add(candidate.uid)
            self._of[candidate.uid] = kept
        _, request, demand = kept.key
        return dataclasses.replace(candidate, request=request, demand=demand)

    def release(self, uid: str) -> None:
        """Forget a pod that waits no more, or says something else."""
        self._beyond.pop(uid, None)
        kept = self._of.pop(uid, None)
        if kept is None:
            return
        kept.uids.discard(uid)
        if not kept.uids:
            del self._kept[kept.key]
            self._charge(kept.key[0], -kept.weight)

    @property
    def has_room(self) -> bool:
        """Whether any pod that is not kept now could be."""
        return not all(self._exceeded(*one) for one in self._beyond.values())

    def _enter(self, key: Key, weight: int) -> Kept:
        self._kept[key] = kept = Kept(key, weight)
        self._charge(key[0], weight)
        return kept

    def _charge(self, namespace: str, weight: int) -> None:
        self._total += weight
        self._spent[namespace] += weight
        if not self._spent[namespace]:
            del self._spent[namespace]

    def _exceeded(self, namespace: str, weight: int) -> str:
        """Return what has no room for so much more."""
        if self._spent[namespace] + weight > OF_A_NAMESPACE:
            return _sentence("the waiting pods of this namespace say", OF_A_NAMESPACE)
        return _sentence("all waiting pods say", OF_ALL) if self._total + weight > OF_ALL else ""


def _sentence(who: str, most: int) -> str:
    return (
        f"{who} too much together: Berth keeps {most // MEBIBYTE} MiB of it; "
        f"this pod is read again when others are placed or gone"
    )


def _without(candidate: backlog.Candidate, detail: str) -> backlog.Candidate:
    fault = decisions.Refusal(decisions.Reason.TOO_MUCH_TOGETHER, detail=detail)
    return dataclasses.replace(
        candidate, request=requests.NO_DEVICES, demand=facts.NO_DEMAND, faults=(fault,), small=()
    )
