"""Spread by default: pods of one controller that say nothing of it, over nodes and zones.

As by kube-scheduler, the figures are those of soft spread (`spread`) by two constraints, but a node that
lacks the label of one is not charged for that one. Pods that share a signature may belong to different
controllers, so this is asked of each pod. Of a pod that asks for devices the strategy says where it is best.
"""

from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.constraints import topologies
from berth_operator.scheduling.constraints.constraint import DependsOn
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.preferences import spread
from berth_operator.scheduling.preferences.preference import Preference

# The default constraints of kube-scheduler; which pods count is told otherwise than by a selector.
CONSTRAINTS: Final = tuple(
    facts.SpreadConstraint(key, skew, facts.PodSelector())
    for key, skew in ((spread.HOST, 3), ("topology.kubernetes.io/zone", 5))
)


def applies_to(_: Inventory, signature: signatures.Signature) -> bool:
    """Whether the pod has a controller that spreads its pods, asks for no device, and does not say how."""
    demand = signature.demand
    if not demand.controller or signature.need.any_device:
        return False
    required, preferred = demand.inter_pod_rules, demand.preferred_pods
    return not ((required is not None and required.spread) or (preferred is not None and preferred.spread))


def raw_scores(query: Query) -> node_table.Scores:
    """Return how much speaks against each node, for the nodes that pass the filters."""
    pods, found = _pods_by_row(query), np.zeros(query.node_count)
    for one in CONSTRAINTS:
        of_rows = topologies.domains(query, one.topology_key)
        charged = of_rows[query.rows] != topologies.NO_DOMAIN
        against = spread.against(query, one, of_rows, pods, np.ones(query.node_count, np.bool_), (one,))
        found += np.where(charged, against, 0)
    return np.floor(found + 0.5)


def _pods_by_row(query: Query) -> node_table.Numbers:
    counts = np.zeros(query.inventory.size, dtype=np.int64)
    rows = query.inventory.pods.by_controller.rows(query.signature.demand.controller)
    counts[np.fromiter(rows, np.int64, len(rows))] = np.fromiter(rows.values(), np.int64, len(rows))
    return counts


PREFERENCE: Final = Preference(
    name="default_spread",
    applies_to=applies_to,
    raw_scores=raw_scores,
    normalised=spread.normalised,
    depends_on=DependsOn.CLUSTER,
    of_each_pod=True,
)
