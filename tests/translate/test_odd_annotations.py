"""Annotations and labels of Berth's own that a pod must not bring along, or that nobody reads."""

import pytest

from berth_crds import names, wire
from berth_operator.translate import device_requests, raw
from translate import pod_requests


@pytest.mark.parametrize(
    ("annotations", "cards", "sentence"),
    [
        pytest.param({names.ALLOCATION: "{}"}, 0, "is Berth's answer", id="an allocation without a request"),
        pytest.param(
            {"other.devices.berth.dev/uuids": "GPU-1"}, 1, "is Berth's answer", id="of no container"
        ),
        pytest.param({"berth.dev/modle": "T4"}, 1, "is it misspelt?", id="a misspelt key"),
        pytest.param({"berth.dev/modle": "T4"}, 1, " Did you mean berth.dev/model?", id="what was meant"),
        pytest.param({"berth.dev/weather": "fine"}, 0, "is it misspelt?", id="an invented key"),
        pytest.param({"berth.dev/gpu": "50"}, 1, "is a resource of containers", id="a resource"),
    ],
)
def test_annotations_that_would_be_believed_or_ignored_are_refused(
    annotations: dict[str, str], cards: int, sentence: str
) -> None:
    """No pod can bring an answer that stays on it, nor a misspelt wish that nobody reads."""
    # Given a pod with such an annotation
    limits: raw.Resources = {names.NVIDIA_GPU: str(cards)} if cards else {}
    container = raw.Container(name="main", resources=raw.ContainerResources(limits=limits))
    meta = wire.Meta(name="p", annotations=annotations)

    # When it is read
    _, faults = device_requests.request(raw.Pod(metadata=meta, spec=raw.PodSpec(containers=(container,))))

    # Then it is told so
    assert [sentence in fault.detail for fault in faults] == [True]


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (names.MODEL, "is an annotation of pods, not a label"),
        (names.GANG, "is an annotation of pods, not a label"),
        (names.GPU_SHARED, "is a resource of containers, not a label"),
        ("berth.dev/modle", "is not known; is it misspelt? Did you mean berth.dev/model?"),
    ],
)
def test_a_request_written_as_a_label_is_refused(key: str, sentence: str) -> None:
    """Nobody reads it there, and the pod would get other cards than it asks for."""
    pod = pod_requests.asking({names.NVIDIA_GPU: 4}, labels={key: "T4"})

    assert pod_requests.sentences(pod) == [f"label {key} {sentence}"]


@pytest.mark.parametrize("key", ["app", "berth.dev/gpu.product", "berth.dev/cuda.driver", names.FENCED_LABEL])
def test_labels_that_ask_for_nothing_are_let_through(key: str) -> None:
    """Labels of others, and those that Berth writes elsewhere, are no mistake on a pod."""
    pod = pod_requests.asking({names.NVIDIA_GPU: 4}, labels={key: "T4"})

    assert pod_requests.request(pod).need.whole == 4


def test_an_answer_that_will_be_overwritten_is_let_through() -> None:
    """A pod that asks for cards may carry an old answer: its Binding writes a new one over it."""
    # Given a pod that was copied from a bound one
    brought = {names.ALLOCATION: "{}", names.MINORS: "0", names.container_key("main", "uuids"): "GPU-1"}
    container = raw.Container(name="main", resources=raw.ContainerResources(limits={names.NVIDIA_GPU: "1"}))
    meta = wire.Meta(name="p", annotations=brought)

    # When it is read
    request, faults = device_requests.request(
        raw.Pod(metadata=meta, spec=raw.PodSpec(containers=(container,)))
    )

    # Then it is a plain request
    assert (request.need.whole, faults) == (1, ())
