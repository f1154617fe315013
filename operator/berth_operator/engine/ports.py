"""What the engine needs from its surroundings: a writer of binds, a writer of statuses, a clock.

The edges implement these protocols; tests and the simulation do so in memory.
"""

import dataclasses
from collections.abc import Callable
from typing import Protocol

from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.volumes import facts as volumes

Clock = Callable[[], float]  # Monotonic seconds.


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """The bind was accepted; the watch will show it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """The server refused the bind, and the pod is not bound by it."""

    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Throttled:
    """The server did not process the bind, because it has too many requests; it asks for a backoff."""

    message: str
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Gone:
    """The pod does not exist any more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """The pod must be read to find out; `open`: the bind may yet happen before the server's deadline.

    `version` is the revision of the pod that the bind named, if it named one.
    """

    message: str
    open: bool = True
    version: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Unsent:
    """The bind was never sent, because it was stale; `edited`: the pod itself has changed."""

    edited: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Unbound:
    """The pod was read, and has no node; `same`: it still asks for what was decided."""

    same: bool = True
    version: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """The write was accepted."""


ReadResult = Bound | Refused | Gone | Unbound | Unknown
Answer = Bound | Refused | Throttled | Gone | Unknown
Outcome = Answer | Unsent


class VolumeWriter(Protocol):
    """Reads claims and volumes by quorum reads, and writes the one field of each that is a scheduler's."""

    async def read_claim(self, claim: volumes.Claim) -> volumes.Claim | Gone | Unknown:
        """Read a claim as it is now; one of the same name that is another claim is Gone."""

    async def read_volume(self, name: str) -> volumes.Volume | Gone | Unknown:
        """Read a PersistentVolume as it is now."""

    async def select_node(self, claim: volumes.Claim, node: str) -> Written | Refused | Unknown:
        """Write for which node the volume of a claim is to be made, unless the claim has changed."""

    async def reserve_volume(
        self, volume: volumes.Volume, claim: volumes.Claim
    ) -> Written | Refused | Unknown:
        """Write for which claim a volume is meant, unless the volume has changed."""


class Writer(Protocol):
    """Writes binds to the API server."""

    @property
    def volumes(self) -> VolumeWriter:
        """What writes claims and volumes."""

    async def wait_until_leading(self) -> None:
        """Wait until the lead and the ledger are confirmed, as they must be after an outage of the server."""

    async def permit(self, uid: str, /) -> None:
        """Wait until a bind of this pod may be sent."""

    async def bind(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> Answer:
        """Send one Binding."""

    async def dry_run(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> Answer:
        """Send one Binding as a dry run, which writes nothing; the answer is Bound if it is accepted."""

    async def read_pod(self, pod_info: queued_pods.PodInfo) -> ReadResult:
        """Read the pod by quorum read; the result is Refused if another scheduler bound it."""

    async def void(self, pod_info: queued_pods.PodInfo) -> ReadResult:
        """Change the pod and read it: if it is Unbound, no earlier bind can be carried out any more."""


class PodStatusWriter(Protocol):
    """Writes statuses and Events of pods."""

    def bound(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        """Report that a pod has its node and cards."""

    def unschedulable(
        self, pod_info: queued_pods.PodInfo, message: str, *, fault: decisions.Reason | None = None
    ) -> None:
        """Report why a pod waits; `fault` is the reason if its request itself is at fault."""

    def shown_message(self, uid: str) -> str:
        """Return the reason that a waiting pod shows, or soon will; empty if it shows none."""

    def not_bound(self, pod_info: queued_pods.PodInfo, message: str) -> None:
        """Report in a whole sentence why a pod that fits is not bound, or not yet."""
