"""Pods whose Binding is under way, and whether what was decided for them still stands."""

import dataclasses
from collections.abc import Mapping
from typing import Final

from berth_operator.engine import ports
from berth_operator.scheduling import decisions, holds, queued_pods

# A bind that is lost is followed until its outcome is certain, which takes seconds if the server works.
OVERDUE_SECONDS: Final = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class AssumedPod:
    """A pod whose Binding is under way: what was decided for it and when, and how often it had been tried.

    It is stale once something has changed that the decision depends on: a stale bind that has not been
    sent must not be sent.
    """

    pod_info: queued_pods.PodInfo
    attempts: int
    placement: decisions.Placement
    since: float
    stale: bool = False


class AssumedPods(dict[str, AssumedPod]):
    """All pods whose Binding is under way, by uid."""

    def __init__(self, clock: ports.Clock) -> None:
        super().__init__()
        self._clock = clock
        self.awaiting_volumes: set[str] = set()  # Pods whose Binding is not sent before these are there.

    def add(self, pod_info: queued_pods.PodInfo, attempts: int, placement: decisions.Placement) -> None:
        """Record a bind that is about to be sent."""
        self[pod_info.uid] = AssumedPod(pod_info, attempts, placement, self._clock())

    def is_current(self, uid: str) -> bool:
        """Whether a bind is under way and nothing has changed that its decision depends on."""
        assumed = self.get(uid)
        return assumed is not None and not assumed.stale

    def update_request(self, pod_info: queued_pods.PodInfo) -> None:
        """Record what a pod asks for now; its bind is stale if that has changed."""
        known = self[pod_info.uid]
        self[pod_info.uid] = dataclasses.replace(
            known, pod_info=pod_info, stale=known.stale or known.pod_info != pod_info
        )

    def mark_stale(self, held: Mapping[str, holds.Hold], *, devices_alone: bool) -> None:
        """Mark the binds of these holds of a node stale; with `devices_alone` only those with devices."""
        for uid in self.keys() & held.keys():
            if self[uid].placement.grants or not devices_alone:
                self[uid] = dataclasses.replace(self[uid], stale=True)

    def overdue(self) -> tuple[str, ...]:
        """Return the pods whose Binding has been under way for so long that it must be a bug."""
        late = (uid for uid, one in self.items() if self._clock() - one.since > OVERDUE_SECONDS)
        return tuple(uid for uid in late if uid not in self.awaiting_volumes)

    def volumes_there(self, uid: str) -> None:
        """Record that the Binding of a pod may be sent, because its volumes are there or none is wanted."""
        self.awaiting_volumes.discard(uid)
        if (assumed := self.get(uid)) is not None:
            self[uid] = dataclasses.replace(assumed, since=self._clock())
