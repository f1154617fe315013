"""What a pod says beyond the limits is refused in a sentence that names the limit, and none of it is kept."""

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest

from berth_crds import aliases, names
from berth_crds.client import watch
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pod_limits, pods, raw
from support import builders
from translate import pod_requests

CARD: Final[dict[str, object]] = {names.NVIDIA_GPU: 1}
NIC: Final[dict[str, object]] = {names.RDMA: 100}
LONG: Final = "x" * 10_000
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def many(count: int, *words: str) -> str:
    """Write a list of so many words, numbered; of several words all but the last come once."""
    return ",".join([*words[:-1], *(f"{words[-1]}{at}" for at in range(count - len(words) + 1))])


# ---------------------------------------------------------------- the whole pod


def measured(pod: dict[str, Any]) -> Any:
    """Read a pod as it comes, in a list and in a watch."""
    codec = watch.Codec(raw.Pod)
    listed = codec.decode_object(msgspec.Raw(msgspec.json.encode(pod)))
    event = {"type": "ADDED", "object": {"kind": "Pod", "apiVersion": "v1", **pod}}
    watched = codec.event(msgspec.json.encode(event))
    assert isinstance(watched, watch.Event)
    assert watched.thing == listed
    return listed


@pytest.mark.parametrize(
    ("more", "refused"),
    [pytest.param(0, False, id="as long as it may be"), pytest.param(1, True, id="longer by one byte")],
)
def test_a_pod_that_etcd_may_not_take_with_its_bind(more: int, refused: bool) -> None:  # noqa: FBT001
    """It is refused for its length as an object, which is the same however it comes, and nothing is kept."""
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": pod_requests.containers(1, CARD)}
    meta = {"name": "p", "namespace": "ml", "uid": "u", "annotations": {"a": ""}}
    bare = sum(len(msgspec.json.encode(part)) for part in (spec, meta))
    meta["annotations"] = {"a": "x" * (pod_limits.MAX_BYTES - bare + more)}

    found = pods.pod_info(measured({"metadata": meta, "spec": spec}))

    assert bool(found.faults) is refused
    assert (found.request == requests.NO_DEVICES) is refused
    if refused:
        assert found.faults[0].detail.startswith("the pod has more than 1048576 bytes as an object")


@pytest.mark.parametrize("count", [pod_limits.MAX_POD_LABELS, pod_limits.MAX_POD_LABELS + 1])
def test_of_very_many_labels_of_a_pod_none_is_read(count: int) -> None:
    """A pod that waits is refused; one on a node may have any labels, as if there were no room for them."""
    labels, is_read = {f"l{at}": "" for at in range(count)}, count <= pod_limits.MAX_POD_LABELS

    waiting = pods.pod_info(builders.pod(gpus=1, labels=labels))
    hold = pods.read_bound(builders.pod(gpus=1, labels=labels, nodeName="n1")).hold

    assert len(waiting.labels) == len(hold.labels) == (count if is_read else 0)
    assert hold.labels_known is is_read
    faults = () if is_read else ("the pod has 1025 labels; 1024 are the most",)
    assert tuple(fault.detail for fault in waiting.faults) == faults


# ---------------------------------------------------------------- annotations and containers


def list_of(key: str, text: str, what: str, most: int) -> tuple[dict[str, str], str]:
    """Return an annotation that lists more than the limit, and the sentence about it."""
    return {key: text}, f"annotation {key} names {text.count(',') + 1} {what}; {most} are the most"


def text_of(key: str, text: str, sentence: str) -> tuple[dict[str, str], str]:
    """Return an annotation that is too long, and the sentence about it."""
    return {key: text}, f"annotation {key}{sentence}"


