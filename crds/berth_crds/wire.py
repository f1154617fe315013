"""The kinds as they travel: small structs that decode fast and cost the collector nothing.

Agent and operator read and write these on their hot paths. The pydantic models in
`device`, `gpupod` and `policy` are the source of the schema; tests prove that the two
agree field by field. Every struct here is acyclic, hence `gc=False`, and unknown
fields are ignored on the way in. Values that mean something when they are zero or
false (minor 0, counts) have no default that would drop them on the way out.
"""

from typing import Literal

import msgspec

from berth_crds import names


class Struct(msgspec.Struct, gc=False, frozen=True, omit_defaults=True, rename="camel"):
    """Base of all wire structs: immutable, camelCase outside, defaults not sent."""


class OwnerReference(Struct, frozen=True):
    """Who owns an object, so that it goes when the owner goes."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False


class Meta(Struct, frozen=True):
    """The part of ObjectMeta that Berth reads or writes."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(Struct, frozen=True):
    """A metav1.Condition."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


# ---------------------------------------------------------------- Device


class Driver(Struct, frozen=True):
    """What runs the cards."""

    version: str = ""
    cuda: str = ""


class Topology(Struct, frozen=True):
    """Where a device sits; an unknown place is absent, never zero."""

    numa_node: int | None = None
    pcie_root: str | None = None
    bus_id: str | None = msgspec.field(default=None, name="busID")


class Link(Struct, frozen=True):
    """One device's way to one peer."""

    peer: str
    kind: str
    count: int | None = None


class MigPlacement(Struct, frozen=True):
    """Which slices of the card an instance occupies."""

    start: int
    size: int


class MigInstance(Struct, frozen=True):
    """One static MIG instance."""

    uuid: str
    profile: str
    memory: int
    gi: int | None = None
    ci: int | None = None
    placement: MigPlacement | None = None


class Mig(Struct, frozen=True):
    """MIG mode of a card and its instances."""

    enabled: bool
    instances: tuple[MigInstance, ...] = ()


class Sharing(Struct, frozen=True):
    """How a card is shared."""

    strategy: str
    replicas: int


class Vf(Struct, frozen=True):
    """One virtual function."""

    minor: int
    bus_id: str = msgspec.field(default="", name="busID")


class VfGroup(Struct, frozen=True):
    """Virtual functions of one device that share labels."""

    labels: dict[str, str] = {}
    vfs: tuple[Vf, ...] = ()


class Card(Struct, frozen=True):
    """One device of a node: a GPU, a NIC, an FPGA."""

    uuid: str
    type: str
    minor: int
    vendor: str = ""
    model: str = ""
    index: int | None = None
    module_id: int | None = msgspec.field(default=None, name="moduleID")
    memory: int | None = None
    compute_capability: str = ""
    topology: Topology | None = None
    links: tuple[Link, ...] = ()
    mig: Mig | None = None
    sharing: Sharing | None = None
    vf_groups: tuple[VfGroup, ...] = ()
    labels: dict[str, str] = {}


class Partition(Struct, frozen=True):
    """A group of cards that share a ring."""

    members: tuple[str, ...]
    link: str = ""
    score: int = 0


class SpecSummary(Struct, frozen=True):
    """The inventory in a few words, for printer columns."""

    models: str
    gpus: int
    sharing: str = ""


class DeviceSpec(Struct, frozen=True):
    """What a node has: the agent's word, but for `cordon`, which is people's."""

    node: str
    boot_id: str = msgspec.field(default="", name="bootID")
    driver: Driver | None = None
    devices: tuple[Card, ...] = ()
    partitions: tuple[Partition, ...] = ()
    summary: SpecSummary | None = None
    cordon: tuple[str, ...] = ()


class Occupant(Struct, frozen=True):
    """A process on a card that nobody gave it."""

    pid: int
    memory: int | None = None
    namespace: str = ""
    pod: str = ""


class CardStatus(Struct, frozen=True):
    """The agent's verdict on one card that is not plainly healthy."""

    uuid: str
    health: str
    reason: str = ""
    xid: int | None = None
    message: str = ""
    since: str = ""
    recovery: str = ""
    occupants: tuple[Occupant, ...] = ()


