"""Claims, PersistentVolumes, StorageClasses and what CSI drivers say, as plain values.

Only what a decision depends on is kept. Conditions on the labels of nodes are `Term`s, of which one must
hold; None stands for no condition.
"""

import dataclasses
from typing import Final

from berth_operator.scheduling.nodes import facts

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
AVAILABLE: Final = "Available"
FILESYSTEM: Final = "Filesystem"

Terms = tuple[facts.Term, ...]
ClaimKey = facts.ClaimKey


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim; `volume` is set once it has one, and `is_bound` once both sides agree.

    `owner` is the uid of the pod that controls it. `size` is 0 where none is requested.
    """

    namespace: str
    name: str
    uid: str = ""
    volume: str = ""
    is_bound: bool = False
    is_lost: bool = False
    is_deleted: bool = False
    owner: str = ""
    storage_class: str = ""
    attributes_class: str = ""
    selected_node: str = ""
    access_modes: frozenset[str] = frozenset()
    mode: str = FILESYSTEM
    size: int = 0
    selector: facts.Term | None = None  # An empty one selects all.
    is_too_long: bool = False  # Its selector is not read.
    version: str = dataclasses.field(default="", compare=False)

    @property
    def key(self) -> ClaimKey:
        """What identifies the claim."""
        return self.namespace, self.name


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolume: from which nodes it can be reached, and for which claims it would do.

    `zones` is what its zone and region labels ask of nodes. `claim` is the claim that it is meant for, and
    `claim_uid` the very one.
    """

    name: str
    affinity: Terms | None = None
    zones: Terms | None = None
    claim: ClaimKey | None = None
    claim_uid: str = ""
    phase: str = ""
    is_deleted: bool = False
    storage_class: str = ""
    attributes_class: str = ""
    access_modes: frozenset[str] = frozenset()
    mode: str = FILESYSTEM
    size: int = 0
    driver: str = ""
    handle: str = ""
    labels: facts.Labels = ()
    version: str = dataclasses.field(default="", compare=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """A StorageClass: whether a claim waits for its first pod, and where volumes may be made."""

    name: str
    provisioner: str = ""
    waits_for_pod: bool = False
    topologies: Terms | None = None

    @property
    def provisions(self) -> bool:
        """Whether volumes are made on demand."""
        return self.provisioner not in {"", NO_PROVISIONER}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """How large a volume of a class can be on the nodes of a part of the cluster (a CSIStorageCapacity).

    Without a topology it is about no node; an empty one selects all.
    """

    key: ClaimKey
    storage_class: str
    largest: int = 0
    topology: facts.Term | None = None
