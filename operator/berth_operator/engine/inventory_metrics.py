"""How much there is: what the metrics show of the ledger, counted when somebody asks."""

import numpy as np

from berth_operator import metrics
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import node_table, queued_pods


def told(book: Ledger) -> str:
    """Return how much is known and how it stands, in a few words."""
    binding = len(book.assumed)
    holds = sum(len(row.holds) for row in book.picture.rows if row) - binding
    waiting = len(book.waiting) + len(book.gated)
    counts = ((len(book.picture.index), "node"), (holds, "pod"), (binding, "bind"), (waiting, "pod"))
    nodes, placed, binds, pods = (f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts)
    return f"{nodes}, {placed} placed, {binds} under way, {pods} waiting"


def take(book: Ledger, now: float) -> metrics.Stock:
    """Count nodes, cards, and pods that are not placed."""
    picture = book.picture
    table, rows = picture.columns, picture.everything
    free = np.maximum(0, node_table.count(table.whole[rows]) - table.withheld[rows])
    free[[at for at, row in enumerate(picture.rows) if row and row.cordoned]] = 0
    return metrics.Stock(
        nodes=int(table.known[rows].sum()),
        cards=sum(len(row.device.cards) for row in picture.rows if row and row.device),
        free=int(free.sum()),
        backlog=book.waiting.standings(now)
        | {queued_pods.Standing.GATED: len(book.gated), queued_pods.Standing.BINDING: len(book.assumed)},
    )
