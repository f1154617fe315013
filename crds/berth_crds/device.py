"""Device: all cards of one node. This model is the source of its CRD.

A Device is where the agent of a node writes what is there (spec) and how it fares
(status), where people write which cards to spare (`spec.cordon`), and where the
operator writes what follows from it. One bad card is one bad entry here, never a list
that lacks the good ones: that is why verdicts stand in a list of their own (`device_status`).
The columns that `kubectl get devices` prints are listed in `kubectl_columns`.

The docstrings are the manual: `kubectl explain device.spec` prints them. After a change `make crds` writes
the manifest, and the structs that the programs decode (`wire`).
"""

from typing import Annotated

import pydantic

from berth_crds import device_status, model_rules, schema_limits, vocabulary


class Driver(model_rules.Model):
    """What runs the cards."""

    version: Annotated[str, model_rules.text(schema_limits.LONGEST_DRIVER_VERSION)] | None = None
    """Version of the kernel driver, such as "550.107.02". Absent: unknown."""

    cuda: Annotated[str, model_rules.formatted(schema_limits.CUDA_VERSION)] | None = None
    """Newest CUDA version that the driver supports, such as "12.4". Absent: unknown, or not a CUDA
    driver."""


class Topology(model_rules.Model):
    """Where a device sits in its node. What is unknown is absent, never zero."""

    numa_node: Annotated[int, model_rules.integer(0, schema_limits.LARGEST_NUMA_NODE)] | None = None
    """NUMA node that the device is attached to. Absent: unknown, or the node has only one."""

    pcie_root: Annotated[str, model_rules.formatted(schema_limits.PCIE_ROOT)] | None = None
    """PCIe root complex above the device, such as "pci0000:3a"; devices with the same one are
    close. Absent: unknown."""

    bus_id: model_rules.BusId | None = pydantic.Field(default=None, alias="busID")
    """PCI address in the spelling of sysfs: lowercase, such as "0000:3b:00.0". Absent: unknown."""


class Link(model_rules.Model):
    """One device's nearest way to one other device of the node."""

    peer: model_rules.Uuid
    """Uuid of the device at the other end; it must be listed in spec.devices too."""

    kind: vocabulary.LinkKind
    """What the way leads through, nearest first: nvlink, pcie-switch, pcie-host (one host bridge),
    numa (one NUMA node), system (between sockets)."""

    count: Annotated[int, model_rules.integer(1, 64)] | None = None
    """How many NVLinks join the two. Absent for all other kinds, and where unknown."""


class MigPlacement(model_rules.Model):
    """Which memory slices of its card a MIG instance occupies."""

    start: Annotated[int, model_rules.integer(0, schema_limits.MOST_SLICES - 1)]
    """First slice, counted from 0. Always written, also when it is 0."""

    size: Annotated[int, model_rules.integer(1, schema_limits.MOST_SLICES)]
    """Number of slices."""


class MigInstance(model_rules.Model):
    """One MIG instance: a part of a card that containers use as a card of its own."""

    uuid: model_rules.Uuid
    """Identity of the instance, such as "MIG-3f2c…"; what a container that holds it is given."""

    profile: model_rules.MigProfile
    """MIG profile, such as "1g.10gb"; asked for as nvidia.com/mig-1g.10gb."""

    memory: model_rules.Bytes
    """Memory of the instance, in bytes."""

    gi: Annotated[int, model_rules.integer(0, schema_limits.LARGEST_MIG_ID)] | None = None
    """Id of its GPU instance on the card. Absent: unknown."""

    ci: Annotated[int, model_rules.integer(0, schema_limits.LARGEST_MIG_ID)] | None = None
    """Id of its compute instance within the GPU instance. Absent: unknown."""

    placement: MigPlacement | None = None
    """Which slices of the card it occupies. Absent: unknown."""


class Mig(model_rules.Model):
    """MIG mode of a card, and the instances it is cut into."""

    model_config = pydantic.ConfigDict(
        json_schema_extra=model_rules.validations(
            model_rules.Rule(
                "self.enabled || !has(self.instances) || self.instances.size() == 0",
                "mig.instances may be listed only while mig.enabled is true",
            )
        )
    )

    enabled: model_rules.Flag
    """Whether the card is in MIG mode; it then serves MIG profiles and nothing else. Always written."""

    instances: Annotated[
        tuple[MigInstance, ...], model_rules.map_list("uuid", at_most=schema_limits.MOST_INSTANCES)
    ] = ()
    """The instances that exist on the card. Absent or empty: none, or not in MIG mode."""


class Sharing(model_rules.Model):
    """How one card serves several pods at once."""

    strategy: vocabulary.SharingStrategy
    """How the pods take turns: time-slicing (no isolation of memory), or mps (NVIDIA's
    Multi-Process Service)."""

    replicas: Annotated[int, model_rules.integer(1, schema_limits.MOST_REPLICAS)]
    """How many pods may hold the card at the same time."""

    one_per_container: model_rules.Flag | None = None
    """Whether the node's device plugin refuses a container that asks for several replicas
    (failRequestsGreaterThanOne), of this card or of several. Absent: it does not."""


