"""Pods whose binds the API server refuses, so that no free card is kept for them.

A bind keeps its cards from other pods until it is answered, and a webhook or a policy may refuse the
binds of hundreds of pods that come before all others. So a pod whose bind was refused comes after all
others, and is bound again only after the server has accepted its bind as a dry run, for which no card
is kept. Every pod of a namespace in which several binds were refused recently needs a dry run, too.

A pod that is deleted while its bind is under way counts as refused: many such pods could take each
freed card in turn, and use none.

A server may accept a dry run and still refuse the bind: etcd, which has limits of its own, is not
asked by a dry run. Such a pod gets no more dry runs. It is on trial: it is bound after pauses that
grow to a minute, and comes after all others.

Once a second one refused pod of each namespace is retried, and of a crowd one thirtieth, whether there is a
card for it or not. A few refused pods are also retried whenever there is a card; a crowd is not, since a
freed card must not make the server answer hundreds of dry runs before it binds others. Once a dry run
is accepted, all pods of that namespace are tried at once. Time comes in as a number; no clock is read.

A bind without an answer is another matter: `bind_sender` sends it again. How long a pod waits until it is
tried again, whoever refused it, is in `queued_pods.backoff`.
"""

import collections
import dataclasses
import math
from typing import Final

from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.backlog import Backlog

OFTEN: Final = 3
RECENT_SECONDS: Final = 30.0
ACCEPTED_SECONDS: Final = (
    5.0  # How long an accepted dry run counts; the pod is decided for in the next round.
)
REMEMBERED_SECONDS: Final = 60.0  # How long after that it is kept, since the bind may be answered late.
RETRY_SECONDS: Final = 1.0
MOST_WITHOUT_TURNS: Final = 16  # Of one namespace; more are a crowd.
ALL_ASKED_SECONDS: Final = 30.0  # In which each pod of a crowd is retried, unless there are too many.
MOST_PER_RETRY: Final = 32
LONGEST_TRIAL_SECONDS: Final = 50.0  # Less than the longest backoff of a demoted pod: after that it is due.
FORGOTTEN_SECONDS: Final = 600.0
MOST_NAMESPACES: Final = 1024  # Namespaces that are remembered.


@dataclasses.dataclass(slots=True)
class RefusedBind:
    """A bind that was refused, to be sent again as a dry run."""

    pod_info: queued_pods.PodInfo
    placement: decisions.Placement
    postponed: bool = True  # It waits for its retry, until a dry run of its namespace is accepted.


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """A pod whose dry runs prove nothing: how often its bind was refused, and when it may be bound next."""

    refused: int
    due: float


