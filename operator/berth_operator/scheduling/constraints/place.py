"""Whether the node is one on which the pod may run: cordon, taints, node selector, node affinity.

The answer depends on the node's name, labels and taints alone, so the inventory keeps it
until one of these changes.
"""

from collections.abc import Iterator

from berth_operator.scheduling import node_table
from berth_operator.scheduling.constraints.constraint import Constraint, Objection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.wording import plain, with_detail


def able(query: Query) -> node_table.Mask:
    """Return the nodes on which the pod may run."""
    mask: node_table.Mask = query.inventory.places(query.question.demand.where).code[query.rows] == 0
    return mask


def standing(query: Query) -> Iterator[Objection]:
    """Yield the nodes on which it may not run, by the first thing that keeps it away."""
    places = query.inventory.places(query.question.demand.where)
    for number, why in enumerate(places.reasons, start=1):
        yield Objection(places.code[query.rows] == number, *why)


CONSTRAINT = Constraint(
    name="place",
    able=able,
    standing=standing,
    words={
        Reason.UNSCHEDULABLE: plain("is cordoned", "are cordoned"),
        Reason.TAINTED: with_detail("has the untolerated taint", "have the untolerated taint"),
        Reason.SELECTOR_MISMATCH: plain(
            "does not match the node selector or affinity", "do not match the node selector or affinity"
        ),
    },
    brief={
        Reason.UNSCHEDULABLE: "cordoned",
        Reason.TAINTED: "taint",
        Reason.SELECTOR_MISMATCH: "node selector or affinity",
    },
)
