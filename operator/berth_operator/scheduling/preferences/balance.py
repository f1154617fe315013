"""Balance: nodes of which the pod leaves cpu and memory used in like parts, by kube-scheduler's rule.

How full a node's cpu and memory are is the strategy's, and how they are balanced is said here alone, so that
neither counts twice. It is for pods without devices: on a node with cards, cpu and memory are kept in
proportion to the cards, by the strategy.
"""

from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.preferences.preference import Preference

BALANCED: Final = (facts.CPU, facts.MEMORY)


def applies_to(_: Inventory, signature: signatures.Signature) -> bool:
    """Whether a pod without devices asks for cpu or memory."""
    return not signature.need.any_device and any(name in BALANCED for name, _ in signature.demand.amounts)


def raw_scores(query: Query) -> node_table.Scores:
    """Return 1 less the standard deviation of the used parts of cpu and memory after the placement."""
    cpu, memory = (_used_part(query, name) for name in BALANCED)
    balance: node_table.Scores = 1 - np.abs(cpu - memory) / 2
    return balance


def _used_part(query: Query, name: str) -> node_table.Scores:
    column = query.table.resources.of[name]
    total, left = (one[query.rows, column] for one in (query.table.allocatable, query.table.left))
    used = total - left + dict(query.signature.demand.amounts).get(name, 0)
    part: node_table.Scores = np.clip(used / np.maximum(total, 1), 0, 1)
    return part


PREFERENCE: Final = Preference(
    name="balance", applies_to=applies_to, raw_scores=raw_scores, stated=False, beside_others=True
)
