"""Whether enough memory is free on all cards of the node together, whoever gets which of them.

Free is what is not promised, and no more than was measured lately. What each part of a constraint is for
stands in `constraint`.
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np

from berth_operator.scheduling import changes, node_table, queued_pods, signatures
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.gaps import gap
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import Deficit, Unit
from berth_operator.scheduling.wording import amount, have

MIB: Final = 1 << 20
NAME: Final = "card memory"


def asked(signature: signatures.Signature) -> bool:
    """Whether so much has to be free together."""
    return signature.grouping.memory_together > 0


def free(query: Query) -> node_table.Numbers:
    """Return for each node how much memory is free on its cards together."""
    table, rows = query.table, query.rows
    found: node_table.Numbers = node_table.total(table.free_memory(rows)) + table.pieces_memory[rows]
    return found


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes on which enough is free."""
    mask: node_table.Mask = free(query) >= query.signature.grouping.memory_together
    return mask


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes whose cards have less memory in all."""
    total = node_table.total(query.table.total[query.rows])
    there = (query.table.model[query.rows] != node_table.ABSENT).any(axis=1)
    few = there & (total < query.signature.grouping.memory_together)
    yield Rejection(few, Reason.CARD_MEMORY, never_fits=True)


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes on which too little is free now."""
    yield Rejection(~feasible(query), Reason.CARD_MEMORY)


def gaps(query: Query) -> Iterator[node_table.Scores]:
    """Yield what part of the memory is missing."""
    if asked(query.signature):
        yield gap(free(query), query.signature.grouping.memory_together)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RequireLess(changes.Change):
    """The pod requires less free memory on all cards of a node together, or none: then `free` is 0."""

    precedence: ClassVar = changes.Precedence.DROP_CONDITION
    deficit: Deficit

    def apply(self, scenario: changes.Scenario) -> changes.Scenario:
        """Return the scenario in which the pod requires as much as is free."""
        grouping = dataclasses.replace(scenario.request.grouping, memory_together=self.deficit.free)
        return dataclasses.replace(scenario, request=dataclasses.replace(scenario.request, grouping=grouping))

    def clause(self) -> str:
        """Return what comes after "would fit if" in an explanation."""
        if not self.deficit.free:
            return "the condition on the free memory of all cards of a node were dropped"
        wanted, there = (amount(Unit.BYTES, one) for one in (self.deficit.wanted, self.deficit.free))
        return f"it required {there} instead of {wanted} of free memory on all cards of a node"


def relaxations(failed: FailedPlacement) -> Iterator[changes.ProposedChange]:
    """Propose to require as much as is free on the best of the nodes that lack nothing else, or nothing."""
    query = failed.query
    wanted = query.signature.grouping.memory_together
    if not wanted:
        return
    rows = np.isin(np.arange(query.inventory.size)[query.rows], failed.rows_blocked_by_this_alone())
    most = int(free(query)[rows].max(initial=0)) // MIB * MIB
    least = sorted({most if most < wanted else 0, 0}, reverse=True)
    yield changes.ProposedChange(
        [
            RequireLess(deficit=deficit, cost=deficit.missing_fraction)
            for deficit in (Deficit(NAME, Unit.BYTES, wanted, one) for one in least)
        ]
    )


def remedies(scenario: changes.Scenario, _: object) -> Iterator[changes.ProposedChange]:
    """Propose to end the pods that hold memory of the node's cards."""
    holders = tuple(hold for hold in scenario.holds if any(share.memory for share in hold.shares))
    if scenario.request.grouping.memory_together and holders:
        yield changes.ProposedChange([changes.RemovePods(node=scenario.node.name, holds=holders)])


def _too_little(nodes: int, pod: queued_pods.PodInfo, _detail: str) -> str:
    wanted = amount(Unit.BYTES, pod.request.grouping.memory_together)
    return f"{have(nodes)} less than {wanted} of memory free on all cards together"


CONSTRAINT = Constraint(
    applies_to=asked,
    only_device_pods_lift_it=True,
    feasible=feasible,
    unresolvable=unresolvable,
    resolvable=resolvable,
    gaps=gaps,
    relaxations=relaxations,
    remedies=remedies,
    words={Reason.CARD_MEMORY: _too_little},
    brief={Reason.CARD_MEMORY: "too little card memory free"},
)
