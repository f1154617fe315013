"""What is remembered of pods is what would be read of them."""

from typing import Any

import msgspec
import pytest

from berth_crds import names
from berth_operator.translate import pods, raw, recall


def pod(**changes: Any) -> raw.Pod:
    """Make a pod of one card, with some parts of its spec or metadata changed."""
    meta = {"name": "a", "uid": "u", "annotations": {}, **changes.pop("metadata", {})}
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [container], **changes}
    return msgspec.convert({"metadata": meta, "spec": spec}, raw.Pod)


def test_pods_of_one_workload_share_what_they_ask() -> None:
    """Pods that differ in nothing but their names are read once."""
    one, other = (pods.candidate(pod(metadata={"name": name, "uid": name})) for name in "ab")

    assert (one.name, other.name) == ("a", "b")
    assert one.request is other.request
    assert one.demand is other.demand


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        {"nodeSelector": {"a": "b"}},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"priority": 7},
        {"overhead": {"cpu": "1"}},
        {"metadata": {"annotations": {names.MODEL: "H100"}}},
        {"metadata": {"labels": {"pod.codescratch.genius/priority": "1"}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_a_pod_asks_is_told_apart(change: dict[str, Any]) -> None:
    """A pod that asks anything else has a key of its own, waiting or bound."""
    assert recall.of_waiting(pod()) != recall.of_waiting(pod(**change))
    assert recall.of_bound(pod()) != recall.of_bound(pod(**change))


def test_where_a_pod_is_and_what_it_got_is_not_what_it_asked() -> None:
    """Bound pods of one workload share a key, whatever node and cards they have."""
    answer = {names.ALLOCATION: "x", names.TERM: "t/1", names.container_key("main", "uuids"): "GPU-1"}

    assert recall.of_bound(pod()) == recall.of_bound(pod(nodeName="n", metadata={"annotations": answer}))


def test_little_is_kept_of_much() -> None:
    """Pods with very much to say, and more kinds than are kept, cost time and not memory."""
    read: list[str] = []
    known = recall.Recall(lambda thing: read.append(thing.metadata.name))

    for _ in range(2):
        known(pod(), b"x" * (recall.LONGEST_KEY + 1))
    for at in range(recall.MOST_KNOWN + 1):
        known(pod(), str(at).encode())

    assert len(read) == recall.MOST_KNOWN + 3
    assert len(known._known) <= recall.MOST_KNOWN
