"""The parts of pods and nodes that the operator reads, as they travel.

Fields that Kubernetes types loosely (quantities may be numbers or strings) are typed
loosely here too; whatever is not named here is skipped while decoding, which is what
makes a pod cost microseconds.
"""

import msgspec

from berth_crds import wire

Quantity = str | int | float
Resources = dict[str, Quantity]


class Something(wire.Struct, frozen=True):
    """An object of which it only counts that it is there."""


class ContainerResources(wire.Struct, frozen=True):
    """What a container, or a whole pod, requests."""

    requests: Resources | None = None
    limits: Resources | None = None


class Port(wire.Struct, frozen=True):
    """One port of a container."""

    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class System(wire.Struct, frozen=True):
    """The operating system that a pod is written for."""

    name: str = ""


class Container(wire.Struct, frozen=True):
    """One container; a `restart_policy` of Always makes an init container a sidecar."""

    name: str = ""
    resources: ContainerResources | None = None
    restart_policy: str | None = None
    ports: tuple[Port, ...] | None = None


class Expression(wire.Struct, frozen=True):
    """One expression of a node selector."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class SelectorTerm(wire.Struct, frozen=True):
    """Expressions that must all hold."""

    match_expressions: tuple[Expression, ...] | None = None
    match_fields: tuple[Expression, ...] | None = None


class NodeSelector(wire.Struct, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[SelectorTerm, ...] | None = None


class NodeAffinity(wire.Struct, frozen=True):
    """Only what is required; preferences are not read."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinity(wire.Struct, frozen=True):
    """Only whether something is required."""

    required: tuple[Something, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(wire.Struct, frozen=True):
    """Where the pod wants to be, near what, and far from what."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(wire.Struct, frozen=True):
    """One toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Spread(wire.Struct, frozen=True):
    """One topology spread constraint."""

    when_unsatisfiable: str = ""


class Volume(wire.Struct, frozen=True):
    """Only whether a volume is claimed."""

    persistent_volume_claim: Something | None = None
    ephemeral: Something | None = None


class Gate(wire.Struct, frozen=True):
    """One scheduling gate."""

    name: str


class PodSpec(wire.Struct, frozen=True):
    """What a pod asks of a scheduler."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    resources: ContainerResources | None = None
    overhead: Resources | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[Spread, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    scheduling_gates: tuple[Gate, ...] | None = None
    resource_claims: tuple[Something, ...] | None = None
    scheduling_group: Something | None = None
    workload_ref: Something | None = None  # The name of the same in Kubernetes 1.35.
    os: System | None = None
    unread: str = ""  # Which list of it was too long to be read; the API knows no such field.


class PodCondition(wire.Struct, frozen=True):
    """One condition of a pod; anybody may write one, and leave its words or its times null."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class PodStatus(wire.Struct, frozen=True):
    """How far a pod has come."""

    phase: str = ""
    start_time: str | None = None  # The kubelet writes it when it admits the pod.
    conditions: tuple[PodCondition, ...] | None = None


class Pod(wire.Struct, frozen=True):
    """One pod."""

    metadata: wire.Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    length: int = 0  # Of the whole object in bytes, where that is large; the API knows no such field.


class Device(wire.Device, frozen=True):
    """A Device, and how large it is."""

    length: int = 0  # Of the whole object in bytes, where that is large; the API knows no such field.


class WhereOnly(wire.Struct, frozen=True):
    """The node of a pod, of which nothing else may be readable."""

    node_name: str = ""


class PhaseOnly(wire.Struct, frozen=True):
    """The phase of a pod, of which nothing else may be readable."""

    phase: str = ""


class PodRemains(wire.Struct, frozen=True):
    """The least that must be known of a pod that cannot be read whole: whether it has a place, and where."""

    spec: WhereOnly = WhereOnly()
    status: PhaseOnly = PhaseOnly()


class Taint(wire.Struct, frozen=True):
    """One taint."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(wire.Struct, frozen=True):
    """Whom a node takes."""

    taints: tuple[Taint, ...] | None = None
    unschedulable: bool = False


class NodeStatus(wire.Struct, frozen=True):
    """What a node can give."""

    allocatable: Resources | None = None


class Node(wire.Struct, frozen=True):
    """One node."""

    metadata: wire.Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
