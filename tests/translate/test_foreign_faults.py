"""Keys of other projects that make no sense, contradict each other, or mean what Berth does not do."""

from typing import Any

import pytest

from berth_crds import names
from berth_crds.vocabulary import Strategy
from berth_operator.scheduling.decisions import Reason
from support import builders
from translate import pod_requests

DISAGREE = "mean the same and disagree; write one of them"
INVALID, UNSUPPORTED = Reason.INVALID_REQUEST, Reason.UNSUPPORTED_REQUEST
HINT = "scheduling.koordinator.sh/device-allocate-hint"


# ---------------------------------------------------------------- in resources

RESOURCES: dict[str, tuple[dict[str, object], str]] = {
    "Berth's name and an alias disagree": (
        {names.GPU_CORE: 50, "koordinator.sh/gpu-core": 60, names.GPU_MEMORY: 1},
        f": berth.dev/gpu-core: 50 and koordinator.sh/gpu-core: 60 {DISAGREE}",
    ),
    "two aliases disagree": (
        {"aliyun.com/gpu-core.percentage": 60, "koordinator.sh/gpu-core": 50, names.GPU_MEMORY: 1},
        f": aliyun.com/gpu-core.percentage: 60 and koordinator.sh/gpu-core: 50 {DISAGREE}",
    ),
    "slices and a total disagree": (
        {names.GPU_MEMORY: "4Gi", "nvidia.com/gpu": 2, "nvidia.com/gpumem": 1024},
        f": berth.dev/gpu-memory: 4Gi and nvidia.com/gpumem: 1024 {DISAGREE}",
    ),
    "two projects at once": (
        {"nvidia.com/gpumem": 1, "volcano.sh/vgpu-memory": 1},
        " mixes HAMi and Volcano vGPU; ask in one way only",
    ),
    "slices of HAMi and whole cards of another": (
        {"nvidia.com/gpumem": 1, "alpha.gpu/numgpu": 1},
        " asks for both alpha.gpu/numgpu and nvidia.com/gpumem; ask in one way only",
    ),
    "HAMi: memory in MiB and in percent": (
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1, "nvidia.com/gpumem-percentage": 1},
        ": nvidia.com/gpumem and nvidia.com/gpumem-percentage both say how much memory; write one of them",
    ),
    "HAMi: more than all compute": (
        {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 120},
        ": nvidia.com/gpucores: 120 is more than 100 percent of the card",
    ),
    "HAMi: more than all memory of two cards": (
        {"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 101},
        ": nvidia.com/gpumem-percentage: 101 is more than 100 percent of each of 2 cards",
    ),
    "HAMi: memory of no card": (
        {"nvidia.com/gpu": 0, "nvidia.com/gpumem": 3000},
        (
            " asks for nvidia.com/gpumem: 3000 of each card and for nvidia.com/gpu: 0; "
            "ask for at least one card, or leave both out"
        ),
    ),
    "HAMi: half a slice": (
        {"nvidia.com/gpu": "0.5", "nvidia.com/gpumem": 10},
        ": nvidia.com/gpu: 0.5 is not a number of cards",
    ),
    "Volcano: compute without a number": (
        {"volcano.sh/vgpu-cores": 50},
        ": volcano.sh/vgpu-cores needs volcano.sh/vgpu-number beside it",
    ),
    "gpushare: a count alone": (
        {"aliyun.com/gpu-count": 1},
        (
            ": aliyun.com/gpu-count says over how many cards, but not how much of them; "
            "add berth.dev/gpu-memory or berth.dev/gpu-memory-ratio"
        ),
    ),
}


@pytest.mark.parametrize(("resources", "sentence"), RESOURCES.values(), ids=RESOURCES.keys())
def test_resources(resources: dict[str, object], sentence: str) -> None:
    """A sentence names the keys that people wrote, not those that they stand for."""
    found = pod_requests.faults(pod_requests.asking(resources))

    assert found == [(INVALID, f"container main{sentence}")]


@pytest.mark.parametrize(
    "resource",
    [
        *(
            "amd.com/gpu",
            "dcu.com/gpu",
            "google.com/tpu",
            "gpu.intel.com/i915",
            "habana.ai/gaudi",
            "huawei.com/npu-core",
            "huawei.com/npu-cpu",
            "huawei.com/npu-dvpp",
        ),
        *("huawei.com/Ascend910B", "cambricon.com/vmlu", "hygon.com/dcunum", "metax-tech.com/sgpu"),
        *(
            "iluvatar.ai/MR-V100-vgpu",
            "mthreads.com/vgpu",
            "kunlunxin.com/vxpu-memory",
            "enflame.com/drs-gcu",
        ),
        *("vastaitech.com/va", "birentech.com/gpu", "aws.amazon.com/neuroncore"),
    ],
)
@pytest.mark.parametrize("value", [1, "some"])
def test_other_kinds(resource: str, value: object) -> None:
    """Units of other makers are refused as a kind that is not served, whatever the amount."""
    found = pod_requests.faults(pod_requests.asking({resource: value}))

    sentence = f"container main asks for {resource}, a kind of device that Berth does not serve"
    assert found == [(UNSUPPORTED, sentence)]


