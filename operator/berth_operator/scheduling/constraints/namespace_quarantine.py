"""Whether the node is quarantined for the namespace of the pod: its kubelet rejects pods of it.

What would lift it is proposed in `agent_state`, where a node that is quarantined for all namespaces is
refused.
"""

import collections
from collections.abc import Iterator

from berth_operator.scheduling import node_table
from berth_operator.scheduling.constraints.constraint import Constraint, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes that are not quarantined for the pod's namespace."""
    return ~query.nodes_named(name for name, _ in query.signature.demand.quarantined_nodes)


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the quarantined nodes, by what their kubelets say."""
    by_cause = collections.defaultdict[str, list[str]](list)
    for name, why in query.signature.demand.quarantined_nodes:
        by_cause[why].append(name)
    for why, names in sorted(by_cause.items()):
        yield Rejection(query.nodes_named(names), Reason.QUARANTINED, why)


CONSTRAINT = Constraint(
    applies_to=lambda signature: bool(signature.demand.quarantined_nodes),
    feasible=feasible,
    unresolvable=unresolvable,
    words={},  # Those of `agent_state`.
    brief={},
)
