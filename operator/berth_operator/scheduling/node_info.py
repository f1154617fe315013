"""One node of the inventory, as far as it is not a number: its Node, its Device, its holds.

Also what a node says to the conditions that a pod puts on its place; the answer of all
nodes is remembered by the inventory until one of them changes.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from berth_operator.scheduling import node_table
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_view
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.nodes import affinity, facts, taints
from berth_operator.scheduling.nodes import labels as labels_

Cards = tuple[devices.Device | None, int]  # What a node can give out, and how many are kept back of it.


@dataclasses.dataclass(slots=True)
class NodeInfo:
    """Everything about one node that is not a number."""

    name: str
    row: int
    node: facts.Node | None = None
    published: devices.Device | None = None  # As its agent says.
    owned: devices.Device | None = None  # Without the cards that belong to another node.
    device: devices.Device | None = None  # Without those, too, that damaged records name: as it counts.
    unnamed: int = 0  # Cards that are kept back because what a damaged record names is not there.
    uncounted: int = 0  # MIG profiles and types of devices that are not given, for all nodes have too many.
    silent: bool = True
    alone: bool = False  # Whether a card that it shares is given to one pod at a time.
    holds: dict[str, Hold] = dataclasses.field(default_factory=dict)
    amounts: dict[str, int] = dataclasses.field(default_factory=dict)  # Of resources, what pods hold.
    given: dict[str, int] = dataclasses.field(default_factory=dict)  # Of resources, what the node can give.
    used: dict[str, device_view.Usage] = dataclasses.field(default_factory=dict)
    functions: dict[str, int] = dataclasses.field(default_factory=dict)  # By bus id, how many hold it.
    slots: dict[str, int] = dataclasses.field(default_factory=dict)  # Uuid of a plain card to its slot.
    plain: bool = True  # Whether all devices are GPUs that are given out whole or by shares.

    @property
    def idle(self) -> bool:
        """Whether nothing names this node any more."""
        return self.node is None and self.published is None and not self.holds

    @property
    def open(self) -> bool:
        """Whether its devices may be given out at all."""
        return self.device is not None and not self.device.failed and not self.silent

    @property
    def cordoned(self) -> bool:
        """Whether people keep new pods off the whole node."""
        return self.node is not None and self.node.unschedulable

    @property
    def cards(self) -> Cards:
        """What it can give out of cards: which there are, and how many of them are kept back."""
        return self.device, self.unnamed

    @property
    def withheld(self) -> int:
        """How many cards pods have that are not known by name."""
        return self.unnamed + sum(hold.withheld for hold in self.holds.values())

    def view(self) -> device_view.View:
        """Show the devices and their use to the allocator."""
        return device_view.View(
            device=self.device or devices.Device(self.name),
            used=self.used,
            functions=frozenset(self.functions),
            withheld=self.withheld,
            open=self.open,
            alone=self.alone,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class PlaceReasons:
    """What all nodes say to a pod's conditions on its place: 0 for yes, else the number of a reason."""

    code: node_table.Numbers
    reasons: tuple[tuple[Reason, str], ...]


def place_reasons(
    infos: Sequence[NodeInfo | None], where: facts.Where, labels: labels_.Labels
) -> PlaceReasons:
    """Return what all nodes say, whose labels are these."""
    numbers: dict[tuple[Reason, str], int] = {}
    code = np.zeros(len(infos), dtype=np.int64)
    matching = labels.matching(where).tolist()
    covered = taints.Covered(where.tolerations)
    for at, info in enumerate(infos):
        reason: tuple[Reason, str] | None = Reason.NO_NODES, ""
        if info is not None and info.node is not None:
            reason = _refused(info.node, covered, matches=matching[at])
        if reason is not None:
            code[at] = numbers.setdefault(reason, len(numbers) + 1)
    return PlaceReasons(code, tuple(numbers))


def refused_place(node: facts.Node, where: facts.Where) -> tuple[Reason, str] | None:
    """Return why a node's labels, name or taints do not suit a pod, if so."""
    return _refused(node, taints.Covered(where.tolerations), matches=affinity.matches(where, node))


def _refused(node: facts.Node, covered: taints.Covered, *, matches: bool) -> tuple[Reason, str] | None:
    if node.unschedulable and not covered.cordoned:
        return Reason.UNSCHEDULABLE, ""
    taint = covered.untolerated(node)
    if taint is not None:
        return Reason.TAINTED, taint.key
    return None if matches else (Reason.SELECTOR_MISMATCH, "")
