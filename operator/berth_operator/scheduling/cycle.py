"""One round of decisions: the table of contents of the whole scheduler.

`decide` is a function of what it is given. While it runs it charges each placement to
the inventory, so that the next pod sees it, and gives everything back before it
returns: the engine then assumes what it really sends.
"""

from typing import Final

from berth_operator.scheduling import backlog, decisions, holds, policy, search, tally
from berth_operator.scheduling.devices import allocator

# Of the search on single nodes, by all pods of a round together: a fraction of a second.
STEPS_A_ROUND: Final = 5_000
# What was said to the last pod of a kind: it holds for the next one until something is placed.
Said = dict[search.Question, tuple[decisions.Count, ...]]


def decide(
    places: search.Search,
    waiting: backlog.Backlog,
    now: float,
    rules: policy.Policy,
    *,
    limit: int = 256,
) -> list[decisions.Decision]:
    """Decide for the pods whose turn it is, at most `limit` of them.

    1. Take the ready pods in order.  2. Refuse what cannot be served.
    3. Find a place, or say why there is none.  4. Charge it for the pods behind.
    """
    answers: list[decisions.Decision] = []
    charged: list[str] = []
    said: Said = {}
    effort = allocator.Effort(STEPS_A_ROUND)
    try:
        turn = waiting.ready(now)[:limit]
        for candidate in turn:
            if effort.spent and not candidate.request.need.simple:
                continue  # The next round begins with it, if it still comes first.
            answer = answer_for(places, candidate, rules, said, effort)
            answers.append(answer)
            if isinstance(answer, decisions.Bind) and candidate is not turn[-1]:
                places.picture.charge(hold_for(candidate, answer.placement))
                charged.append(candidate.uid)
                said.clear()
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
