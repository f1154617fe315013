"""The parts of pods and nodes that the operator reads, as they travel.

Fields that Kubernetes types loosely (quantities may be numbers or strings) are typed
loosely here too; whatever is not named here is skipped while decoding, which is what
makes a pod cost microseconds.
"""

from typing import Final

import msgspec

from berth_crds import wire
from berth_crds.vocabulary import PodPhase

Quantity = str | int | float
Resources = dict[str, Quantity]


class Presence(wire.Struct, frozen=True):
    """An object of which only its presence counts."""


class ContainerResources(wire.Struct, frozen=True):
    """What a container, or a whole pod, requests."""

    requests: Resources | None = None
    limits: Resources | None = None


class Port(wire.Struct, frozen=True):
    """One port of a container."""

    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class PodOS(wire.Struct, frozen=True):
    """The operating system that a pod is written for."""

    name: str = ""


class FieldRef(wire.Struct, frozen=True):
    """A field of the pod that feeds a variable."""

    field_path: str = ""


class VariableSource(wire.Struct, frozen=True):
    """Where a variable gets its value from."""

    field_ref: FieldRef | None = None


class Variable(wire.Struct, frozen=True):
    """A variable of a container, of which only the source matters here."""

    value_from: VariableSource | None = None


class RestartRule(wire.Struct, frozen=True):
    """What happens when a container ends in some way."""

    action: str = ""


class Container(wire.Struct, frozen=True):
    """One container; a `restart_policy` of Always makes an init container a sidecar."""

    name: str = ""
    resources: ContainerResources | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[RestartRule, ...] | None = None
    ports: tuple[Port, ...] | None = None
    env: tuple[Variable, ...] | None = None
    image: str | None = None


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


class PreferredTerm(wire.Struct, frozen=True):
    """A term that a pod would rather have met, and how much that counts."""

    weight: int = 0
    preference: SelectorTerm = SelectorTerm()


class NodeAffinity(wire.Struct, frozen=True):
    """What is required of nodes, and what is preferred."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class LabelSelector(wire.Struct, frozen=True):
    """Which objects are meant, by their labels."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Expression, ...] | None = None


class PodAffinityTerm(wire.Struct, frozen=True):
    """Which pods are meant, and the label of nodes by which they are near."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedPodAffinityTerm(wire.Struct, frozen=True):
    """A term that a pod would rather have met, and how much that counts."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(wire.Struct, frozen=True):
    """What is required of the pods nearby, and what is preferred."""

    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(wire.Struct, frozen=True):
    """Node affinity, pod affinity and pod anti-affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(wire.Struct, frozen=True):
    """One toleration."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class TopologySpreadConstraint(wire.Struct, frozen=True):
    """One topology spread constraint."""

    when_unsatisfiable: str = ""
    max_skew: int = 1
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class ClaimSource(wire.Struct, frozen=True):
    """The claim of a volume, by its name."""

    claim_name: str = ""


class ImageSource(wire.Struct, frozen=True):
    """The image of which a volume has the files."""

    reference: str = ""


class IscsiDisk(wire.Struct, frozen=True):
    """A disk by iSCSI."""

    iqn: str = ""
    read_only: bool = False


class RbdImage(wire.Struct, frozen=True):
    """A block device of Ceph."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class GoogleDisk(wire.Struct, frozen=True):
    """A disk of Google's cloud."""

    pd_name: str = ""
    read_only: bool = False


class AwsDisk(wire.Struct, frozen=True):
    """A disk of Amazon's cloud."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class Volume(wire.Struct, frozen=True):
    """A volume: whether and how it is claimed, of which image it is, or which disk it is."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Presence | None = None
    image: ImageSource | None = None
    iscsi: IscsiDisk | None = None
    rbd: RbdImage | None = None
    gce_persistent_disk: GoogleDisk | None = None
    aws_elastic_block_store: AwsDisk | None = None


class SchedulingGate(wire.Struct, frozen=True):
    """One scheduling gate."""

    name: str


class ShortFields(wire.Struct, frozen=True):
    """The fields of a pod's spec that are short in every pod, or whose amounts are always read."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str | None = None
    resources: ContainerResources | None = None
    overhead: Resources | None = None
    scheduling_group: Presence | None = None
    workload_ref: Presence | None = None  # The name of the same in Kubernetes 1.35.
    os: PodOS | None = None
    host_network: bool | None = None
    host_users: bool | None = None


class PodSpec(ShortFields, frozen=True):
    """What a pod asks of a scheduler."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    resource_claims: tuple[Presence, ...] | None = None
    unread_list: str = ""  # The list that was too long to be read; the API has no such field.


class PodCondition(wire.Struct, frozen=True):
    """One condition of a pod; anybody may write one, with fields that are null."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class ContainerStatus(wire.Struct, frozen=True):
    """What a container has, and what its kubelet has allocated to it."""

    name: str = ""
    resources: ContainerResources | None = None
    allocated_resources: Resources | None = None


NOT_STARTED: Final = frozenset({"", PodPhase.PENDING})


class PodStatus(wire.Struct, frozen=True):
    """The observed state of a pod; what it has differs from what it asks for while it is resized."""

    phase: str = ""
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resources: ContainerResources | None = None
    allocated_resources: Resources | None = None

    @property
    def is_admitted(self) -> bool:
        """Whether the kubelet has admitted the pod: it tells of its containers from then on.

        The start time does not show it: a kubelet may write it before it rejects the pod.
        """
        started = self.phase not in NOT_STARTED
        return started or bool(self.container_statuses or self.init_container_statuses)


class Pod(wire.Struct, frozen=True):
    """One pod."""

    metadata: wire.Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    length: int = 0  # Of the whole object in bytes, if that is large; the API has no such field.
    adopted_from: str = ""  # Its schedulerName, if Berth answers to it; the API has no such field.


class Device(wire.Device, frozen=True):
    """A Device and its size."""

    length: int = 0  # Of the whole object in bytes, if that is large; the API has no such field.


class NodeNameOnly(wire.Struct, frozen=True):
    """The node of a pod whose other fields may be unreadable."""

    node_name: str = ""


class PhaseOnly(wire.Struct, frozen=True):
    """The phase of a pod whose other fields may be unreadable."""

    phase: str = ""


class MinimalPod(wire.Struct, frozen=True):
    """What is read of a pod that cannot be decoded as a whole: its phase and its node."""

    spec: NodeNameOnly = NodeNameOnly()
    status: PhaseOnly = PhaseOnly()


class Namespace(wire.Struct, frozen=True):
    """One namespace, of which only its labels matter."""

    metadata: wire.Meta


class Taint(wire.Struct, frozen=True):
    """One taint."""

    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(wire.Struct, frozen=True):
    """Which pods a node accepts."""

    taints: tuple[Taint, ...] | None = None
    unschedulable: bool = False


class Image(wire.Struct, frozen=True):
    """An image that a node has."""

    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeStatus(wire.Struct, frozen=True):
    """What a node supplies, and which images it has."""

    allocatable: Resources | None = None
    images: tuple[Image, ...] | None = None
    declared_features: tuple[str, ...] | None = None


class Node(wire.Struct, frozen=True):
    """One node."""

    metadata: wire.Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
