"""The answers: what to do with a pod, and for what reason not.

A decision is one of a closed union; the engine matches on it and acts. A refusal is
data: a reason from an enum and its subject. Sentences are made of it in `explain`.
"""

import dataclasses
import enum
from typing import Final

from berth_operator.scheduling import values


class EvictionCause(enum.StrEnum):
    """Why a pod is evicted."""

    AGENT_SILENT = "agent-silent"
    CARD_SICK = "card-sick"
    CARD_CORDONED = "card-cordoned"


class Reason(enum.StrEnum):
    """Why a node, a card or a whole request is refused."""

    # The request itself is at fault: only an edit of the pod can help.
    INVALID_REQUEST = "InvalidRequest"
    UNSUPPORTED_REQUEST = "UnsupportedRequest"
    UNSUPPORTED_CONSTRAINT = "UnsupportedConstraint"
    # All waiting pods together: this one is read again when others are placed or gone.
    TOO_MUCH_TOGETHER = "TooMuchTogether"
    # The node, apart from its cards.
    NODE_CORDONED = "Unschedulable"
    TAINTED = "Tainted"
    FEATURE_MISSING = "FeatureMissing"
    SELECTOR_MISMATCH = "SelectorMismatch"
    INSUFFICIENT_RESOURCE = "InsufficientResource"
    HOST_PORT_TAKEN = "HostPortTaken"
    DISK_IN_USE = "DiskInUse"
    # The pods on all nodes.
    SPREAD_LABEL_MISSING = "SpreadLabelMissing"
    TOPOLOGY_SPREAD = "TopologySpread"
    POD_AFFINITY = "PodAffinity"
    POD_ANTI_AFFINITY = "PodAntiAffinity"
    REPELLED = "ExistingPodAntiAffinity"
    UNKNOWN_POD_LABELS = "UnknownPodLabels"
    # The claims of the pod, whatever the node is.
    CLAIMS_UNREAD = "ClaimsUnread"
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_NOT_MADE = "ClaimNotMade"
    CLAIM_UNREADABLE = "ClaimUnreadable"
    CLAIM_LOST = "ClaimLost"
    CLAIM_DELETED = "ClaimDeleted"
    CLAIM_NOT_OWNED = "ClaimNotOwned"
    CLAIM_UNBOUND = "ClaimUnbound"
    CLAIM_IN_USE = "ClaimInUse"
    VOLUME_MISSING = "VolumeMissing"
    # Its volumes, and where they can be reached or made.
    VOLUME_AFFINITY = "VolumeAffinity"
    VOLUME_ZONE = "VolumeZone"
    VOLUME_ELSEWHERE = "VolumeElsewhere"
    VOLUME_TOPOLOGY = "VolumeTopology"
    STORAGE_CAPACITY = "InsufficientStorageCapacity"
    NO_VOLUME = "NoVolume"
    VOLUME_FAILED = "VolumeFailed"
    VOLUME_LIMIT = "VolumeLimit"
    # The node's cards.
    NOT_PUBLISHED = "NotPublished"
    NO_DEVICE = "NoDevice"
    SILENT = "Silent"
    SOURCE_FAILED = "SourceFailed"
    QUARANTINED = "Quarantined"
    NOT_FED = "NotFed"
    NOT_COUNTED = "NotCounted"
    NO_DELIVERY = "NoDelivery"
    ONE_REPLICA_EACH = "OneReplicaEach"
    TOO_FEW_CARDS = "TooFewCards"
    MODEL_MISMATCH = "ModelMismatch"
    UNHEALTHY = "Unhealthy"
    CARD_CORDONED = "Cordoned"
    OCCUPIED = "Occupied"
    DUPLICATE_UUID = "DuplicateUuid"
    INVALID_ALLOCATION = "InvalidAllocation"
    MIG_MODE = "MigMode"
    WITHHELD = "Withheld"
    FULL = "Full"
    CARD_MEMORY = "InsufficientCardMemory"
    FREE_MEMORY = "InsufficientFreeMemory"
    # What one card is, so that it could not serve the request even if it were unused.
    EXCLUDED = "Excluded"
    NOT_INCLUDED = "NotIncluded"
    TOO_SMALL = "TooSmall"
    SHARING_MODE = "SharingMode"
    PROFILE_MISMATCH = "ProfileMismatch"
    LABEL_MISMATCH = "LabelMismatch"
    # What one card is used for: by one pod alone, by several, or down to its last instance or function.
    IN_USE = "InUse"
    PARTLY_USED = "PartlyUsed"
    NO_INSTANCE = "NoInstance"
    NO_FUNCTION = "NoFunction"
    # What other pods have below the same PCIe root, of a pod that wants this to itself.
    ROOT_IN_USE = "RootInUse"
    # How the cards belong together, though each would do.
    SCOPE_MISMATCH = "ScopeMismatch"
    NO_PARTITION = "NoPartition"
    PARTITIONS_HONORED = "PartitionsHonored"
    NO_ROOT = "NoRoot"
    # The search for a combination was cut short: it may exist.
    UNDECIDED = "Undecided"
    # The cluster.
    NO_NODES = "NoNodes"


