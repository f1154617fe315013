"""What is said of a pod that waits: one sentence, worked out closely where there is time.

The counts of a failing decision are cheap and always there; looking closely at nodes and
trying what would help takes milliseconds, so a round has time for a few looks only: for
so many, and not for longer than is left of its time after deciding. Pods
that ask the same share one. A look is good until the inventory changes, because the
sentence names nodes and figures. Whoever finds no time left keeps what the pod shows, if
the counts do not contradict it, else gets the counts in words; `later` makes up for the
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

CLOSE_LOOKS: Final = 2  # A round; each may take some milliseconds.
LOOK_STEPS: Final = 2000  # However many nodes there are, and where nobody has a clock.
LOOK_SECONDS: Final = 0.008  # Of one look, from the first step on: before that all nodes are asked at once.
LONGEST_LOOK: Final = 0.024  # Of one that was cut short before, more than once.
LEAST_SECONDS: Final = 0.015  # With less than that left of a round, none is begun.
LATER_SECONDS: Final = 1.0  # Between the rounds that make up for looks.
LONGEST_PAUSE: Final = 60.0  # Between two looks that are cut short.
NEVER: Final = -1

Asks = tuple[requests.Request, facts.Demand]


@dataclasses.dataclass(slots=True)
class Matter:
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
    cut: int = 0
    again: float = math.inf

    def message(self, namespace: str) -> str:
        """Return what the last look tells pods of a namespace, so that it names no pods of others."""
        return self.messages.get(namespace, self.messages.get("", ""))


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """What was said of a pod, and in which matter."""

    matter: Matter
    namespace: str
    message: str

    @property
    def behind(self) -> bool:
        """Whether the last look says something else."""
        return self.message != self.matter.message(self.namespace)


def _nothing(_uid: str) -> str:
    return ""


class Reasons:
    """Finds the words, and remembers them while nothing changes; `shown` tells what a pod shows, by uid."""

    def __init__(
        self,
        ledger: Ledger,
        shown: Callable[[str], str] = _nothing,
        *,
        clock: ports.Clock | None = None,
    ) -> None:
        self._ledger = ledger
        self._shown = shown
        self._clock = clock
        self._until = math.inf
        self._said: dict[str, Said] = {}
        self._failed: dict[str, str] = {}  # Why the bind of a pod that has a place does not come about.
        self._matters: dict[Asks, Matter] = {}
        self._numbers = itertools.count()
        self._looks = CLOSE_LOOKS
        self._next = 0.0

    def new_round(self, *, until: float = math.inf) -> None:
        """Allow some close looks again, until this moment, and forget the pods that wait no more."""
        self._looks, self._until = CLOSE_LOOKS, until
        if len(self._said) + len(self._failed) > 2 * len(self._ledger.backlog) + 64:
            self._forget()

    def said(self, candidate: queued_pods.Candidate) -> str:
        """Repeat what was last said of a pod; nothing if it was not decided for yet."""
        if faults := under_policy.under(self._ledger.policy, candidate).faults:
            return explain.sentence(decisions.Reject(candidate.uid, faults), candidate)
        if candidate.uid in self._failed:
            return self._failed[candidate.uid]
        said = self._said.get(candidate.uid)
        return said.message if said is not None else ""

    def placed(self, uid: str) -> None:
        """Forget why a pod had to wait: it has a place now, and if its bind fails, that is another reason."""
        self._said.pop(uid, None)

    def failed(self, uid: str, message: str) -> None:
        """Record a bind that does not come about, until something else is said of the pod."""
        self._failed[uid] = message
        self._said.pop(uid, None)

    def sentence(self, candidate: queued_pods.Candidate, answer: decisions.Wait | decisions.Reject) -> str:
        """Return why a pod does not fit."""
        self._failed.pop(candidate.uid, None)
        if isinstance(answer, decisions.Reject):
            return explain.sentence(answer, candidate)
        asks = candidate.request, candidate.demand
        matter = self._matters.get(asks)
        if matter is None:
            matter = self._matters[asks] = Matter(candidate, next(self._numbers))
        if matter.counts != answer.counts:
            matter.counts, matter.version = answer.counts, NEVER
        if not self._good(matter) and self._may_look:
            self._look(matter)
        good = self._good(matter)
        message = matter.message(candidate.namespace) if good else self._kept(candidate, matter)
        self._said[candidate.uid] = Said(matter, candidate.namespace, message)
        return message

    # ------------------------------------------------------------ what had to wait

    def next_look(self, now: float) -> float | None:
        """Return when to see again whether anything has become old, if anybody waits; now, if it has."""
        idle = not self._overdue() and not self._cut_short(now)
        if now >= self._next and idle and not any(map(self._behind, self._said)):
            self._next = now + LATER_SECONDS
        return self._next if self._said else None

    def later(self, now: float, *, looks: int = CLOSE_LOOKS) -> list[tuple[queued_pods.Candidate, str]]:
        """Make up for some looks, and return what is new of which pods.

        What was looked at longest ago comes first, so that new pods keep none of the old ones waiting;
        what was cut short comes last, one a round.
        """
        if now < self._next:
            return []
        self._next = now + LATER_SECONDS
        self._forget()
        due = sorted(self._overdue(), key=lambda one: one.number) or self._cut_short(now)[:1]
        for matter in due[:looks]:
            if not self._may_look:
                break
            if self._look(matter, now).fits:
                matter.messages = {}  # Its turn is coming, and then it has a place or another reason.
        return [self._renewed(uid) for uid in self._said if self._behind(uid)]

    def _overdue(self) -> list[Matter]:
        return [one for one in self._matters.values() if one.version != self._version]

    def _cut_short(self, now: float) -> list[Matter]:
        """Return the matters whose look is to be repeated, those first that have waited longest."""
        return sorted((one for one in self._matters.values() if one.again <= now), key=lambda one: one.again)

    def _behind(self, uid: str) -> bool:
        """Return whether a good look says something else than was said of a pod."""
        said = self._said[uid]
        return said.behind and self._good(said.matter) and uid in self._ledger.backlog

    def _renewed(self, uid: str) -> tuple[queued_pods.Candidate, str]:
        candidate, said = self._ledger.backlog.get(uid), self._said[uid]
        message = said.matter.message(said.namespace)
        self._said[uid] = dataclasses.replace(said, message=message)
        return candidate or said.matter.candidate, message

    def _forget(self) -> None:
        self._said = {uid: said for uid, said in self._said.items() if uid in self._ledger.backlog}
        self._failed = {uid: why for uid, why in self._failed.items() if self._ledger.asked(uid) is not None}
        live = {id(said.matter) for said in self._said.values()}
        self._matters = {asks: one for asks, one in self._matters.items() if id(one) in live}

    # ------------------------------------------------------------ finding words

    @property
    def _version(self) -> int:
        return self._ledger.inventory.table.version

    def _good(self, matter: Matter) -> bool:
        return matter.version == self._version and bool(matter.messages)

    def _look(self, matter: Matter, now: float | None = None) -> explain.Explanation:
        """Look closely, whatever was known; in a quiet round with more time, if it was too little before."""
        self._looks -= 1
        seconds = self._seconds(matter, now)
        timer = None if self._clock is None else allocator.stopwatch(self._clock, seconds)
        effort = allocator.Effort(LOOK_STEPS, timer)
        told = explain.explain(
            self._ledger.search, matter.candidate, policy=self._ledger.policy, effort=effort
        )
        matter.number = next(self._numbers)
        matter.version, matter.messages = self._version, explain.by_namespace(told, matter.candidate)
        matter.cut = matter.cut + 1 if told.cut else 0
        pause = min(LATER_SECONDS * (1 << min(matter.cut, 8)), LONGEST_PAUSE)
        matter.again = (self._next if now is None else now) + pause if told.cut else math.inf
        return told

    def _seconds(self, matter: Matter, now: float | None) -> float:
        """Return how long a look may take: in a quiet round longer, each time that it was cut short."""
        if self._clock is None or now is None:
            return LOOK_SECONDS
        longer = min(LOOK_SECONDS * (1 << min(matter.cut, 8)), LONGEST_LOOK)
        return max(LOOK_SECONDS, min(longer, self._until - self._clock()))

    @property
    def _may_look(self) -> bool:
        """Whether the round has time for another look."""
        in_time = self._clock is None or self._clock() + LEAST_SECONDS <= self._until
        return self._looks > 0 and in_time

    def _kept(self, candidate: queued_pods.Candidate, matter: Matter) -> str:
        """Keep what a pod shows while the counts say the same: it may well be right, and its look comes."""
        before = self._before(candidate.uid, matter)
        agrees = explain.agrees(before, matter.counts, candidate)
        if agrees:
            return before
        uuids = candidate.request.conditions.uuids
        known = known_models.instead(matter.counts, self._ledger.inventory, uuids)
        return explain.brief(matter.counts, candidate, known)

    def _before(self, uid: str, matter: Matter) -> str:
        said = self._said.get(uid)
        if said is None:
            return self._shown(uid)  # By an earlier leader.
        return said.message if said.matter is matter else ""  # It asked for something else.
