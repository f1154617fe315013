"""One round of decisions: the table of contents of the whole scheduler.

`each` decides for one pod after another, and whoever asks for the next has charged what
the last one got, so that each pod sees those before it. The engine assumes as it goes,
because it sends every bind. `decide` tries it out: what it charges meanwhile is given
back before it returns.
"""

from collections.abc import Iterator
from typing import Final

from berth_operator.scheduling import backlog, decisions, holds, policy, search, tally
from berth_operator.scheduling.devices import allocator

# Of the search on single nodes, by all pods of a round together: a fraction of a second.
STEPS_A_ROUND: Final = 5_000
# What was said to the last pod of a kind: it holds for the next one until something is placed.
Said = dict[search.Question, tuple[decisions.Count, ...]]


def each(
    places: search.Search,
    waiting: backlog.Backlog,
    now: float,
    rules: policy.Policy,
    *,
    limit: int = 256,
) -> Iterator[decisions.Decision]:
    """Decide for the pods whose turn it is, at most `limit` of them, one after another.

    1. Take the ready pods in order.  2. Refuse what cannot be served.
    3. Find a place, or say why there is none.  4. Go on when the place is charged.
    """
    said: Said = {}
    effort = allocator.Effort(STEPS_A_ROUND)
    for candidate in waiting.ready(now, limit):
        if effort.spent and not candidate.request.need.simple:
            continue  # The next round begins with it, if it still comes first.
        answer = answer_for(places, candidate, rules, said, effort)
        if isinstance(answer, decisions.Bind):
            said.clear()
        yield answer


def decide(
    places: search.Search,
    waiting: backlog.Backlog,
    now: float,
    rules: policy.Policy,
    *,
    limit: int = 256,
) -> list[decisions.Decision]:
    """Decide for the pods whose turn it is, and leave everything as it was."""
    answers: list[decisions.Decision] = []
    charged: list[str] = []
    try:
        for answer in each(places, waiting, now, rules, limit=limit):
            answers.append(answer)
            candidate = waiting.get(answer.uid)
            if isinstance(answer, decisions.Bind) and candidate is not None:
                places.picture.charge(hold_for(candidate, answer.placement))
                charged.append(answer.uid)
    finally:
        for uid in reversed(charged):
            places.picture.release(uid)
    return answers


def answer_for(
    places: search.Search,
    candidate: backlog.Candidate,
    rules: policy.Policy,
    said: Said,
    effort: allocator.Effort,
) -> decisions.Decision:
    """Decide for one pod."""
    if candidate.faults:
        return decisions.Reject(candidate.uid, candidate.faults)
    question = search.ask(candidate.request, candidate.demand)
    if question not in said:
        placement = places.place(candidate.request, candidate.demand, rules=rules, effort=effort)
        if placement is not None:
            return decisions.Bind(candidate.uid, placement)
        said[question] = tally.tally(places.picture, question, places.closer(question, rules))
    return decisions.Wait(candidate.uid, said[question], decisions.wants(said[question]))


def hold_for(candidate: backlog.Candidate, placement: decisions.Placement) -> holds.Hold:
    """Say what a pod will hold once it is placed: the same value that the bound pod will be read as."""
    demand = candidate.demand
    return holds.Hold(
        uid=candidate.uid,
        title=candidate.title,
        node=placement.node,
        amounts=tuple(sorted(demand.amounts + demand.served)),
        shares=allocator.held(placement.grants),
    )
