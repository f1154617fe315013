"""What a pod says beyond the limits is refused in a sentence that names the limit, and none of it is kept."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pytest

from berth_crds import aliases, names
from berth_crds.client import watch
from berth_operator.scheduling import holds
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import demands, pod_limits, pods, raw
from support import builders
from translate import pod_requests

CARD: Final[dict[str, object]] = {names.NVIDIA_GPU: 1}
NIC: Final[dict[str, object]] = {names.RDMA: 100}
LONG: Final = "x" * 10_000
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def many(count: int, *words: str) -> str:
    """Write a list of so many words, numbered; of several words all but the last come once."""
    return ",".join([*words[:-1], *(f"{words[-1]}{at}" for at in range(count - len(words) + 1))])


def containers(count: int, requests: Mapping[str, object] = {}, **fields: Any) -> list[dict[str, Any]]:
    """Return so many containers with the same requests."""
    return [builders.asking(f"c{at}", requests, **fields) for at in range(count)]


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
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": containers(1, CARD)}
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
    asking = [*containers(pod_limits.MAX_ASKS, CARD), *(builders.container(f"p{at}") for at in range(1000))]

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
        {"containers": containers(65, CARD)},
        (
            "the containers of the pod ask for devices 65 times, "
            "each kind of device in each container counted; Berth serves 64 at most"
        ),
    ),
    "pieces, which are placed one by one": (
        {"containers": containers(5, {names.NVIDIA_GPU_SHARED: 64})},
        "the pod asks for 320 replicas and MIG instances; Berth serves 256 at most",
    ),
    "amounts, which are not read then": (
        {"containers": MANY_PROFILES},
        "the pod has 540 amounts of devices in its containers; Berth reads 256 at most",
    ),
    "containers of a record": (
        {
            "containers": containers(65),
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
        {"containers": containers(2049, {"cpu": 1, "memory": 1})},
        "4098 requests and limits in its containers",
        4096,
    ),
    "containers": ({"containers": containers(4097)}, "4097 containers", 4096),
    "names": ({"containers": containers(1, RESOURCES)}, "65 different resources", 64),
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


# ---------------------------------------------------------------- bound pods

FOREIGN: Final[dict[str, Any]] = {"nodeName": "n1", "schedulerName": "default-scheduler"}
MANY: Final = 5000  # More than is read of a pod that can be refused.
NO_CARD: Final = {names.NVIDIA_GPU: 0, names.GPU_MEMORY: 0}
NOTHING: Final = {"requests": {"cpu": "0", "memory": "0"}, "limits": {"ephemeral-storage": "1"}}
FIGURES: Final = [builders.asking(f"c{at}", {"cpu": f"{at}m"}) for at in range(MANY)]
# Specs of bound pods that say very much, and what that comes to.
MUCH: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "nothing": (
        {"containers": [builders.container(resources=NOTHING)] * MANY},
        {"ephemeral-storage": MANY},
    ),
    "figures": ({"containers": FIGURES}, {facts.CPU: MANY * (MANY - 1) // 2}),
    "sidecars": (
        {
            "initContainers": [{"restartPolicy": "Always"} | one for one in FIGURES],
            "containers": FIGURES,
        },
        {facts.CPU: MANY * (MANY - 1)},
    ),
    "one by one": ({"initContainers": FIGURES}, {facts.CPU: MANY - 1}),
    "no cards": ({"containers": containers(MANY, NO_CARD)}, {}),
}


@pytest.mark.parametrize(("spec", "takes"), MUCH.values(), ids=MUCH.keys())
def test_a_bound_pod_counts_for_what_it_asks_however_much_it_says(
    spec: dict[str, Any], takes: dict[str, int]
) -> None:
    """It cannot be refused, and whoever writes very many words for nothing must not take a whole node."""
    found = pods.read_bound(builders.pod(**{"containers": [builders.container("main")]} | spec, **FOREIGN))

    assert dict(found.hold.amounts) == {facts.PODS: 1} | takes
    assert not found.hold.devices


HUGE_PAGES: Final = {f"hugepages-{at}": "1" for at in range(MANY)}
OWN: Final = builders.asking("own", {"cpu": 1, "memory": "1Gi"})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"containers": [OWN], "overhead": HUGE_PAGES}, id="in the overhead"),
        pytest.param({"containers": [OWN], "resources": {"requests": HUGE_PAGES}}, id="of the whole pod"),
        pytest.param(
            {"containers": [*containers(1, {f"example.com/r{at:03}": 1 for at in range(500)}), OWN]},
            id="in a container",
        ),
    ],
)
def test_of_a_bound_pod_only_so_many_names_are_kept(spec: dict[str, Any]) -> None:
    """What no node has is left out of a long list, cpu and memory never are."""
    amounts = dict(pods.read_bound(builders.pod(**spec, **FOREIGN)).hold.amounts)

    assert (amounts[facts.CPU], amounts[facts.MEMORY]) == (1000, 2**30)
    assert len(amounts) <= pod_limits.MAX_BOUND_RESOURCES + 3


ONE_CARD: Final = {names.NVIDIA_GPU: 1}
# Containers of bound pods that ask for cards, and how many they have at one time.
MANY_CARDS: dict[str, tuple[dict[str, Any], int]] = {
    "one after the other": ({"initContainers": containers(MANY, ONE_CARD)}, 1),
    "together": ({"containers": containers(MANY, ONE_CARD)}, MANY),
    "sidecars": (
        {
            "initContainers": containers(MANY, ONE_CARD, restartPolicy="Always"),
            "containers": [builders.container("main", gpus=2)],
        },
        MANY + 2,
    ),
    "different in what is no device": (
        {
            "initContainers": [
                builders.asking(f"c{at}", {"cpu": at, names.NVIDIA_GPU: 1 + at % 3}) for at in range(MANY)
            ]
        },
        3,
    ),
    "too different": (
        {"initContainers": [builders.asking(f"c{at}", {names.NVIDIA_GPU: 1 + at}) for at in range(257)]},
        holds.ALL_CARDS,
    ),
}


@pytest.mark.parametrize(("spec", "cards"), MANY_CARDS.values(), ids=MANY_CARDS.keys())
def test_a_bound_pod_of_many_containers_keeps_back_what_they_have_at_one_time(
    spec: dict[str, Any], cards: int
) -> None:
    """However many there are, no card is kept back that they do not ask for, unless too many differ."""
    spec = {"containers": [builders.container("main")]} | spec

    assert pods.read_bound(builders.pod(**spec, **FOREIGN)).hold.withheld == cards


def test_a_bound_pod_of_many_amounts_of_devices_keeps_back_all_that_they_add_up_to() -> None:
    """What each resource may have brought it is not added up."""
    asked = [{"cpu": 1, names.NVIDIA_GPU: 1}, {"memory": 1, "nvidia.com/mig-1g.5gb": 1}] * 129
    asking = [builders.asking(f"c{at}", amounts) for at, amounts in enumerate(asked)]

    found = pods.read_bound(builders.pod(containers=asking, **FOREIGN))

    every = dict.fromkeys((names.NVIDIA_GPU, "nvidia.com/mig-1g.5gb"), holds.ALL_CARDS)
    assert found.hold.withheld == len(asked)
    assert found.nameless is not None
    assert found.nameless.plugged == every


def test_a_bound_pod_of_many_containers_keeps_what_its_record_names() -> None:
    """Its record counts however much the pod says beside it."""
    asking = [builders.container("main", gpus=1), *containers(4096)]
    record = builders.record("n1", main=[0])

    found = pods.read_bound(builders.pod(containers=asking, annotations=record, nodeName="n1"))

    assert ([share.minor for share in found.hold.shares], found.fault) == ([0], "")


def test_where_a_bound_pod_may_run_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is where it is: affinity and tolerations of a bound pod, however many, are not looked at."""
    monkeypatch.setattr(demands, "node_selection", None)

    assert pods.read_bound_request(builders.pod(gpus=1, tolerations=[{"key": "a"}], nodeName="n1")).sample


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
