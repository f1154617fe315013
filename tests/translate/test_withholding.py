"""A bound pod whose record does not name its cards keeps back whatever it may have (I9)."""

from typing import Any

import pytest

from berth_crds import allocation, names, wire
from berth_crds.client import watch
from berth_operator.scheduling import holds
from berth_operator.translate import pods, raw
from support import builders, deep
from translate import pod_requests

ON_NODE: dict[str, Any] = {"nodeName": "n1"}


NIC = builders.written("n1", {"main": {"rdma": [allocation.Share("r", 0, 100, 0)]}})
MISSING = "it asks for cards and has no allocation"

WITHHELD: dict[str, tuple[raw.Pod, int, str]] = {
    "no record": (builders.pod(gpus=2, **ON_NODE), 2, MISSING),
    "a foreign pod with the plug-in's resource": (
        builders.pod(gpus=3, schedulerName="default-scheduler", **ON_NODE),
        3,
        MISSING,
    ),
    "a damaged record": (
        builders.pod(gpus=2, annotations={names.ALLOCATION: "{"}, **ON_NODE),
        holds.ALL_CARDS,
        "its allocation cannot be read: Expecting property name enclosed in double quotes",
    ),
    "an empty record": (
        builders.pod(gpus=2, annotations={names.ALLOCATION: ""}, **ON_NODE),
        holds.ALL_CARDS,
        "its allocation cannot be read: Expecting value",
    ),
    "a record of a newer version": (
        builders.pod(gpus=1, annotations={names.ALLOCATION: '{"v":2}'}, **ON_NODE),
        holds.ALL_CARDS,
        "its allocation cannot be read: v: this Berth reads version 1, found 2",
    ),
    "a record that names too few cards": (
        builders.pod(gpus=3, annotations=builders.record("n1", main=[0]), **ON_NODE),
        2,
        "its allocation names 1 of 3 cards",
    ),
    "a record that names no card": (
        builders.pod(gpus=1, annotations=NIC, **ON_NODE),
        1,
        "its allocation names 0 of 1 cards",
    ),
    "a record that names no NIC": (
        pod_requests.asking(
            {names.RDMA: 1, names.NVIDIA_GPU: 1}, annotations=builders.record("n1", main=[0]), **ON_NODE
        ),
        0,
        "its allocation names no rdma",
    ),
    "a NIC without a record": (
        pod_requests.asking({names.RDMA: 100}, **ON_NODE),
        0,
        "it asks for devices and has no allocation",
    ),
    "a request that cannot be read": (
        pod_requests.asking({names.NVIDIA_GPU: "x"}, **ON_NODE),
        1,
        MISSING,
    ),
    "a request that makes no sense": (
        pod_requests.asking({names.GPU_CORE: 50}, **ON_NODE),
        1,
        MISSING,
    ),
    "a request that is not served": (
        pod_requests.asking({"nvidia.com/mig-1g.10gb.shared": 2}, **ON_NODE),
        2,
        MISSING,
    ),
    "one container of two that cannot be read": (
        builders.pod(
            containers=[builders.container("a", gpus=1), builders.asking("b", {names.GPU: "x"})], **ON_NODE
        ),
        2,
        MISSING,
    ),
    "a share": (pod_requests.asking({names.GPU_MEMORY: "1Gi"}, **ON_NODE), 1, MISSING),
    "shares of several cards": (
        pod_requests.asking({names.GPU_MEMORY: "1Gi", names.GPU_SHARED: 3}, **ON_NODE),
        3,
        MISSING,
    ),
    "shares of two containers, which may lie on two cards": (
        builders.pod(
            containers=[builders.asking("a", {names.GPU: 10}), builders.asking("b", {names.GPU: 10})],
            **ON_NODE,
        ),
        2,
        MISSING,
    ),
    "instances and replicas": (
        builders.pod(
            containers=[
                builders.asking("a", {"nvidia.com/mig-1g.10gb": 2}),
                builders.asking("b", {names.NVIDIA_GPU_SHARED: 3}),
            ],
            **ON_NODE,
        ),
        5,
        MISSING,
    ),
    "a pod of another project": (
        pod_requests.asking(
            {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1000}, schedulerName="hami-scheduler", **ON_NODE
        ),
        2,
        MISSING,
    ),
    "cards beside another maker's": (
        pod_requests.asking({"amd.com/gpu": 4, names.NVIDIA_GPU: 1}, **ON_NODE),
        1,
        MISSING,
    ),
    "cards with a wish that cannot be read": (
        builders.pod(gpus=2, annotations={names.MODEL: ""}, **ON_NODE),
        2,
        MISSING,
    ),
    "a sidecar and an init container": (
        builders.pod(
            initContainers=[
                builders.container("s", gpus=1, restartPolicy="Always"),
                builders.container("i", gpus=1),
            ],
            containers=[builders.container("a")],
            **ON_NODE,
        ),
        2,
        MISSING,
    ),
}


@pytest.mark.parametrize(("pod", "withheld", "fault"), WITHHELD.values(), ids=WITHHELD.keys())
def test_record_that_cannot_be_trusted_fails_closed(pod: raw.Pod, withheld: int, fault: str) -> None:
    """A bound pod withholds what it asks for and nobody names; all, where its record is damaged (I9)."""
    found = pod_requests.bound(pod)

    assert found.hold.withheld == withheld
    assert found.fault.startswith(fault)


