"""Keys under Berth's group that a pod must not bring along, or that nobody reads: they are misspelt."""

from typing import Any

import pytest

from berth_crds import names
from berth_operator.scheduling.decisions import Reason
from support import builders
from translate import pod_requests

MISSPELT = "is not known; is it misspelt?"
CARD: dict[str, object] = {names.NVIDIA_GPU: 1}


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


@pytest.mark.parametrize(
    ("asked", "annotations", "sentence"),
    [
        pytest.param({}, {names.ALLOCATION: "{}"}, "is Berth's answer", id="an allocation without a request"),
        pytest.param(
            CARD, {"other.devices.berth.dev/uuids": "GPU-1"}, "is Berth's answer", id="of no container"
        ),
        pytest.param(
            CARD, {"berth.dev/modle": "T4"}, f"{MISSPELT} Did you mean berth.dev/model?", id="misspelt"
        ),
        pytest.param({}, {"berth.dev/weather": "fine"}, MISSPELT, id="an invented key"),
        pytest.param(CARD, {"berth.dev/gpu": "50"}, "is a resource of containers", id="a resource"),
        pytest.param(
            CARD | {names.SCOPE: 1},
            {},
            "container main: berth.dev/scope is an annotation of pods, not a resource",
            id="an annotation as a resource",
        ),
    ],
)
def test_a_key_that_would_be_believed_or_ignored_is_refused(
    asked: dict[str, object], annotations: dict[str, str], sentence: str
) -> None:
    """No pod can bring an answer that stays on it, nor a misspelt wish that nobody reads."""
    (found,) = pod_requests.sentences(pod_requests.asking(asked, annotations=annotations))

    assert sentence in found


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (names.MODEL, "is an annotation of pods, not a label"),
        (names.GANG, "is an annotation of pods, not a label"),
        (names.GPU_SHARED, "is a resource of containers, not a label"),
        ("berth.dev/modle", f"{MISSPELT} Did you mean berth.dev/model?"),
    ],
)
def test_a_request_written_as_a_label_is_refused(key: str, sentence: str) -> None:
    """Nobody reads it there, and the pod would get other cards than it asks for."""
    pod = pod_requests.asking({names.NVIDIA_GPU: 4}, labels={key: "T4"})

    assert pod_requests.sentences(pod) == [f"label {key} {sentence}"]


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


# Berth's answer to a pod that was bound before.
COPIED = {names.ALLOCATION: "{}", names.MINORS: "0", names.container_key("main", "uuids"): "GPU-1"}


@pytest.mark.parametrize(
    ("asked", "about"),
    [
        pytest.param({"berth.dev/gpus": 0}, {}, id="nothing of an unknown resource"),
        pytest.param({"example.com/gpus": 1}, {}, id="another group"),
        pytest.param({"x.berth.dev/gpus": 1}, {}, id="a group below"),
        pytest.param({"berth.development/gpus": 1}, {}, id="a longer group"),
        *(
            pytest.param({}, {"labels": {key: "T4"}}, id=f"the label {key}")
            for key in ("app", "berth.dev/gpu.product", "berth.dev/cuda.driver", names.FENCED_LABEL)
        ),
        pytest.param({}, {"annotations": COPIED}, id="an old answer, which is overwritten"),
    ],
)
def test_what_asks_for_nothing_is_let_through(asked: dict[str, object], about: dict[str, Any]) -> None:
    """Keys of others, and those that Berth writes elsewhere or over the old ones, are no mistake on a pod."""
    assert pod_requests.request(pod_requests.asking(CARD | asked, **about)).need.whole_cards == 1
