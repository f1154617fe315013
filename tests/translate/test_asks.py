"""Requests for cards are read container by container; each that cannot be served says what to write."""

from typing import Any

import pytest

from berth_crds import names, wire
from berth_operator.scheduling import decisions
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices.requests import ContainerRequest
from berth_operator.translate import asks, raw
from support import builders


def faults(pod: raw.Pod) -> list[tuple[Reason, str]]:
    """List what is wrong with a pod's request."""
    return [(fault.reason, fault.detail) for fault in asks.request(pod)[1]]


def one(name: str, value: object) -> raw.Pod:
    """Give a pod whose only container asks for this."""
    return builders.pod(containers=[builders.asking("main", {name: value})])


@pytest.mark.parametrize(
    ("name", "value", "cards"),
    [
        pytest.param(names.NVIDIA_GPU, 2, 2, id="whole cards"),
        pytest.param(names.NVIDIA_GPU, "2", 2, id="whole cards as a text"),
        pytest.param(names.NVIDIA_GPU, "1e1", 10, id="whole cards with an exponent"),
        pytest.param(names.NVIDIA_GPU, "2000m", 2, id="whole cards in thousandths"),
        pytest.param(names.NVIDIA_GPU, 64, 64, id="as many as a node may have"),
        pytest.param(names.GPU, 100, 1, id="one card in percent"),
        pytest.param(names.GPU, "300", 3, id="three cards in percent"),
    ],
)
def test_cards(name: str, value: object, cards: int) -> None:
    """Whole cards may be asked for by number or in percent of a card."""
    request, wrong = asks.request(one(name, value))

    assert wrong == ()
    assert request.containers == (ContainerRequest("main", cards),)


@pytest.mark.parametrize(
    "container",
    [
        pytest.param(builders.container(), id="no resources"),
        pytest.param(builders.asking("main", {"cpu": 1}), id="other resources"),
        pytest.param(builders.asking("main", {names.NVIDIA_GPU: 0}), id="no whole card"),
        pytest.param(builders.asking("main", {names.GPU: "0"}), id="nothing in percent"),
        pytest.param(
            builders.asking("main", {names.GPU_MEMORY: 0, "nvidia.com/mig-1g.5gb": 0}), id="nothing unserved"
        ),
    ],
)
def test_no_cards(container: dict[str, Any]) -> None:
    """A container that asks for nothing is no part of the request, and no fault either."""
    request, wrong = asks.request(builders.pod(containers=[container]))

    assert (request.containers, wrong) == ((), ())


def test_asking_for_nothing_in_one_way_and_cards_in_another() -> None:
    """A zero beside a request is no second request."""
    pod = builders.pod(containers=[builders.asking("main", {names.NVIDIA_GPU: 0, names.GPU: 200})])

    request, wrong = asks.request(pod)

    assert wrong == ()
    assert request.cards == 2


NEITHER = "is neither a percentage of one card (1 to 100) nor whole cards (a multiple of 100)"

INVALID: dict[str, tuple[str, object, str]] = {
    "half a card by number": (
        names.NVIDIA_GPU,
        "0.5",
        "container main: nvidia.com/gpu: 0.5 is not a number of whole cards",
    ),
    "fewer cards than none": (
        names.NVIDIA_GPU,
        -1,
        "container main: nvidia.com/gpu: -1 is not a number of whole cards",
    ),
    "cards in words": (names.NVIDIA_GPU, "two", "container main: nvidia.com/gpu: 'two' is not a quantity"),
    "too many cards": (
        names.NVIDIA_GPU,
        65,
        "container main asks for 65 cards; no node has more than 64",
    ),
    "too many cards in percent": (
        names.GPU,
        6500,
        "container main asks for 65 cards; no node has more than 64",
    ),
    "one card and a half": (
        names.GPU,
        150,
        f"container main: berth.dev/gpu: 150 {NEITHER}",
    ),
    "half a percent": (
        names.GPU,
        "500m",
        f"container main: berth.dev/gpu: 500m {NEITHER}",
    ),
    "less than no percent": (
        names.GPU,
        "-100",
        f"container main: berth.dev/gpu: -100 {NEITHER}",
    ),
    "percent in words": (names.GPU, "all", "container main: berth.dev/gpu: 'all' is not a quantity"),
}


@pytest.mark.parametrize(("name", "value", "sentence"), INVALID.values(), ids=INVALID.keys())
def test_invalid_amount(name: str, value: object, sentence: str) -> None:
    """An amount that makes no sense is refused in a sentence of its own."""
    found = faults(one(name, value))

    assert found == [(Reason.INVALID_REQUEST, sentence)]


