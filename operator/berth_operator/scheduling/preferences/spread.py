"""Soft topology spread (`ScheduleAnyway`), by the rules of kube-scheduler's plugin PodTopologySpread.

For each constraint, a node has as many points against it as there are pods in its domain that the constraint
selects, times a weight that grows with the number of domains among the nodes that pass the filters. So a zone
counts about as much as a host, of which there are many more. What is added for `maxSkew` makes the same
difference between domains matter less. A node without the label of one of the constraints has no points; by
constraints that a pod has by default (`translate.default_spread`) nothing is counted against it for that one.

What counts in a domain is as in `constraints.topology_spread`, but that a host counts by itself.
"""

import math
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, questions
from berth_operator.scheduling.constraints import topologies, topology_spread
from berth_operator.scheduling.constraints.constraint import DependsOn
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.preferences.preference import Preference

HOST: Final = "kubernetes.io/hostname"
NO_LABEL: Final = -1.0  # Of a node that lacks a label; no other figure is below zero.


def asked(question: questions.Question) -> tuple[facts.SpreadConstraint, ...]:
    """Return the constraints of the pod that may be missed."""
    preferred = question.demand.preferred_pods
    return preferred.spread if preferred is not None else ()


def applies_to(_: Inventory, question: questions.Question) -> bool:
    """Whether the pod has such a constraint."""
    return bool(asked(question))


def raw(query: Query) -> node_table.Scores:
    """Return how much speaks against each node, for the nodes that pass the filters."""
    constraints = asked(query.question)
    labelled = [
        topologies.domains(query, one.topology_key)[query.rows] != topologies.NO_DOMAIN for one in constraints
    ]
    counted = np.logical_and.reduce(labelled) if not _by_default(query) else np.ones(query.height, np.bool_)
    found = np.zeros(query.height)
    for one, has_label in zip(constraints, labelled, strict=True):
        against = _pods(query, one) * _weight(query, one, counted) + (one.max_skew - 1)
        found += np.where(has_label, against, 0)
    return np.where(counted, np.floor(found + 0.5), NO_LABEL)


def _by_default(query: Query) -> bool:
    preferred = query.question.demand.preferred_pods
    return preferred is not None and preferred.spread_by_default


def _pods(query: Query, constraint: facts.SpreadConstraint) -> node_table.Numbers:
    """Return how many pods count in the domain of each node."""
    if not constraint.selector.expressions:
        return np.zeros(query.height, dtype=np.int64)
    of_rows = topologies.domains(query, constraint.topology_key)
    pods = topologies.counts(query, constraint.selector, staying=True)
    if constraint.topology_key == HOST:
        return pods[query.rows]
    required = (constraint,) if _by_default(query) else asked(query.question)
    countable = topology_spread.countable(query, constraint, required)
    sums = topologies.sums(np.where(countable, pods, 0), of_rows)
    return sums[of_rows[query.rows]]


def _weight(query: Query, constraint: facts.SpreadConstraint, counted: node_table.Mask) -> float:
    """Return the weight of a constraint, by the number of domains among the nodes that count."""
    of_rows = topologies.domains(query, constraint.topology_key)[query.rows][counted]
    domains = len(of_rows) if constraint.topology_key == HOST else len(np.unique(of_rows))
    return math.log(domains + 2)


def normalised(found: node_table.Scores) -> node_table.Scores:
    """Return the parts: all for the least of these figures, and the less the larger one is."""
    labelled = found != NO_LABEL
    parts: node_table.Scores = labelled.astype(np.float64)
    most, least = found.max(initial=0), found[labelled].min(initial=math.inf)
    if most > 0:
        parts *= (most + least - found) / most
    return parts


PREFERENCE: Final = Preference(
    name="spread", applies_to=applies_to, raw=raw, normalised=normalised, depends_on=DependsOn.CLUSTER
)