MODELS, UUIDS, LABELS = pod_limits.MAX_MODELS, pod_limits.MAX_UUIDS, pod_limits.MAX_LABELS
TOO_LONG: dict[str, tuple[dict[str, str], str]] = {
    "models": list_of(names.MODEL, many(MODELS + 1, "m"), "models", MODELS),
    "models to avoid": list_of(names.AVOID_MODEL, many(MODELS + 1, "m"), "models", MODELS),
    "uuids": list_of(names.UUIDS, many(UUIDS + 1, "GPU-"), "uuids", UUIDS),
    "uuids to avoid": list_of(names.AVOID_UUIDS, many(UUIDS + 1, "GPU-"), "uuids", UUIDS),
    "labels": list_of(names.LABELS, many(LABELS + 1, "fabric=a", "l="), "labels", LABELS),
    "selectors": text_of(
        names.LABELS, ";".join(["rdma: a"] * (LABELS + 1)), " names 65 selectors; 64 are the most"
    ),
    "types": list_of(names.JOINT, ",".join(["gpu,rdma"] * LABELS), "types", LABELS),
    "a model": text_of(names.MODEL, f"T4,{'x' * 129}", ": a model has 129 characters; 128 are the most"),
    "a label": text_of(names.LABELS, f"fabric={'a' * 400}", ": a label has 407 characters; 400 are the most"),
    "a scope": text_of(names.SCOPE, LONG, " has 10000 characters; 4096 are the most"),
    "a pattern": text_of(names.MODEL_PATTERN, LONG, " has 10000 characters; 4096 are the most"),
    "an amount": text_of(
        names.MEMORY_AT_LEAST, "1" * 100, f": {'1' * 60}... is not an amount of memory, such as 40Gi"
    ),
    "a list": text_of(names.MODEL, "," * 40_000, " has 40000 characters; 32768 are the most"),
    "a record": text_of(
        "pod.alpha/DeviceInformation", "[" * 40_000, " has 40000 characters; 32768 are the most"
    ),
    "another project's list": text_of(
        "nvidia.com/use-gputype", "A" * 40_000, " has 40000 characters; 32768 are the most"
    ),
}


@pytest.mark.parametrize(("annotations", "sentence"), TOO_LONG.values(), ids=TOO_LONG.keys())
def test_text_that_is_too_long(annotations: dict[str, str], sentence: str) -> None:
    """A list may have so many entries and not one more; a text that nobody means is not read."""
    assert sentence in pod_requests.sentences(pod_requests.asking(CARD | NIC, annotations=annotations))


def test_what_is_as_long_as_the_limit_is_read() -> None:
    """What is asked for within the limits is all taken, and containers that ask for nothing do not count."""
    listed = {names.MODEL: many(MODELS, "m"), names.AVOID_UUIDS: many(UUIDS, "GPU-")}
    asking = [
        *pod_requests.containers(pod_limits.MAX_ASKS, CARD),
        *(builders.container(f"p{at}") for at in range(1000)),
    ]

    found = pod_requests.request(builders.pod(containers=asking, annotations=listed))

    assert (len(found.conditions.models), len(found.conditions.avoid_uuids)) == (MODELS, UUIDS)
    assert len(found.containers) == pod_limits.MAX_ASKS


def test_few_of_many_faults_are_told() -> None:
    """Thousands of misspelt keys give some sentences, and one that says that there are more."""
    unknown = {f"{names.GROUP}/unknown-{at}": "" for at in range(5000)}

    found = pod_requests.sentences(pod_requests.asking(CARD, annotations=unknown))

    assert len(found) == pod_limits.MAX_FAULTS + 1
    assert found[-1] == "there is more that is wrong with the pod"


MANY_PROFILES: Final = [
    builders.asking(f"c{each}", {f"nvidia.com/mig-{each}g.{at}gb": 1 for at in range(60)})
    for each in range(9)
]
RECORD: Final = {f"c{at}": {"requests": {"alpha.gpu/numgpu": 1}} for at in range(65)}
TOO_MANY: dict[str, tuple[dict[str, Any], str]] = {
    "asks": (
        {"containers": pod_requests.containers(65, CARD)},
        (
            "the containers of the pod ask for devices 65 times, "
            "each kind of device in each container counted; Berth serves 64 at most"
        ),
    ),
    "pieces, which are placed one by one": (
        {"containers": pod_requests.containers(5, {names.NVIDIA_GPU_SHARED: 64})},
        "the pod asks for 320 replicas and MIG instances; Berth serves 256 at most",
    ),
    "amounts, which are not read then": (
        {"containers": MANY_PROFILES},
        "the pod has 540 amounts of devices in its containers; Berth reads 256 at most",
    ),
    "containers of a record": (
        {
            "containers": pod_requests.containers(65),
            "annotations": {aliases.KUBEGPU_RECORDS[0]: json.dumps({"runningcontainer": RECORD})},
        },
        f"annotation {aliases.KUBEGPU_RECORDS[0]} names 65 containers; 64 are the most",
    ),
}


