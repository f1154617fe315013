"""Soft topology spread (`ScheduleAnyway`), by the rules of kube-scheduler's plugin PodTopologySpread.

For each constraint, a node has as many points against it as there are pods in its domain that the constraint
selects, times a weight that grows with the number of domains among the nodes that pass the filters. So a zone
counts about as much as a host, of which there are many more. What is added for `maxSkew` makes the same
difference between domains matter less. A node that lacks the label of any constraint gets the lowest score.

What counts in a domain is as in `constraints.topology_spread`, but that a host counts by itself.
"""

import math
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.constraints import topologies, topology_spread
from berth_operator.scheduling.constraints.constraint import DependsOn
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.preferences.preference import Preference

HOST: Final = "kubernetes.io/hostname"
NO_LABEL: Final = -1.0  # Of a node that lacks a label; no other figure is below zero.


def asked(signature: signatures.Signature) -> tuple[facts.SpreadConstraint, ...]:
    """Return the constraints of the pod that may be missed."""
    preferred = signature.demand.preferred_pods
    return preferred.spread if preferred is not None else ()


def applies_to(_: Inventory, signature: signatures.Signature) -> bool:
    """Whether the pod has such a constraint."""
    return bool(asked(signature))


def raw_scores(query: Query) -> node_table.Scores:
    """Return how much speaks against each node, for the nodes that pass the filters."""
    constraints = asked(query.signature)
    domains = [topologies.domains(query, one.topology_key) for one in constraints]
    labelled = np.logical_and.reduce([of_rows[query.rows] != topologies.NO_DOMAIN for of_rows in domains])
    found = np.zeros(query.node_count)
    for one, of_rows in zip(constraints, domains, strict=True):
        pods = (
            topologies.counts(query, one.selector, exclude_terminating=True)
            if one.selector.expressions
            else np.zeros(query.inventory.size, dtype=np.int32)
        )
        found += against(query, one, of_rows, pods, labelled, constraints)
    return np.where(labelled, np.floor(found + 0.5), NO_LABEL)


def against(
    query: Query,
    constraint: facts.SpreadConstraint,
    of_rows: node_table.Numbers,
    pods: node_table.Numbers | node_table.Counts,
    counted: node_table.Mask,
    needed: tuple[facts.SpreadConstraint, ...],
) -> node_table.Scores:
    """Return how much speaks against each node by one constraint.

    `of_rows` are the domains and `pods` how many pods there are, both by row; `counted` are the nodes asked
    whose domains count, and pods count on nodes with the labels of all the `needed` constraints.
    """
    if constraint.topology_key == HOST:
        nearby, domains = pods[query.rows], int(np.count_nonzero(counted))
    else:
        countable = topology_spread.countable(query, constraint, needed)
        nearby = topologies.sums(np.where(countable, pods, 0), of_rows)[of_rows[query.rows]]
        domains = len(np.unique(of_rows[query.rows][counted]))
    return np.asarray(nearby * math.log(domains + 2) + (constraint.max_skew - 1), dtype=np.float64)


def normalised(found: node_table.Scores) -> node_table.Scores:
    """Return 1 for the lowest figure, less for higher ones, and 0 without a label."""
    labelled = found != NO_LABEL
    parts: node_table.Scores = labelled.astype(np.float64)
    most, least = found.max(initial=0), found[labelled].min(initial=math.inf)
    if most > 0:
        parts *= (most + least - found) / most
    return parts


PREFERENCE: Final = Preference(
    name="spread",
    applies_to=applies_to,
    raw_scores=raw_scores,
    normalised=normalised,
    depends_on=DependsOn.CLUSTER,
)
