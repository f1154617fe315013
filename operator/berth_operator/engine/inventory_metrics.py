"""What the metrics show of the ledger, counted when they are read."""

import numpy as np

from berth_operator import metrics
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import node_table, queued_pods


def description(ledger: Ledger) -> str:
    """Return the numbers of nodes, pods and binds, in a few words."""
    binding = len(ledger.assumed_pods)
    holds = sum(len(info.holds) for info in ledger.inventory.infos if info) - binding
    counts = (
        (len(ledger.inventory.index), "node"),
        (holds, "pod"),
        (binding, "bind"),
        (len(ledger.backlog) + len(ledger.gated), "pod"),
    )
    nodes, placed, binds, pods = (f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts)
    return f"{nodes}, {placed} placed, {binds} under way, {pods} waiting"


def count_stock(ledger: Ledger, now: float) -> metrics.InventoryCounts:
    """Count nodes, cards, and pods that are not placed."""
    inventory = ledger.inventory
    table, rows = inventory.table, inventory.everything
    free = np.maximum(0, node_table.count(table.whole[rows]) - table.withheld[rows])
    free[[at for at, info in enumerate(inventory.infos) if info and info.cordoned]] = 0
    return metrics.InventoryCounts(
        nodes=int(table.known[rows].sum()),
        cards=sum(len(info.device.cards) for info in inventory.infos if info and info.device),
        free=int(free.sum()),
        backlog=ledger.backlog.standings(now)
        | {
            queued_pods.Standing.GATED: len(ledger.gated),
            queued_pods.Standing.BINDING: len(ledger.assumed_pods),
        },
    )
