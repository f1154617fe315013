"""Which processes use the cards of a node.

A probe that can list them is a `ProcessLister`. Without one nothing is known about processes,
which is not the same as that there are none. The driver does not know which pod a process
belongs to; `gpupods` finds that out.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Process:
    """One process on a card or on a MIG instance, whichever the driver names by `uuid`.

    `pid` is that of the host. `memory` is in bytes of the card, None where the driver does not report it.
    """

    pid: int
    uuid: str
    memory: int | None = None


@runtime_checkable
class ProcessLister(Protocol):
    """A probe that can list the processes on the cards of its node."""

    def processes(self) -> tuple[Process, ...] | None:
        """Return all of them, None where that is not known. May block, and should not raise."""
