"""What the core knows of a node, and what a pod demands of it: plain values.

Quantities are whole numbers: cpu in thousandths, everything else in its own unit,
demands rounded up and supplies rounded down where they were read.
"""

import dataclasses
import enum
from collections.abc import Hashable, Mapping
from typing import Final

from berth_operator.scheduling import delivery_methods, values

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
class PreferredTerm:
    """A term of preferred node affinity, and how much it counts."""

    weight: int
    term: Term


@dataclasses.dataclass(frozen=True, slots=True, weakref_slot=True)
class Image:
    """An image that a node has: all its names there, with tags and digests, and its bytes."""

    names: tuple[str, ...]
    size: int


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
    images: tuple[Image, ...] = ()


def _size(term: Term) -> int:
    """Return how many things a term names."""
    return sum(1 + len(one.values) for one in (*term.labels, *term.fields))


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSelection:
    """The nodes a pod may run on: selector, required affinity (one term must hold), tolerations, features.

    A kubelet must declare all the `features`, or it would refuse the pod.
    """

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    features: tuple[str, ...] = ()

    @property
    def label_keys(self) -> frozenset[str]:
        """The labels of nodes that it names."""
        named = (one.key for term in self.affinity or () for one in term.labels)
        return frozenset([*(key for key, _ in self.selector), *named])

    def missing_feature(self, node: Node) -> str:
        """Return the first feature that a node does not declare; empty if there is none."""
        return next((one for one in self.features if one not in node.declared_features), "")

    @property
    def size(self) -> int:
        """How many things are named, which is what it takes of memory."""
        named = len(self.selector) + len(self.tolerations) + len(self.features)
        return named + sum(map(_size, self.affinity or ()))


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

    @property
    def marks(self) -> tuple[Hashable, ...]:
        """The port with its address, and the port, whatever its address is."""
        return (self.number, self.protocol, self.address), (self.number, self.protocol)

    @property
    def excluded_by(self) -> tuple[Hashable, ...]:
        """The marks of the ports whose addresses overlap with this one."""
        if not self.address:
            return ((self.number, self.protocol),)
        return (self.number, self.protocol, self.address), (self.number, self.protocol, "")


NO_MONITORS: Final = (None,)


@dataclasses.dataclass(frozen=True, slots=True)
class Disk:
    """A disk that a pod names itself; several pods of a node can have it if they only read it, if at all.

    Those of two Ceph clusters may have one name: they are the same if they have a monitor in common.
    """

    name: str
    read_only: bool = False
    can_be_shared: bool = True
    monitors: frozenset[str] = frozenset()

    @property
    def marks(self) -> tuple[Hashable, ...]:
        """The disk by each of its monitors, and whether it is only read."""
        return tuple((self.name, monitor, self.read_only) for monitor in self.monitors or NO_MONITORS)

    @property
    def excluded_by(self) -> tuple[Hashable, ...]:
        """The marks of the same disk where it is written; also where it is read, unless both may read it."""
        shared = self.can_be_shared and self.read_only
        others = (False,) if shared else (False, True)
        monitors = self.monitors or NO_MONITORS
        return tuple((self.name, monitor, read_only) for read_only in others for monitor in monitors)