ENOUGH: dict[str, tuple[raw.Pod, int]] = {
    "shares of two containers on one card": (
        builders.pod(
            containers=[builders.asking("a", {names.GPU: 10}), builders.asking("b", {names.GPU: 10})],
            annotations=builders.record("n1", a=[0], b=[0]),
            **ON_NODE,
        ),
        1,
    ),
    "replicas of one card": (
        pod_requests.asking(
            {names.NVIDIA_GPU_SHARED: 3}, annotations=builders.record("n1", main=[0]), **ON_NODE
        ),
        1,
    ),
    "an init container on a card of the others": (
        builders.pod(
            initContainers=[builders.container("i", gpus=2)],
            containers=[builders.container("main", gpus=1)],
            annotations=builders.record("n1", i=[0, 1], main=[1]),
            **ON_NODE,
        ),
        2,
    ),
}


@pytest.mark.parametrize(("pod", "cards"), ENOUGH.values(), ids=ENOUGH.keys())
def test_record_that_names_all_there_is(pod: raw.Pod, cards: int) -> None:
    """Fewer cards than asks are enough where one card may serve several of them."""
    found = pod_requests.bound(pod)

    assert (len(found.hold.shares), found.hold.withheld, found.fault) == (cards, 0, "")


NOTHING: dict[str, raw.Pod] = {
    "asks for no cards": builders.pod(**ON_NODE),
    "asks for zero cards": pod_requests.asking({names.NVIDIA_GPU: 0}, **ON_NODE),
    "asks for no cards, with a damaged record": builders.pod(annotations={names.ALLOCATION: "{"}, **ON_NODE),
    "asks for no cards, with a record of another node": builders.pod(
        annotations=builders.record("n2", main=[0]), **ON_NODE
    ),
    "asks for shares of no card": pod_requests.asking(
        {"nvidia.com/gpu": 0, "nvidia.com/gpumem": 3000}, **ON_NODE
    ),
    "asks for nothing of a card": builders.pod(annotations={"gpu-fraction": "0"}, **ON_NODE),
    "asks for another maker's card": pod_requests.asking({"amd.com/gpu": 1}, **ON_NODE),
    "asks by an annotation, which nobody served": builders.pod(annotations={names.GPU: "6400"}, **ON_NODE),
    "asks by an annotation that makes no sense": builders.pod(
        annotations={"gpu-fraction": "nonsense"}, **ON_NODE
    ),
    "asks by a label that makes no sense": builders.pod(
        meta={"labels": {"genius/gpu-number": "x"}}, **ON_NODE
    ),
    "was bound by Berth without cards, and asks for some since": builders.pod(
        annotations={names.TERM: "7", names.GPU: "100"}, **ON_NODE
    ),
}


@pytest.mark.parametrize("pod", NOTHING.values(), ids=NOTHING.keys())
def test_pod_without_cards_withholds_none(pod: raw.Pod) -> None:
    """A pod that has no card keeps none back, whatever stands on it."""
    found = pod_requests.bound(pod)

    assert (found.hold.shares, found.hold.withheld, found.fault) == ((), 0, "")


def test_record_decides_where_the_request_is_of_another_time() -> None:
    """A readable record is believed over a request that this version does not understand."""
    pod = pod_requests.asking({names.GPU: 150}, annotations=builders.record("n1", main=[2]), **ON_NODE)

    found = pod_requests.bound(pod)

    assert found.hold.shares == (builders.share(2),)
    assert (found.hold.withheld, found.fault) == (0, "")


def test_record_is_believed_even_of_a_pod_that_asks_for_nothing() -> None:
    """Cards that are named are held, whatever the containers ask."""
    pod = builders.pod(annotations=builders.record("n1", main=[0]), **ON_NODE)

    found = pod_requests.bound(pod)

    assert found.hold.shares == (builders.share(0),)


@pytest.mark.parametrize(
    ("annotations", "node"),
    [
        pytest.param(builders.record("n1", main=[2]), "n1", id="bound by Berth"),
        pytest.param({names.ALLOCATION: "{"}, None, id="no word of where"),
        pytest.param({}, None, id="no word at all"),
    ],
)
def test_pod_too_large_to_be_read_is_where_its_record_says(
    annotations: dict[str, str], node: str | None
) -> None:
    """Of such a pod there are only the metadata: its node keeps all cards back that nobody holds by name."""
    meta = wire.Meta("p", "ml", "u", annotations=annotations)

    found = pods.unreadable_hold(watch.Undecodable(meta, "the answer has more than 33554432 bytes"))

    assert found == (holds.Hold("u", "ml/p", node, withheld=holds.ALL_CARDS) if node else None)


def test_an_unreadable_pod_that_is_deep_withholds_its_node() -> None:
    """Whatever is odd about a pod, and however deep it is: its node keeps all cards back."""
    meta = {"name": "p", "namespace": "ml", "uid": "u"}
    body = deep.managed({"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})

    found = pods.unreadable_hold(watch.Undecodable(wire.Meta("p", "ml", "u"), "it is odd", body))

    assert found == holds.Hold("u", "ml/p", "n1", withheld=holds.ALL_CARDS)
