"""Who waits, in which order, and for what.

Pods are taken by priority, then by the moment of their creation, then by name. A pod
that did not fit waits for a change that could help it, and for a pause that grows with
each attempt, so that a crowd of hopeless pods costs little and blocks nobody. Time
comes in as a number; nothing here reads a clock.
"""

import dataclasses
from collections.abc import Iterable
from typing import Final

from berth_operator.scheduling import decisions
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that asks to be placed; `faults` say why its request cannot be served at all."""

    uid: str
    namespace: str
    name: str
    request: requests.Request = requests.NO_DEVICES
    demand: facts.Demand = facts.NO_DEMAND
    priority: int = 0
    created: str = ""
    faults: tuple[decisions.Refusal, ...] = ()

    @property
    def title(self) -> str:
        """Name the pod as people do."""
        return f"{self.namespace}/{self.name}"

    @property
    def order(self) -> tuple[int, str, str, str]:
        """Sort key: the first comes first."""
        return -self.priority, self.created, self.namespace, self.name


@dataclasses.dataclass(slots=True)
class Entry:
    """One waiting pod and what it waits for."""

    candidate: Candidate
    attempts: int = 0
    not_before: float = 0.0
    wants: frozenset[decisions.Help] | None = None  # None: it may be tried as soon as time allows.
    order: tuple[int, str, str, str] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        """Work the sort key out once: a long backlog is sorted in every round."""
        self.order = self.candidate.order


class Backlog:
    """All pods that ask to be placed and are not."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def __repr__(self) -> str:
        """Tell the state in words."""
        waiting = sum(entry.wants is not None for entry in self._entries.values())
        return f"<Backlog: {len(self._entries)} pods, {waiting} of them waiting for a change>"

    def get(self, uid: str) -> Candidate | None:
        """Look a pod up."""
        entry = self._entries.get(uid)
        return entry.candidate if entry else None

    def attempts(self, uid: str) -> int:
        """Tell how often a pod was tried."""
        entry = self._entries.get(uid)
        return entry.attempts if entry else 0

    def push(self, candidate: Candidate) -> None:
        """Add a pod, or take its edited request; an unchanged one keeps its place and its patience."""
        entry = self._entries.get(candidate.uid)
        if entry is None or entry.candidate != candidate:
            self._entries[candidate.uid] = Entry(candidate)

    def remove(self, uid: str) -> Candidate | None:
        """Take a pod out, because it was placed or is gone."""
        entry = self._entries.pop(uid, None)
        return entry.candidate if entry else None

    def put_off(self, uid: str, *, now: float, wants: frozenset[decisions.Help] | None) -> None:
        """Let a pod wait: for one of these changes (for none: for ever), or with None for the pause alone."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.not_before = now + pause(entry.attempts)
            entry.attempts += 1
            entry.wants = wants

    def restore(self, candidate: Candidate, *, attempts: int, now: float) -> None:
        """Put a pod back whose bind failed; it is tried again after a pause."""
        self._entries[candidate.uid] = Entry(candidate, attempts=attempts)
        self.put_off(candidate.uid, now=now, wants=None)

    def helped(self, changes: Iterable[decisions.Help]) -> None:
        """Wake the pods that one of these changes could help."""
        happened = frozenset(changes)
        for entry in self._entries.values():
            if entry.wants is not None and entry.wants & happened:
                entry.wants = None

    def ready(self, now: float) -> list[Candidate]:
        """Name the pods to try now, in order."""
        due = [one for one in self._entries.values() if one.wants is None and one.not_before <= now]
        due.sort(key=lambda one: one.order)
        return [one.candidate for one in due]

    def next_due(self) -> float | None:
        """Tell when the next pod becomes ready by time alone."""
        return min((one.not_before for one in self._entries.values() if one.wants is None), default=None)


def pause(attempts: int) -> float:
    """Say how long to wait after so many attempts."""
    return float(min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(attempts, 20)))
