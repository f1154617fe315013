"""Taints with the effect PreferNoSchedule: the fewer of a node's the pod does not tolerate, the better."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts, taints
from berth_operator.scheduling.preferences.preference import Preference, below_the_most


def applies_to(inventory: Inventory, _: signatures.Signature) -> bool:
    """Whether any node has such a taint."""
    return bool(inventory.preference_index.soft_tainted)


def raw_scores(query: Query) -> node_table.Scores:
    """Return how many such taints of each node the pod does not tolerate."""
    tolerations, inventory = query.signature.demand.node_selection.tolerations, query.inventory
    counts = np.zeros(query.node_count)
    known: dict[facts.Taint, bool] = {}  # Many nodes have the same taints.
    for at, row in enumerate(np.arange(inventory.size)[query.rows].tolist()):
        if row in inventory.preference_index.soft_tainted and (info := inventory.infos[row]) and info.node:
            counts[at] = sum(_keeps_away(one, tolerations, known) for one in info.node.taints)
    return counts


def _keeps_away(
    taint: facts.Taint, tolerations: Iterable[facts.Toleration], known: dict[facts.Taint, bool]
) -> bool:
    if (found := known.get(taint)) is None:
        soft = taint.effect == facts.Effect.PREFER_NO_SCHEDULE
        found = known[taint] = soft and not any(taints.tolerates(one, taint) for one in tolerations)
    return found


PREFERENCE: Final = Preference(
    name="taints", applies_to=applies_to, raw_scores=raw_scores, normalised=below_the_most
)
