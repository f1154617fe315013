"""A bound pod whose record does not name its cards keeps back whatever it may have (I9)."""

from typing import Any

import pytest

from berth_crds import allocation, names, wire
from berth_crds.client import watch
from berth_operator.scheduling import holds
from berth_operator.translate import pods, raw
from support import deep
from translate import manifests

ON_NODE: dict[str, Any] = {"nodeName": "n1"}


def bound(pod: raw.Pod) -> pods.Bound:
    """View a pod that must be bound."""
    found = pods.view(pod)
    assert isinstance(found, pods.Bound)
    return found


NIC = manifests.written("n1", {"main": {"rdma": [allocation.Share("r", 0, 100, 0)]}})
MISSING = "it asks for cards and has no allocation"

WITHHELD: dict[str, tuple[raw.Pod, int, str]] = {
    "no record": (manifests.pod(gpus=2, **ON_NODE), 2, MISSING),
    "a foreign pod with the plug-in's resource": (
        manifests.pod(gpus=3, schedulerName="default-scheduler", **ON_NODE),
        3,
        MISSING,
    ),
    "a damaged record": (
        manifests.pod(gpus=2, annotations={names.ALLOCATION: "{"}, **ON_NODE),
        holds.ALL_CARDS,
        "its allocation cannot be read: Expecting property name enclosed in double quotes",
    ),
    "an empty record": (
        manifests.pod(gpus=2, annotations={names.ALLOCATION: ""}, **ON_NODE),
        holds.ALL_CARDS,
        "its allocation cannot be read: Expecting value",
    ),
    "a record of a newer version": (
        manifests.pod(gpus=1, annotations={names.ALLOCATION: '{"v":2}'}, **ON_NODE),
        holds.ALL_CARDS,
        "its allocation cannot be read: v: this Berth reads version 1, found 2",
    ),
    "a record that names too few cards": (
        manifests.pod(gpus=3, annotations=manifests.record("n1", main=[0]), **ON_NODE),
        2,
        "its allocation names 1 of 3 cards",
    ),
    "a record that names no card": (
        manifests.pod(gpus=1, annotations=NIC, **ON_NODE),
        1,
        "its allocation names 0 of 1 cards",
    ),
    "a record that names no NIC": (
        manifests.one(
            {names.RDMA: 1, names.NVIDIA_GPU: 1}, annotations=manifests.record("n1", main=[0]), **ON_NODE
        ),
        0,
        "its allocation names no rdma",
    ),
    "a NIC without a record": (
        manifests.one({names.RDMA: 100}, **ON_NODE),
        0,
        "it asks for devices and has no allocation",
    ),
    "a request that cannot be read": (
        manifests.one({names.NVIDIA_GPU: "x"}, **ON_NODE),
        1,
        MISSING,
    ),
    "a request that makes no sense": (
        manifests.one({names.GPU_CORE: 50}, **ON_NODE),
        1,
        MISSING,
    ),
    "a request that is not served": (
        manifests.one({"nvidia.com/mig-1g.10gb.shared": 2}, **ON_NODE),
        2,
        MISSING,
    ),
    "one container of two that cannot be read": (
        manifests.pod(
            containers=[manifests.container("a", gpus=1), manifests.asking("b", {names.GPU: "x"})], **ON_NODE
        ),
        2,
        MISSING,
    ),
    "a share": (manifests.one({names.GPU_MEMORY: "1Gi"}, **ON_NODE), 1, MISSING),
    "shares of several cards": (
        manifests.one({names.GPU_MEMORY: "1Gi", names.GPU_SHARED: 3}, **ON_NODE),
        3,
        MISSING,
    ),
    "shares of two containers, which may lie on two cards": (
        manifests.pod(
            containers=[manifests.asking("a", {names.GPU: 10}), manifests.asking("b", {names.GPU: 10})],
            **ON_NODE,
        ),
        2,
        MISSING,
    ),
    "instances and replicas": (
        manifests.pod(
            containers=[
                manifests.asking("a", {"nvidia.com/mig-1g.10gb": 2}),
                manifests.asking("b", {names.NVIDIA_GPU_SHARED: 3}),
            ],
            **ON_NODE,
        ),
        5,
        MISSING,
    ),
    "a pod of another project": (
        manifests.one(
            {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1000}, schedulerName="hami-scheduler", **ON_NODE
        ),
        2,
        MISSING,
    ),
    "cards beside another maker's": (
        manifests.one({"amd.com/gpu": 4, names.NVIDIA_GPU: 1}, **ON_NODE),
        1,
        MISSING,
    ),
    "cards with a wish that cannot be read": (
        manifests.pod(gpus=2, annotations={names.MODEL: ""}, **ON_NODE),
        2,
        MISSING,
    ),
    "a sidecar and an init container": (
        manifests.pod(
            initContainers=[
                manifests.container("s", gpus=1, restartPolicy="Always"),
                manifests.container("i", gpus=1),
            ],
            containers=[manifests.container("a")],
            **ON_NODE,
        ),
        2,
        MISSING,
    ),
}


@pytest.mark.parametrize(("pod", "withheld", "fault"), WITHHELD.values(), ids=WITHHELD.keys())
def test_record_that_cannot_be_trusted_fails_closed(pod: raw.Pod, withheld: int, fault: str) -> None:
    """A bound pod withholds what it asks for and nobody names; all, where its record is damaged (I9)."""
    found = bound(pod)

    assert found.hold.withheld == withheld
    assert found.fault.startswith(fault)


