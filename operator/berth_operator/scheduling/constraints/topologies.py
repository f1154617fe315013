"""Pods counted by domain: the nodes that have the same value of a label, such as a zone, are one domain.

What topology spread and pod affinity share. Nodes are rows, the domains of a label are numbered from 1, and 0
stands for no domain: the node does not have the label, or does not count. Everything is of all rows of the
inventory, not only of those that are queried: pods on other nodes count.
"""

from collections.abc import Collection
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, pod_index
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.nodes import facts

NO_DOMAIN = 0
MOST_SELECTORS_KEPT: Final = 8  # Of one pod; the counts of those that have more are not kept.


def domains(query: Query, key: str) -> node_table.Numbers:
    """Return the domain of each row by a label.

    A term that stands for too many has no key (`inter_pod_rules.coarse_anti_affinity`): for it each row is a
    domain.
    """
    if not key:
        return np.arange(1, query.inventory.size + 1)
    return query.inventory.node_labels().of(key).codes


def sums(of_rows: node_table.Numbers | node_table.Counts, domains_: node_table.Numbers) -> node_table.Numbers:
    """Return the sum of each domain of something that was counted by row; for no domain it is 0."""
    found: node_table.Numbers = np.bincount(domains_, weights=of_rows, minlength=1).astype(np.int64)
    found[NO_DOMAIN] = 0
    return found


def counts(
    query: Query, *selectors: facts.PodSelector, exclude_terminating: bool = False
) -> node_table.Counts:
    """Return how many pods all these selectors select on each row."""
    key = pod_index.CounterKey(selectors, exclude_terminating)
    keep = _count_selectors(query.signature.demand) <= MOST_SELECTORS_KEPT
    return query.inventory.pods.counts(key, query.inventory.size, keep=keep)


def _count_selectors(demand: facts.NodeDemand) -> int:
    """Return how many selectors of pods a pod has."""
    required, preferred = demand.inter_pod_rules, demand.preferred_pods
    count = 0
    if required is not None:
        count += len(required.spread) + len(required.affinity) + len(required.anti_affinity)
    if preferred is not None:
        count += len(preferred.terms) + len(preferred.spread)
    return count


def in_domains_of(query: Query, rows: Collection[int], key: str) -> node_table.Mask:
    """Return the rows that are in one domain with any of these."""
    of_rows = domains(query, key)
    meant = np.zeros(int(of_rows.max(initial=0)) + 1, dtype=np.bool_)
    meant[of_rows[list(rows)]] = True
    meant[NO_DOMAIN] = False
    found: node_table.Mask = meant[of_rows]
    return found
