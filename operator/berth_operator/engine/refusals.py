"""Whose binds the API server refuses, so that no free card waits for them.

A bind keeps its cards from others until the answer comes, and a webhook or a policy may refuse
the binds of hundreds of pods that come before all others. So a pod whose bind was refused comes
after all others, and is not bound any more before the server has accepted its bind as a dry run,
for which no card is kept. Dry runs come first, too, for every pod of a namespace in which
several were refused just now.

Each second one refused pod of a namespace is asked about, whether there is a card for it or not.
Once the server would accept one of them, all of that namespace have their turn again, and are
tried at once: nobody idles after the trouble has ended. Time comes in as a number; nothing here
reads a clock.
"""

import collections
import dataclasses
from typing import Final

from berth_operator.scheduling import backlog, decisions

SEVERAL: Final = 3
RECENT_SECONDS: Final = 30.0
ACCEPTED_SECONDS: Final = 5.0  # So long an accepted dry run counts: the pod is decided for in the next round.
LOOK_SECONDS: Final = 1.0
NAMESPACES_A_LOOK: Final = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """A pod whose bind was refused, and where it should have gone: with that the server is asked again."""

    candidate: backlog.Candidate
    placement: decisions.Placement


class Refusals:
    """Which pods were refused, and in which namespaces."""

    def __init__(self) -> None:
        self._refused: dict[str, Refused] = {}  # By uid; who was tried longest ago comes first.
        self._recent: dict[str, collections.deque[float]] = {}  # By namespace.
        self._accepted: dict[str, float] = {}  # By uid, until when that counts.
        self._looked = 0.0

    def __repr__(self) -> str:
        """Tell the state in words."""
        return f"<Refusals: {len(self._refused)} pods>"

    # ------------------------------------------------------------ what the server said

    def refused(self, candidate: backlog.Candidate, placement: decisions.Placement, now: float) -> None:
        """The server refused to bind a pod, or said that it would."""
        if not self._refused:
            self._looked = now
        self._accepted.pop(candidate.uid, None)
        self._refused.pop(candidate.uid, None)
        self._refused[candidate.uid] = Refused(candidate, placement)
        recent = self._recent.setdefault(candidate.namespace, collections.deque(maxlen=SEVERAL))
        recent.append(now)

    def accepted(self, candidate: backlog.Candidate, now: float) -> list[str]:
        """The server would bind a pod: name those that have their turn again, this one among them."""
        self._accepted[candidate.uid] = now + ACCEPTED_SECONDS
        if candidate.uid not in self._refused:
            return [candidate.uid]
        return [uid for uid, one in self._refused.items() if one.candidate.namespace == candidate.namespace]

    def bound(self, uid: str) -> None:
        """A pod has got its place."""
        self._refused.pop(uid, None)
        self._accepted.pop(uid, None)

    # ------------------------------------------------------------ what follows

    def doubtful(self, candidate: backlog.Candidate, now: float) -> bool:
        """Whether a bind has to be tried as a dry run first."""
        if self._accepted.get(candidate.uid, now) > now:
            return False
        return candidate.uid in self._refused or self._several(candidate.namespace, now)

    def _several(self, namespace: str, now: float) -> bool:
        recent = self._recent.get(namespace)
        return recent is not None and len(recent) == SEVERAL and now - recent[0] < RECENT_SECONDS

    def next_look(self) -> float | None:
        """Tell when the server is to be asked about some of the refused again."""
        return self._looked + LOOK_SECONDS if self._refused else None

    def due(self, waiting: backlog.Backlog, now: float) -> list[Refused]:
        """Name the pods to ask about now, one of a namespace, and forget what does not matter any more."""
        if not self._refused or now < self._looked + LOOK_SECONDS:
            return []
        self._looked = now
        self._tidy(waiting, now)
        found: dict[str, Refused] = {}
        for one in self._refused.values():
            if len(found) < NAMESPACES_A_LOOK:
                found.setdefault(one.candidate.namespace, one)
        for one in found.values():
            self._refused[one.candidate.uid] = self._refused.pop(one.candidate.uid)
        return list(found.values())

    def _tidy(self, waiting: backlog.Backlog, now: float) -> None:
        """Forget the pods that do not wait, and namespaces where all is well again."""
        self._refused = {uid: one for uid, one in self._refused.items() if uid in waiting}
        self._accepted = {uid: until for uid, until in self._accepted.items() if until > now}
        self._recent = {
            namespace: moments
            for namespace, moments in self._recent.items()
            if now - moments[-1] < RECENT_SECONDS
        }
