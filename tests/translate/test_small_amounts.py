"""A pod that asks for a few bytes of memory has left out the unit, and is asked whether it has."""

from typing import Any, Final

import pytest

from berth_crds import names, policy
from berth_operator.scheduling import policy as rules
from berth_operator.scheduling import policy_rules
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import pod_limits, pods, raw, refusals
from support import builders
from translate import pod_requests

MIB: Final = rules.MIB
REFUSES: Final = "policy refuses less than 64 MiB (spec.sharing.minMemoryMiB)"
LONG: Final = f"0.{'0' * 60}1"
EACH: Final = "genius/gpu-memory-each"


def refused(pod: raw.Pod, **fields: Any) -> list[str]:
    """Return what a policy finds wrong with a pod that is well otherwise."""
    pod_info = pods.pod_info(pod)
    assert pod_info.faults == ()
    faults = policy_rules.apply(rules.Policy(**fields), pod_info).faults
    assert {fault.reason for fault in faults} <= {Reason.INVALID_REQUEST}
    return [fault.detail for fault in faults]


# What is asked of a container, how its sentence names it, and which unit was meant.
RESOURCES: dict[str, tuple[dict[str, object], str, str]] = {
    "no unit": ({names.GPU_MEMORY: 8}, "berth.dev/gpu-memory: 8 bytes", "8Gi"),
    "as a text": ({names.GPU_MEMORY: "40"}, "berth.dev/gpu-memory: 40 bytes", "40Gi"),
    "megabytes": ({names.GPU_MEMORY: 8192}, "berth.dev/gpu-memory: 8192 bytes", "8192Mi"),
    "kilobytes": ({names.GPU_MEMORY: 8_388_608}, "berth.dev/gpu-memory: 8388608 bytes", "8388608Ki"),
    "a small unit": ({names.GPU_MEMORY: "8Mi"}, "berth.dev/gpu-memory: 8Mi", "8Gi"),
    "a decimal unit": ({names.GPU_MEMORY: "16k"}, "berth.dev/gpu-memory: 16k", "16G"),
    "thousandths": ({names.GPU_MEMORY: "8m"}, "berth.dev/gpu-memory: 8m", "8Gi"),
    "half of one": ({names.GPU_MEMORY: "0.5"}, "berth.dev/gpu-memory: 0.5", "0.5Gi"),
    "several cards": (
        {names.GPU_MEMORY: 320, names.GPU_SHARED: 4},
        "berth.dev/gpu-memory: 320 bytes over 4 cards",
        "320Gi",
    ),
    "beside compute": (
        {names.GPU_MEMORY: 8, names.GPU_CORE: 50},
        "berth.dev/gpu-memory: 8 bytes",
        "8Gi",
    ),
    "Koordinator": ({"koordinator.sh/gpu-memory": 8}, "koordinator.sh/gpu-memory: 8 bytes", "8Gi"),
    "its old name": ({"kubernetes.io/gpu-memory": 8}, "kubernetes.io/gpu-memory: 8 bytes", "8Gi"),
    "HAMi": ({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 8}, "nvidia.com/gpumem: 8 MiB", "8192"),
    "HAMi, as the API server writes it": (
        {"nvidia.com/gpu": 2, "nvidia.com/gpumem": "0.05k"},
        "nvidia.com/gpumem: 50 MiB",
        "51200",
    ),
    "Volcano": ({"volcano.sh/vgpu-memory": 16}, "volcano.sh/vgpu-memory: 16 MiB", "16384"),
    "Volcano's share": ({"volcano.sh/gpu-memory": 1}, "volcano.sh/gpu-memory: 1 MiB", "1024"),
}


# The same on the pod itself.
ON_THE_POD: dict[str, tuple[dict[str, Any], str, str]] = {
    "KAI": ({"annotations": {"gpu-memory": "8"}}, "annotation gpu-memory: 8 MiB", "8192"),
    "a condition": (
        {"gpus": 1, "annotations": {names.MEMORY_AT_LEAST: " 40 "}},
        "annotation berth.dev/memory-at-least: 40 bytes",
        "40Gi",
    ),
    "a condition on what is free": (
        {"gpus": 1, "annotations": {names.FREE_MEMORY_AT_LEAST: "40"}},
        "annotation berth.dev/free-memory-at-least: 40 bytes",
        "40Gi",
    ),
    "a condition on all cards of a node": (
        {"gpus": 1, "annotations": {names.MEMORY_TOTAL_AT_LEAST: "160"}},
        "annotation berth.dev/memory-total-at-least: 160 bytes",
        "160Gi",
    ),
    "Genius' condition": ({"gpus": 1, "labels": {EACH: "40"}}, f"label {EACH}: 40 MiB", "40960"),
}
LEFT_OUT: Final = {
    name: (pod_requests.asking(resources), f"container main: {asked}", meant)
    for name, (resources, asked, meant) in RESOURCES.items()
} | {name: (builders.pod(**about), asked, meant) for name, (about, asked, meant) in ON_THE_POD.items()}


