"""Whether a node that gives whole cards in partitions only has a free one of the size.

Which partitions they are is in the node's table; a label of the node says that nothing else is given out.
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from berth_crds import names
from berth_crds.vocabulary import PartitionPolicy
from berth_operator.scheduling import changes, node_table, queued_pods, signatures
from berth_operator.scheduling.changes import ProposedChange, Scenario
from berth_operator.scheduling.constraints.constraint import Constraint, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import scopes
from berth_operator.scheduling.wording import clipped, have


def asked(signature: signatures.Signature) -> bool:
    """Whether whole cards are asked for."""
    return bool(signature.need.whole_cards)


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes that give any cards, or have a free partition of the size."""
    table, rows = query.table, query.rows
    if not table.honoring:
        return table.has_node[rows]  # As on most clusters: nothing to compute.
    size = min(query.need.whole_cards, scopes.LARGEST)
    mask: node_table.Mask = (table.partition_sizes[rows] >> size & 1) == 1
    return mask & table.has_node[rows]


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that have none."""
    if query.table.honoring:
        yield Rejection(~feasible(query), Reason.PARTITIONS_HONORED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PreferPartitions(changes.Change):
    """The node gives whole cards in partitions where it can, and else others."""

    precedence: ClassVar = changes.Precedence.REPAIR

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario in which it does."""
        node = dataclasses.replace(scenario.node, honors_partitions=False)
        return dataclasses.replace(scenario, node=node)

    def clause(self) -> str:
        """Return which label would say so."""
        return f"{clipped(self.node)} had the label {names.PARTITION_POLICY}={PartitionPolicy.PREFER}"


def remedies(scenario: Scenario, _: object) -> Iterator[ProposedChange]:
    """Yield the label, where the node or its Device says otherwise."""
    said = scenario.node.honors_partitions
    if said or (said is None and scenario.device is not None and scenario.device.honors_partitions):
        yield ProposedChange([PreferPartitions(node=scenario.node.name)])


def _words(nodes: int, pod: queued_pods.PodInfo, _: str) -> str:
    gives = "gives" if nodes == 1 else "give"
    count = pod.request.need.whole_cards
    cards = "1 card" if count == 1 else f"{count} cards"
    return f"{have(nodes)} no free partition of {cards} and {gives} whole cards in partitions only"


CONSTRAINT = Constraint(
    only_device_pods_lift_it=True,
    applies_to=asked,
    feasible=feasible,
    resolvable=resolvable,
    remedies=remedies,
    words={Reason.PARTITIONS_HONORED: _words},
    brief={Reason.PARTITIONS_HONORED: "no free partition, and no other cards are given"},
)
