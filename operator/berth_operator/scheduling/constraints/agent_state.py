"""Whether the node's devices are given out: its agent publishes some, reports, and can read them.

And its kubelet admits pods that have some.
"""

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import ClassVar, Final

import numpy as np

from berth_operator.scheduling import changes, node_info, node_table, queued_pods
from berth_operator.scheduling.changes import ProposedChange, Scenario
from berth_operator.scheduling.constraints.constraint import Constraint, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.wording import are, clipped, have, nodes_that, noun

NOTHING_THERE: Final = (Reason.NOT_PUBLISHED, Reason.NO_DEVICE)
# Which source failed, and why the node is quarantined.
DETAILED: Final[Mapping[Reason, Callable[[node_info.NodeInfo], str]]] = {
    Reason.SOURCE_FAILED: lambda info: info.device.failed if info.device else "",
    Reason.QUARANTINED: lambda info: info.quarantine,
}


def unresolvable(query: Query) -> Iterator[Rejection]:
    """Yield the nodes that give out no device at all, by their state."""
    if not query.need.any_device:
        return
    state = query.table.state[query.rows]
    if not state.any():
        return
    nodes = np.bincount(state, minlength=len(node_table.NO_DEVICES_REASONS)).tolist()
    for number, reason in enumerate(node_table.NO_DEVICES_REASONS):
        if reason is None or not nodes[number]:
            continue
        if reason in DETAILED:
            yield from _one_by_one(query, state == number, reason)
        else:
            yield Rejection(state == number, reason, never_fits=reason in NOTHING_THERE)


def _one_by_one(query: Query, nodes: node_table.Mask, reason: Reason) -> Iterator[Rejection]:
    """Yield what each of these nodes, which are few, says of itself."""
    rows = np.arange(query.inventory.size)[query.rows]
    for at in np.flatnonzero(nodes).tolist():
        info = query.inventory.infos[int(rows[at])]
        one = np.zeros(query.node_count, dtype=np.bool_)
        one[at] = True
        yield Rejection(one, reason, DETAILED[reason](info) if info is not None else "")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RepairAgent(changes.Change):
    """The node's agent reports again, or can read its cards again; or the quarantine of the node ends."""

    precedence: ClassVar = changes.Precedence.REPAIR
    CLAUSES: ClassVar[Mapping[Reason, str]] = {
        Reason.SILENT: "the Berth agent on {node} reported again",
        Reason.SOURCE_FAILED: "the Berth agent on {node} could read its GPUs",
        Reason.QUARANTINED: "the quarantine of {node} ended",
    }
    reason: Reason

    @property
    def change_type(self) -> Hashable:
        """A kind for each reason."""
        return self.reason

    def apply(self, scenario: Scenario) -> Scenario:
        """Return the scenario with the agent repaired in this respect, and in no other."""
        if self.reason is Reason.QUARANTINED:
            return dataclasses.replace(scenario, quarantine="")
        if self.reason is Reason.SILENT or scenario.device is None:
            return dataclasses.replace(scenario, agent_not_ready=False)
        return dataclasses.replace(scenario, device=dataclasses.replace(scenario.device, failed=""))

    def clause(self) -> str:
        """Return what the agent would have to do."""
        return self.CLAUSES[self.reason].format(node=clipped(self.node))


def remedies(scenario: Scenario, _: object) -> Iterator[ProposedChange]:
    """Yield the repairs of the agent of a node that has a Device, where devices are asked for."""
    if scenario.device is None or not scenario.request:
        return
    failed = {
        Reason.SILENT: scenario.agent_not_ready,
        Reason.SOURCE_FAILED: bool(scenario.device.failed),
        Reason.QUARANTINED: bool(scenario.quarantine),
    }
    for reason in (one for one, there in failed.items() if there):
        yield ProposedChange([RepairAgent(node=scenario.node.name, reason=reason)], is_prerequisite=True)


def _unread(nodes: int, _pod: queued_pods.PodInfo, detail: str) -> str:
    agents = "an agent that cannot read its GPUs" if nodes == 1 else "agents that cannot read their GPUs"
    return f"{have(nodes)} {agents}" + (f" ({clipped(detail)})" if detail else "")


def _quarantined(nodes: int, _pod: queued_pods.PodInfo, detail: str) -> str:
    return f"{are(nodes)} quarantined" + (f" ({clipped(detail)})" if detail else "")


CONSTRAINT = Constraint(
    applies_to=lambda signature: signature.need.any_device,
    unresolvable=unresolvable,
    remedies=remedies,
    words={
        Reason.NOT_PUBLISHED: nodes_that(
            "has no Device: no agent has published its cards",
            "have no Device: no agent has published their cards",
        ),
        Reason.NO_DEVICE: lambda nodes, _, detail: (
            f"{have(nodes)} no {noun(detail, 2) if detail else 'cards'}"
        ),
        Reason.SILENT: nodes_that(
            "has an agent that stopped reporting", "have agents that stopped reporting"
        ),
        Reason.SOURCE_FAILED: _unread,
        Reason.QUARANTINED: _quarantined,
    },
    brief={
        Reason.NOT_PUBLISHED: "no Device",
        Reason.NO_DEVICE: "no cards",
        Reason.SILENT: "agent stopped reporting",
        Reason.SOURCE_FAILED: "agent cannot read its GPUs",
        Reason.QUARANTINED: "quarantined",
    },
)
