"""Whether enough cards have so much memory free as the pod requires of each.

Free is what is not promised, and no more than was measured lately. This must hold for the same cards as all
other conditions, so what does not meet it is kept out with them (`Query.matching`, `verdicts.free_now`); the
reason, its figures and what would lift it stand here. What each part of a constraint is for stands in
`constraint`.
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np

from berth_operator.scheduling import changes, node_table, queued_pods, signatures
from berth_operator.scheduling.constraints import cards
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.gaps import gap
from berth_operator.scheduling.constraints.query import Query, matching_cards
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import Deficit, Unit
from berth_operator.scheduling.wording import amount, fewer, have

MIB: Final = 1 << 20
NAME: Final = "free memory"
# How many smaller amounts are proposed: a node that has the largest of them may lack something else, so that
# only a smaller one would help.
MOST_VARIANTS: Final = 8


def asked(signature: signatures.Signature) -> bool:
    """Whether so much has to be free on each card."""
    return signature.conditions.free_memory_at_least > 0


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes on which too few of the cards with room have enough free now."""
    table, rows, need = query.table, query.rows, query.need
    if not cards.card_asks(need):
        return
    enough = cards.meeting_conditions(query) & query.enough_memory_free
    if need.whole_cards:
        # Less what is kept back there for pods whose allocation cannot be read (`withheld_cards`).
        free = node_table.count(enough & table.unused[rows]) - table.withheld[rows]
        yield Rejection(free < need.whole_cards, Reason.FREE_MEMORY)
    for ask in need.largest_shares:  # What has room for these has room for each smaller share.
        yield Rejection(node_table.count(query.room_for(ask, enough)) < ask.count, Reason.FREE_MEMORY)
    if len(need.shares) > 1:  # And is there room for all shares together?
        yield Rejection(~cards.room_together(query, enough & table.in_service[rows]), Reason.FREE_MEMORY)


def _least_of_best(query: Query) -> node_table.Numbers:
    """Return for each node the n-th largest free memory of its cards, where n cards are asked for."""
    others = dataclasses.replace(query.signature.conditions, free_memory_at_least=0)
    present = query.table.model[query.rows] != node_table.ABSENT
    meeting = matching_cards(query.inventory, query.rows, others, among=present)
    found = query.table.free_memory(query.rows) * (present if meeting is None else meeting)
    count = max(1, query.need.min_cards)
    if count > found.shape[1]:
        return np.zeros(query.node_count, dtype=np.int64)
    best: node_table.Numbers = -np.sort(-found, axis=1)[:, count - 1]
    return best


def gaps(query: Query) -> Iterator[node_table.Scores]:
    """Yield what part of the memory is missing."""
    if asked(query.signature) and cards.card_asks(query.need):
        yield gap(_least_of_best(query), query.signature.conditions.free_memory_at_least)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RequireLess(changes.Change):
    """The pod requires less free memory on each of its cards."""

    precedence: ClassVar = changes.Precedence.DROP_CONDITION
    deficit: Deficit

    def apply(self, scenario: changes.Scenario) -> changes.Scenario:
        """Return the scenario in which the pod requires as much as is free."""
        request = scenario.request
        conditions = dataclasses.replace(request.conditions, free_memory_at_least=self.deficit.free)
        return dataclasses.replace(scenario, request=dataclasses.replace(request, conditions=conditions))

    def clause(self) -> str:
        """Return what comes after "would fit if" in an explanation."""
        wanted, free = (amount(Unit.BYTES, one) for one in (self.deficit.wanted, self.deficit.free))
        return f"it required {free} instead of {wanted} of free memory on each card"


def relaxations(failed: FailedPlacement) -> Iterator[changes.ProposedChange]:
    """Yield the change to require as much as is free somewhere; `cards` proposes to require nothing."""
    query = failed.query
    wanted = query.signature.conditions.free_memory_at_least
    if wanted and cards.card_asks(query.need):
        amounts = np.unique(_least_of_best(query) // MIB * MIB).tolist()
        less = [one for one in reversed(amounts) if 0 < one < wanted][:MOST_VARIANTS]
        deficits = (Deficit(NAME, Unit.BYTES, wanted, one) for one in less)
        if variants := [RequireLess(deficit=one, cost=one.missing_fraction) for one in deficits]:
            yield changes.ProposedChange(variants)


def _too_little(nodes: int, pod: queued_pods.PodInfo, _detail: str) -> str:
    least = amount(Unit.BYTES, pod.request.conditions.free_memory_at_least)
    return (
        f"{have(nodes)} {fewer(max(pod.request.need.cards, 1), 'card')} with at least {least} of memory free"
    )


CONSTRAINT = Constraint(
    applies_to=asked,
    only_device_pods_lift_it=True,
    resolvable=resolvable,
    gaps=gaps,
    relaxations=relaxations,
    words={Reason.FREE_MEMORY: _too_little},
    brief={Reason.FREE_MEMORY: "too little memory free"},
)
