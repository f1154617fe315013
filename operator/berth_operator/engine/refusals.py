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
RETRY_SECONDS: Final = 1.0
NAMESPACES_A_RETRY: Final = 32


@dataclasses.dataclass(frozen=True, slots=True)
class RefusedBind:
    """A bind that was refused, to be sent again as a dry run."""

    candidate: backlog.Candidate
    placement: decisions.Placement


class Refusals:
    """Which pods were refused, and in which namespaces."""

    def __init__(self) -> None:
        self._refused: dict[str, RefusedBind] = {}  # By uid; who was tried longest ago comes first.
        self._recent: dict[str, collections.deque[float]] = {}  # By namespace.
        self._accepted: dict[str, float] = {}  # By uid, until when that counts.
        self._retried = 0.0

    def __repr__(self) -> str:
        """Describe the state."""
        return f"<Refusals: {len(self._refused)} pods>"

    # ------------------------------------------------------------ what the server said

    def refused(self, candidate: backlog.Candidate, placement: decisions.Placement, now: float) -> None:
        """Remember a bind or a dry run that the server refused."""
        if not self._refused:
            self._retried = now
        self._accepted.pop(candidate.uid, None)
        self._refused.pop(candidate.uid, None)
        self._refused[candidate.uid] = RefusedBind(candidate, placement)
        recent = self._recent.setdefault(candidate.namespace, collections.deque(maxlen=SEVERAL))
        recent.append(now)

    def accepted(self, candidate: backlog.Candidate, now: float) -> list[str]:
        """Return the pods to reinstate after an accepted dry run: the namespace, if it was refused before."""
        self._accepted[candidate.uid] = now + ACCEPTED_SECONDS
        if candidate.uid not in self._refused:
            return [candidate.uid]
        return [uid for uid, one in self._refused.items() if one.candidate.namespace == candidate.namespace]

    def bound(self, uid: str) -> None:
        """Forget a pod that was bound."""
        self._refused.pop(uid, None)
        self._accepted.pop(uid, None)

    # ------------------------------------------------------------ what follows

    def needs_dry_run(self, candidate: backlog.Candidate, now: float) -> bool:
        """Whether the server must accept a dry run before this pod is bound."""
        if self._accepted.get(candidate.uid, now) > now:
            return False
        return candidate.uid in self._refused or self._several(candidate.namespace, now)

    def _several(self, namespace: str, now: float) -> bool:
        recent = self._recent.get(namespace)
        return recent is not None and len(recent) == SEVERAL and now - recent[0] < RECENT_SECONDS

    def next_retry(self) -> float | None:
        """Return when some of the refused are due for another dry run."""
        return self._retried + RETRY_SECONDS if self._refused else None

    def due(self, waiting: backlog.Backlog, now: float) -> list[RefusedBind]:
        """Return the binds to send as dry runs now, one for each namespace."""
        if not self._refused or now < self._retried + RETRY_SECONDS:
            return []
        self._retried = now
        self._tidy(waiting, now)
        found: dict[str, RefusedBind] = {}
        for one in self._refused.values():
            if len(found) < NAMESPACES_A_RETRY:
                found.setdefault(one.candidate.namespace, one)
        for one in found.values():
            self._refused[one.candidate.uid] = self._refused.pop(one.candidate.uid)
        return list(found.values())

    def _tidy(self, waiting: backlog.Backlog, now: float) -> None:
        """Forget pods that no longer wait, and namespaces without recent refusals."""
        self._refused = {uid: one for uid, one in self._refused.items() if uid in waiting}
        self._accepted = {uid: until for uid, until in self._accepted.items() if until > now}
        self._recent = {
            namespace: moments
            for namespace, moments in self._recent.items()
            if now - moments[-1] < RECENT_SECONDS
        }
