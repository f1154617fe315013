"""Whether the node's agent speaks for its devices: it publishes some, reports, and can read them."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from berth_operator.scheduling import node_table, queued_pods
from berth_operator.scheduling.constraints.constraint import Constraint, Objection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.wording import have, noun, plain, short

NOTHING_THERE: Final = (Reason.NOT_PUBLISHED, Reason.NO_DEVICE)


def standing(query: Query) -> Iterator[Objection]:
    """Yield the nodes that give out no device at all, by their state."""
    if not query.need.asked:
        return
    state = query.table.state[query.rows]
    for number, reason in enumerate(node_table.STATES):
        if reason is Reason.SOURCE_FAILED:
            yield from _failed_sources(query, state == number)
        elif reason is not None:
            yield Objection(state == number, reason, never=reason in NOTHING_THERE)


def _failed_sources(query: Query, failed: node_table.Mask) -> Iterator[Objection]:
    """Yield which source failed; these nodes are few."""
    rows = np.arange(query.inventory.size)[query.rows]
    for at in np.flatnonzero(failed).tolist():
        info = query.inventory.infos[int(rows[at])]
        one = np.zeros(query.height, dtype=np.bool_)
        one[at] = True
        yield Objection(one, Reason.SOURCE_FAILED, info.device.failed if info and info.device else "")


def _unread(nodes: int, _pod: queued_pods.Candidate, detail: str) -> str:
    cards = "its cards" if nodes == 1 else "their cards"
    return f"{nodes} cannot read {cards}" + (f" ({short(detail)})" if detail else "")


CONSTRAINT = Constraint(
    name="agent state",
    asked=lambda question: question.need.asked,
    standing=standing,
    words={
        Reason.NOT_PUBLISHED: plain(
            "has no Device: no agent publishes cards there", "have no Device: no agent publishes cards there"
        ),
        Reason.NO_DEVICE: lambda nodes, _, detail: (
            f"{have(nodes)} no {noun(detail, 2) if detail else 'cards'}"
        ),
        Reason.SILENT: plain("has a silent agent", "have silent agents"),
        Reason.SOURCE_FAILED: _unread,
    },
    brief={
        Reason.NOT_PUBLISHED: "no Device",
        Reason.NO_DEVICE: "no cards",
        Reason.SILENT: "silent agent",
        Reason.SOURCE_FAILED: "cannot read its cards",
    },
)
