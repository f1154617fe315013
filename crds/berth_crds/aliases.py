"""Other projects' names as data: what each key means in Berth's own words.

Berth understands pods written for Koordinator, HAMi, Volcano, gpushare, KAI, the NVIDIA device plugin,
caden2016's scheduler, Genius and KubeGPU. AMOUNTS are keys that ask for devices, OPTIONS are keys that
say which devices and how, and KINDS and GANGS are devices and groups of pods that Berth does not serve.
`translate` walks the tables; nothing else knows a foreign name. How each key is read stands in the manual,
`manifests/aliases.md`; a test compares its rows with these tables.

A figure is multiplied by `scale`, which turns MiB, GiB and fractions of a card into bytes
and percent, rounded up. Most projects speak of all cards of a container together, as Berth
does; where a figure is meant for `each` card, SLICES says by which key the project counts
the cards, and what it takes for granted where a key is left out.

Where the units of a project can be configured, its default holds: MiB for HAMi and
Volcano, GiB for gpushare (`--memory-unit=GiB`).
"""

import difflib
import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from berth_crds import device_types, names

MIB: Final = 1024**2
GIB: Final = 1024**3
NVIDIA: Final = "nvidia.com/"
ALIKE: Final = 0.75  # How alike two names are of which one is a misspelling of the other.
LONGEST_NAME: Final = 63  # Kubernetes takes no more behind the group.


class Where(enum.StrEnum):
    """Where on a pod a key stands."""

    RESOURCE = "resource"
    ANNOTATION = "annotation"
    LABEL = "label"


NOTHING: Final = ""  # What a key means that is served by being left alone.


@dataclass(frozen=True, slots=True)
class Amount:
    """A key that asks for devices: which resource of Berth it stands for, and by which factor.

    On the pod itself it speaks for one container: those that ask for `beside`, the one that
    its project names, or the first.
    """

    project: str
    key: str
    means: str
    scale: int = 1
    each: bool = False
    where: Where = Where.RESOURCE
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Slices:
    """How a project asks for the same slice of several cards.

    `count` says of how many; only the figures in `lone` may stand without it, for one card.
    Where `exclusive`, all memory is meant if none is named, and all of the compute with it.
    """

    project: str
    count: str
    lone: frozenset[str]
    exclusive: bool


@dataclass(frozen=True, slots=True)
class Option:
    """A key that says which devices or how: the keys of Berth it stands for, and how it is read.

    `converter` names a function of `translate` that turns its text into the text of Berth's keys.
    """

    project: str
    key: str
    means: tuple[str, ...]
    converter: str
    where: Where = Where.ANNOTATION


@dataclass(frozen=True, slots=True)
class Gang:
    """Keys, as annotation or label, each of which makes a pod one of a group that starts as a whole.

    By the key `size` the pod itself may say how many of the group there must be: one is no group.
    """

    project: str
    names: tuple[str, ...]
    size: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """All of them, the size last."""
        return (*self.names, self.size) if self.size else self.names


KOORDINATOR: Final = "Koordinator"
HAMI: Final = "HAMi"
VOLCANO: Final = "Volcano vGPU"
VOLCANO_GANGS: Final = "Volcano"
COSCHEDULING: Final = "coscheduling"
VOLCANO_SHARE: Final = "Volcano GPU share"
GPUSHARE: Final = "gpushare"
KAI: Final = "KAI"
CADEN: Final = "caden2016"
GENIUS: Final = "Genius"
KUBEGPU: Final = "KubeGPU"

# ---------------------------------------------------------------- what asks for devices

# Berth's own names, each of which is also the meaning of others.
OWN: Final = (
    names.NVIDIA_GPU,
    names.NVIDIA_GPU_SHARED,
    names.GPU,
    names.GPU_CORE,
    names.GPU_MEMORY,
    names.GPU_MEMORY_RATIO,
    names.GPU_SHARED,
    names.RDMA,
    names.FPGA,
)

_KOORDINATOR: Final = "koordinator.sh/"
_DEPRECATED: Final = "kubernetes.io/"