def test_two_ways_at_once() -> None:
    """To ask for cards in two ways in one container is refused, whatever the amounts."""
    pod = builders.pod(containers=[builders.asking("main", {names.NVIDIA_GPU: 1, names.GPU: 100})])

    found = faults(pod)

    sentence = "container main asks for both nvidia.com/gpu and berth.dev/gpu; ask in one way only"
    assert found == [(Reason.INVALID_REQUEST, sentence)]


def test_a_part_of_a_card_is_not_served_yet() -> None:
    """A fraction is a sound request that this version does not serve, and says so."""
    found = faults(one(names.GPU, 50))

    part = "asks for a part of a card, not served yet; ask for a multiple of 100"
    assert found == [(Reason.UNSUPPORTED_REQUEST, f"container main: berth.dev/gpu: 50 {part}")]


@pytest.mark.parametrize("name", [*sorted(asks.UNSERVED_NAMES), "nvidia.com/mig-1g.5gb"])
@pytest.mark.parametrize("value", [1, "1Gi", "some"])
def test_unserved_resource(name: str, value: object) -> None:
    """A resource of ours that is not served yet is named, never passed over."""
    found = faults(one(name, value))

    assert found == [(Reason.UNSUPPORTED_REQUEST, f"container main asks for {name}, which is not served yet")]


@pytest.mark.parametrize("key", asks.UNSERVED_ANNOTATIONS)
def test_unserved_annotation(key: str) -> None:
    """A wish that is not served yet is named, never passed over."""
    found = faults(builders.pod(gpus=1, annotations={key: "x"}))

    assert found == [(Reason.UNSUPPORTED_REQUEST, f"annotation {key} is not served yet")]


def test_every_wish_of_the_contract_is_read_or_refused() -> None:
    """No annotation by which people may ask is ignored."""
    wishes = {
        getattr(names, name)
        for name in (
            *("MODEL", "MODEL_PATTERN", "AVOID_MODEL", "UUIDS", "AVOID_UUIDS", "MEMORY_AT_LEAST"),
            *("SCOPE", "SCOPE_POLICY", "STRATEGY", "JOINT", "GANG", "GANG_SIZE"),
        )
    }

    assert wishes == {names.MODEL, *asks.UNSERVED_ANNOTATIONS}


TERM = [{"topologyKey": "zone", "labelSelector": {}}]
CONSTRAINTS: dict[str, tuple[dict[str, Any], str]] = {
    "pod affinity": (
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERM}}},
        "required pod affinity",
    ),
    "pod anti-affinity": (
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERM}}},
        "required pod anti-affinity",
    ),
    "topology spread": (
        {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
        "a topology spread constraint with whenUnsatisfiable: DoNotSchedule",
    ),
    "a host port": ({"containers": [builders.container(ports=[{"hostPort": 80}])]}, "host ports"),
    "a host port of a sidecar": (
        {"initContainers": [builders.container("s", restartPolicy="Always", ports=[{"hostPort": 80}])]},
        "host ports",
    ),
    "a claimed volume": (
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
        "persistent volume claims",
    ),
    "an ephemeral volume": (
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]},
        "persistent volume claims",
    ),
    "a resource claim": ({"resourceClaims": [{"name": "c"}]}, "resource claims"),
}


@pytest.mark.parametrize(("spec", "what"), CONSTRAINTS.values(), ids=CONSTRAINTS.keys())
def test_constraint_that_is_not_honoured(spec: dict[str, Any], what: str) -> None:
    """To ignore a constraint would put the pod where it must not be; it is refused instead."""
    found = faults(builders.pod(**spec))

    assert found == [(Reason.UNSUPPORTED_CONSTRAINT, f"the pod uses {what}, which Berth does not honour yet")]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {
                "affinity": {
                    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]},
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []},
                }
            },
            id="preferences, and no requirement",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, id="spread if possible"
        ),
        pytest.param(
            {"containers": [builders.container(ports=[{"containerPort": 80}])]}, id="a container port"
        ),
        pytest.param(
            {"initContainers": [builders.container("i", ports=[{"hostPort": 80}])]},
            id="a host port of an init container, which ends before it matters",
        ),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, id="an empty volume"),
        pytest.param({"resourceClaims": []}, id="no claims"),
    ],
)
def test_harmless_neighbours_of_what_is_refused(spec: dict[str, Any]) -> None:
    """Only what must be obeyed is refused, not what merely looks like it."""
    assert faults(builders.pod(**spec)) == []