class ClusterEvent(enum.StrEnum):
    """A change that may let a refused pod fit after all."""

    CAPACITY_FREED = "CapacityFreed"
    NODE_CHANGED = "NodeChanged"
    DEVICE_CHANGED = "DeviceChanged"
    POLICY_CHANGED = "PolicyChanged"
    LOAD_CHANGED = "LoadChanged"
    # On any node. A pod that has other labels than before has left and come.
    POD_CAME = "PodCame"
    POD_LEFT = "PodLeft"
    VOLUME_CHANGED = "VolumeChanged"


AwaitedEvents = frozenset[ClusterEvent]
# These happen all the time, and help those pods alone that say so.
FREQUENT_EVENTS: Final = frozenset(
    {ClusterEvent.LOAD_CHANGED, ClusterEvent.POD_CAME, ClusterEvent.POD_LEFT, ClusterEvent.VOLUME_CHANGED}
)
ANY_RARE_EVENT: Final[AwaitedEvents] = frozenset(ClusterEvent) - FREQUENT_EVENTS
POD_EVENTS: Final[AwaitedEvents] = frozenset({ClusterEvent.POD_CAME, ClusterEvent.POD_LEFT})


NodeReason = tuple[Reason, str]  # Why a node refuses, with the name of the resource, the key of the taint ...


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """One no: why, on which node, about which card or resource, with the figures that matter."""

    reason: Reason
    node: str = ""
    device: str = ""
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Count:
    """How many nodes refuse for one reason."""

    reason: Reason
    detail: str
    nodes: int


@values.quickly_made
@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """A part of one device, or the whole of it: core in percent, memory in bytes.

    A MIG instance has a uuid of its own, the minor of its card, and its profile; a virtual
    function is named by its bus id beside the uuid of its device. The memory of the whole
    card is there for words alone, where it is known. Of a shared card it is so many `replicas`. With it up to
    `core_limit` percent of the core might be promised in all; 0 stands for 100, and with all the core for a
    whole device.
    """

    uuid: str
    minor: int
    core: int
    memory: int
    type: str = "gpu"
    profile: str = ""
    function: str = ""
    card_memory: int = dataclasses.field(default=0, compare=False)
    replicas: int = dataclasses.field(default=0, compare=False)
    core_limit: int = 0


@values.quickly_made
@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """The devices of one container; `runs` is false for an init container, which borrows."""

    container: str
    shares: tuple[Share, ...]
    runs: bool = True


@values.quickly_made
@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """A node and, for each container that asked, its very cards; in words, what enforces parts of cards."""

    node: str
    grants: tuple[Grant, ...] = ()
    isolation: str = dataclasses.field(default="", compare=False)


@values.quickly_made
@dataclasses.dataclass(frozen=True, slots=True)
class Bind:
    """The pod fits: write this."""

    uid: str
    placement: Placement


@values.quickly_made
@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """The pod does not fit now: how many nodes refused for which reason, and which cluster events could help.

    `cut_short` tells that it has used up all the search that one pod may have, and `unsearched` how many
    nodes are left to the next search then: fewer each time, as long as it gets on. The search of the nodes
    that are `undecided` did not end: it is tried again after a pause, and no event of these helps sooner.
    """

    uid: str
    counts: tuple[Count, ...]
    awaited: AwaitedEvents | None  # None: it may be tried again after a pause. Empty: no event would help.
    cut_short: bool = False
    unsearched: int = 0
    undecided: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class Reject:
    """The request cannot be understood or served: only an edit of the pod can help, or an awaited event."""

    uid: str
    refusals: tuple[Refusal, ...]
    awaited: AwaitedEvents = frozenset()


Decision = Bind | Wait | Reject

