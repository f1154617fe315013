"""Preferred node affinity: the sum of the weights of the terms that a node meets, against the best node.

As in kube-scheduler's plugin NodeAffinity, an empty term is met by no node.
"""

from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import affinity, facts
from berth_operator.scheduling.preferences.preference import Preference, of_the_most

FEW: Final = 8  # Nodes that are asked one by one; for more, columns of all labels are faster.


def applies_to(_: Inventory, signature: signatures.Signature) -> bool:
    """Whether the pod has preferred terms."""
    return bool(signature.demand.preferred)


def raw_scores(query: Query) -> node_table.Scores:
    """Return for each node the weights of the terms that it meets."""
    preferred, inventory = query.signature.demand.preferred, query.inventory
    if query.node_count <= FEW:
        infos = (inventory.infos[row] for row in np.arange(inventory.size)[query.rows].tolist())
        nodes = [info.node if info is not None else None for info in infos]
        return np.array([_weight(preferred, node) for node in nodes], dtype=np.float64)
    sums = np.zeros(query.node_count)
    for one in preferred:
        sums += one.weight * inventory.nodes_matching((one.term,))[query.rows]
    return sums


def _weight(preferred: tuple[facts.PreferredTerm, ...], node: facts.Node | None) -> int:
    if node is None:
        return 0
    return sum(one.weight for one in preferred if affinity.term_holds(one.term, node))


PREFERENCE: Final = Preference(
    name="node_affinity", applies_to=applies_to, raw_scores=raw_scores, normalised=of_the_most
)
