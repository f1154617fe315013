"""Preferred pod affinity and anti-affinity, by the rules of kube-scheduler's plugin InterPodAffinity.

For each term, a node has the term's weight as often as there are pods in its domain that the term means; of
anti-affinity the weight is below zero. Terms of pods on nodes that mean the asking pod count likewise, as
often as there are such pods; those of required affinity have the weight 1. A node without the label of a term
has nothing of it. The node with the largest sum has all points, the one with the smallest none. Pods that are
being deleted still count.
"""

from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.constraints import topologies
from berth_operator.scheduling.constraints.constraint import DependsOn
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.preferences.preference import Preference, between_least_and_most


def applies_to(_: Inventory, signature: signatures.Signature) -> bool:
    """Whether the pod has such a term, or a pod on a node has one that means it."""
    preferred = signature.demand.preferred_pods
    return preferred is not None and bool(preferred.terms or preferred.of_others)


def raw_scores(query: Query) -> node_table.Scores:
    """Return for each node the weights of the terms, as often as pods are nearby that they mean."""
    preferred, pods = query.signature.demand.preferred_pods or facts.PreferredPods(), query.inventory.pods
    found = np.zeros(query.node_count)
    for one in preferred.terms:
        if topologies.somewhere(query, one.term.topology_key):
            counts = topologies.counts(query, one.term.selector)
            found += one.weight * _in_domain(query, one.term.topology_key, counts)
    if preferred.of_others:
        found += pods.weights_near(preferred.of_others, query.inventory.size)[query.rows]
    return found


def _in_domain(query: Query, key: str, by_row: node_table.Numbers | node_table.Counts) -> node_table.Numbers:
    """Return for each node the sum in its domain of something that was counted by row."""
    of_rows = topologies.domains(query, key)
    return topologies.sums(by_row, of_rows)[of_rows[query.rows]]


PREFERENCE: Final = Preference(
    name="pod_affinity",
    applies_to=applies_to,
    raw_scores=raw_scores,
    normalised=between_least_and_most,
    depends_on=DependsOn.CLUSTER,
)