AMOUNTS: Final = (
    Amount(KOORDINATOR, f"{_KOORDINATOR}gpu", names.GPU),
    Amount(KOORDINATOR, f"{_KOORDINATOR}gpu.shared", names.GPU_SHARED),
    Amount(KOORDINATOR, f"{_KOORDINATOR}gpu-core", names.GPU_CORE),
    Amount(KOORDINATOR, f"{_KOORDINATOR}gpu-memory", names.GPU_MEMORY),
    Amount(KOORDINATOR, f"{_KOORDINATOR}gpu-memory-ratio", names.GPU_MEMORY_RATIO),
    Amount(KOORDINATOR, f"{_KOORDINATOR}rdma", names.RDMA),
    Amount(KOORDINATOR, f"{_KOORDINATOR}fpga", names.FPGA),
    Amount(KOORDINATOR, f"{_DEPRECATED}gpu", names.GPU),
    Amount(KOORDINATOR, f"{_DEPRECATED}gpu-core", names.GPU_CORE),
    Amount(KOORDINATOR, f"{_DEPRECATED}gpu-memory", names.GPU_MEMORY),
    Amount(KOORDINATOR, f"{_DEPRECATED}gpu-memory-ratio", names.GPU_MEMORY_RATIO),
    Amount(KOORDINATOR, f"{_DEPRECATED}rdma", names.RDMA),
    Amount(KOORDINATOR, f"{_DEPRECATED}fpga", names.FPGA),
    Amount(HAMI, "nvidia.com/gpumem", names.GPU_MEMORY, MIB, each=True),
    Amount(HAMI, "nvidia.com/gpumem-percentage", names.GPU_MEMORY_RATIO, each=True),
    Amount(HAMI, "nvidia.com/gpucores", names.GPU_CORE, each=True),
    Amount(HAMI, "nvidia.com/priority", NOTHING),
    Amount(VOLCANO, "volcano.sh/vgpu-number", names.NVIDIA_GPU),
    Amount(VOLCANO, "volcano.sh/vgpu-memory", names.GPU_MEMORY, MIB, each=True),
    Amount(VOLCANO, "volcano.sh/vgpu-memory-percentage", names.GPU_MEMORY_RATIO, each=True),
    Amount(VOLCANO, "volcano.sh/vgpu-cores", names.GPU_CORE, each=True),
    Amount(VOLCANO_SHARE, "volcano.sh/gpu-number", names.NVIDIA_GPU),
    Amount(VOLCANO_SHARE, "volcano.sh/gpu-memory", names.GPU_MEMORY, MIB),
    Amount(GPUSHARE, "aliyun.com/gpu-mem", names.GPU_MEMORY, GIB),
    Amount(GPUSHARE, "aliyun.com/gpu-core.percentage", names.GPU_CORE),
    Amount(GPUSHARE, "aliyun.com/gpu-count", names.GPU_SHARED),
    Amount(
        GPUSHARE,
        "aliyun.com/gpu-count",
        names.GPU_SHARED,
        where=Where.LABEL,
        beside="aliyun.com/gpu-mem",
    ),
    Amount(
        KAI,
        "gpu-fraction",
        names.GPU_MEMORY_RATIO,
        100,
        each=True,
        where=Where.ANNOTATION,
    ),
    Amount(KAI, "gpu-memory", names.GPU_MEMORY, MIB, each=True, where=Where.ANNOTATION),
    Amount(KAI, "gpu-fraction-num-devices", names.GPU_SHARED, where=Where.ANNOTATION),
    Amount(GENIUS, "genius/gpu-number", names.NVIDIA_GPU, where=Where.LABEL),
    Amount(KUBEGPU, "alpha.gpu/numgpu", names.NVIDIA_GPU),
    Amount(KUBEGPU, "alpha.gpu/gpu-generate-topology", NOTHING),
    Amount(KUBEGPU, "gpu/gpu-generate-topology", NOTHING),
)

# Names that Koordinator has renamed: where the new name stands as well, it alone counts.
RENAMED: Final = {
    row.key: row.key.replace(_DEPRECATED, _KOORDINATOR, 1)
    for row in AMOUNTS
    if row.key.startswith(_DEPRECATED)
}

_MEASURES: Final = frozenset({names.GPU_CORE, names.GPU_MEMORY, names.GPU_MEMORY_RATIO})
SLICES: Final = (
    Slices(HAMI, names.NVIDIA_GPU, lone=_MEASURES, exclusive=True),
    Slices(VOLCANO, "volcano.sh/vgpu-number", lone=frozenset({names.GPU_MEMORY}), exclusive=True),
    Slices(KAI, "gpu-fraction-num-devices", lone=_MEASURES, exclusive=False),
)

# Which container KAI means, where not the first one.
KAI_CONTAINER: Final = "gpu-fraction-container-name"

