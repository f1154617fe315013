"""Whether no pod of the node is in the way of a disk that the pod names itself, without a claim.

As by kube-scheduler's plugin VolumeRestrictions: a disk can be had by several pods of a node only if all of
them only read it, and one of AWS by one pod. What each part of a constraint is for stands in `constraint`.
"""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

from berth_operator.scheduling import changes, exclusive_use, node_table, queued_pods
from berth_operator.scheduling.constraints.constraint import Constraint, FailedPlacement, Rejection
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.wording import clipped, have


def _taken(query: Query, disk: facts.Disk) -> node_table.Mask:
    return query.inventory.disks.taken(disk, query.inventory.size)[query.rows]


def feasible(query: Query) -> node_table.Mask:
    """Return the nodes on which the pod can have all its disks."""
    return query.inventory.disks.free(query.signature.demand.disks, query.inventory.size)[query.rows]


def resolvable(query: Query) -> Iterator[Rejection]:
    """Yield the rejections of the nodes on which a pod has a disk, disk by disk."""
    for disk in query.signature.demand.disks:
        yield Rejection(_taken(query, disk), Reason.DISK_IN_USE, disk.name)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MountReadOnly(changes.Change):
    """The pod only reads a disk."""

    precedence: ClassVar = changes.Precedence.DROP_CONDITION
    disk: facts.Disk

    def apply(self, scenario: changes.Scenario) -> changes.Scenario:
        """Return the scenario in which it mounts the disk read-only."""
        only_read = dataclasses.replace(self.disk, read_only=True)
        disks = tuple(only_read if one == self.disk else one for one in scenario.demand.disks)
        return dataclasses.replace(scenario, demand=dataclasses.replace(scenario.demand, disks=disks))

    def clause(self) -> str:
        """Return what comes after "would fit if" in an explanation."""
        return f"it mounted {clipped(self.disk.name)} read-only"


def relaxations(failed: FailedPlacement) -> Iterator[changes.ProposedChange]:
    """Propose to mount disks read-only, one at a time: those that allow it and are in use on some node."""
    for disk in failed.query.signature.demand.disks:
        if disk.can_be_shared and not disk.read_only and _taken(failed.query, disk).any():
            yield changes.ProposedChange([MountReadOnly(disk=disk)])


def remedies(scenario: changes.Scenario, _: object) -> Iterator[changes.ProposedChange]:
    """Propose to end the pods that have the disks."""
    asked = scenario.demand.disks
    holders = tuple(hold for hold in scenario.holds if exclusive_use.conflict(asked, hold.disks))
    if holders:
        yield changes.ProposedChange([changes.RemovePods(node=scenario.node.name, holds=holders)])


def _in_use(nodes: int, _pod: queued_pods.PodInfo, detail: str) -> str:
    return f"{have(nodes)} the disk {clipped(detail)} in use"


CONSTRAINT = Constraint(
    applies_to=lambda signature: bool(signature.demand.disks),
    feasible=feasible,
    resolvable=resolvable,
    relaxations=relaxations,
    remedies=remedies,
    words={Reason.DISK_IN_USE: _in_use},
    brief={Reason.DISK_IN_USE: "disk in use"},
)
