"""Pods that must start together with others are refused: Berth binds one after the other."""

from typing import Any, Final

import msgspec
import pytest

from berth_crds import aliases
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import pods, raw
from support import builders
from translate import pod_requests

KOORDINATOR: Final = "gang.scheduling.koordinator.sh"
LIGHTWEIGHT: Final = "pod-group.scheduling.sigs.k8s.io"
VOLCANO: Final = "scheduling.volcano.sh"
WHY: Final = (
    "makes the pod one of a group that starts as a whole, but Berth binds pods one by one and does not wait "
    "for a whole group; leave it out if the pods may start one by one"
)

Annotations = dict[str, str]

# What people write for each project, and the key that the sentence names.
GROUPS: dict[str, tuple[Annotations, str]] = {
    "Koordinator": (
        {
            f"{KOORDINATOR}/name": "train",
            f"{KOORDINATOR}/min-available": "4",
            f"{KOORDINATOR}/mode": "Strict",
        },
        f"{KOORDINATOR}/name",
    ),
    "Koordinator without a number": ({f"{KOORDINATOR}/name": "train"}, f"{KOORDINATOR}/name"),
    "Koordinator's number alone": ({f"{KOORDINATOR}/min-available": "4"}, f"{KOORDINATOR}/min-available"),
    "Koordinator's total": ({f"{KOORDINATOR}/total-number": "4"}, f"{KOORDINATOR}/total-number"),
    "several gangs of Koordinator": (
        {
            f"{KOORDINATOR}/name": "a",
            f"{KOORDINATOR}/min-available": "1",
            f"{KOORDINATOR}/groups": '["ml/a", "ml/b"]',
        },
        f"{KOORDINATOR}/groups",
    ),
    "coscheduling": ({"scheduling.x-k8s.io/pod-group": "train"}, "scheduling.x-k8s.io/pod-group"),
    "coscheduling before that": ({LIGHTWEIGHT: "train"}, LIGHTWEIGHT),
    "lightweight coscheduling": (
        {f"{LIGHTWEIGHT}/name": "train", f"{LIGHTWEIGHT}/min-available": "3"},
        f"{LIGHTWEIGHT}/name",
    ),
    "Volcano": ({"scheduling.k8s.io/group-name": "train"}, "scheduling.k8s.io/group-name"),
    "Volcano's other name": ({f"{VOLCANO}/group-name": "train"}, f"{VOLCANO}/group-name"),
    "Volcano's number": ({f"{VOLCANO}/group-min-member": "2"}, f"{VOLCANO}/group-min-member"),
    "KAI": ({"pod-group-name": "train"}, "pod-group-name"),
    "KAI's part of a group": ({"kai.scheduler/subgroup-name": "a"}, "kai.scheduler/subgroup-name"),
    "KAI's number": ({"kai.scheduler/batch-min-member": "4"}, "kai.scheduler/batch-min-member"),
    "a number that is none": (
        {f"{LIGHTWEIGHT}/name": "train", f"{LIGHTWEIGHT}/min-available": "one"},
        f"{LIGHTWEIGHT}/name",
    ),
}


@pytest.mark.parametrize("place", ["annotation", "label"])
@pytest.mark.parametrize(("said", "key"), GROUPS.values(), ids=GROUPS.keys())
def test_a_pod_of_a_group_is_refused(said: Annotations, key: str, place: str) -> None:
    """The sentence names the key and where it stands, and says why; no node is asked."""
    about: dict[str, Any] = {f"{place}s": said}

    for asking in (builders.pod(gpus=1, **about), builders.pod(**about)):
        assert pod_requests.faults(asking) == [(Reason.UNSUPPORTED_CONSTRAINT, f"{place} {key} {WHY}")]


@pytest.mark.parametrize("key", sorted(aliases.GANG_KEYS))
def test_every_key_is_heeded(key: str) -> None:
    """No key of the table is passed over."""
    assert [WHY in sentence for sentence in pod_requests.sentences(builders.pod(annotations={key: "4"}))] == [
        True
    ]


@pytest.mark.parametrize("field", ["schedulingGroup", "workloadRef"])
def test_a_group_of_kubernetes_is_refused(field: str) -> None:
    """Its size stands in another object, so there is no telling whether it matters."""
    spec: dict[str, Any] = {field: {"podGroupName": "train"}}

    assert pod_requests.faults(builders.pod(gpus=1, **spec)) == [
        (Reason.UNSUPPORTED_CONSTRAINT, f"spec.{field} {WHY}")
    ]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({f"{KOORDINATOR}/name": "a", f"{KOORDINATOR}/min-available": "1"}, id="Koordinator"),
        pytest.param({f"{LIGHTWEIGHT}/name": "a", f"{LIGHTWEIGHT}/min-available": " 1 "}, id="coscheduling"),
        pytest.param({"scheduling.k8s.io/group-name": "a", f"{VOLCANO}/group-min-member": "1"}, id="Volcano"),
        pytest.param({"pod-group-name": "a", "kai.scheduler/batch-min-member": "1"}, id="KAI"),
        pytest.param({f"{VOLCANO}/group-min-member": "1"}, id="a number alone"),
        pytest.param({"scheduling.k8s.io/group-name": ""}, id="no name"),
        pytest.param({f"{VOLCANO}/queue-name": "q", "kai.scheduler/queue": "q"}, id="queues"),
        pytest.param(
            {
                "kueue.x-k8s.io/queue-name": "q",
                "kueue.x-k8s.io/managed": "true",
                "kueue.x-k8s.io/pod-group-name": "train",
                "kueue.x-k8s.io/pod-group-total-count": "4",
            },
            id="Kueue",
        ),
    ],
)
def test_a_pod_that_starts_alone_is_served(said: Annotations) -> None:
    """A group of one is none, a queue is no group, and Kueue opens a group's gates when all may start."""
    assert pod_requests.faults(builders.pod(gpus=1, annotations=said)) == []
    assert pod_requests.faults(builders.pod(gpus=1, labels=said)) == []


def test_two_pods_that_differ_in_their_group_alone_are_read_apart() -> None:
    """What is remembered of one pod is not taken for the other."""
    alone = pods.classify(builders.pod(gpus=1))
    grouped = pods.classify(builders.pod(gpus=1, labels={"scheduling.x-k8s.io/pod-group": "train"}))

    assert isinstance(alone, pods.WaitingPod)
    assert isinstance(grouped, pods.WaitingPod)
    assert (len(alone.candidate.faults), len(grouped.candidate.faults)) == (0, 1)


def test_a_bound_pod_of_a_group_is_charged_as_any_other() -> None:
    """Somebody else bound it, or Berth did before: what it holds counts."""
    said: dict[str, Any] = {
        "annotations": {"pod-group-name": "train"},
        "schedulingGroup": {"podGroupName": "train"},
    }

    grouped = pods.device_request(builders.pod(gpus=1, nodeName="n1", **said))
    alone = pods.device_request(builders.pod(gpus=1, nodeName="n1"))

    assert grouped == alone
    assert grouped is not None


def test_the_group_of_kubernetes_is_read_from_json() -> None:
    """As the API server sends it, with whatever else will stand in it."""
    text = b'{"metadata":{"name":"p"},"spec":{"schedulingGroup":{"podGroupName":"a","more":{"b":[1]}}}}'

    assert msgspec.json.decode(text, type=raw.Pod).spec.scheduling_group is not None
