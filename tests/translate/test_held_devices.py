"""What a bound pod holds and keeps back whose record is damaged, or does not name its cards (I9)."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from berth_crds import allocation, names, wire
from berth_crds.client import watch
from berth_operator.scheduling import holds
from berth_operator.translate import held_devices, pods, raw
from support import builders, deep
from translate import pod_requests

HELD = builders.record("n1", main=[2])
RECORD = HELD[names.ALLOCATION]
UUIDS, MINORS = names.container_key("main", "uuids"), names.container_key("main", "minors")
BESIDE = {names.TERM: "7", names.MINORS: "2", UUIDS: builders.uuid("n1", 2), MINORS: "2"}
BOTH = frozenset({2, builders.uuid("n1", 2)})


def bound(annotations: Mapping[str, str], gpus: int = 1) -> pods.BoundPod:
    """Return a bound pod with these annotations that asks for so many cards."""
    return pod_requests.bound(builders.pod(gpus=gpus, nodeName="n1", annotations=annotations))


SPOILED: dict[str, str] = {
    "no JSON": "{",
    "nothing": "",
    "a part of it": RECORD[: len(RECORD) // 2],
    "a number of another kind": RECORD.replace('"core":100', '"core":NaN'),
    "less than nothing": RECORD.replace('"core":100', '"core":-100'),
    "a version to come": RECORD.replace('"v":1', '"v":2'),
    "a key that is given twice": RECORD.replace('"v":1', '"v":1,"v":1'),
    "another node": RECORD.replace('"n1"', '"n9"'),
    "no containers": json.dumps({"v": 1, "node": "n1", "containers": {}}),
    "too deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", SPOILED.values(), ids=SPOILED.keys())
def test_what_stands_beside_a_damaged_record_is_kept_from_others(text: str) -> None:
    """The very card, by uuid and by minor, and nothing beyond what the pod asks for."""
    found = bound(BESIDE | {names.ALLOCATION: text}).hold

    assert (found.shares, found.withheld) == ((), 0)
    assert found.marked >= BOTH


UUID = builders.uuid("n1", 2)
HALF = RECORD[: RECORD.index('"minor"')]
# What stands on a pod that asks for so many cards, what it keeps from others, and how many more.
LEFT: dict[str, tuple[int, dict[str, str], Any, int]] = {
    "the minors": (1, {names.MINORS: "2"}, {2}, 0),
    "the uuids of a container": (1, {UUIDS: UUID}, {UUID}, 0),
    "the minors of a container": (1, {MINORS: "2"}, {2}, 0),
    "a part of the record": (1, {names.ALLOCATION: HALF}, {UUID}, 0),
    "a version to come": (1, {names.ALLOCATION: SPOILED["a version to come"]}, BOTH, 0),
    "another node": (1, {names.ALLOCATION: SPOILED["another node"]}, BOTH, 0),
    "less than nothing": (1, {names.ALLOCATION: SPOILED["less than nothing"]}, BOTH, 0),
    "one name of three": (3, {UUIDS: UUID}, {UUID}, 2),
}


@pytest.mark.parametrize(("gpus", "words", "marked", "withheld"), LEFT.values(), ids=LEFT.keys())
def test_one_word_is_enough(gpus: int, words: dict[str, str], marked: Any, withheld: int) -> None:
    """Whichever of them was left, or is legible in a damaged record: that card is kept, and the rest."""
    found = bound(words, gpus).hold

    assert (found.marked, found.withheld) == (marked, withheld)


@pytest.mark.parametrize(
    "words",
    [
        *({names.ALLOCATION: text} for text in ("", "{", "[]", "null", SPOILED["no containers"])),
        *(
            {names.MINORS: text, names.ALLOCATION: "{"}
            for text in (",,,", "x" * 100_000, "GPU n1", "-1", "1" * 50, "\N{ARABIC-INDIC DIGIT TWO}")
        ),
    ],
    ids=lambda words: "; ".join(word[:12] for word in words.values()),
)
def test_where_nothing_is_named_everything_is_kept_back(words: dict[str, str]) -> None:
    """Whatever nobody else holds by name; meaningless words are read a little way, and never raise."""
    assert bound(words).hold.withheld == holds.ALL_CARDS


def test_words_that_agree_with_the_record_add_nothing() -> None:
    """That is every pod which was bound and left alone, and it may ask for anything by annotations since."""
    for since in ({}, {names.GPU: "6400", "gpu-fraction": "nonsense"}):
        found = bound(HELD | BESIDE | since)

        assert (found.hold.marked, found.hold.withheld, found.fault) == (frozenset(), 0, "")


def test_words_that_name_another_card_keep_it_back_as_well() -> None:
    """The record is believed, and so is what it does not say."""
    found = bound(HELD | BESIDE | {UUIDS: "GPU-n1-3"})

    assert [share.uuid for share in found.hold.shares] == ["GPU-n1-2"]
    assert found.hold.marked == {"GPU-n1-3"}
    assert found.fault == "its annotations name other cards than its allocation"


def test_no_pod_marks_without_end() -> None:
    """Words that name a million minors name as many as a node may have, and keep the whole node back."""
    many = ",".join(map(str, range(100_000)))
    keys = {names.container_key(f"c{at}", "minors"): f"{at + 1}{at:05},{many}" for at in range(9)}

    found = bound({names.MINORS: many} | keys).hold

    assert len(found.marked) == held_devices.MAX_MARKED
    assert found.withheld == holds.ALL_CARDS


# ---------------------------------------------------------------- records that do not name all cards

ON_NODE: dict[str, Any] = {"nodeName": "n1"}


NIC = builders.written("n1", {"main": {"rdma": [allocation.Share("r", 0, 100, 0)]}})
WITHHELD: dict[str, tuple[raw.Pod, int, str]] = {
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
}


@pytest.mark.parametrize(("pod", "withheld", "fault"), WITHHELD.values(), ids=WITHHELD.keys())
def test_record_that_cannot_be_trusted_fails_closed(pod: raw.Pod, withheld: int, fault: str) -> None:
    """A bound pod withholds what it asks for and nobody names; all, where its record is damaged (I9)."""
    found = pod_requests.bound(pod)

    assert found.hold.withheld == withheld
    assert found.fault.startswith(fault)


UNRECORDED: dict[str, tuple[raw.Pod, int]] = {
    "whole cards": (builders.pod(gpus=2, **ON_NODE), 2),
    "a foreign pod with the plug-in's resource": (
        builders.pod(gpus=3, schedulerName="default-scheduler", **ON_NODE),
        3,
    ),
    "a request that cannot be read": (
        pod_requests.asking({names.NVIDIA_GPU: "x"}, **ON_NODE),
        1,
    ),
    "a request that makes no sense": (
        pod_requests.asking({names.GPU_CORE: 50}, **ON_NODE),
        1,
    ),
    "a request that is not served": (
        pod_requests.asking({"nvidia.com/mig-1g.10gb.shared": 2}, **ON_NODE),
        2,
    ),
    "one container of two that cannot be read": (
        builders.pod(
            containers=[builders.container("a", gpus=1), builders.asking("b", {names.GPU: "x"})], **ON_NODE
        ),
        2,
    ),
    "a share": (pod_requests.asking({names.GPU_MEMORY: "1Gi"}, **ON_NODE), 1),
    "shares of several cards": (
        pod_requests.asking({names.GPU_MEMORY: "1Gi", names.GPU_SHARED: 3}, **ON_NODE),
        3,
    ),
    "shares of two containers, which may lie on two cards": (
        builders.pod(
            containers=[builders.asking("a", {names.GPU: 10}), builders.asking("b", {names.GPU: 10})],
            **ON_NODE,
        ),
        2,
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
    ),
    "a pod of another project": (
        pod_requests.asking(
            {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1000}, schedulerName="hami-scheduler", **ON_NODE
        ),
        2,
    ),
    "cards beside another maker's": (
        pod_requests.asking({"amd.com/gpu": 4, names.NVIDIA_GPU: 1}, **ON_NODE),
        1,
    ),
    "cards with a wish that cannot be read": (
        builders.pod(gpus=2, annotations={names.MODEL: ""}, **ON_NODE),
        2,
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
    ),
}


@pytest.mark.parametrize(("pod", "withheld"), UNRECORDED.values(), ids=UNRECORDED.keys())
def test_a_pod_without_a_record_withholds_what_others_may_have_given_it(pod: raw.Pod, withheld: int) -> None:
    """All cards, if it must have been Berth that bound it, for then it has a card that nobody knows."""
    found, taken_over = pod_requests.bound(pod), pod_requests.bound(pods.as_berth_pod(pod))

    ours = pod.spec.scheduler_name == names.SCHEDULER_NAME
    assert found.hold.withheld == (holds.ALL_CARDS if ours else withheld)
    assert taken_over.hold.withheld == withheld
    assert found.fault == taken_over.fault == "it asks for cards and has no allocation"


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
    "was bound by Berth without cards, and asks by an annotation since": builders.pod(
        annotations={names.TERM: "7", "gpu-fraction": "nonsense"}, **ON_NODE
    ),
    "was bound by Berth without cards, and asks for some since": builders.pod(
        annotations={names.TERM: "7", names.GPU: "100"}, **ON_NODE
    ),
}
ENOUGH |= {f"none, for it {name}": (pod, 0) for name, pod in NOTHING.items()}
# A readable record is believed over a request of another time.
ENOUGH |= {
    "a request that this version does not understand": (
        pod_requests.asking({names.GPU: 150}, annotations=HELD, **ON_NODE),
        1,
    ),
    "a pod that asks for nothing": (builders.pod(annotations=HELD, **ON_NODE), 1),
}


@pytest.mark.parametrize(("pod", "cards"), ENOUGH.values(), ids=ENOUGH.keys())
def test_record_that_names_all_there_is(pod: raw.Pod, cards: int) -> None:
    """Fewer cards than asks are enough where one card may serve several; who has no card keeps none back."""
    found = pod_requests.bound(pod)

    assert (len(found.hold.shares), found.hold.withheld, found.fault) == (cards, 0, "")


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
    """Of such a pod there are only the metadata: its node keeps back all devices that no pod holds."""
    meta = wire.Meta("p", "ml", "u", annotations=annotations)

    found = pods.unreadable_hold(watch.Undecodable(meta, "the answer has more than 33554432 bytes"))

    assert found == (everything(node) if node else None)


def test_an_unreadable_pod_that_is_deep_withholds_its_node() -> None:
    """Whatever is odd about a pod, and however deep it is: its node keeps all devices back."""
    meta = {"name": "p", "namespace": "ml", "uid": "u"}
    body = deep.managed({"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})

    found = pods.unreadable_hold(watch.Undecodable(wire.Meta("p", "ml", "u"), "it is odd", body))

    assert found == everything("n1")


def everything(node: str) -> holds.Hold:
    """Return that a pod of which nothing can be read withholds all devices of its node."""
    types = frozenset({"rdma", "fpga"})
    return holds.Hold("u", "ml/p", node, withheld=holds.ALL_CARDS, withheld_types=types)