# Where KubeGPU keeps what each container asks: a record in JSON, whose `requests` count the cards or name the
# path of each.
KUBEGPU_RECORDS: Final = ("pod.alpha/DeviceInformation", "KubeDevice/DeviceInfo")
KUBEGPU_COUNTS: Final = ("alpha.gpu/numgpu", names.NVIDIA_GPU)
KUBEGPU_PATHS: Final = ("alpha/grpresource/", "resource/group/")

# Where Koordinator's scheduler writes which devices it gave a pod: a record in JSON, by minors.
KOORDINATOR_RECORD: Final = "scheduling.koordinator.sh/device-allocated"

# ---------------------------------------------------------------- what says which, and how

GENIUS_PRIORITY: Final = "genius/priority"
GENIUS_MEMORY: Final = "genius/gpu-memory-each"
GENIUS_MEMORY_TOTAL: Final = "genius/gpu-memory-total"

OPTIONS: Final = (
    Option(
        KOORDINATOR,
        "scheduling.koordinator.sh/device-allocate-hint",
        (names.APPLY, names.EXCLUSIVE, names.LABELS, names.FUNCTION_LABELS, names.SCOPE),
        "allocate hint",
    ),
    Option(
        KOORDINATOR,
        "scheduling.koordinator.sh/device-joint-allocate",
        (names.JOINT, names.JOINT_POLICY),
        "joint allocate",
    ),
    Option(
        KOORDINATOR,
        "scheduling.koordinator.sh/gpu-partition-spec",
        (names.PARTITION, names.RING_BANDWIDTH),
        "partition spec",
    ),
    Option(HAMI, "nvidia.com/use-gputype", (names.MODEL_PATTERN,), "any part"),
    Option(HAMI, "nvidia.com/nouse-gputype", (names.AVOID_MODEL_PATTERN,), "any part"),
    Option(HAMI, "nvidia.com/use-gpuuuid", (names.UUIDS,), "list of uuids"),
    Option(HAMI, "nvidia.com/nouse-gpuuuid", (names.AVOID_UUIDS,), "list of uuids"),
    Option(HAMI, "nvidia.com/numa-bind", (names.SCOPE,), "numa"),
    Option(HAMI, "nvidia.com/vgpu-mode", (), "mode"),
    Option(HAMI, "hami.io/node-scheduler-policy", (names.STRATEGY,), "as it is"),
    Option(HAMI, "hami.io/gpu-scheduler-policy", (), "card policy"),
    Option(VOLCANO, "volcano.sh/vgpu-use-gpuuuid", (names.UUIDS,), "list of uuids"),
    Option(VOLCANO, "volcano.sh/vgpu-nouse-gpuuuid", (names.AVOID_UUIDS,), "list of uuids"),
    Option(VOLCANO, "volcano.sh/vgpu-mode", (), "mode"),
    Option(VOLCANO, "volcano.sh/vgpu-podgroup-policy", (), "group policy"),
    Option(CADEN, "nvidia-gpu-scheduler/gpu.model", (names.MODEL,), "as it is"),
    Option(CADEN, "nvidia.com/gpu.model", (names.MODEL,), "as it is"),
    Option(
        GENIUS,
        GENIUS_MEMORY,
        (names.FREE_MEMORY_AT_LEAST,),
        "more MiB than",
        Where.LABEL,
    ),
    Option(GENIUS, GENIUS_MEMORY_TOTAL, (names.MEMORY_TOTAL_AT_LEAST,), "MiB", Where.LABEL),
    Option(GENIUS, "genius/gpu-model", (names.MODEL_PATTERN,), "as it is", Where.LABEL),
    Option(
        GENIUS,
        GENIUS_PRIORITY,
        (),
        "priority",
        Where.LABEL,
    ),
    Option(KUBEGPU, KUBEGPU_RECORDS[0], (names.SCOPE,), "paths"),
    Option(KUBEGPU, KUBEGPU_RECORDS[1], (names.SCOPE,), "paths"),
)

# ---------------------------------------------------------------- on nodes and Devices

# Labels that say whether whole cards are given in partitions only, the most important first.
PARTITION_POLICIES: Final = (names.PARTITION_POLICY, "node.koordinator.sh/gpu-partition-policy")
# An annotation of a Device: which cards form partitions, in JSON, by their minors.
PARTITION_TABLE: Final = "scheduling.koordinator.sh/gpu-partitions"

# ---------------------------------------------------------------- what is not served

