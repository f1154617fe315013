"""One round of decisions: the table of contents of the whole scheduler.

`each` decides for one pod after another, and whoever asks for the next has charged what
the last one got, so that each pod sees those before it. The engine assumes as it goes,
because it sends every bind. `decide` tries it out: what it charges meanwhile is given
back before it returns.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Final

from berth_operator.scheduling import (
    decisions,
    holds,
    questions,
    queued_pods,
    under_policy,
)
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.constraints import reasons
from berth_operator.scheduling.devices import allocator
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search

# Of the search on single nodes, by all pods of a round together and by each: a fraction of a second.
STEPS_A_ROUND: Final = 5_000
STEPS_A_POD: Final = 2_000
# What was said to the last pod of a kind: it holds for the next one until something is placed.
RefusedQuestions = dict[questions.Question, decisions.Wait]
SparedNodes = frozenset[str]
NONE_SPARED: Final[SparedNodes] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class RoundTime:
    """How long a round may decide: `ends` by the clock, and `search` are the seconds of one pod's search.

    What all nodes are asked at once belongs to no search: it takes the longer the more nodes there are.
    From `turns` on, if so many pods are in line, they are taken in turns.
    """

    clock: Callable[[], float]
    ends: float
    search: float
    turns: float = math.inf

    @property
    def over(self) -> bool:
        """Whether no further pod is decided for."""
        return self.clock() >= self.ends

    @property
    def late(self) -> bool:
        """Whether the part of the round is over in which pods are taken in order."""
        return self.clock() >= self.turns

    @property
    def short(self) -> bool:
        """Whether a search would not get all the time that is its due."""
        return self.clock() + self.search > self.ends

    def expired(self) -> Callable[[], bool]:
        """Return what tells when a search is over that begins when it is first asked."""
        return allocator.stopwatch(self.clock, self.search)


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How many pods a round decides for and for how long; namespaces that are `held_up` are passed over."""

    most: int = 256
    time: RoundTime | None = None
    held_up: Callable[[str], bool] = lambda _: False


USUAL: Final = Limits()


def each(
    search: Search,
    backlog: Backlog,
    now: float,
    policy: Policy,
    limits: Limits = USUAL,
) -> Iterator[decisions.Decision]:
    """Decide for the pods whose turn it is, one after another.

    1. Take the ready pods in order, and the last part of a long line in turns.  2. Refuse what cannot
    be served.  3. Find a place, or say why there is none.  4. Go on when the place is charged.
    A search is not begun with less than each has a right to, and none is kept from it for ever: the next
    round begins with it, if it still comes first. Where the time is over, so is the round.
    """
    search.inventory.refresh_supply()
    if not backlog:
        return
    search.inventory.demand_model()  # Where it has to be worked out, that is not the first pod's time.
    said: RefusedQuestions = {}
    time = limits.time
    budget = SearchBudget(time)
    for candidate, spared in _in_turn(backlog, now, limits.most, time):
        if limits.held_up(candidate.namespace):
            backlog.hold_up(candidate.namespace)
            continue
        if (effort := budget.reserve(candidate, in_turns=spared is not None)) is None:
            continue
        answer = _decide_sparing(search, candidate, policy, said, effort, spared or NONE_SPARED)
        budget.settle(effort)
        if isinstance(answer, decisions.Bind):
            said.clear()
        if answer is not None:
            yield answer
        else:
            backlog.keep_back(candidate.uid, now=now)
        if time is not None and time.over:
            return


def _in_turn(
    backlog: Backlog, now: float, limit: int, time: RoundTime | None
) -> Iterator[tuple[queued_pods.Candidate, SparedNodes | None]]:
    """Yield the pods of a round, and for those that come out of order the nodes that they leave to others."""
    done: set[str] = set()
    ready = backlog.ready(now, limit)
    late = None
    for candidate in ready:
        if time is not None and time.late:
            late = candidate
            break
        done.add(candidate.uid)
        yield candidate, None
    if time is None or (late is None and len(done) < limit):
        return
    for candidate, spared in backlog.others(now, frozenset(done)):
        if time.over:
            return
        done.add(candidate.uid)
        yield candidate, spared
    for candidate in itertools.chain([late] if late else [], ready):
        if candidate.uid not in done:
            yield candidate, None


