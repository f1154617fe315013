"""Annotations of Berth's own that a pod must not bring along, or that nobody reads."""

import pytest

from berth_crds import names, wire
from berth_operator.translate import asks, raw


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
    _, faults = asks.request(raw.Pod(metadata=meta, spec=raw.PodSpec(containers=(container,))))

    # Then it is told so
    assert [sentence in fault.detail for fault in faults] == [True]


def test_an_answer_that_will_be_overwritten_is_let_through() -> None:
    """A pod that asks for cards may carry an old answer: its Binding writes a new one over it."""
    # Given a pod that was copied from a bound one
    brought = {names.ALLOCATION: "{}", names.MINORS: "0", names.container_key("main", "uuids"): "GPU-1"}
    container = raw.Container(name="main", resources=raw.ContainerResources(limits={names.NVIDIA_GPU: "1"}))
    meta = wire.Meta(name="p", annotations=brought)

    # When it is read
    request, faults = asks.request(raw.Pod(metadata=meta, spec=raw.PodSpec(containers=(container,))))

    # Then it is a plain request
    assert (request.need.whole, faults) == (1, ())