Expressions = tuple[LabelExpression, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PodSelector:
    """Which pods are meant: those in these namespaces whose labels meet all expressions.

    Without expressions all of them are meant, and with None none. `namespace_selector` adds the namespaces
    whose labels meet it: without expressions all namespaces, and with None none.
    """

    namespaces: tuple[str, ...] = ()
    expressions: Expressions | None = None
    namespace_selector: Expressions | None = None

    @property
    def size(self) -> int:
        """How many things are named, which is what it takes of memory."""
        expressions = (*(self.expressions or ()), *(self.namespace_selector or ()))
        return 1 + len(self.namespaces) + sum(1 + len(one.values) for one in expressions)


@dataclasses.dataclass(frozen=True, slots=True)
class PodTerm:
    """A term of a pod affinity or anti-affinity: pods, and the label that makes nodes one domain.

    Without a key each node is a domain of its own, whatever its labels are.
    """

    selector: PodSelector
    topology_key: str
    size: int = dataclasses.field(init=False, repr=False, compare=False)  # How many things are named.
    _hash: int = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Work out once what a decision may need of thousands of terms of pods on nodes."""
        object.__setattr__(self, "size", self.selector.size)
        object.__setattr__(self, "_hash", hash((self.selector, self.topology_key)))

    def __hash__(self) -> int:
        """Return the hash."""
        return self._hash


@dataclasses.dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint, which must be met or is only preferred.

    `self_match` is whether the pod itself is one of those that are counted. `honors_affinity` and
    `honors_taints` leave out the nodes on which the pod may not run for that reason.
    """

    topology_key: str
    max_skew: int
    selector: PodSelector
    self_match: bool = True
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class InterPodRules:
    """What a pod requires of the pods that are on nodes already.

    `self_match` is whether its own labels meet all terms of its affinity, and `namespace` where it is, if it
    has one. `repelled_by` are the terms of required anti-affinity that pods on nodes have and that mean this
    pod: they are no part of the pod itself and are found for each decision (`existing_terms`).
    """

    spread: tuple[SpreadConstraint, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    self_match: bool = False
    namespace: str = ""
    anti_affinity: tuple[PodTerm, ...] = ()
    repelled_by: frozenset[PodTerm] = frozenset()

    @property
    def topology_keys(self) -> frozenset[str]:
        """The labels of nodes that the pod's own requirements name."""
        of_terms = (one.topology_key for one in (*self.affinity, *self.anti_affinity))
        return frozenset([*(one.topology_key for one in self.spread), *of_terms])

    @property
    def selectors(self) -> tuple[PodSelector, ...]:
        """Which pods the pod's own requirements are about."""
        terms = (one.selector for one in (*self.affinity, *self.anti_affinity))
        return *(one.selector for one in self.spread), *terms

    @property
    def size(self) -> int:
        """How many things are named, which is what it takes of memory."""
        return sum(one.size for one in self.selectors) + sum(one.size for one in self.repelled_by)


@dataclasses.dataclass(frozen=True, slots=True)
class WeightedPodTerm:
    """A term about pods near a node, and how much it counts; below zero the pod would rather be away."""

    weight: int
    term: PodTerm


@dataclasses.dataclass(frozen=True, slots=True)
class PreferredPods:
    """Near which pods a pod would rather be, and how it would rather be spread; it is required of no node.

    `of_others` are terms that pods on nodes have and that mean this pod: they are no part of the pod itself
    and are found for each decision (`existing_terms`).
    """

    terms: tuple[WeightedPodTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    of_others: frozenset[WeightedPodTerm] = frozenset()

    @property
    def selectors(self) -> tuple[PodSelector, ...]:
        """Which pods the pod's own preferences are about."""
        return *(one.term.selector for one in self.terms), *(one.selector for one in self.spread)

    @property
    def size(self) -> int:
        """How many things are named, which is what it takes of memory."""
        return sum(one.size for one in self.selectors) + sum(one.term.size for one in self.of_others)


ClaimKey = tuple[str, str]  # The namespace and the name of a PersistentVolumeClaim.


@dataclasses.dataclass(frozen=True, slots=True)
class PodClaim:
    """A PersistentVolumeClaim that a pod uses; one of an ephemeral volume must be `owned_by` this pod."""

    namespace: str
    name: str
    owned_by: str = ""

    @property
    def key(self) -> ClaimKey:
        """What identifies the claim."""
        return self.namespace, self.name


@values.quickly_made
@dataclasses.dataclass(frozen=True, slots=True)
class NodeDemand:
    """What a pod asks of a node apart from cards.

    `amounts` must be left on the node. `device_resources` are extended resources such as nvidia.com/gpu
    that Berth allocates from the Device: asked of the node only where it advertises the same name.
    `node_selection` is the part that depends on the node's labels, taints and name alone, so
    that pods of one kind share one answer. `delivery` says how its containers can get their cards;
    `is_counted` says that a container asks for a resource which the agent's device plugin serves.
    `inter_pod_rules` is what it requires of other pods; None for nothing.
    `preferred` are the terms of its preferred node affinity, and `preferred_pods` is what it would
    rather have of other pods; None for nothing. `quarantined_nodes` are names of nodes that are quarantined
    for the pod's namespace, and why (`namespace_quarantines`). `images` has one name for each container, and
    `volume_images` one for each volume that is an image; `controller` is what has made it, if that spreads
    its pods by default. These are not compared, because they only choose between nodes that pass the filters,
    and so pods that differ in them have the same signature.
    """

    amounts: Amounts = ()
    device_resources: Amounts = ()
    node_selection: NodeSelection = ANYWHERE
    host_ports: tuple[HostPort, ...] = ()
    delivery: delivery_methods.DeliveryMethod = delivery_methods.ALL
    is_counted: bool = False
    inter_pod_rules: InterPodRules | None = None
    claims: tuple[PodClaim, ...] = ()
    disks: tuple[Disk, ...] = ()
    preferred: tuple[PreferredTerm, ...] = ()
    preferred_pods: PreferredPods | None = None
    quarantined_nodes: frozenset[tuple[str, str]] = frozenset()
    images: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    volume_images: tuple[str, ...] = dataclasses.field(default=(), compare=False)
    controller: str = dataclasses.field(default="", compare=False)

    @property
    def size(self) -> int:
        """How many things are named, which is what it takes of memory."""
        others = sum(one.size for one in (self.inter_pod_rules, self.preferred_pods) if one is not None)
        lists = (
            self.amounts,
            self.device_resources,
            self.host_ports,
            self.claims,
            self.disks,
            self.preferred,
            self.images,
            self.volume_images,
        )
        terms = sum(_size(one.term) for one in self.preferred)
        return self.node_selection.size + terms + sum(map(len, lists)) + others


NO_DEMAND: Final = NodeDemand()