class Vf(model_rules.Model):
    """One virtual function of a device."""

    minor: model_rules.Minor
    """Number of the virtual function, for people. Always written, also when it is 0; it need not be
    unique."""

    bus_id: model_rules.BusId | None = pydantic.Field(default=None, alias="busID")
    """PCI address of the virtual function, lowercase; this is its identity. Absent: it cannot be
    given out."""


class VfGroup(model_rules.Model):
    """Virtual functions of one device that share labels."""

    labels: model_rules.Labels = pydantic.Field(default_factory=dict)
    """Labels by which a pod may choose among the functions, such as {"driver": "mlx5_core"}."""

    vfs: Annotated[tuple[Vf, ...], model_rules.atomic_list(at_most=schema_limits.MOST_VFS)] = ()
    """The virtual functions of the group."""


class Card(model_rules.Model):
    """One device of the node: a GPU, a network card, an FPGA."""

    uuid: model_rules.Uuid
    """Identity of the device, such as "GPU-6cf3bbc0-…" or "rdma-0000:1f:00.0". Allocations name
    devices by it."""

    type: model_rules.DeviceType
    """What kind of device it is: gpu, rdma, fpga, or the word of a plug-in."""

    minor: model_rules.Minor
    """Number of the device file: N in /dev/nvidiaN. It is for people (uuid is identity), unique
    among the devices of one type, and always written, also when it is 0."""

    vendor: Annotated[str, model_rules.formatted(schema_limits.VENDOR)] | None = None
    """Who made it, in lowercase, such as "nvidia". Absent: unknown."""

    model: Annotated[str, model_rules.text(schema_limits.LONGEST_MODEL)] | None = None
    """Product name as the driver reports it, such as "NVIDIA A100-SXM4-80GB". Absent: unknown."""

    index: Annotated[int, model_rules.integer(0, 1023)] | None = None
    """Place in the driver's own order (the number that nvidia-smi shows). It may change on reboot;
    nothing is decided by it. Absent: unknown."""

    module_id: Annotated[int, model_rules.integer(0, schema_limits.LARGEST_MODULE_ID)] | None = (
        pydantic.Field(default=None, alias="moduleID")
    )
    """Number of the physical slot on the board. Absent: unknown."""

    memory: Annotated[int, model_rules.integer(1, schema_limits.LARGEST_MEMORY)] | None = None
    """Memory of the whole device, in bytes, as the driver reports it. Required for type gpu; absent
    for devices without memory of their own."""

    compute_capability: Annotated[str, model_rules.formatted(schema_limits.CUDA_VERSION)] | None = None
    """CUDA compute capability, such as "8.0". Absent: unknown, or not a CUDA card."""

    topology: Topology | None = None
    """Where the device sits in its node. Absent: unknown."""

    links: Annotated[tuple[Link, ...], model_rules.map_list("peer")] = ()
    """Its ways to other devices of the node, one for each peer. A peer that is missing here is
    taken to be as far away as the topology of the two says."""

    mig: Mig | None = None
    """MIG mode and instances. Absent: the card cannot do MIG."""

    sharing: Sharing | None = None
    """How the card is shared by several pods. Absent: it is given out whole or by fractions."""

    vf_groups: Annotated[tuple[VfGroup, ...], model_rules.atomic_list(at_most=schema_limits.MOST_GROUPS)] = ()
    """Virtual functions of the device, by group. Absent: the device is given out as a whole."""

    labels: model_rules.Labels = pydantic.Field(default_factory=dict)
    """Labels by which a pod may choose the device: what the agent knows of it, such as
    {"family": "hopper"}, and what people or packages say, such as {"fabric": "a"}."""

    resources: Annotated[
        dict[str, Annotated[int, model_rules.integer(0, schema_limits.LARGEST_MEMORY)]],
        pydantic.Field(max_length=16),
    ] = pydantic.Field(default_factory=dict)
    """How much the device gives of each resource that pods ask for, when nobody has any of it, such
    as {"berth.dev/gpu-core": 100, "berth.dev/gpu-memory": 85198045184}. It is for people: what is
    given out follows from the other fields."""


class Partition(model_rules.Model):
    """A group of cards that share a ring: a good choice for a pod that asks for as many."""

    members: Annotated[tuple[model_rules.Uuid, ...], model_rules.atomic_list(at_least=1)]
    """Uuids of the cards in the group; each must be listed in spec.devices too."""

    link: vocabulary.LinkKind | None = None
    """What joins the members. Absent: unknown."""

    score: Annotated[int, model_rules.integer(0, 1_000_000)] = 0
    """How good the group is compared with others of its size; higher is better. Absent: 0."""

    bandwidth: Annotated[int, model_rules.integer(0, 2**53)] = 0
    """Bytes a second that the ring carries, for pods that ask for so many. Absent: unknown."""