@pytest.mark.parametrize(
    ("text", "models"),
    [
        pytest.param("T4", {"t4"}, id="one model"),
        pytest.param(
            " A100-SXM4-80GB , t4,", {"a100-sxm4-80gb", "t4"}, id="a list with spaces and a loose comma"
        ),
        pytest.param("NVIDIA H200", {"nvidia h200"}, id="with its maker"),
    ],
)
def test_models(text: str, models: set[str]) -> None:
    """Models are a list in which case and outer spaces do not matter."""
    request, wrong = asks.request(builders.pod(gpus=1, annotations={names.MODEL: text}))

    assert wrong == ()
    assert request.models == models


@pytest.mark.parametrize("text", ["", " ", ",", " , "])
def test_models_that_name_none(text: str) -> None:
    """An annotation that names no model is a mistake, and does not mean any model."""
    found = faults(builders.pod(gpus=1, annotations={names.MODEL: text}))

    sentence = "annotation berth.dev/model names no model; write one or several, such as A100-SXM4-80GB"
    assert found == [(Reason.INVALID_REQUEST, sentence)]


def test_all_faults_are_told_at_once() -> None:
    """Nobody should have to mend a pod one fault at a time."""
    pod = builders.pod(
        containers=[builders.asking("a", {names.NVIDIA_GPU: "x"}), builders.asking("b", {names.RDMA: 1})],
        annotations={names.GANG: "g", names.MODEL: ""},
        resourceClaims=[{"name": "c"}],
    )

    found = [reason for reason, _ in faults(pod)]

    assert sorted(found) == sorted(
        [
            *(Reason.UNSUPPORTED_REQUEST, Reason.UNSUPPORTED_CONSTRAINT, Reason.INVALID_REQUEST),
            *(Reason.UNSUPPORTED_REQUEST, Reason.INVALID_REQUEST),
        ]
    )


def test_sentences_are_all_different() -> None:
    """Each thing that is refused can be told from all the others by its sentence."""
    cases = [
        one(*asked)
        for asked in {sentence: (name, value) for name, value, sentence in INVALID.values()}.values()
    ]
    cases += [one(name, 1) for name in asks.UNSERVED_NAMES]
    cases += [builders.pod(annotations={key: "x"}) for key in asks.UNSERVED_ANNOTATIONS]

    found = [sentence for pod in cases for _, sentence in faults(pod)]

    assert len(set(found)) == len(found)


def test_init_containers_come_first_and_say_whether_they_stay() -> None:
    """The request lists containers in the order in which they start; a sidecar is one that runs."""
    pod = builders.pod(
        initContainers=[
            builders.container("i", gpus=2),
            builders.container("s", gpus=1, restartPolicy="Always"),
            builders.container("o", gpus=1, restartPolicy="OnFailure"),
        ],
        containers=[
            builders.container("a", gpus=1),
            builders.container("idle"),
            builders.container("b", gpus=1),
        ],
    )

    request, wrong = asks.request(pod)

    assert wrong == ()
    assert request.containers == (
        ContainerRequest("i", 2, runs=False),
        ContainerRequest("s", 1, runs=True),
        ContainerRequest("o", 1, runs=False),
        ContainerRequest("a", 1),
        ContainerRequest("b", 1),
    )
    assert request.cards == 3


@pytest.mark.parametrize(
    ("name", "served"),
    [
        pytest.param(names.NVIDIA_GPU, True, id="cards"),
        pytest.param(names.GPU, True, id="cards in percent"),
        pytest.param(names.FPGA, True, id="a device of another kind"),
        pytest.param("nvidia.com/mig-3g.40gb", True, id="a slice of a card"),
        pytest.param("cpu", False, id="cpu"),
        pytest.param("amd.com/gpu", False, id="another maker's card"),
    ],
)
def test_served(name: str, served: bool) -> None:  # noqa: FBT001  a column of the table
    """Berth answers for its own names and for NVIDIA's, and for no other."""
    assert asks.served(name) is served


def test_refusals_carry_no_node() -> None:
    """A fault of the request is nobody's but the request's."""
    _, wrong = asks.request(one(names.NVIDIA_GPU, "x"))

    assert [(fault.node, fault.device) for fault in wrong] == [("", "")]
    assert all(fault.reason not in decisions.HELPED_BY for fault in wrong)


@pytest.mark.parametrize(
    ("annotations", "cards", "sentence"),
    [
        pytest.param({names.ALLOCATION: "{}"}, 0, "is Berth's answer", id="an allocation without a request"),
        pytest.param(
            {"other.devices.berth.dev/uuids": "GPU-1"}, 1, "is Berth's answer", id="of no container"
        ),
        pytest.param({"berth.dev/modle": "T4"}, 1, "is it misspelt?", id="a misspelt key"),
        pytest.param({"berth.dev/weather": "fine"}, 0, "is it misspelt?", id="an invented key"),
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
    assert (request.cards, faults) == (1, ())
