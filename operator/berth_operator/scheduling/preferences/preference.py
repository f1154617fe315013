"""What a preference is: a figure for each node, as a Score plugin of kube-scheduler gives."""

import dataclasses
from collections.abc import Callable

import numpy as np

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.constraints.constraint import DependsOn
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory


def as_it_is(raw_scores: node_table.Scores) -> node_table.Scores:
    """Return figures that are from 0 to 1 already, and depend on no other node."""
    return raw_scores


def of_the_most(raw_scores: node_table.Scores) -> node_table.Scores:
    """Return the parts of the largest figure of all these nodes; zeros if it is zero."""
    most = raw_scores.max()
    return raw_scores / most if most > 0 else np.zeros(len(raw_scores))


def below_the_most(raw_scores: node_table.Scores) -> node_table.Scores:
    """Return how far each figure, of which less is better, is below the largest, in parts of that."""
    parts: node_table.Scores = 1 - of_the_most(raw_scores)
    return parts


def between_least_and_most(raw_scores: node_table.Scores) -> node_table.Scores:
    """Return where each figure is between the least (0) and the most (1); zeros if all are equal."""
    least, most = raw_scores.min(), raw_scores.max()
    return (raw_scores - least) / (most - least) if most > least else np.zeros(len(raw_scores))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    """One preference.

    `name` is that of its weight in `policy.PreferenceWeights`. `raw_scores` returns a figure for each node of
    a query, and `normalised` makes parts from 0 to 1 of the figures of all nodes that pass the filters. The
    figures of one that depends on the NODE alone are remembered with the scores; those of one that depends on
    the CLUSTER are asked anew each time, of the nodes that pass the filters. With `of_each_pod` pods with the
    same signature may have other figures. `stated` is whether people say so, of the pod or of a node: then it
    counts before what nobody has said.
    """

    name: str
    applies_to: Callable[[Inventory, signatures.Signature], bool]
    raw_scores: Callable[[Query], node_table.Scores]
    normalised: Callable[[node_table.Scores], node_table.Scores] = as_it_is
    depends_on: DependsOn = DependsOn.NODE
    of_each_pod: bool = False
    stated: bool = True
    beside_others: bool = False  # Whether it counts only where the pod or a node states another one.