class SpecSummary(model_rules.Model):
    """The inventory in a few words, because the columns of kubectl can neither count nor join."""

    models: Annotated[str, model_rules.text(schema_limits.LONGEST_SUMMARY, least=0)]
    """Models and how many of each, such as "A100-SXM4-80GB x8"; several are joined by ", "."""

    gpus: Annotated[int, model_rules.integer(0, schema_limits.MOST_DEVICES)]
    """Number of devices of type gpu, healthy or not."""

    sharing: Annotated[str, model_rules.text(schema_limits.LONGEST_SUMMARY)] | None = None
    """How the cards are shared or cut, such as "time-slicing x4" or "mig 1g.10gb x7". Absent: none
    is."""


class DeviceSpec(model_rules.Model):
    """What the node has. The agent of the node writes it, except `cordon`, which belongs to people."""

    model_config = pydantic.ConfigDict(
        json_schema_extra=model_rules.validations(
            *device_status.OF_SPEC,
            # All rules are of the spec: the server would begin anew for each device with a rule of devices.
            model_rules.Rule(
                "!has(self.devices) || self.devices.all(device, device.type != 'gpu' || has(device.memory))",
                "memory must be given for every device of type gpu",
            ),
            # A list of one list is a variable. A minor is counted on from the first of its type.
            model_rules.Rule(
                "!has(self.devices) || [self.devices.map(device, device.type)].all(types, "
                f"[self.devices.map(device, device.minor + {2**31} * types.indexOf(device.type))]"
                ".all(minors, minors.all(minor, minors.indexOf(minor) == minors.lastIndexOf(minor))))",
                "devices of one type must have different minors",
            ),
            model_rules.Rule(
                model_rules.all_different("devices", "uuid"), "all devices must have different uuids"
            ),
            model_rules.Rule(
                "!has(self.devices) || [self.devices.map(device, device.uuid)].all(uuids, "
                "self.devices.all(device, !has(device.links) || [device.links.map(link, link.peer)]"
                ".all(peers, sets.contains(uuids, peers) && !(device.uuid in peers))))",
                "the peer of every link must be the uuid of another device in spec.devices",
            ),
            model_rules.Rule(
                "!has(self.partitions) || [has(self.devices) ? self.devices.map(device, device.uuid) : []]"
                ".all(uuids, self.partitions.all(group, sets.contains(uuids, group.members)))",
                "the members of every partition must be uuids of devices in spec.devices",
            ),
            model_rules.Rule(
                "!has(self.summary) || self.summary.gpus == "
                "(has(self.devices) ? self.devices.filter(device, device.type == 'gpu').size() : 0)",
                "summary.gpus must be the number of devices of type gpu",
            ),
        )
    )

    node: model_rules.NodeName
    """Name of the node that has these cards; it equals metadata.name."""

    boot_id: Annotated[str, model_rules.text(schema_limits.LONGEST_BOOT_ID)] | None = pydantic.Field(
        default=None, alias="bootID"
    )
    """Boot id of the node's kernel when the agent last looked; another one means a reboot. Absent:
    unknown."""

    driver: Driver | None = None
    """What runs the cards. Absent: no driver answered."""

    devices: Annotated[tuple[Card, ...], model_rules.atomic_list(at_most=schema_limits.MOST_DEVICES)] = ()
    """Every device of the node, the bad ones included, at most 64. Absent or empty: the node has
    none."""

    partitions: Annotated[tuple[Partition, ...], model_rules.atomic_list(schema_limits.MOST_PARTITIONS)] = ()
    """Groups of cards that share a ring, at most 64. Absent: none are known, and links decide."""

    gpu_stands_for: Annotated[str, model_rules.text(schema_limits.LONGEST_RESOURCE)] | None = None
    """The resource that asks on other nodes for what nvidia.com/gpu asks for on this one:
    "nvidia.com/gpu.shared" where shared cards are counted by their replicas under that name,
    "nvidia.com/mig-1g.10gb" where MIG instances are. Absent: it asks for whole cards."""

    summary: SpecSummary | None = None
    """The inventory in a few words, for the columns of kubectl."""

    cordon: Annotated[tuple[Annotated[str, model_rules.text(64)], ...], model_rules.set_list()] = ()
    """Written by people, never by the agent: which devices get no new pod, each by its uuid, a GPU
    also by its minor, or "all". Pods that hold them are left alone, unless the PlacementPolicy has
    onCordon: drain. A uuid stays with its card, a
    minor means the card that has it now. What names no device of this node has no effect, and is
    told in the column REASON and by an event. Absent or empty: no card is cordoned."""


class Device(model_rules.Object):
    """All cards of one node: what is there, how it fares, and which cards people want spared.

    There is one Device for each node with cards; it has the node's name and goes when the node goes.
    """

    model_config = pydantic.ConfigDict(
        json_schema_extra=model_rules.validations(
            model_rules.Rule(
                "self.metadata.name == self.spec.node",
                "spec.node must equal metadata.name: a Device has the name of its node",
            )
        )
    )

    spec: DeviceSpec
    """What the node has. The agent of the node writes it, except `cordon`, which belongs to people."""

    status: device_status.DeviceStatus = pydantic.Field(default_factory=device_status.DeviceStatus)
    """How the cards fare: verdicts and sources from the agent, liveness and counts from the
    operator."""