# Which changes may lift which refusal. A reason that is missing here is lifted only by an edit of this pod
# or of others.
LIFTED_BY: dict[Reason, frozenset[ClusterEvent]] = {
    Reason.NODE_CORDONED: frozenset({ClusterEvent.NODE_CHANGED}),
    Reason.TAINTED: frozenset({ClusterEvent.NODE_CHANGED}),
    Reason.FEATURE_MISSING: frozenset({ClusterEvent.NODE_CHANGED}),
    Reason.SELECTOR_MISMATCH: frozenset({ClusterEvent.NODE_CHANGED}),
    Reason.INSUFFICIENT_RESOURCE: frozenset({ClusterEvent.NODE_CHANGED, ClusterEvent.CAPACITY_FREED}),
    Reason.HOST_PORT_TAKEN: frozenset({ClusterEvent.CAPACITY_FREED}),
    Reason.DISK_IN_USE: frozenset({ClusterEvent.CAPACITY_FREED}),
    Reason.SPREAD_LABEL_MISSING: frozenset({ClusterEvent.NODE_CHANGED}),
    Reason.TOPOLOGY_SPREAD: POD_EVENTS,
    Reason.POD_AFFINITY: frozenset({ClusterEvent.POD_CAME}),
    Reason.POD_ANTI_AFFINITY: frozenset({ClusterEvent.POD_LEFT}),
    Reason.REPELLED: frozenset({ClusterEvent.POD_LEFT}),
    Reason.UNKNOWN_POD_LABELS: frozenset({ClusterEvent.POD_LEFT}),
    Reason.CLAIMS_UNREAD: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.CLAIM_MISSING: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.CLAIM_NOT_MADE: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.CLAIM_UNREADABLE: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.CLAIM_LOST: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.CLAIM_DELETED: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.CLAIM_NOT_OWNED: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.CLAIM_UNBOUND: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.CLAIM_IN_USE: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.VOLUME_MISSING: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.VOLUME_AFFINITY: frozenset({ClusterEvent.VOLUME_CHANGED, ClusterEvent.NODE_CHANGED}),
    Reason.VOLUME_ZONE: frozenset({ClusterEvent.VOLUME_CHANGED, ClusterEvent.NODE_CHANGED}),
    Reason.VOLUME_ELSEWHERE: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.VOLUME_TOPOLOGY: frozenset({ClusterEvent.VOLUME_CHANGED, ClusterEvent.NODE_CHANGED}),
    Reason.STORAGE_CAPACITY: frozenset({ClusterEvent.VOLUME_CHANGED, ClusterEvent.NODE_CHANGED}),
    Reason.NO_VOLUME: frozenset({ClusterEvent.VOLUME_CHANGED, ClusterEvent.NODE_CHANGED}),
    Reason.VOLUME_FAILED: frozenset({ClusterEvent.VOLUME_CHANGED}),
    Reason.VOLUME_LIMIT: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.VOLUME_CHANGED}),
    Reason.NOT_PUBLISHED: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.NO_DEVICE: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.SILENT: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.SOURCE_FAILED: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.QUARANTINED: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.NOT_FED: frozenset({ClusterEvent.DEVICE_CHANGED, ClusterEvent.POLICY_CHANGED}),
    Reason.NOT_COUNTED: frozenset({ClusterEvent.DEVICE_CHANGED, ClusterEvent.POLICY_CHANGED}),
    Reason.NO_DELIVERY: frozenset({ClusterEvent.DEVICE_CHANGED, ClusterEvent.POLICY_CHANGED}),
    Reason.ONE_REPLICA_EACH: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.TOO_FEW_CARDS: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.MODEL_MISMATCH: frozenset({ClusterEvent.DEVICE_CHANGED, ClusterEvent.POLICY_CHANGED}),
    Reason.UNHEALTHY: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.CARD_CORDONED: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.MIG_MODE: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.OCCUPIED: frozenset({ClusterEvent.DEVICE_CHANGED, ClusterEvent.CAPACITY_FREED}),
    Reason.DUPLICATE_UUID: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.INVALID_ALLOCATION: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.WITHHELD: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.FULL: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.CARD_MEMORY: frozenset(
        {ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED, ClusterEvent.LOAD_CHANGED}
    ),
    Reason.FREE_MEMORY: frozenset(
        {ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED, ClusterEvent.LOAD_CHANGED}
    ),
    Reason.EXCLUDED: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.NOT_INCLUDED: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.TOO_SMALL: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.SHARING_MODE: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.PROFILE_MISMATCH: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.LABEL_MISMATCH: frozenset({ClusterEvent.DEVICE_CHANGED}),
    Reason.IN_USE: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.PARTLY_USED: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.NO_INSTANCE: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.NO_FUNCTION: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.ROOT_IN_USE: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.SCOPE_MISMATCH: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.NO_PARTITION: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.PARTITIONS_HONORED: frozenset(
        {ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED, ClusterEvent.NODE_CHANGED}
    ),
    Reason.NO_ROOT: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.UNDECIDED: frozenset({ClusterEvent.CAPACITY_FREED, ClusterEvent.DEVICE_CHANGED}),
    Reason.NO_NODES: frozenset({ClusterEvent.NODE_CHANGED}),
}


def awaited_events(counts: tuple[Count, ...]) -> AwaitedEvents:
    """Return the cluster events that could help; a new node may always help, whatever others answered."""
    helps = {help_ for count in counts for help_ in LIFTED_BY.get(count.reason, frozenset())}
    return frozenset(helps | {ClusterEvent.NODE_CHANGED}) if counts else frozenset()
