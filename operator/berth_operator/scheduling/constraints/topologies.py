"""Pods counted by domain: what topology spread and pod affinity share.

Everything is of all rows of the inventory, not only of those that are queried: pods on other nodes count.
"""

from collections.abc import Collection
from typing import Final

from berth_operator.scheduling import domains as node_domains
from berth_operator.scheduling import node_table, pod_index
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.nodes import facts

NO_DOMAIN: Final = node_domains.NO_DOMAIN
sums = node_domains.sums
MOST_SELECTORS_KEPT: Final = 8  # Of one pod; the counts of those that have more are not kept.


def domains(query: Query, key: str) -> node_table.Numbers:
    """Return the domain of each row by a label.

    A term that stands for too many has no key (`inter_pod_rules.coarse_anti_affinity`): for it each row is a
    domain.
    """
    return node_domains.of_rows(query.inventory.node_labels(), key, query.inventory.size)


def somewhere(query: Query, key: str) -> bool:
    """Whether any node has a label, so that there is a domain of it."""
    keys = query.inventory.node_labels().keys()
    return not key or key in keys


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
    return node_domains.with_any(rows, domains(query, key))
