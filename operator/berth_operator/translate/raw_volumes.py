"""What the operator reads of claims, PersistentVolumes and what describes storage, as it travels."""

from berth_crds import wire
from berth_operator.translate import raw


class LabelRequirement(wire.Struct, frozen=True):
    """One expression of a label selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(wire.Struct, frozen=True):
    """A label selector of Kubernetes."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelRequirement, ...] | None = None


class ClaimSpec(wire.Struct, frozen=True):
    """What a claim asks for, and the volume that it has."""

    access_modes: tuple[str, ...] | None = None
    resources: raw.ContainerResources | None = None
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str | None = None


class Phase(wire.Struct, frozen=True):
    """The phase of a claim or a volume."""

    phase: str = ""


class Claim(wire.Struct, frozen=True):
    """One PersistentVolumeClaim."""

    metadata: wire.Meta
    spec: ClaimSpec = ClaimSpec()
    status: Phase = Phase()
    length: int = 0  # Of the whole object in bytes, if that is large; the API has no such field.


class ClaimRef(wire.Struct, frozen=True):
    """The claim that a volume is meant for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(wire.Struct, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class VolumeAffinity(wire.Struct, frozen=True):
    """From which nodes a volume can be reached."""

    required: raw.NodeSelector | None = None


class VolumeSpec(wire.Struct, frozen=True):
    """What a PersistentVolume is."""

    access_modes: tuple[str, ...] | None = None
    capacity: raw.Resources | None = None
    claim_ref: ClaimRef | None = None
    csi: CsiSource | None = None
    node_affinity: VolumeAffinity | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None


class Volume(wire.Struct, frozen=True):
    """One PersistentVolume."""

    metadata: wire.Meta
    spec: VolumeSpec = VolumeSpec()
    status: Phase = Phase()


class TopologyRequirement(wire.Struct, frozen=True):
    """A label that a node must have, with one of these values."""

    key: str = ""
    values: tuple[str, ...] | None = None


class TopologyTerm(wire.Struct, frozen=True):
    """Labels that a node must all have."""

    match_label_expressions: tuple[TopologyRequirement, ...] | None = None


class StorageClass(wire.Struct, frozen=True):
    """One StorageClass."""

    metadata: wire.Meta
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologyTerm, ...] | None = None


class DriverSpec(wire.Struct, frozen=True):
    """What a CSI driver says of itself."""

    storage_capacity: bool | None = None


class CsiDriver(wire.Struct, frozen=True):
    """One CSIDriver."""

    metadata: wire.Meta
    spec: DriverSpec = DriverSpec()


class DriverLimit(wire.Struct, frozen=True):
    """How many volumes a driver can attach to a node."""

    count: int | None = None


class NodeDriver(wire.Struct, frozen=True):
    """A CSI driver on a node."""

    name: str = ""
    allocatable: DriverLimit | None = None


class CsiNodeSpec(wire.Struct, frozen=True):
    """The CSI drivers of a node."""

    drivers: tuple[NodeDriver, ...] | None = None


class CsiNode(wire.Struct, frozen=True):
    """One CSINode."""

    metadata: wire.Meta
    spec: CsiNodeSpec = CsiNodeSpec()


class Capacity(wire.Struct, frozen=True):
    """One CSIStorageCapacity."""

    metadata: wire.Meta
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: raw.Quantity | None = None
    maximum_volume_size: raw.Quantity | None = None