@pytest.mark.parametrize(("about", "sentence"), TOO_MANY.values(), ids=TOO_MANY.keys())
def test_what_all_containers_ask_for_is_counted(about: dict[str, Any], sentence: str) -> None:
    """So many containers may ask for devices, and for so many; of the others there may be any number."""
    assert pod_requests.sentences(builders.pod(**about)) == [sentence]


# ---------------------------------------------------------------- the spec


def affinity(terms: int = 1, *, expressions: int = 1, values: Sequence[str] = ("a",)) -> dict[str, Any]:
    """Return an affinity of so many terms of so many expressions."""
    expression = {"key": "zone", "operator": "In", "values": list(values)}
    term = {"matchExpressions": [expression] * expressions}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term] * terms}}}}


RESOURCES: Final[dict[str, object]] = {f"example.com/r{at}": 1 for at in range(65)}
# What says too much of one thing, what is said of that, and how much is read.
SPECS: dict[str, tuple[dict[str, Any], str, int]] = {
    "amounts": (
        {"containers": pod_requests.containers(2049, {"cpu": 1, "memory": 1})},
        "4098 requests and limits in its containers",
        4096,
    ),
    "containers": ({"containers": pod_requests.containers(4097)}, "4097 containers", 4096),
    "names": ({"containers": pod_requests.containers(1, RESOURCES)}, "65 different resources", 64),
    "names of the overhead": ({"overhead": RESOURCES}, "66 different resources", 64),
    "labels": (
        {"nodeSelector": {f"l{at}": "" for at in range(65)}},
        "65 labels in its node selector",
        64,
    ),
    "tolerations": ({"tolerations": [{"key": "a"}] * 129}, "129 tolerations", 128),
    "terms": (affinity(65), "65 terms in its node affinity", 64),
    "expressions": (affinity(expressions=257), "257 expressions in its node affinity", 256),
    "values": (affinity(values=["a"] * 1025), "1025 values in its node affinity", 1024),
    "text": (
        affinity(values=["x" * 32_768]),
        "32774 characters in its node selector, affinity and tolerations",
        32_768,
    ),
}


@pytest.mark.parametrize(("spec", "what", "most"), SPECS.values(), ids=SPECS.keys())
def test_spec_that_says_too_much(spec: dict[str, Any], what: str, most: int) -> None:
    """What is said of the place and of resources has limits, and what is beyond them is not kept."""
    pod_info = pods.pod_info(builders.pod(**{"gpus": 1} | spec))

    assert [(one.reason, one.detail) for one in pod_info.faults] == [
        (Reason.UNSUPPORTED_REQUEST, f"the pod has {what}; Berth reads {most} at most")
    ]
    assert (pod_info.request, pod_info.demand) == (requests.NO_DEVICES, facts.NO_DEMAND)


# ---------------------------------------------------------------- how much memory a request takes

HEAVY: dict[str, dict[str, Any]] = {
    "uuids": {"annotations": {names.UUIDS: many(500, "w")}},
    "uuids to avoid": {"annotations": {names.AVOID_UUIDS: many(500, "w")}},
    "values": affinity(values=[f"w{at}" for at in range(500)]),
    "tolerations": {"tolerations": [{"key": f"key-{at}", "value": f"v{at}"} for at in range(128)]},
    "a long word": {"nodeSelector": {"a": "x" * 30_000}},
}


@pytest.mark.parametrize("spec", HEAVY.values(), ids=HEAVY.keys())
def test_whatever_is_said_counts_as_memory(spec: dict[str, Any]) -> None:
    """Each thing counts as more than its words take, wherever it stands."""
    found = pods.read_request(builders.pod(gpus=1, **spec))
    things = found.request.size + found.demand.size

    assert found.byte_size > max(things * sys.getsizeof("w000"), 30_000 if things < 10 else 0)


def test_what_is_refused_takes_no_memory() -> None:
    """Nothing of it is kept."""
    found = pods.read_request(builders.pod(gpus=1, tolerations=[{"key": "a"}] * 200))

    assert found.faults
    assert found.byte_size == 0
