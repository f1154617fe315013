"""What the core knows of a node, and what a pod demands of it: plain values.

Quantities are whole numbers: cpu in thousandths, everything else in its own unit,
demands rounded up and supplies rounded down where they were read.
"""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final

from berth_operator.scheduling import delivery_methods

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
UNSCHEDULABLE_TAINT: Final = "node.kubernetes.io/unschedulable"
LARGEST: Final = 2**53  # More than any node has, and a thousand times as much still fits into 64 bits.

Amounts = tuple[tuple[str, int], ...]
Labels = tuple[tuple[str, str], ...]


class Effect(enum.StrEnum):
    """What a taint does to a pod that does not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclasses.dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str


@dataclasses.dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a pod; empty fields match everything, as in Kubernetes."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class LabelExpression:
    """One expression about a label (or a field): key, operator, values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """Conditions on labels and on the node's name that must all hold."""

    labels: tuple[LabelExpression, ...] = ()
    fields: tuple[LabelExpression, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """One node: labels, taints, what it can give, and the features that its kubelet declares.

    The taint by which Berth marks the Node of a silent agent is none of `taints`: it says nothing that the
    ledger does not know, and knows sooner when it is over. `honors_partitions` is whether its whole cards are
    given in partitions only; None where it does not say.
    """

    name: str
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Amounts = ()
    honors_partitions: bool | None = None
    declared_features: frozenset[str] = frozenset()
    silent_taint: int | None = (
        None  # Where among its taints the one stands that says that its agent is silent.
    )


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSelection:
    """The nodes a pod may run on: selector, required affinity (one term must hold), tolerations, features.

    A kubelet must declare all the `features`, or it would refuse the pod.
    """

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    features: tuple[str, ...] = ()

    def missing_feature(self, node: Node) -> str:
        """Return the first feature that a node does not declare; empty if there is none."""
        return next((one for one in self.features if one not in node.declared_features), "")

    @property
    def size(self) -> int:
        """How many things are named, which is what it takes of memory."""
        conditions = (one for term in self.affinity or () for one in (*term.labels, *term.fields))
        named = len(self.selector) + len(self.tolerations) + len(self.features)
        return named + sum(1 + len(one.values) for one in conditions)


ANYWHERE: Final = NodeSelection()
NOWHERE: Final = NodeSelection(affinity=())


@dataclasses.dataclass(frozen=True, slots=True)
class HostPort:
    """A port of a node that a pod asks for; without an address it is that port of all of them."""

    number: int
    protocol: str = "TCP"
    address: str = ""

    def __str__(self) -> str:
        """Return it as people write it, such as `8080/TCP`."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}{':' * bool(address)}{self.number}/{self.protocol}"


@dataclasses.dataclass(frozen=True, slots=True)
class Demand:
    """What a pod asks of a node apart from cards.

    `amounts` must be left on the node. `device_resources` are extended resources such as nvidia.com/gpu
    that Berth allocates from the Device: asked of the node only where it advertises the same name.
    `node_selection` is the part that depends on the node's labels, taints and name alone, so
    that pods of one kind share one answer. `delivery` says how its containers can get their cards;
    `is_counted` says that a container asks for a resource which the agent's device plugin serves.
    """

    amounts: Amounts = ()
    device_resources: Amounts = ()
    node_selection: NodeSelection = ANYWHERE
    host_ports: tuple[HostPort, ...] = ()
    delivery: delivery_methods.DeliveryMethod = delivery_methods.ALL
    is_counted: bool = False

    @property
    def size(self) -> int:
        """How many things are named, which is what it takes of memory."""
        return (
            len(self.amounts) + len(self.device_resources) + self.node_selection.size + len(self.host_ports)
        )


NO_DEMAND: Final = Demand()
