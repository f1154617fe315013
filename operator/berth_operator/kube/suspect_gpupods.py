"""GpuPods that seem misplaced, and the order in which they are read anew.

An attacker may write any number of GpuPods, so only some suspects are carried from one scan to the
next, and never are all of them sorted. Those that were read come last in the next scan, so each
has its turn.
"""

import enum
import heapq
from typing import Final

MOST_CARRIED: Final = 2000  # For either suspicion.
MOST_READ: Final = 100  # For either suspicion in one scan: many after a restart, of pods that have ended.


class Suspicion(enum.Enum):
    """Why a GpuPod seems misplaced; the more certain one comes first."""

    REFUTED = "a bound pod of its name is elsewhere or another"
    PODLESS = "no bound pod has its name"


class SuspectGpuPods:
    """The titles that this scan has found, and those of the scan before."""

    def __init__(self) -> None:
        self._scans = 0
        # By title, the number of the scan that read it last, or found it first.
        self._before: dict[str, int] = {}
        self._found: dict[Suspicion, dict[str, int]] = {suspicion: {} for suspicion in Suspicion}

    def begin(self) -> None:
        """Begin another scan."""
        self._scans += 1
        self._before = {title: scan for found in self._found.values() for title, scan in found.items()}
        self._found = {suspicion: {} for suspicion in Suspicion}

    def add(self, title: str, suspicion: Suspicion) -> None:
        """Add a title, if there is a place."""
        found = self._found[suspicion]
        if len(found) < MOST_CARRIED:
            found[title] = self._before.get(title, self._scans)

    def due(self, suspicion: Suspicion) -> list[str]:
        """Return some of those that the last scan had found as well; the longest unread come first."""
        found = self._found[suspicion]
        again = (title for title in found if title in self._before)
        return heapq.nsmallest(MOST_READ, again, key=lambda title: (found[title], title))

    def was_read(self, title: str) -> None:
        """Record that a title was read: all others come before it."""
        for found in self._found.values():
            if title in found:
                found[title] = self._scans
