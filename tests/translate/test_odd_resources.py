"""Names of resources under Berth's group that nobody knows: they are misspelt, and no node has them."""

import pathlib

import pytest

from berth_crds import names
from berth_operator.scheduling.decisions import Reason
from support import builders
from translate import pod_requests

MISSPELT = "is not known; is it misspelt?"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("berth.dev/gpus", names.GPU),
        ("berth.dev/GPU", names.GPU),
        ("berth.dev/gpu-mem", names.GPU_MEMORY),
        ("berth.dev/gpu_memory", names.GPU_MEMORY),
        ("berth.dev/gpu-cores", names.GPU_CORE),
        ("berth.dev/gpu-memory-percentage", names.GPU_MEMORY_RATIO),
        ("berth.dev/gpu-shared", names.GPU_SHARED),
        ("berth.dev/rmda", names.RDMA),
        ("berth.dev/fpgas", names.FPGA),
        ("berth.dev/weather", ""),
    ],
    ids=lambda word: word or "nothing",
)
def test_a_misspelt_resource_is_refused_with_what_was_meant(name: str, meant: str) -> None:
    """The pod is told so at once, and does not wait for a node that has it."""
    found = pod_requests.faults(pod_requests.asking({name: 1}))

    guess = f" Did you mean {meant}?" if meant else ""
    assert found == [(Reason.INVALID_REQUEST, f"container main: {name} {MISSPELT}{guess}")]


def test_an_annotation_asked_for_as_a_resource_is_refused() -> None:
    """It says where it belongs."""
    found = pod_requests.sentences(pod_requests.asking({names.SCOPE: 1, names.NVIDIA_GPU: 2}))

    assert found == ["container main: berth.dev/scope is an annotation of pods, not a resource"]


def test_every_container_is_read() -> None:
    """Init containers too, and limits without requests; what else is wrong is told beside it."""
    limits = {"berth.dev/gpuz": 1, "amd.com/gpu": 1, names.NVIDIA_GPU: "x"}
    first = builders.asking("first", {"berth.dev/gpus": 1})
    main = builders.container("main", resources={"limits": limits})
    found = pod_requests.faults(builders.pod(containers=[main], initContainers=[first]))

    assert [(reason, sentence.split(" ")[1]) for reason, sentence in found] == [
        (Reason.INVALID_REQUEST, "main:"),
        (Reason.INVALID_REQUEST, "first:"),
        (Reason.UNSUPPORTED_REQUEST, "main"),
        (Reason.INVALID_REQUEST, "main:"),
    ]


@pytest.mark.parametrize(
    ("name", "amount"),
    [
        pytest.param("berth.dev/gpus", 0, id="nothing of it"),
        pytest.param("example.com/gpus", 1, id="another group"),
        pytest.param("x.berth.dev/gpus", 1, id="a group below"),
        pytest.param("berth.development/gpus", 1, id="a longer group"),
    ],
)
def test_what_is_not_ours_is_left_to_the_node(name: str, amount: int) -> None:
    """Whatever else a node may advertise is not judged, and zero is no request."""
    assert pod_requests.faults(pod_requests.asking({name: amount})) == []


def test_the_readme_shows_the_sentence() -> None:
    """What a user is told there is what the operator says."""
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
    (sentence,) = pod_requests.sentences(pod_requests.asking({"berth.dev/gpus": 1}))

    assert f"`{sentence}`" in readme