@pytest.mark.parametrize(("pod", "asked", "meant"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_who_leaves_out_the_unit_is_asked_for_it(pod: raw.Pod, asked: str, meant: str) -> None:
    """The sentence shows what was written, how much that is, and the unit that makes sense of it."""
    assert refused(pod) == [f"{asked}; did you mean {meant}? The {REFUSES}"]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(pod_requests.asking({names.GPU_MEMORY: "64Mi"}), id="the least"),
        pytest.param(pod_requests.asking({names.GPU_MEMORY: "80Gi"}), id="much"),
        pytest.param(pod_requests.asking({names.GPU_MEMORY: 0, names.GPU: 50}), id="nothing"),
        pytest.param(pod_requests.asking({names.GPU_MEMORY_RATIO: 1}), id="a percentage"),
        pytest.param(pod_requests.asking({names.GPU: 1}), id="a part of a card"),
        pytest.param(pod_requests.asking({"aliyun.com/gpu-mem": 1}), id="GiB by itself"),
        pytest.param(pod_requests.asking({"memory": 8, names.NVIDIA_GPU: 1}), id="memory of the node"),
        pytest.param(builders.pod(gpus=1, labels={EACH: "0"}), id="any card"),
    ],
)
def test_an_amount_that_may_be_meant_is_let_through(pod: raw.Pod) -> None:
    """Nobody is asked who wrote what a card can give."""
    assert refused(pod) == []


def test_the_policy_says_what_is_too_small() -> None:
    """Its own figure counts, and is in the sentence; 0 lets any amount pass."""
    tiny = pod_requests.asking({names.GPU_MEMORY: 8})

    (sentence,) = refused(tiny, min_memory=2048 * MIB)
    assert sentence.endswith("8 bytes; did you mean 8Gi? The " + REFUSES.replace("64", "2048"))
    assert refused(tiny, min_memory=8) == []
    assert refused(tiny, min_memory=0) == []


@pytest.mark.parametrize(
    ("amount", "asked"),
    [
        pytest.param("8Gi", "8Gi", id="a unit that is there"),
        pytest.param("9G", "9G", id="a decimal one"),
        pytest.param("8e9", "8e9", id="an exponent"),
        pytest.param(LONG, refusals.shown(LONG), id="a very long number"),
        pytest.param(8_000_000_000, "8000000000 bytes", id="nothing larger makes sense"),
    ],
)
def test_nothing_is_guessed_where_no_other_unit_makes_sense(amount: object, asked: str) -> None:
    """What is suggested fits on a card, and the policy takes it."""
    found = refused(pod_requests.asking({names.GPU_MEMORY: amount}), min_memory=16384 * MIB)

    least = REFUSES.replace("64", "16384")
    assert found == [f"container main: berth.dev/gpu-memory: {asked}, and the {least}"]


def test_each_container_is_told_and_very_many_are_not() -> None:
    """Every figure has a sentence, up to the number that people read at once."""
    containers = [builders.asking(f"c{at}", {names.GPU_MEMORY: 8}) for at in range(40)]

    found = refused(builders.pod(containers=containers))

    assert len(found) == pod_limits.MAX_FAULTS
    assert [sentence.split(":")[0] for sentence in found[:2]] == ["container c0", "container c1"]


def test_no_policy_can_refuse_more_than_is_kept() -> None:
    """The schema's bound is the one up to which amounts are remembered; both defaults are the same."""
    sharing = policy.SharingRules.model_json_schema()["properties"]["minMemoryMiB"]

    assert sharing["maximum"] * MIB == rules.MOST_MIN_MEMORY
    assert sharing["default"] * MIB == rules.Policy().min_memory