class SearchBudget:
    """What a round may spend on searches on single nodes."""

    def __init__(self, time: RoundTime | None) -> None:
        self._time = time
        self._left = STEPS_A_ROUND
        self._searched = False
        self._in_turns = False
        self._given = 0

    def reserve(self, candidate: queued_pods.Candidate, *, in_turns: bool) -> allocator.Effort | None:
        """Return what may be spent on a pod; None if that is less than each has a right to.

        The first that needs a search has it, and so has the first of those that come out of order.
        """
        if in_turns and not self._in_turns:
            self._in_turns, self._searched = True, False
            self._left = max(self._left, STEPS_A_POD)
        if candidate.searched:
            short = self._time is not None and self._time.short
            if self._searched and (self._left < STEPS_A_POD or short):
                return None
            self._searched = True
        self._given = min(STEPS_A_POD, self._left)
        return allocator.Effort(self._given, self._time.expired() if self._time is not None else None)

    def settle(self, effort: allocator.Effort) -> None:
        """Return to the purse what a pod has left over."""
        self._left -= self._given - effort.left


def decide(
    search: Search,
    backlog: Backlog,
    now: float,
    policy: Policy,
    *,
    limit: int = USUAL.most,
) -> list[decisions.Decision]:
    """Decide for the pods whose turn it is, and leave everything as it was."""
    answers: list[decisions.Decision] = []
    charged: list[str] = []
    try:
        for answer in each(search, backlog, now, policy, Limits(limit)):
            answers.append(answer)
            candidate = backlog.get(answer.uid)
            if isinstance(answer, decisions.Bind) and candidate is not None:
                search.inventory.charge(hold_for(candidate, answer.placement))
                charged.append(answer.uid)
    finally:
        for uid in reversed(charged):
            search.inventory.release(uid)
    return answers


def answer_for(
    search: Search,
    candidate: queued_pods.Candidate,
    policy: Policy,
    said: RefusedQuestions,
    effort: allocator.Effort,
) -> decisions.Decision:
    """Decide for one pod, which asks what it asks under the rules."""
    if candidate.faults:
        return decisions.Reject(candidate.uid, candidate.faults)
    question = questions.ask(candidate.request, candidate.demand)
    if question not in said:
        placement = search.place(
            candidate.request, candidate.demand, policy=policy, effort=effort, question=question
        )
        if placement is not None:
            return decisions.Bind(candidate.uid, placement)
        counts = reasons.count(search.inventory, question, search.searched(question, policy))
        said[question] = decisions.Wait(candidate.uid, counts, decisions.wants(counts), effort.spent)
    return dataclasses.replace(said[question], uid=candidate.uid)


def _decide_sparing(
    search: Search,
    candidate: queued_pods.Candidate,
    policy: Policy,
    said: RefusedQuestions,
    effort: allocator.Effort,
    spared: SparedNodes,
) -> decisions.Decision | None:
    """Decide for one pod that leaves some nodes to others; None if it must wait for what they leave."""
    written, candidate = candidate, under_policy.under(policy, candidate)
    if candidate.faults and not written.faults:
        return decisions.Reject(candidate.uid, candidate.faults, under_policy.OTHER_RULES)
    if spared and not candidate.faults:
        found = search.place(candidate.request, candidate.demand, policy=policy, effort=effort, spared=spared)
        if found is not None:
            return decisions.Bind(candidate.uid, found)
        question = questions.ask(candidate.request, candidate.demand)
        searched_all = question.need.simple or not effort.spent
        if searched_all and search.may_place(question, policy, spared):
            return None
    return answer_for(search, candidate, policy, said, effort)


def hold_for(candidate: queued_pods.Candidate, placement: decisions.Placement) -> holds.Hold:
    """Return what a pod will hold once it is placed: the same value that the bound pod will be read as."""
    demand = candidate.demand
    return holds.Hold(
        uid=candidate.uid,
        title=candidate.title,
        node=placement.node,
        amounts=tuple(sorted(demand.amounts + demand.served)),
        shares=allocator.held(placement.grants),
        host_ports=demand.host_ports,
        priority=candidate.priority,
        labels=candidate.labels,
    )