class StatusSummary(Struct, frozen=True):
    """The operator's coalesced count, for printer columns."""

    free: int
    used: int
    healthy: int
    reason: str = ""
    in_use: str = ""


class Origin(Struct, frozen=True):
    """The node from which a uuid came to the one that publishes it."""

    uuid: str
    node: str
    since: str = ""


class DeviceStatus(Struct, frozen=True):
    """Verdicts of the agent, liveness and counts of the operator."""

    devices: tuple[CardStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()
    summary: StatusSummary | None = None
    claims: tuple[str, ...] = ()
    disputed: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()


class Device(Struct, frozen=True):
    """All cards of one node."""

    metadata: Meta
    spec: DeviceSpec
    status: DeviceStatus = DeviceStatus()
    api_version: str = ""
    kind: str = ""


# ---------------------------------------------------------------- GpuPod


class HeldCard(Struct, frozen=True):
    """A card that a container was given."""

    uuid: str
    minor: int
    type: str
    core: int
    memory: int
    model: str = ""
    profile: str = ""
    vf: str = ""


class HoldingContainer(Struct, frozen=True):
    """A container and the cards it was given."""

    name: str
    devices: tuple[HeldCard, ...] = ()


class GpuPodSpec(Struct, frozen=True):
    """Who was given what."""

    node: str
    pod_uid: str = msgspec.field(name="podUID")
    containers: tuple[HoldingContainer, ...] = ()


class Grant(Struct, frozen=True):
    """What one container is seen to hold, and who saw it."""

    container: str
    uuids: tuple[str, ...]
    source: str


class GpuPodStatus(Struct, frozen=True):
    """What is really held, and whether it agrees with what was given."""

    phase: str = ""
    minors: str = ""
    share: str = ""
    granted: tuple[Grant, ...] = ()
    conditions: tuple[Condition, ...] = ()


class GpuPod(Struct, frozen=True):
    """The holdings of one pod."""

    metadata: Meta
    spec: GpuPodSpec
    status: GpuPodStatus = GpuPodStatus()
    api_version: str = ""
    kind: str = ""


# ---------------------------------------------------------------- PlacementPolicy


class Weights(Struct, frozen=True):
    """Relative weights of the parts of a node's score."""

    core: int = 1
    memory: int = 1


class Agents(Struct, frozen=True):
    """When an agent counts as silent."""

    grace_seconds: int = 40


class Priorities(Struct, frozen=True):
    """What counts between the pods of several namespaces."""

    label_at_most: int = 0


class HealthRules(Struct, frozen=True):
    """Which errors condemn a card, and what brings it back."""

    ignored_xids: tuple[int, ...] = ()
    critical_xids: tuple[int, ...] = ()
    cool_down_seconds: int = 300
    clean_probes: int = 3


class SharingRules(Struct, frozen=True):
    """What may be shared."""

    fractions: bool = True
    replicas: bool = True
    min_memory: int = msgspec.field(default=64, name="minMemoryMiB")


class PolicySpec(Struct, frozen=True):
    """How pods are placed."""

    strategy: str = "fragmentation"
    weights: Weights = Weights()
    agents: Agents = Agents()
    priorities: Priorities = Priorities()
    health: HealthRules = HealthRules()
    models: dict[str, str] = {}
    sharing: SharingRules = SharingRules()


class PolicyStatus(Struct, frozen=True):
    """Whether the policy is in force."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class PlacementPolicy(Struct, frozen=True):
    """The rules of placement; the one named `default` is in force."""

    metadata: Meta
    spec: PolicySpec = PolicySpec()
    status: PolicyStatus = PolicyStatus()
    api_version: str = ""
    kind: str = ""


Kind = Literal["Device", "GpuPod", "PlacementPolicy"]

PLURALS: dict[Kind, str] = {
    "Device": names.DEVICES,
    "GpuPod": names.GPU_PODS,
    "PlacementPolicy": names.POLICIES,
}
