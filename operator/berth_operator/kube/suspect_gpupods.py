"""Which GpuPods seem misplaced, and in which order they are read anew.

There may be as many as somebody cares to write, so only some are carried from one look to the
next, and never are all of them put in order. Those that were read are the last that the next
look comes to, so whoever finds no place has one later.
"""

import enum
import heapq
from typing import Final

MOST_CARRIED: Final = 2000  # Of either kind.
MOST_READ: Final = 100  # Of either kind in one look: a restart finds many of pods that have ended.


class Kind(enum.Enum):
    """Why a GpuPod seems misplaced; those that are sooner sure come first."""

    REFUTED = "a bound pod of its name is elsewhere or another"
    PODLESS = "no bound pod has its name"


class Suspects:
    """The titles that this look has found, and those of the look before."""

    def __init__(self) -> None:
        self._looks = 0
        # By title, in which look it was read last, or found first.
        self._before: dict[str, int] = {}
        self._found: dict[Kind, dict[str, int]] = {kind: {} for kind in Kind}

    def begin(self) -> None:
        """Begin another look."""
        self._looks += 1
        self._before = {title: at for found in self._found.values() for title, at in found.items()}
        self._found = {kind: {} for kind in Kind}

    def add(self, title: str, kind: Kind) -> None:
        """Carry a title on, if there is a place."""
        found = self._found[kind]
        if len(found) < MOST_CARRIED:
            found[title] = self._before.get(title, self._looks)

    def due(self, kind: Kind) -> list[str]:
        """Return some of those that the look before had found as well: who has waited longest comes first."""
        found = self._found[kind]
        again = (title for title in found if title in self._before)
        return heapq.nsmallest(MOST_READ, again, key=lambda title: (found[title], title))

    def was_read(self, title: str) -> None:
        """Have others come before this one from now on."""
        for found in self._found.values():
            if title in found:
                found[title] = self._looks