ENOUGH: dict[str, tuple[raw.Pod, int]] = {
    "shares of two containers on one card": (
        manifests.pod(
            containers=[manifests.asking("a", {names.GPU: 10}), manifests.asking("b", {names.GPU: 10})],
            annotations=manifests.record("n1", a=[0], b=[0]),
            **ON_NODE,
        ),
        1,
    ),
    "replicas of one card": (
        manifests.one({names.NVIDIA_GPU_SHARED: 3}, annotations=manifests.record("n1", main=[0]), **ON_NODE),
        1,
    ),
    "an init container on a card of the others": (
        manifests.pod(
            initContainers=[manifests.container("i", gpus=2)],
            containers=[manifests.container("main", gpus=1)],
            annotations=manifests.record("n1", i=[0, 1], main=[1]),
            **ON_NODE,
        ),
        2,
    ),
}


@pytest.mark.parametrize(("pod", "cards"), ENOUGH.values(), ids=ENOUGH.keys())
def test_record_that_names_all_there_is(pod: raw.Pod, cards: int) -> None:
    """Fewer cards than asks are enough where one card may serve several of them."""
    found = bound(pod)

    assert (len(found.hold.shares), found.hold.withheld, found.fault) == (cards, 0, "")


NOTHING: dict[str, raw.Pod] = {
    "asks for no cards": manifests.pod(**ON_NODE),
    "asks for zero cards": manifests.one({names.NVIDIA_GPU: 0}, **ON_NODE),
    "asks for no cards, with a damaged record": manifests.pod(annotations={names.ALLOCATION: "{"}, **ON_NODE),
    "asks for no cards, with a record of another node": manifests.pod(
        annotations=manifests.record("n2", main=[0]), **ON_NODE
    ),
    "asks for shares of no card": manifests.one({"nvidia.com/gpu": 0, "nvidia.com/gpumem": 3000}, **ON_NODE),
    "asks for nothing of a card": manifests.pod(annotations={"gpu-fraction": "0"}, **ON_NODE),
    "asks for another maker's card": manifests.one({"amd.com/gpu": 1}, **ON_NODE),
    "asks by an annotation, which nobody served": manifests.pod(annotations={names.GPU: "6400"}, **ON_NODE),
    "asks by an annotation that makes no sense": manifests.pod(
        annotations={"gpu-fraction": "nonsense"}, **ON_NODE
    ),
    "asks by a label that makes no sense": manifests.pod(
        meta={"labels": {"genius/gpu-number": "x"}}, **ON_NODE
    ),
    "was bound by Berth without cards, and asks for some since": manifests.pod(
        annotations={names.TERM: "7", names.GPU: "100"}, **ON_NODE
    ),
}


@pytest.mark.parametrize("pod", NOTHING.values(), ids=NOTHING.keys())
def test_pod_without_cards_withholds_none(pod: raw.Pod) -> None:
    """A pod that has no card keeps none back, whatever stands on it."""
    found = bound(pod)

    assert (found.hold.shares, found.hold.withheld, found.fault) == ((), 0, "")


def test_record_decides_where_the_request_is_of_another_time() -> None:
    """A readable record is believed over a request that this version does not understand."""
    pod = manifests.one({names.GPU: 150}, annotations=manifests.record("n1", main=[2]), **ON_NODE)

    found = bound(pod)

    assert found.hold.shares == (manifests.share(2),)
    assert (found.hold.withheld, found.fault) == (0, "")


def test_record_is_believed_even_of_a_pod_that_asks_for_nothing() -> None:
    """Cards that are named are held, whatever the containers ask."""
    pod = manifests.pod(annotations=manifests.record("n1", main=[0]), **ON_NODE)

    found = bound(pod)

    assert found.hold.shares == (manifests.share(0),)


@pytest.mark.parametrize(
    ("annotations", "node"),
    [
        pytest.param(manifests.record("n1", main=[2]), "n1", id="bound by Berth"),
        pytest.param({names.ALLOCATION: "{"}, None, id="no word of where"),
        pytest.param({}, None, id="no word at all"),
    ],
)
def test_pod_too_large_to_be_read_is_where_its_record_says(
    annotations: dict[str, str], node: str | None
) -> None:
    """Of such a pod there are only the metadata: its node keeps all cards back that nobody holds by name."""
    meta = wire.Meta("p", "ml", "u", annotations=annotations)

    found = pods.remains(watch.Undecodable(meta, "the answer has more than 33554432 bytes"))

    assert found == (holds.Hold("u", "ml/p", node, withheld=holds.ALL_CARDS) if node else None)


def test_an_unreadable_pod_that_is_deep_withholds_its_node() -> None:
    """Whatever is odd about a pod, and however deep it is: its node keeps all cards back."""
    meta = {"name": "p", "namespace": "ml", "uid": "u"}
    body = deep.managed({"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})

    found = pods.remains(watch.Undecodable(wire.Meta("p", "ml", "u"), "it is odd", body))

    assert found == holds.Hold("u", "ml/p", "n1", withheld=holds.ALL_CARDS)
