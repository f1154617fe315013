"""What the engine needs from the world: who writes, who tells people, what time it is.

The edges implement these protocols; tests and the simulator do so in memory.
"""

import dataclasses
from collections.abc import Callable
from typing import Protocol

from berth_operator.scheduling import decisions, queued_pods

Clock = Callable[[], float]  # Monotonic seconds.


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """The bind was accepted; the watch will show it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """The server said no, and the pod is not bound by this."""

    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Throttled:
    """The server did not look at the bind, because it is asked for too much; it wants so long a rest."""

    message: str
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Gone:
    """The pod does not exist any more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unknown:
    """Only the pod itself can tell; `open` says that the bind may yet happen before the server's deadline.

    `version` is the revision of the pod that the bind named, if it named one.
    """

    message: str
    open: bool = True
    version: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Unsent:
    """The bind was never sent, because what it was decided on has changed since; `edited`: the pod itself."""

    edited: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Unbound:
    """A look found the pod, and it has no node; `same` says that it still asks for what was decided."""

    same: bool = True
    version: str = ""


ReadResult = Bound | Refused | Gone | Unbound | Unknown
Answer = Bound | Refused | Throttled | Gone | Unknown
Outcome = Answer | Unsent


class Writer(Protocol):
    """Who carries decisions out."""

    async def sure(self) -> None:
        """Wait until the lead and the picture are sure, which they are not after an outage of the server."""

    async def permit(self, uid: str) -> None:
        """Wait until a bind of this pod may be sent."""

    async def bind(self, candidate: queued_pods.Candidate, placement: decisions.Placement) -> Answer:
        """Send one Binding."""

    async def dry_run(self, candidate: queued_pods.Candidate, placement: decisions.Placement) -> Answer:
        """Ask what would become of a Binding, which is Bound if it would be accepted; nothing is written."""

    async def read_pod(self, candidate: queued_pods.Candidate) -> ReadResult:
        """Read the pod by quorum read; it is Refused to us if somebody else bound it."""

    async def void(self, candidate: queued_pods.Candidate) -> ReadResult:
        """Change the pod and read it: if it is Unbound, no bind sent before can be carried out any more."""


class PodStatusWriter(Protocol):
    """Who tells people."""

    def bound(self, candidate: queued_pods.Candidate, placement: decisions.Placement) -> None:
        """Report that a pod has its node and cards."""

    def unschedulable(
        self, candidate: queued_pods.Candidate, message: str, *, fault: decisions.Reason | None = None
    ) -> None:
        """Report why a pod waits; `fault` names what is wrong with its request, if that is the reason."""

    def shown_message(self, uid: str) -> str:
        """Return what a waiting pod shows of why it waits, or soon will; nothing if it shows nothing."""

    def bind_failed(self, candidate: queued_pods.Candidate, message: str) -> None:
        """Report why the bind of a pod that has a place does not come about."""
