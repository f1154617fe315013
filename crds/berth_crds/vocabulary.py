"""The words of the contract that may take one of a few values.

Each enum here is the single spelling used in code, fields, metrics and
documents. Adding a value is an API change; the schema lists these values.
"""

from enum import StrEnum


class DeviceType(StrEnum):
    """Kinds of device that Berth itself knows; the field stays open for plug-ins."""

    GPU = "gpu"
    RDMA = "rdma"
    FPGA = "fpga"


class Health(StrEnum):
    """The agent's verdict on one card."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


class Recovery(StrEnum):
    """What it takes to bring an unhealthy card back."""

    NONE = "none"
    RESET = "reset"
    REBOOT = "reboot"
    DRAIN = "drain"
    REPLACE = "replace"


class OnSick(StrEnum):
    """What becomes of the pods on a card that falls sick."""

    LEAVE = "leave"
    EVICT = "evict"


class OnCordon(StrEnum):
    """What becomes of the pods on a card that people cordon."""

    STOP = "stop"
    DRAIN = "drain"


class LinkKind(StrEnum):
    """How two cards of a node reach each other, nearest first."""

    NVLINK = "nvlink"
    PCIE_SWITCH = "pcie-switch"
    PCIE_HOST = "pcie-host"
    NUMA = "numa"
    SYSTEM = "system"


class SharingStrategy(StrEnum):
    """How one card serves several pods at once."""

    TIME_SLICING = "time-slicing"
    MPS = "mps"


class Strategy(StrEnum):
    """How nodes are ranked when several fit."""

    FRAGMENTATION = "fragmentation"
    BINPACK = "binpack"
    SPREAD = "spread"
    WEIGHTED = "weighted"


class LoadSource(StrEnum):
    """Who says how loaded the cards are."""

    AGENTS = "agents"
    PROMETHEUS = "prometheus"


class MetricNames(StrEnum):
    """By which names Prometheus has what was measured of the cards."""

    DCGM = "dcgm"
    BERTH = "berth"


class NodeNames(StrEnum):
    """By which names nodes list what their devices can give."""

    NONE = "none"
    BERTH = "berth"
    KOORDINATOR = "koordinator"


class PodRecords(StrEnum):
    """In whose annotations a bind records which devices a pod was given."""

    BERTH = "berth"
    KOORDINATOR = "koordinator"


class Delivery(StrEnum):
    """Which pods count as delivered: their containers get the cards that they are given, and no others."""

    REPORTED = "reported"
    ENVIRONMENT = "environment"
    UNCHECKED = "unchecked"


class Scope(StrEnum):
    """How close the cards of a pod sit to each other, widest first."""

    NODE = "node"
    NUMA = "numa"
    PCIE = "pcie"
    NVLINK = "nvlink"
    DEVICE = "device"


class PartitionChoice(StrEnum):
    """Which partitions of a node's table a pod takes: those of the best score alone, or the best free one."""

    RESTRICTED = "restricted"
    BEST_EFFORT = "best-effort"


class PartitionPolicy(StrEnum):
    """Whether a node gives whole cards in partitions of its table only, or rather."""

    HONOR = "honor"
    PREFER = "prefer"


class ScopePolicy(StrEnum):
    """Whether a scope is a condition or a wish."""

    REQUIRED = "required"
    PREFERRED = "preferred"


class DeviceCondition(StrEnum):
    """Condition types of a Device: the first is the operator's, the others are the agent's."""

    READY = "Ready"
    NVML_READY = "NVMLReady"
    POD_RESOURCES_READY = "PodResourcesReady"
    ENV_READY = "EnvReady"
    NRI_READY = "NRIReady"
    CDI_READY = "CDIReady"
    DEVICE_PLUGIN_READY = "DevicePluginReady"
    MIG_READY = "MIGReady"
    SHARES_ISOLATED = "SharesIsolated"
    DEVICE_PACKAGES_READY = "DevicePackagesReady"


class ReadyReason(StrEnum):
    """Why a Device is Ready or not."""

    AGENT_ALIVE = "AgentAlive"
    AGENT_SILENT = "AgentSilent"
    SOURCE_FAILED = "SourceFailed"


class IsolationReason(StrEnum):
    """What keeps containers to their parts of cards: reasons of SharesIsolated."""

    BY_MPS = "ByMPS"
    BY_HAMI = "ByHAMi"
    NOT_ENFORCED = "NotEnforced"


class GpuPodCondition(StrEnum):
    """Condition types of a GpuPod."""

    VERIFIED = "Verified"


class PodPhase(StrEnum):
    """Where a pod is in its life, in the words of Kubernetes."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class PolicyCondition(StrEnum):
    """Condition types of a PlacementPolicy."""

    ACCEPTED = "Accepted"


class Truth(StrEnum):
    """The three values of a Kubernetes condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class GrantSource(StrEnum):
    """Who says that a container really holds a card."""

    POD_RESOURCES = "podresources"
    NVML = "nvml"
    SIMULATED = "simulated"
