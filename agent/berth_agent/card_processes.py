"""Which processes use the cards of a node: what a probe may tell beside its sample.

A probe that can tell offers `Processes`; one that cannot simply lacks the method, and
then nothing is known, which is not the same as that nobody is there. Which pod a process
belongs to is not the driver's to know; `gpupods` finds that out.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Process:
    """One process on one card, or on one MIG instance of it: `uuid` is of what the driver names.

    `pid` is as the host sees it, and `memory` in bytes of the card; None where the driver
    does not tell.
    """

    pid: int
    uuid: str
    memory: int | None = None


@runtime_checkable
class Processes(Protocol):
    """Something that can tell which processes use the cards of one node."""

    def processes(self) -> tuple[Process, ...] | None:
        """Tell all of them, or None when the source says nothing. May block, and should not raise."""
