"""All constraints, in the order in which nodes are asked for their reasons."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, questions
from berth_operator.scheduling.changes import Option, Situation
from berth_operator.scheduling.constraints import (
    agent_state,
    arrangement,
    cards,
    device_state,
    evaluation,
    host_ports,
    place,
    pools,
    resources,
)
from berth_operator.scheduling.constraints.constraint import Attempt, Constraint, Scope
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, requests
from berth_operator.scheduling.wording import Words

CONSTRAINTS: Final[tuple[Constraint, ...]] = (
    place.CONSTRAINT,
    agent_state.CONSTRAINT,
    device_state.CONSTRAINT,
    cards.CONSTRAINT,
    pools.CONSTRAINT,
    resources.CONSTRAINT,
    host_ports.CONSTRAINT,
    arrangement.CONSTRAINT,
    evaluation.CONSTRAINT,
)
WORDS: Final[Mapping[Reason, Words]] = {
    reason: words for one in CONSTRAINTS for reason, words in one.words.items()
}
BRIEF: Final[Mapping[Reason, str]] = {
    reason: words for one in CONSTRAINTS for reason, words in one.brief.items()
}
_ABLE: Final = tuple((one.asked, one.able) for one in CONSTRAINTS if one.able not in {None, resources.able})

_CLUSTER_WIDE: Final = tuple(one.asked for one in CONSTRAINTS if one.depends_on is Scope.CLUSTER)


def cluster_wide(question: questions.Question) -> bool:
    """Whether the answer of a node depends on other nodes, so that a change of one voids all answers."""
    return any(asked(question) for asked in _CLUSTER_WIDE)


def able(query: Query) -> node_table.Mask:
    """Return the nodes that could take the pod, as far as sums can tell."""
    question = query.question
    mask = resources.able(query)  # A new mask, in which nodes that are not known are left out.
    for asked, meets in _ABLE:
        if asked(question):
            mask &= meets(query)
    return mask


def relaxations(
    request: requests.Request, query: Query, shortfalls: Sequence[allocator.Shortfall]
) -> Iterator[Option]:
    """Yield the changes of the pod that would lift a constraint, on these nodes or on one of them."""
    for constraint in CONSTRAINTS:
        alone = functools.partial(_alone, query, constraint)
        yield from constraint.relaxations(Attempt(request, query, shortfalls, alone))


def _alone(query: Query, constraint: Constraint) -> list[int]:
    """Return the nodes that only this constraint keeps the pod from; a single node whatever else does."""
    mask = query.table.known[query.rows].copy()
    for one in CONSTRAINTS if query.height > 1 else ():
        if one.able is not None and one.asked(query.question):
            mask &= ~one.able(query) if one is constraint else one.able(query)
    found: list[int] = np.arange(query.inventory.size)[query.rows][mask].tolist()
    return found


def remedies(situation: Situation, shortfall: allocator.Shortfall | None) -> Iterator[Option]:
    """Yield the changes of one node that would lift a constraint."""
    for constraint in CONSTRAINTS:
        yield from constraint.remedies(situation, shortfall)


def gaps(query: Query) -> node_table.Scores:
    """Return for each node what part is missing of what it lacks most, from 0 to 1."""
    found = np.zeros(query.height)
    for constraint in CONSTRAINTS:
        for gap in constraint.gaps(query):
            found = np.maximum(found, gap)
    return found
