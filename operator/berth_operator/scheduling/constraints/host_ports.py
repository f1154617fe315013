"""Whether the host ports that the pod asks for are free on the node.

As in kube-scheduler: a port without an address is that port of all addresses.
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from berth_operator.scheduling import changes, node_table
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Objection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.wording import with_detail


def taken(query: Query, port: facts.HostPort) -> node_table.Mask:
    """Return the nodes on which a pod has this port."""
    inventory = query.inventory
    mask = np.zeros(inventory.size, dtype=np.bool_)
    mask[inventory.ports.rows_with(port)] = True
    return mask[query.rows]


def able(query: Query) -> node_table.Mask:
    """Return the nodes on which all the ports are free."""
    mask = np.ones(query.height, dtype=np.bool_)
    for port in query.question.demand.host_ports:
        mask &= ~taken(query, port)
    return mask


def transient(query: Query) -> Iterator[Objection]:
    """Yield the nodes on which a port is taken, port by port."""
    for port in query.question.demand.host_ports:
        yield Objection(taken(query, port), Reason.HOST_PORT_TAKEN, str(port))


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
        """Return which port it would do without."""
        return f"the host port {self.port} were not asked for"


def relaxations(failed: FailedPlacement) -> Iterator[changes.Option]:
    """Yield that the pod does without a port, port by port."""
    for port in failed.query.question.demand.host_ports:
        yield changes.Option([DropHostPort(port=port)])


CONSTRAINT = Constraint(
    name="host ports",
    applies_to=lambda question: bool(question.demand.host_ports),
    able=able,
    transient=transient,
    relaxations=relaxations,
    words={Reason.HOST_PORT_TAKEN: with_detail("has no free host port", "have no free host port")},
    brief={Reason.HOST_PORT_TAKEN: "host port taken"},
)
