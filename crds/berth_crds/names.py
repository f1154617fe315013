"""Every name that operator, agent and users must spell alike.

API group, resource names, annotation keys, field managers, identities and Leases
are written once, here. Nothing in this module computes more than a string.
"""

from typing import Final

GROUP: Final = "berth.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
CATEGORY: Final = "berth"

SCHEDULER_NAME: Final = "berth-scheduler"
KOORDINATOR_SCHEDULER: Final = "koord-scheduler"  # As Koordinator itself calls it.

# Plurals, as they stand in URLs.
DEVICES: Final = "devices"
GPU_PODS: Final = "gpupods"
POLICIES: Final = "placementpolicies"
DEFAULT_POLICY: Final = "default"

# Where Berth itself lives, and who it is there.
SYSTEM_NAMESPACE: Final = "berth-system"
NODES_NAMESPACE: Final = "berth-nodes"
LEADER_LEASE: Final = "berth-operator"
OPERATOR_ACCOUNT: Final = "berth-operator"
AGENT_ACCOUNT: Final = "berth-agent"
OPERATOR_MANAGER: Final = "berth-operator"
AGENT_MANAGER: Final = "berth-agent"
# Of a Lease with the load of the cards, which an agent of an earlier version then leaves alone.
AGENT_LOAD_MANAGER: Final = "berth-agent-load"

# Asking, by resources of a container.
NVIDIA_GPU: Final = "nvidia.com/gpu"
NVIDIA_GPU_SHARED: Final = "nvidia.com/gpu.shared"
NVIDIA_MIG_PREFIX: Final = "nvidia.com/mig-"
GPU: Final = f"{GROUP}/gpu"
GPU_CORE: Final = f"{GROUP}/gpu-core"
GPU_MEMORY: Final = f"{GROUP}/gpu-memory"
GPU_MEMORY_RATIO: Final = f"{GROUP}/gpu-memory-ratio"
GPU_SHARED: Final = f"{GROUP}/gpu.shared"
RDMA: Final = f"{GROUP}/rdma"
FPGA: Final = f"{GROUP}/fpga"

# Asking, by annotations of the pod.
MODEL: Final = f"{GROUP}/model"
MODEL_PATTERN: Final = f"{GROUP}/model-pattern"
AVOID_MODEL: Final = f"{GROUP}/avoid-model"
AVOID_MODEL_PATTERN: Final = f"{GROUP}/avoid-model-pattern"
UUIDS: Final = f"{GROUP}/uuids"
AVOID_UUIDS: Final = f"{GROUP}/avoid-uuids"
MEMORY_AT_LEAST: Final = f"{GROUP}/memory-at-least"
FREE_MEMORY_AT_LEAST: Final = f"{GROUP}/free-memory-at-least"
MEMORY_TOTAL_AT_LEAST: Final = f"{GROUP}/memory-total-at-least"
SCOPE: Final = f"{GROUP}/scope"
SCOPE_POLICY: Final = f"{GROUP}/scope-policy"
PARTITION: Final = f"{GROUP}/partition"
RING_BANDWIDTH: Final = f"{GROUP}/ring-bandwidth"
STRATEGY: Final = f"{GROUP}/strategy"
JOINT: Final = f"{GROUP}/joint"
JOINT_POLICY: Final = f"{GROUP}/joint-policy"
EXCLUSIVE: Final = f"{GROUP}/exclusive"
APPLY: Final = f"{GROUP}/apply"
LABELS: Final = f"{GROUP}/labels"
FUNCTION_LABELS: Final = f"{GROUP}/function-labels"
REPLICAS: Final = f"{GROUP}/replicas"
GANG: Final = f"{GROUP}/gang"
GANG_SIZE: Final = f"{GROUP}/gang-size"

# A label of a Node or a Device: whether its whole cards are given in partitions only.
PARTITION_POLICY: Final = f"{GROUP}/partition-policy"

# Answering: written by the Binding alone, never changed afterwards.
ALLOCATION: Final = f"{GROUP}/allocation"
MINORS: Final = f"{GROUP}/minors"
TERM: Final = f"{GROUP}/term"
# On the leader's Lease: for which pods binds may be under way.
IN_FLIGHT: Final = f"{GROUP}/in-flight"
# On the leader's Lease: agents whose Leases are no newer than this revision are not ready.
UNRENEWED: Final = f"{GROUP}/unrenewed"
# On the Lease of an agent: what was measured of the cards of its node (`card_load`).
LOAD: Final = f"{GROUP}/load"
FENCED_LABEL: Final = f"{GROUP}/fenced"

# On a Node whose agent is silent, where the policy says so.
AGENT_SILENT_TAINT: Final = f"{GROUP}/agent-silent"

# A person's word to the agent, on a Device: cards that were repaired.
REPAIRED: Final = f"{GROUP}/repaired"

CONTAINER_INFIX: Final = f".devices.{GROUP}/"
NO_CARDS: Final = "void"  # In place of the uuids of a container that holds no GPU: its runtime gives it none.


def container_key(container: str, field: str) -> str:
    """Return the annotation that feeds one container's environment through fieldRef."""
    return f"{container}{CONTAINER_INFIX}{field}"


def of_instances(profile: str) -> str:
    """Return the resource by which MIG instances of a profile are asked for: it has no plus in it."""
    return f"{NVIDIA_MIG_PREFIX}{profile.replace('+', '.')}"
