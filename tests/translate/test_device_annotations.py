"""Which devices and how: annotations become conditions and grouping."""

from typing import Final

import pytest

from berth_crds import names
from berth_crds.vocabulary import Scope, Strategy
from berth_operator.scheduling.devices import conditions, requests
from berth_operator.scheduling.devices.requests import Conditions, Grouping, OtherDevices
from support import builders
from support.builders import selecting
from translate import pod_requests

CARDS: Final = {names.NVIDIA_GPU: 2}
NICS: Final = {names.RDMA: 100}
BOTH: Final = CARDS | NICS

CONDITIONS: dict[str, tuple[dict[str, str], Conditions]] = {
    "one model": ({names.MODEL: "T4"}, Conditions(models=frozenset({"t4"}))),
    "a list of models, with spaces and a loose comma": (
        {names.MODEL: " A100-SXM4-80GB , t4,"},
        Conditions(models=frozenset({"a100-sxm4-80gb", "t4"})),
    ),
    "a model with its maker": ({names.MODEL: "NVIDIA H200"}, Conditions(models=frozenset({"nvidia h200"}))),
    "models to avoid": ({names.AVOID_MODEL: "T4,P100"}, Conditions(avoid_models=frozenset({"t4", "p100"}))),
    "a pattern": ({names.MODEL_PATTERN: "(A100|H100).*80GB"}, Conditions(pattern="(A100|H100).*80GB")),
    "a pattern to avoid": ({names.AVOID_MODEL_PATTERN: "PCIe"}, Conditions(avoid_pattern="PCIe")),
    "uuids": ({names.UUIDS: "GPU-a, GPU-B"}, Conditions(uuids=frozenset({"GPU-a", "GPU-B"}))),
    "uuids to avoid": ({names.AVOID_UUIDS: "GPU-a"}, Conditions(avoid_uuids=frozenset({"GPU-a"}))),
    "memory of each card": ({names.MEMORY_AT_LEAST: "40Gi"}, Conditions(memory_at_least=40 * 2**30)),
    "free memory of each card": (
        {names.FREE_MEMORY_AT_LEAST: "40Gi"},
        Conditions(free_memory_at_least=40 * 2**30),
    ),
    "memory of each card, rounded up": ({names.MEMORY_AT_LEAST: "1.5"}, Conditions(memory_at_least=2)),
    "labels of cards": (
        {names.LABELS: "gpu: tier=gold"},
        Conditions(card_labels=selecting("gpu", tier="gold")),
    ),
    "everything at once": (
        {
            names.MODEL: "T4",
            names.MODEL_PATTERN: "T",
            names.AVOID_MODEL: "P100",
            names.UUIDS: "GPU-a,GPU-b",
            names.AVOID_UUIDS: "GPU-c",
            names.MEMORY_AT_LEAST: "1Gi",
        },
        Conditions(
            frozenset({"t4"}),
            "T",
            frozenset({"p100"}),
            frozenset({"GPU-a", "GPU-b"}),
            frozenset({"GPU-c"}),
            2**30,
        ),
    ),
}