def test_other_kinds_do_not_hide_what_else_is_asked() -> None:
    """A container's own cards are read beside what is refused, and zero of another kind is no request."""
    pod = pod_requests.asking({"amd.com/gpu": 1, names.NVIDIA_GPU: "x"})

    assert [reason for reason, _ in pod_requests.faults(pod)] == [INVALID, UNSUPPORTED]
    assert pod_requests.faults(pod_requests.asking({"amd.com/gpu": 0})) == []


# ---------------------------------------------------------------- on the pod

POD_KEYS: dict[str, tuple[dict[str, Any], Reason, str]] = {
    "KAI: a fraction in words": (
        {"annotations": {"gpu-fraction": "half"}},
        INVALID,
        "annotation gpu-fraction: 'half' is not a quantity",
    ),
    "KAI: less than nothing": (
        {"annotations": {"gpu-fraction": "-0.5"}},
        INVALID,
        "annotation gpu-fraction: -0.5 is less than nothing",
    ),
    "KAI: memory with a unit": (
        {"annotations": {"gpu-memory": "2Gi"}},
        INVALID,
        "annotation gpu-memory: 2Gi is more memory than any card has; it counts MiB, write 2048",
    ),
    "KAI: more than a card": (
        {"annotations": {"gpu-fraction": "1.5"}},
        INVALID,
        "annotation gpu-fraction: 1.5 is more than 100 percent of the card",
    ),
    "KAI: a fraction and memory": (
        {"annotations": {"gpu-fraction": "0.5", "gpu-memory": "100"}},
        INVALID,
        "container main: gpu-memory and gpu-fraction both say how much memory; write one of them",
    ),
    "KAI: a number of cards alone": (
        {"annotations": {"gpu-fraction-num-devices": "2"}},
        INVALID,
        (
            "container main: gpu-fraction-num-devices says over how many cards, but not how much of them; "
            "add berth.dev/gpu-memory or berth.dev/gpu-memory-ratio"
        ),
    ),
    "KAI: a container that is not there": (
        {"annotations": {"gpu-fraction": "0.5", "gpu-fraction-container-name": "side"}},
        INVALID,
        "annotation gpu-fraction is meant for container 'side', which is not there",
    ),
    "KAI: a fraction and whole cards": (
        {"annotations": {"gpu-fraction": "0.5"}, "gpus": 1},
        INVALID,
        "container main asks for both nvidia.com/gpu and gpu-fraction; ask in one way only",
    ),
    "KAI: a fraction of one card, and two cards": (
        {
            "annotations": {"gpu-fraction": "0.5"},
            "containers": [builders.asking("main", {names.GPU_SHARED: 2})],
        },
        INVALID,
        f"container main: berth.dev/gpu.shared: 2 and gpu-fraction: 0.5 {DISAGREE}",
    ),
    "KAI: no fraction": (
        {"annotations": {"gpu-fraction": "0"}},
        INVALID,
        "annotation gpu-fraction: 0 asks for nothing; write more than 0, or leave it out",
    ),
    "KAI: a fraction of no card": (
        {"annotations": {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"}},
        INVALID,
        "annotation gpu-fraction-num-devices: 0 asks for nothing; write more than 0, or leave it out",
    ),
    "KAI: a fraction, and whole cards elsewhere": (
        {
            "annotations": {"gpu-fraction": "0.5"},
            "containers": [builders.container("a"), builders.container("b", gpus=1)],
        },
        INVALID,
        (
            "annotation gpu-fraction speaks for the whole pod, but container b asks for nvidia.com/gpu; "
            "leave one of them out"
        ),
    ),
    "gpushare: a count without memory": (
        {"labels": {"aliyun.com/gpu-count": "2"}},
        INVALID,
        "label aliyun.com/gpu-count is given, but no container asks for aliyun.com/gpu-mem",
    ),
    "Genius: a number in words": (
        {"labels": {"genius/gpu-number": "two"}},
        INVALID,
        "label genius/gpu-number: 'two' is not a quantity",
    ),
    "Genius: another number than the resource": (
        {"labels": {"genius/gpu-number": "2"}, "gpus": 1},
        INVALID,
        f"container main: nvidia.com/gpu: 1 and genius/gpu-number: 2 {DISAGREE}",
    ),
    "Genius: a model without a number": (
        {"labels": {"genius/gpu-model": "T4"}},
        INVALID,
        (
            "label genius/gpu-model speaks of devices of type gpu, but no container asks for one; "
            "add for instance nvidia.com/gpu: 1"
        ),
    ),
    "Genius: memory in words": (
        {"labels": {"genius/gpu-memory-each": "much"}, "gpus": 1},
        INVALID,
        "label genius/gpu-memory-each: much is not a number of MiB",
    ),
    "Genius: memory of a node": (
        {"labels": {"genius/gpu-memory-total": "100Gi"}, "gpus": 1},
        INVALID,
        "label genius/gpu-memory-total: 100Gi is not a number of MiB",
    ),
    "Genius: a priority in words": (
        {"labels": {"genius/priority": "high"}, "gpus": 1},
        INVALID,
        "label genius/priority: high is not a whole number from -1000000000 to 1000000000",
    ),
    "HAMi: neither true nor false": (
        {"annotations": {"nvidia.com/numa-bind": "maybe"}, "gpus": 1},
        INVALID,
        "annotation nvidia.com/numa-bind: maybe is neither true nor false",
    ),
    "HAMi: another mode": (
        {"annotations": {"nvidia.com/vgpu-mode": "mig"}, "gpus": 1},
        UNSUPPORTED,
        "annotation nvidia.com/vgpu-mode: mig is not served; for MIG ask for nvidia.com/mig-<profile>",
    ),
    "HAMi: cards alone by policy": (
        {"annotations": {"hami.io/gpu-scheduler-policy": "binpack, mutex"}, "gpus": 1},
        UNSUPPORTED,
        (
            "annotation hami.io/gpu-scheduler-policy: mutex is not served; "
            "ask for whole cards to have them alone"
        ),
    ),
    "HAMi: a strategy nobody knows": (
        {"annotations": {"hami.io/node-scheduler-policy": "best"}, "gpus": 1},
        INVALID,
        f"annotation hami.io/node-scheduler-policy: best is not known; write one of {', '.join(Strategy)}",
    ),
    "Volcano: pods of a group apart": (
        {"annotations": {"volcano.sh/vgpu-podgroup-policy": "spread"}, "gpus": 1},
        UNSUPPORTED,
        (
            "annotation volcano.sh/vgpu-podgroup-policy: spread is not served: "
            "Berth does not keep the pods of a group apart"
        ),
    ),
    "Volcano: another mode": (
        {"annotations": {"volcano.sh/vgpu-mode": "mps"}, "gpus": 1},
        UNSUPPORTED,
        "annotation volcano.sh/vgpu-mode: mps is not served; for MIG ask for nvidia.com/mig-<profile>",
    ),
}


@pytest.mark.parametrize(("about", "reason", "sentence"), POD_KEYS.values(), ids=POD_KEYS.keys())
def test_keys_on_the_pod(about: dict[str, Any], reason: Reason, sentence: str) -> None:
    """Whatever stands on a pod and cannot be done is told with the key and what it says."""
    assert pod_requests.faults(builders.pod(**about)) == [(reason, sentence)]


# ---------------------------------------------------------------- two keys for one wish

CONTRADICTIONS: dict[str, tuple[dict[str, str], str]] = {
    "a model": (
        {names.MODEL: "T4", "nvidia-gpu-scheduler/gpu.model": "V100"},
        "annotation berth.dev/model and annotation nvidia-gpu-scheduler/gpu.model",
    ),
    "a pattern": (
        {names.MODEL_PATTERN: "T4", "nvidia.com/use-gputype": "V100"},
        "annotation berth.dev/model-pattern and annotation nvidia.com/use-gputype",
    ),
    "cards": (
        {"nvidia.com/use-gpuuuid": "GPU-a,GPU-c", "volcano.sh/vgpu-use-gpuuuid": "GPU-a,GPU-b"},
        "annotation nvidia.com/use-gpuuuid and annotation volcano.sh/vgpu-use-gpuuuid",
    ),
    "a scope": (
        {HINT: '{"gpu": {"requiredTopologyScope": "PCIe"}}', "nvidia.com/numa-bind": "true"},
        f"annotation {HINT} and annotation nvidia.com/numa-bind",
    ),
}


@pytest.mark.parametrize(("annotations", "both"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_two_keys_that_disagree(annotations: dict[str, str], both: str) -> None:
    """Where two keys mean the same and say different things, both are named."""
    found = pod_requests.faults(builders.pod(gpus=2, annotations=annotations))

    assert found == [(INVALID, f"{both} {DISAGREE}")]


def test_two_keys_that_agree() -> None:
    """The same thing may be said in two ways."""
    annotations = {names.UUIDS: "GPU-a,GPU-b", "nvidia.com/use-gpuuuid": "GPU-b , GPU-a"}

    assert pod_requests.request(builders.pod(gpus=2, annotations=annotations)).conditions.uuids == {
        "GPU-a",
        "GPU-b",
    }
