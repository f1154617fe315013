"""Image locality: nodes that have a pod's images already, by kube-scheduler's rule (`image_index`).

How much it weighs is said by `policy.PreferenceWeights`.
"""

from typing import Final

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.constraints.constraint import DependsOn
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.preferences.preference import Preference


def applies_to(inventory: Inventory, signature: signatures.Signature) -> bool:
    """Whether any node has one of the pod's images."""
    demand, known = signature.demand, inventory.preference_index.images
    return bool(demand.images) and bool(known) and known.knows((*demand.images, *demand.volume_images))


def raw_scores(query: Query) -> node_table.Scores:
    """Return how much of its images each node has, from 0 to 1."""
    inventory, index, demand = query.inventory, query.inventory.preference_index, query.signature.demand
    found = index.images.parts((demand.images, demand.volume_images), inventory.size, index.nodes)
    parts: node_table.Scores = found[query.rows]
    return parts


# How far an image has spread depends on all nodes, and pods that share an answer may have other images.
PREFERENCE: Final = Preference(
    name="images",
    applies_to=applies_to,
    raw_scores=raw_scores,
    depends_on=DependsOn.CLUSTER,
    of_each_pod=True,
    stated=False,
)