@pytest.mark.parametrize(("annotations", "expected"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_conditions(annotations: dict[str, str], expected: Conditions) -> None:
    """All conditions arrive in one value, so that they are asked of one card."""
    request = pod_requests.request(pod_requests.asking(CARDS, annotations=annotations))

    assert request.conditions == expected


def test_models_are_remembered_as_they_were_written() -> None:
    """People read what they wrote, and pods that differ in that alone ask for the same."""
    written = {names.MODEL: "A100, t4", names.AVOID_MODEL: "Tesla P4"}
    small = {key: text.lower() for key, text in written.items()}
    one, other = (
        pod_requests.request(pod_requests.asking(CARDS, annotations=annotations))
        for annotations in (written, small)
    )

    assert one.conditions.as_written(one.conditions.models) == ["A100", "t4"]
    assert one.conditions.as_written(one.conditions.avoid_models) == ["Tesla P4"]
    assert one == other
    assert hash(one) == hash(other)


MANNERS: dict[str, tuple[dict[str, str], Grouping]] = {
    "a scope": ({names.SCOPE: "pcie"}, Grouping(scope=Scope.PCIE)),
    "a scope in capitals": ({names.SCOPE: " NVLink "}, Grouping(scope=Scope.NVLINK)),
    "a scope that is required": (
        {names.SCOPE: "numa", names.SCOPE_POLICY: "required"},
        Grouping(scope=Scope.NUMA),
    ),
    "a scope that is a wish": (
        {names.SCOPE: "numa", names.SCOPE_POLICY: "preferred"},
        Grouping(scope=Scope.NUMA, required=False),
    ),
    "a strategy": ({names.STRATEGY: "spread"}, Grouping(strategy=Strategy.SPREAD)),
    "devices that belong together": ({names.JOINT: "gpu, rdma"}, Grouping(joint=("gpu", "rdma"))),
    "devices that should belong together": (
        {names.JOINT: "gpu, rdma", names.JOINT_POLICY: "preferred"},
        Grouping(joint_wish=("gpu", "rdma")),
    ),
    "a type named twice": ({names.JOINT: "gpu,rdma,gpu"}, Grouping(joint=("gpu", "rdma"))),
    "labels": ({names.LABELS: "fabric=b, zone=1"}, Grouping(labels=selecting(fabric="b", zone="1"))),
    "labels in another order": (
        {names.LABELS: "zone=1,fabric=b"},
        Grouping(labels=selecting(fabric="b", zone="1")),
    ),
    "labels of functions": (
        {names.FUNCTION_LABELS: "type=x"},
        Grouping(function_labels=selecting(type="x")),
    ),
    "any functions": ({names.FUNCTION_LABELS: "*"}, Grouping(function_labels=selecting())),
    "any functions, with labels of one type": (
        {names.FUNCTION_LABELS: "rdma: *, type=x; *"},
        Grouping(function_labels=(*selecting(), *selecting("rdma", type="x"))),
    ),
    "labels of one type": (
        {names.LABELS: "rdma: fabric=b"},
        Grouping(labels=selecting("rdma", fabric="b")),
    ),
    "labels of one type, in capitals": (
        {names.LABELS: " RDMA : fabric==b;"},
        Grouping(labels=selecting("rdma", fabric="b")),
    ),
}


@pytest.mark.parametrize(("annotations", "grouping"), MANNERS.values(), ids=MANNERS.keys())
def test_manner(annotations: dict[str, str], grouping: Grouping) -> None:
    """How devices belong together is read from one key each."""
    request = pod_requests.request(pod_requests.asking(BOTH, annotations=annotations))

    assert request.grouping == grouping


@pytest.mark.parametrize(
    ("text", "spread"),
    [pytest.param("distributed", True, id="apart"), pytest.param("packed", False, id="together")],
)
def test_replicas(text: str, spread: bool) -> None:  # noqa: FBT001  a column of the table
    """Replicas of a container go to different cards, or to as few as possible."""
    pod = pod_requests.asking({names.NVIDIA_GPU_SHARED: 2}, annotations={names.REPLICAS: text})

    assert pod_requests.request(pod).grouping == Grouping(spread_replicas=spread)


@pytest.mark.parametrize(
    ("text", "amount", "asks"),
    [
        pytest.param("rdma=every", 30, OtherDevices("rdma", 1, 30, every=True), id="percent of every one"),
        pytest.param("rdma=every", 100, OtherDevices("rdma", 1, 100, every=True), id="every one alone"),
        pytest.param("rdma=count", 3, OtherDevices("rdma", 3, 1), id="a number, shared"),
        pytest.param("rdma=whole", 3, OtherDevices("rdma", 3, 100), id="a number, alone"),
        pytest.param("RDMA=Every", 100, OtherDevices("rdma", 1, 100, every=True), id="in capitals"),
    ],
)
def test_apply(text: str, amount: int, asks: OtherDevices) -> None:
    """What an amount of other devices means can be said by type, and counts for that type alone."""
    pod = pod_requests.asking({names.RDMA: amount, names.FPGA: 100}, annotations={names.APPLY: text})

    assert pod_requests.request(pod).containers[0].asks == (OtherDevices("fpga", 1, 100), asks)


def test_every_device_is_joined_with_nothing() -> None:
    """All NICs of a node cannot also sit beside one card, so they take no part."""
    pod = pod_requests.asking(BOTH, annotations={names.JOINT: "gpu,rdma", names.APPLY: "rdma=every"})

    assert pod_requests.request(pod).grouping.joint == ()


def test_strategy_counts_without_devices() -> None:
    """How nodes are ranked matters to a pod without devices too."""
    pod = builders.pod(annotations={names.STRATEGY: "spread"})

    assert pod_requests.request(pod) == requests.DeviceRequest(grouping=Grouping(strategy=Strategy.SPREAD))


def test_pattern_beside_models_to_avoid() -> None:
    """Of two patterns one must be found in a model's name and the other must not."""
    annotations = {names.MODEL_PATTERN: "(?i)a100|T4", "nvidia.com/nouse-gputype": "PCIe"}

    asked = pod_requests.request(pod_requests.asking(CARDS, annotations=annotations)).conditions.of_models

    models = ("A100-SXM4-80GB", "A100-PCIE-40GB", "Tesla T4", "V100")
    assert [one for one in models if conditions.model_meets(one, asked)] == ["A100-SXM4-80GB", "Tesla T4"]
