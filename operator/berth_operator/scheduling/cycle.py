"""One round of decisions: the table of contents of the whole scheduler.

`each` decides for one pod after another. Before its caller asks for the next decision it has
charged what the last pod got, so that each pod sees those before it. The engine does that by
assuming every bind as it sends it. `decide` charges for itself and undoes it before it
returns.
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

# Steps of search on single nodes, by all pods of a round together and by each: a fraction of a second.
STEPS_A_ROUND: Final = 5_000
STEPS_A_POD: Final = 2_000
# Questions that all nodes refused: the next pod with the same question is refused, until one is placed.
RefusedQuestions = dict[questions.Question, decisions.Wait]
Nodes = frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class RoundTime:
    """How long a round may decide: until `ends` by the clock, and `search` seconds for one pod's search.

    Filtering and scoring all nodes takes longer the more nodes there are, and counts as no search.
    From `turns` on, if there still are pods to try, those that are rarely tried have their turns.
    """

    clock: Callable[[], float]
    ends: float
    search: float
    turns: float = math.inf

    @property
    def over(self) -> bool:
        """Whether no further pod is tried."""
        return self.clock() >= self.ends

    @property
    def late(self) -> bool:
        """Whether the part of the round is over in which pods are tried in order."""
        return self.clock() >= self.turns

    @property
    def short(self) -> bool:
        """Whether a search would not get all the time that is due to it."""
        return self.clock() + self.search > self.ends

    def expired(self) -> Callable[[], bool]:
        """Return whether a search is over that begins with the first call of this."""
        return allocator.stopwatch(self.clock, self.search)


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How many pods a round tries and for how long; the pods of namespaces that are `held_up` are skipped."""

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
    """Yield the decisions for the pods whose turn it is, one after another.

    1. Take the ready pods in order, and in the last part of a full round others in turns.  2. Reject
    what cannot be served.  3. Find a place, or why there is none.  4. Go on when the place is charged.
    A pod whose search could not get the effort due to it is left for the next round. When the time is
    over, so is the round.
    """
    search.inventory.refresh_supply()
    if not backlog:
        return
    search.inventory.demand_model()  # If it must be computed, that is not part of the first pod's time.
    refused: RefusedQuestions = {}
    time = limits.time
    budget = SearchBudget(time)
    for candidate, claimed in _in_turn(backlog, now, limits.most, time):
        if limits.held_up(candidate.namespace):
            backlog.hold_up(candidate.namespace)
            continue
        if (effort := budget.reserve(candidate, in_turns=claimed is not None)) is None:
            continue
        decision = _decide_beside_claims(search, candidate, policy, refused, effort, claimed or frozenset())
        budget.settle(effort)
        if isinstance(decision, decisions.Bind):
            refused.clear()
        if decision is not None:
            yield decision
        else:
            backlog.keep_back(candidate.uid, now=now)
        if time is not None and time.over:
            return


def _in_turn(
    backlog: Backlog, now: float, limit: int, time: RoundTime | None
) -> Iterator[tuple[queued_pods.Candidate, Nodes | None]]:
    """Yield the pods of a round, with those that come out of order the nodes that pods before them claim."""
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
    for candidate, claimed in backlog.others(now, frozenset(done)):
        if time.over:
            return
        done.add(candidate.uid)
        yield candidate, claimed
    for candidate in itertools.chain([late] if late else [], ready):
        if candidate.uid not in done:
            yield candidate, None


class SearchBudget:
    """The effort that a round may spend on searches on single nodes."""

    def __init__(self, time: RoundTime | None) -> None:
        self._time = time
        self._left = STEPS_A_ROUND
        self._searched = False
        self._in_turns = False
        self._given = 0

    def reserve(self, candidate: queued_pods.Candidate, *, in_turns: bool) -> allocator.Effort | None:
        """Return the effort for a pod; None if that is less than is due to each.

        The first pod that needs a search gets it, and so does the first of those that come out of order.
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
        """Take back what a pod has left over."""
        self._left -= self._given - effort.left


def decide(
    search: Search,
    backlog: Backlog,
    now: float,
    policy: Policy,
    *,
    limit: int = USUAL.most,
) -> list[decisions.Decision]:
    """Return the decisions for the pods whose turn it is, and leave everything as it was."""
    found: list[decisions.Decision] = []
    charged: list[str] = []
    try:
        for decision in each(search, backlog, now, policy, Limits(limit)):
            found.append(decision)
            candidate = backlog.get(decision.uid)
            if isinstance(decision, decisions.Bind) and candidate is not None:
                search.inventory.charge(hold_for(candidate, decision.placement))
                charged.append(decision.uid)
    finally:
        for uid in reversed(charged):
            search.inventory.release(uid)
    return found


def decision_for(
    search: Search,
    candidate: queued_pods.Candidate,
    policy: Policy,
    refused: RefusedQuestions,
    effort: allocator.Effort,
) -> decisions.Decision:
    """Return the decision for one pod, to whose request the policy has been applied."""
    if candidate.faults:
        return decisions.Reject(candidate.uid, candidate.faults)
    question = questions.ask(candidate.request, candidate.demand)
    if question not in refused:
        placement = search.place(
            candidate.request, candidate.demand, policy=policy, effort=effort, question=question
        )
        if placement is not None:
            return decisions.Bind(candidate.uid, placement)
        counts = reasons.count(search.inventory, question, search.searched(question, policy))
        refused[question] = decisions.Wait(candidate.uid, counts, decisions.wants(counts), effort.spent)
    return dataclasses.replace(refused[question], uid=candidate.uid)


def _decide_beside_claims(
    search: Search,
    candidate: queued_pods.Candidate,
    policy: Policy,
    refused: RefusedQuestions,
    effort: allocator.Effort,
    claimed: Nodes,
) -> decisions.Decision | None:
    """Return the decision for a pod; None if only a node that pods before it claim may take it."""
    written, candidate = candidate, under_policy.under(policy, candidate)
    if candidate.faults and not written.faults:
        return decisions.Reject(candidate.uid, candidate.faults, under_policy.OTHER_RULES)
    if claimed and not candidate.faults:
        found = search.place(
            candidate.request, candidate.demand, policy=policy, effort=effort, excluded=claimed
        )
        if found is not None:
            return decisions.Bind(candidate.uid, found)
        question = questions.ask(candidate.request, candidate.demand)
        searched_all = question.need.simple or not effort.spent
        if searched_all and search.may_place(question, policy, claimed):
            return None
    return decision_for(search, candidate, policy, refused, effort)


def hold_for(candidate: queued_pods.Candidate, placement: decisions.Placement) -> holds.Hold:
    """Return what a pod will hold once it is placed: equal to what the bound pod will be read as."""
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
