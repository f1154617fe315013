"""Whether the node gives a container as many replicas of shared cards as it asks for.

Several replicas bring a container no more of a card than one, so NVIDIA's plugin may be told to refuse them.
"""

from collections.abc import Iterator

import numpy as np

from berth_operator.scheduling import node_table, signatures
from berth_operator.scheduling.constraints.constraint import Constraint, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.wording import nodes_that


def asked(signature: signatures.Signature) -> bool:
    """Whether a container asks for several replicas."""
    return signature.need.replicas_each > 1


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes that give a container any number of them."""
    mask: node_table.Mask = ~query.table.one_replica_each[query.rows]
    return mask if asked(query.signature) else np.ones(query.node_count, dtype=np.bool_)


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that give it one."""
    yield Rejection(~feasible(query), Reason.ONE_REPLICA_EACH, never_fits=True)


CONSTRAINT = Constraint(
    applies_to=asked,
    feasible=feasible,
    unresolvable=unresolvable,
    words={
        Reason.ONE_REPLICA_EACH: nodes_that(
            "gives a container one replica at most: ask for one in each",
            "give a container one replica at most: ask for one in each",
        ),
    },
    brief={Reason.ONE_REPLICA_EACH: "one replica for each container"},
)
