"""Nodes that have the same value of a label, such as a zone, are one domain: sums by domain.

Nodes are rows, the domains of a label are numbered from 1, and 0 stands for no domain: the node does not have
the label, or does not count.
"""

from collections.abc import Collection
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.nodes import labels

NO_DOMAIN: Final = labels.ABSENT


def of_rows(node_labels: labels.Labels, key: str, size: int) -> node_table.Numbers:
    """Return the domain of each of so many rows by a label; without a key each row is a domain."""
    return node_labels.of(key).codes if key else np.arange(1, size + 1)


def sums(by_row: node_table.Numbers | node_table.Counts, domains: node_table.Numbers) -> node_table.Numbers:
    """Return the sum of each domain of something that was counted by row; for no domain it is 0."""
    found: node_table.Numbers = np.bincount(domains, weights=by_row, minlength=1).astype(np.int64)
    found[NO_DOMAIN] = 0
    return found


def with_any(rows: Collection[int], domains: node_table.Numbers) -> node_table.Mask:
    """Return the rows that are in one domain with any of these."""
    meant = np.zeros(int(domains.max(initial=0)) + 1, dtype=np.bool_)
    meant[domains[list(rows)]] = True
    meant[NO_DOMAIN] = False
    found: node_table.Mask = meant[domains]
    return found
