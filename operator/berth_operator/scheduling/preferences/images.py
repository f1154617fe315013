"""Image locality: nodes that have a pod's images already, by kube-scheduler's rule (`image_index`)."""

from typing import Final

from berth_operator.scheduling import node_table, questions
from berth_operator.scheduling.constraints.constraint import DependsOn
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.preferences.preference import Preference


def applies_to(inventory: Inventory, question: questions.Question) -> bool:
    """Whether any node has one of the pod's images."""
    names = question.demand.images
    return bool(names) and bool(inventory.hints.images) and inventory.hints.images.knows(names)


def raw(query: Query) -> node_table.Scores:
    """Return how much of its images each node has, from 0 to 1."""
    inventory, hints = query.inventory, query.inventory.hints
    parts: node_table.Scores = hints.images.parts(query.question.demand.images, inventory.size, hints.nodes)[
        query.rows
    ]
    return parts


# How far an image has spread depends on all nodes, and pods that share an answer may have other images.
PREFERENCE: Final = Preference(
    name="images",
    applies_to=applies_to,
    raw=raw,
    depends_on=DependsOn.CLUSTER,
    of_each_pod=True,
    stated=False,
)