_KOORDINATOR_GANG: Final = "gang.scheduling.koordinator.sh/"
_LIGHTWEIGHT: Final = "pod-group.scheduling.sigs.k8s.io"

# Kueue's keys are left alone: it keeps the gates of a group shut until it admits all of it.
GANGS: Final = (
    Gang(
        KOORDINATOR,
        tuple(f"{_KOORDINATOR_GANG}{word}" for word in ("name", "total-number", "mode", "waiting-time")),
        f"{_KOORDINATOR_GANG}min-available",
    ),
    Gang(KOORDINATOR, (f"{_KOORDINATOR_GANG}groups",)),
    Gang(COSCHEDULING, ("scheduling.x-k8s.io/pod-group", _LIGHTWEIGHT)),
    Gang(COSCHEDULING, (f"{_LIGHTWEIGHT}/name",), f"{_LIGHTWEIGHT}/min-available"),
    Gang(
        VOLCANO_GANGS,
        ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"),
        "scheduling.volcano.sh/group-min-member",
    ),
    Gang(KAI, ("pod-group-name", "kai.scheduler/subgroup-name"), "kai.scheduler/batch-min-member"),
)
GANG_KEYS: Final = frozenset(key for gang in GANGS for key in gang.keys)

# Beginnings of names that ask for accelerators of other makers.
KINDS: Final = (
    "amd.com/gpu",
    "aws.amazon.com/neuron",
    "birentech.com/",
    "cambricon.com/",
    "dcu.com/gpu",
    "enflame.com/",
    "google.com/tpu",
    "gpu.intel.com/",
    "habana.ai/",
    "huawei.com/Ascend",
    "huawei.com/npu-",
    "hygon.com/dcu",
    "iluvatar.ai/",
    "kunlunxin.com/",
    "metax-tech.com/",
    "mthreads.com/",
    "vastaitech.com/",
)


def is_unserved_kind(name: str) -> bool:
    """Whether a resource name asks for a kind of device that Berth does not serve."""
    return name.startswith(KINDS) and name not in device_types.BY_RESOURCE


def closest_nvidia_name(name: str) -> str:
    """Return the resource of NVIDIA that a name most likely means; empty where it means none of them."""
    if not name.startswith(NVIDIA):
        return ""
    spelt = name.removeprefix(NVIDIA)[:LONGEST_NAME].lower()
    near = difflib.get_close_matches(spelt, _OF_NVIDIA, n=1, cutoff=ALIKE)
    return NVIDIA + near[0] if near else ""


def is_unknown(name: str) -> bool:
    """Whether a resource name is under Berth's group and is none of its names."""
    return name.startswith(f"{names.GROUP}/") and name not in _SERVED


# What the kubelet takes for granted of a node: it refuses a pod that asks for such a name where the node does
# not list it. Extended resources that a node does not list are no business of a kubelet.
LISTED_OR_REFUSED: Final = _DEPRECATED


def node_names(*, koordinator: bool) -> dict[str, tuple[str, ...]]:
    """Return the names by which a node lists what its devices can give, by Berth's own name of each."""
    projects = {KOORDINATOR} if koordinator else set[str]()
    return {
        own: (own, *(one.key for one in AMOUNTS if one.means == own and one.project in projects))
        for own in OWN
        if own.startswith(f"{names.GROUP}/")
    }


def is_served(name: str) -> bool:
    """Whether Berth serves a resource name from its Devices."""
    return name in _SERVED or name.startswith(names.NVIDIA_MIG_PREFIX) or name in device_types.BY_RESOURCE


def all_served(found: Iterable[str]) -> set[str]:
    """Return those of very many names that are served."""
    different = set(found)
    profiles = {name for name in different if name.startswith(names.NVIDIA_MIG_PREFIX)}
    return profiles.union(different & _SERVED, different & device_types.BY_RESOURCE.keys())


def type_of(name: str) -> str:
    """Return the type of devices other than GPUs for which a resource asks; empty if it asks for none."""
    row = RESOURCES.get(name)
    described = device_types.BY_RESOURCE.get(row.means if row is not None else name)
    return described.name if described is not None else ""


RESOURCES: Final = {one.key: one for one in AMOUNTS if one.where is Where.RESOURCE}
ON_PODS: Final = tuple(one for one in AMOUNTS if one.where is not Where.RESOURCE)
_SERVED: Final = frozenset({*OWN, *RESOURCES})
_OF_NVIDIA: Final = sorted(one.removeprefix(NVIDIA) for one in _SERVED if one.startswith(NVIDIA))