class BindRefusals:
    """Remembers refused binds and dry runs, by pod and by namespace."""

    def __init__(self) -> None:
        self._refused: dict[str, RefusedBind] = {}  # By uid; the pod that was tried longest ago comes first.
        self._counts: collections.Counter[str] = collections.Counter()  # Of refused pods, by namespace.
        self._failures: dict[str, collections.deque[float]] = {}  # By namespace.
        self._accepted: dict[str, float] = {}  # By uid, until when that counts.
        self._on_trial: dict[
            str, Trial
        ] = {}  # By uid; the pod whose bind was refused longest ago comes first.
        self._edited: dict[str, float] = {}  # By namespace, when a pod was last edited while it was bound.
        self._last_retry = 0.0

    def __repr__(self) -> str:
        """Describe the state."""
        return f"<BindRefusals: {len(self._refused)} pods>"

    # ------------------------------------------------------------ what has happened

    def dry_run_refused(
        self, pod_info: queued_pods.PodInfo, placement: decisions.Placement, now: float
    ) -> None:
        """Remember a refused dry run or bind."""
        if not self._refused:
            self._last_retry = now
        self._remove(pod_info.uid)
        self._refused[pod_info.uid] = RefusedBind(pod_info, placement)
        self._counts[pod_info.namespace] += 1
        self._record_failure(pod_info.namespace, now)

    def pod_deleted(self, namespace: str, now: float) -> None:
        """Remember a pod that was deleted while its bind was under way: it kept a card for nothing."""
        self._record_failure(namespace, now)
        if len(self._failures) > MOST_NAMESPACES:
            del self._failures[next(iter(self._failures))]

    def _record_failure(self, namespace: str, now: float) -> None:
        recent = self._failures.pop(namespace, None) or collections.deque(maxlen=OFTEN)
        recent.append(now)
        self._failures[namespace] = recent  # The namespace with the latest failure comes last.

    def pod_edited(self, pod_info: queued_pods.PodInfo, now: float) -> bool:
        """Remember a pod that was edited while its bind was under way; return whether that happens often."""
        before = self._edited.pop(pod_info.namespace, None)
        self._edited[pod_info.namespace] = now
        if len(self._edited) > MOST_NAMESPACES:
            del self._edited[next(iter(self._edited))]
        return before is not None and now - before < RECENT_SECONDS

    def bind_refused(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement, now: float) -> None:
        """Remember a refused bind, perhaps after an accepted dry run."""
        uid = pod_info.uid
        trial = self._on_trial.pop(uid, None)
        accepted = uid in self._accepted
        self.dry_run_refused(pod_info, placement, now)
        if trial is not None or accepted:
            self._remove(uid)
            times = trial.refused + 1 if trial is not None else 1
            self._on_trial[uid] = Trial(
                times, now + min(LONGEST_TRIAL_SECONDS, RETRY_SECONDS * 2.0 ** min(times, 10))
            )
        while self._on_trial and next(iter(self._on_trial.values())).due + FORGOTTEN_SECONDS < now:
            del self._on_trial[next(iter(self._on_trial))]

    def dry_run_accepted(self, pod_info: queued_pods.PodInfo, now: float) -> list[str]:
        """Return the pods to reinstate after an accepted dry run: the namespace, if it was refused before."""
        if pod_info.uid in self._on_trial:
            return []  # This dry run was sent before the pod was on trial.
        self._accepted[pod_info.uid] = now + ACCEPTED_SECONDS
        if pod_info.uid not in self._refused:
            return [pod_info.uid]
        found = [one for one in self._refused.values() if one.pod_info.namespace == pod_info.namespace]
        for refused in found:
            refused.postponed = False
        return [refused.pod_info.uid for refused in found]

    def forget(self, uid: str) -> None:
        """Forget a pod."""
        self._on_trial.pop(uid, None)
        self._remove(uid)

    def _remove(self, uid: str) -> None:
        self._accepted.pop(uid, None)
        if (one := self._refused.pop(uid, None)) is not None:
            self._counts[one.pod_info.namespace] -= 1

    # ------------------------------------------------------------ which pods need dry runs

    def needs_dry_run(self, pod_info: queued_pods.PodInfo, now: float) -> bool:
        """Whether the server must accept a dry run before this pod is bound; on trial it must be due."""
        if (trial := self._on_trial.get(pod_info.uid)) is not None:
            return now < trial.due
        if self._accepted.get(pod_info.uid, now) > now:
            return False
        return pod_info.uid in self._refused or self._fails_often(pod_info.namespace, now)

    def _fails_often(self, namespace: str, now: float) -> bool:
        recent = self._failures.get(namespace)
        return recent is not None and len(recent) == OFTEN and now - recent[0] < RECENT_SECONDS

    def is_postponed(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> bool:
        """Whether no dry run is sent for a pod now.

        A pod of a crowd waits for its retry, which will be for this placement; a pod on trial gets none.
        """
        if pod_info.uid in self._on_trial:
            return True
        one = self._refused.get(pod_info.uid)
        if one is None or one.pod_info != pod_info or self._counts[pod_info.namespace] <= MOST_WITHOUT_TURNS:
            return False
        one.placement = placement
        return one.postponed

    def next_retry(self) -> float | None:
        """Return when refused pods are due for another dry run."""
        return self._last_retry + RETRY_SECONDS if self._refused else None

    def due_retries(self, backlog: Backlog, now: float) -> list[RefusedBind]:
        """Return the binds to send as dry runs now: of each namespace those that were tried longest ago."""
        if not self._refused or now < self._last_retry + RETRY_SECONDS:
            return []
        self._last_retry = now
        self._prune(backlog, now)
        left = {namespace: _retries_of(count) for namespace, count in self._counts.items()}
        found: list[RefusedBind] = []
        for refused in self._refused.values():
            if left[refused.pod_info.namespace] and len(found) < MOST_PER_RETRY:
                left[refused.pod_info.namespace] -= 1
                found.append(refused)
        for refused in found:
            self._refused[refused.pod_info.uid] = self._refused.pop(refused.pod_info.uid)
        return found

    def _prune(self, backlog: Backlog, now: float) -> None:
        """Forget pods that no longer wait, and namespaces without recent refusals."""
        self._refused = {uid: one for uid, one in self._refused.items() if uid in backlog}
        kept = now - REMEMBERED_SECONDS
        self._counts = collections.Counter(one.pod_info.namespace for one in self._refused.values())
        self._accepted = {uid: until for uid, until in self._accepted.items() if until > kept}
        self._failures = {
            namespace: moments
            for namespace, moments in self._failures.items()
            if now - moments[-1] < RECENT_SECONDS
        }


def _retries_of(count: int) -> int:
    """Return how many of so many refused pods of a namespace one retry covers."""
    return math.ceil(count * RETRY_SECONDS / ALL_ASKED_SECONDS)
