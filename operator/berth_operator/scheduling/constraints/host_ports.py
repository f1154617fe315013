"""Whether the host ports that the pod asks for are free on the node.

As in kube-scheduler: a port without an address (`hostIP`) conflicts with that port on every one. What each
part of a constraint is for stands in `constraint`.
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from berth_operator.scheduling import changes, exclusive_use, node_table, queued_pods
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.wording import clipped, have


def taken(query: Query, port: facts.HostPort) -> node_table.Mask:
    """Return the nodes on which a pod has this port."""
    return query.inventory.ports.taken(port, query.inventory.size)[query.rows]


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes on which all the ports are free."""
    return query.inventory.ports.free(query.signature.demand.host_ports, query.inventory.size)[query.rows]


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the rejections of the nodes on which a port is taken, port by port."""
    for port in query.signature.demand.host_ports:
        yield Rejection(taken(query, port), Reason.HOST_PORT_TAKEN, str(port))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropHostPort(changes.Change):
    """The pod does without a host port."""

    precedence: ClassVar = changes.Precedence.DROP_CONDITION
    port: facts.HostPort

    def apply(self, scenario: changes.Scenario) -> changes.Scenario:
        """Return the scenario in which the pod does not ask for the port."""
        ports = tuple(one for one in scenario.demand.host_ports if one != self.port)
        return dataclasses.replace(scenario, demand=dataclasses.replace(scenario.demand, host_ports=ports))

    def clause(self) -> str:
        """Return what comes after "would fit if" in an explanation."""
        return f"it did not request host port {self.port}"


def gaps(query: Query) -> Iterator[node_table.Scores]:
    """Yield for each node what part of the requested ports is taken there: 0 if none is, 1 if all are."""
    ports = query.signature.demand.host_ports
    if ports:
        yield np.mean([taken(query, port) for port in ports], axis=0)


def relaxations(failed: FailedPlacement) -> Iterator[changes.ProposedChange]:
    """Propose to drop, one at a time, the ports that are taken on the nodes with the fewest taken ports."""
    ports, query = failed.query.signature.demand.host_ports, failed.query
    rows = np.isin(np.arange(query.inventory.size)[query.rows], failed.rows_blocked_by_this_alone())
    found = np.array([taken(query, port)[rows] for port in ports])
    counts = found.sum(axis=0)
    fewest = counts == np.min(counts, initial=len(ports), where=counts > 0)
    for port, nodes in zip(ports, found, strict=True):
        if (nodes & fewest).any():
            yield changes.ProposedChange([DropHostPort(port=port)])


def remedies(scenario: changes.Scenario, _: object) -> Iterator[changes.ProposedChange]:
    """Propose to end the pods that have the ports."""
    asked = scenario.demand.host_ports
    holders = tuple(hold for hold in scenario.holds if exclusive_use.conflict(asked, hold.host_ports))
    if holders:
        yield changes.ProposedChange([changes.RemovePods(node=scenario.node.name, holds=holders)])


def _in_use(nodes: int, _pod: queued_pods.PodInfo, detail: str) -> str:
    return f"{have(nodes)} host port {clipped(detail)} in use"


CONSTRAINT = Constraint(
    applies_to=lambda signature: bool(signature.demand.host_ports),
    feasible=feasible,
    resolvable=resolvable,
    gaps=gaps,
    relaxations=relaxations,
    remedies=remedies,
    words={Reason.HOST_PORT_TAKEN: _in_use},
    brief={Reason.HOST_PORT_TAKEN: "host port in use"},
)
