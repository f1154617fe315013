"""What is said of a pod that waits: one sentence, worked out closely where there is time.

The counts of a failing decision are cheap and always there; looking closely at nodes and
trying what would help takes milliseconds, so a round has time for a few looks only: for
so many, and not for longer than is left of its time after deciding. Pods
that ask the same share one. A look is good until the inventory changes, because the
sentence names nodes and figures. A pod for which no time is left keeps its message while its
counts are those that the message was given for, else it gets the counts in words. A message of
an earlier leader is kept until the first look. `renewed` makes up for the
looks that were left out, and for those that have become old, without any decision. One
look a second is for these, however many new pods there are. A look that ended before all
was found out is repeated, after all others, with more time and after longer and longer pauses.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping
from typing import Final

from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, explain, known_models, queued_pods, under_policy
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.nodes import facts

DIAGNOSES_PER_ROUND: Final = 2  # A round; each may take some milliseconds.
DIAGNOSIS_STEPS: Final = 2000  # However many nodes there are, and where nobody has a clock.
DIAGNOSIS_SECONDS: Final = (
    0.008  # Of one look, from the first step on: before that all nodes are asked at once.
)
LONGEST_DIAGNOSIS_SECONDS: Final = 0.024  # Of one that was cut short before, more than once.
LEAST_SECONDS: Final = 0.015  # With less than that left of a round, none is begun.
RENEWAL_SECONDS: Final = 1.0  # Between the rounds that make up for looks.
LONGEST_PAUSE_SECONDS: Final = 60.0  # Between two looks that are cut short.
NEVER: Final = -1

Asks = tuple[requests.Request, facts.Demand]


@dataclasses.dataclass(slots=True)
class ReasonGroup:
    """What pods that ask the same wait for: the last counts, and the last close look.

    The look is good for one version of the inventory; a changed count makes it void. `number` rises
    from matter to matter, and with each look. `cut` counts the looks in a row that were cut short;
    `again` is when the next one may be tried.
    """

    candidate: queued_pods.Candidate
    number: int
    counts: tuple[decisions.Count, ...] = ()
    version: int = NEVER
    messages: Mapping[str, str] = dataclasses.field(default_factory=dict)  # See `explain.by_namespace`.
    cut_short: int = 0
    retry_at: float = math.inf

    def message(self, namespace: str) -> str:
        """Return what the last look tells pods of a namespace, so that it names no pods of others."""
        return self.messages.get(namespace, self.messages.get("", ""))


@dataclasses.dataclass(frozen=True, slots=True)
class GivenReason:
    """The message that was given for a pod, and the group and counts that it was given for."""

    group: ReasonGroup
    namespace: str
    message: str
    counts: tuple[decisions.Count, ...]

    def holds_for(self, group: ReasonGroup) -> bool:
        """Whether a group and its counts still are those that the message was given for.

        Nodes that are undecided now may have been decided then: so only the number of nodes counts.
        """
        if any(count.reason is decisions.Reason.UNDECIDED for count in group.counts):
            return self.group is group and _nodes(self.counts) == _nodes(group.counts)
        return self.group is group and self.counts == group.counts

    @property
    def outdated(self) -> bool:
        """Whether the last look says something else."""
        return self.message != self.group.message(self.namespace)


def _nodes(counts: tuple[decisions.Count, ...]) -> int:
    return sum(count.nodes for count in counts)


def _nothing(_uid: str) -> str:
    return ""


class WaitingReasons:
    """Finds the words, and remembers them while nothing changes; `shown` tells what a pod shows, by uid."""

    def __init__(
        self,
        ledger: Ledger,
        shown: Callable[[str], str] = _nothing,
        *,
        clock: ports.Clock | None = None,
    ) -> None:
        self._ledger = ledger
        self._shown_message = shown
        self._clock = clock
        self._until = math.inf
        self._given: dict[str, GivenReason] = {}
        self._failed: dict[str, str] = {}  # Why the bind of a pod that has a place does not come about.
        self._groups: dict[Asks, ReasonGroup] = {}
        self._numbers = itertools.count()
        self._diagnoses_left = DIAGNOSES_PER_ROUND
        self._next = 0.0

    def new_round(self, *, until: float = math.inf) -> None:
        """Allow some close looks again, until this moment, and forget the pods that wait no more."""
        self._diagnoses_left, self._until = DIAGNOSES_PER_ROUND, until
        if len(self._given) + len(self._failed) > 2 * len(self._ledger.backlog) + 64:
            self._forget()

    def last_message(self, candidate: queued_pods.Candidate) -> str:
        """Repeat what was last said of a pod; nothing if it was not decided for yet."""
        if faults := under_policy.under(self._ledger.policy, candidate).faults:
            return explain.sentence(decisions.Reject(candidate.uid, faults), candidate)
        if candidate.uid in self._failed:
            return self._failed[candidate.uid]
        said = self._given.get(candidate.uid)
        return said.message if said is not None else ""

    def pod_placed(self, uid: str) -> None:
        """Forget why a pod had to wait: it has a place now, and if its bind fails, that is another reason."""
        self._given.pop(uid, None)

    def bind_failed(self, uid: str, message: str) -> None:
        """Record a bind that does not come about, until something else is said of the pod."""
        self._failed[uid] = message
        self._given.pop(uid, None)

    def message(self, candidate: queued_pods.Candidate, answer: decisions.Wait | decisions.Reject) -> str:
        """Return why a pod does not fit."""
        self._failed.pop(candidate.uid, None)
        if isinstance(answer, decisions.Reject):
            return explain.sentence(answer, candidate)
        asks = candidate.request, candidate.demand
        group = self._groups.get(asks)
        if group is None:
            group = self._groups[asks] = ReasonGroup(candidate, next(self._numbers))
        if group.counts != answer.counts:
            group.counts, group.version = answer.counts, NEVER
        if not self._is_current(group) and self._may_diagnose:
            self._diagnose(group)
        good = self._is_current(group)
        message = group.message(candidate.namespace) if good else self._without_diagnosis(candidate, group)
        self._given[candidate.uid] = GivenReason(group, candidate.namespace, message, group.counts)
        return message

    # ------------------------------------------------------------ what had to wait

    def next_due(self, now: float) -> float | None:
        """Return when to see again whether anything has become old, if anybody waits; now, if it has."""
        idle = not self._overdue() and not self._cut_short(now)
        if now >= self._next and idle and not any(map(self._outdated, self._given)):
            self._next = now + RENEWAL_SECONDS
        return self._next if self._given else None

    def renewed(
        self, now: float, *, diagnoses: int = DIAGNOSES_PER_ROUND
    ) -> list[tuple[queued_pods.Candidate, str]]:
        """Make up for some looks, and return what is new of which pods.

        What was looked at longest ago comes first, so that new pods keep none of the old ones waiting;
        what was cut short comes last, one a round.
        """
        if now < self._next:
            return []
        self._next = now + RENEWAL_SECONDS
        self._forget()
        due = sorted(self._overdue(), key=lambda one: one.number) or self._cut_short(now)[:1]
        for group in due[:diagnoses]:
            if not self._may_diagnose:
                break
            if self._diagnose(group, now).fits:
                group.messages = {}  # Its turn is coming, and then it has a place or another reason.
        return [self._renewed(uid) for uid in self._given if self._outdated(uid)]

    def _overdue(self) -> list[ReasonGroup]:
        return [one for one in self._groups.values() if one.version != self._version]

    def _cut_short(self, now: float) -> list[ReasonGroup]:
        """Return the matters whose look is to be repeated, those first that have waited longest."""
        return sorted(
            (one for one in self._groups.values() if one.retry_at <= now), key=lambda one: one.retry_at
        )

    def _outdated(self, uid: str) -> bool:
        """Return whether a good look says something else than was said of a pod."""
        said = self._given[uid]
        return said.outdated and self._is_current(said.group) and uid in self._ledger.backlog

    def _renewed(self, uid: str) -> tuple[queued_pods.Candidate, str]:
        candidate, said = self._ledger.backlog.get(uid), self._given[uid]
        message = said.group.message(said.namespace)
        self._given[uid] = dataclasses.replace(said, message=message, counts=said.group.counts)
        return candidate or said.group.candidate, message

    def _forget(self) -> None:
        self._given = {uid: said for uid, said in self._given.items() if uid in self._ledger.backlog}
        self._failed = {
            uid: why for uid, why in self._failed.items() if self._ledger.unbound(uid) is not None
        }
        live = {id(said.group) for said in self._given.values()}
        self._groups = {asks: one for asks, one in self._groups.items() if id(one) in live}

    # ------------------------------------------------------------ finding words

    @property
    def _version(self) -> int:
        return self._ledger.inventory.table.version

    def _is_current(self, group: ReasonGroup) -> bool:
        return group.version == self._version and bool(group.messages)

    def _diagnose(self, group: ReasonGroup, now: float | None = None) -> explain.Explanation:
        """Look closely, whatever was known; in a quiet round with more time, if it was too little before."""
        self._diagnoses_left -= 1
        seconds = self._seconds(group, now)
        timer = None if self._clock is None else allocator.stopwatch(self._clock, seconds)
        effort = allocator.Effort(DIAGNOSIS_STEPS, timer)
        told = explain.explain(
            self._ledger.search, group.candidate, policy=self._ledger.policy, effort=effort
        )
        group.number = next(self._numbers)
        group.version, group.messages = self._version, explain.by_namespace(told, group.candidate)
        group.cut_short = group.cut_short + 1 if told.cut else 0
        pause = min(RENEWAL_SECONDS * (1 << min(group.cut_short, 8)), LONGEST_PAUSE_SECONDS)
        group.retry_at = (self._next if now is None else now) + pause if told.cut else math.inf
        return told

    def _seconds(self, group: ReasonGroup, now: float | None) -> float:
        """Return how long a look may take: in a quiet round longer, each time that it was cut short."""
        if self._clock is None or now is None:
            return DIAGNOSIS_SECONDS
        longer = min(DIAGNOSIS_SECONDS * (1 << min(group.cut_short, 8)), LONGEST_DIAGNOSIS_SECONDS)
        return max(DIAGNOSIS_SECONDS, min(longer, self._until - self._clock()))

    @property
    def _may_diagnose(self) -> bool:
        """Whether the round has time for another look."""
        in_time = self._clock is None or self._clock() + LEAST_SECONDS <= self._until
        return self._diagnoses_left > 0 and in_time

    def _without_diagnosis(self, candidate: queued_pods.Candidate, group: ReasonGroup) -> str:
        """Return the last message of a pod while it holds, else the counts in words."""
        given = self._given.get(candidate.uid)
        if given is not None and given.holds_for(group):
            return given.message
        if given is None and (message := self._shown_message(candidate.uid)):
            return message  # Of an earlier leader.
        uuids = candidate.request.conditions.uuids
        known = known_models.instead(group.counts, self._ledger.inventory, uuids)
        return explain.brief(group.counts, candidate, known)
