"""What a pod says beyond the limits is refused in a sentence that names the limit, and none of it is kept."""

import json
from collections.abc import Iterator
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


def many(what: str, count: int) -> str:
    """Write a list of so many things."""
    return ",".join(f"{what}{at}" for at in range(count))


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
    spec = {"schedulerName": names.SCHEDULER_NAME, "containers": [builders.asking("c", CARD)]}
    meta = {"name": "p", "namespace": "ml", "uid": "u", "annotations": {"a": ""}}
    bare = sum(len(msgspec.json.encode(part)) for part in (spec, meta))
    meta["annotations"] = {"a": "x" * (pod_limits.MAX_BYTES - bare + more)}

    found = pods.candidate(measured({"metadata": meta, "spec": spec}))

    assert bool(found.faults) is refused
    assert (found.request == requests.NO_DEVICES) is refused
    if refused:
        assert found.faults[0].detail.startswith("the pod has more than 1048576 bytes as an object")


# ---------------------------------------------------------------- annotations

LISTS: dict[str, tuple[dict[str, object], str, str, str, int]] = {
    "models": (CARD, names.MODEL, "m", "models", pod_limits.MAX_MODELS),
    "models to avoid": (CARD, names.AVOID_MODEL, "m", "models", pod_limits.MAX_MODELS),
    "uuids": (CARD, names.UUIDS, "GPU-", "uuids", pod_limits.MAX_UUIDS),
    "uuids to avoid": (CARD, names.AVOID_UUIDS, "GPU-", "uuids", pod_limits.MAX_UUIDS),
    "labels": (NIC, names.LABELS, "fabric=a,l=", "labels", pod_limits.MAX_LABELS),
    "types": (CARD | NIC, names.JOINT, "gpu,rdma", "types", pod_limits.MAX_LABELS),
}


@pytest.mark.parametrize(("asked", "key", "one", "what", "most"), LISTS.values(), ids=LISTS.keys())
def test_list_that_is_too_long(asked: dict[str, object], key: str, one: str, what: str, most: int) -> None:
    """A list may have so many entries and not one more."""
    text = ",".join(f"{one}{at}" if one[-1] in "m-" else one for at in range(most + 1))

    said = pod_requests.sentences(pod_requests.asking(asked, annotations={key: text}))

    count = text.count(",") + 1
    assert said[0] == f"annotation {key} names {count} {what}; {most} are the most"


def test_lists_may_be_as_long_as_the_limit() -> None:
    """What is asked for within the limits is all taken."""
    said = {
        names.MODEL: many("m", pod_limits.MAX_MODELS),
        names.AVOID_UUIDS: many("GPU-", pod_limits.MAX_UUIDS),
    }

    conditions = pod_requests.request(pod_requests.asking(CARD, annotations=said)).conditions

    assert (len(conditions.models), len(conditions.avoid_uuids)) == (
        pod_limits.MAX_MODELS,
        pod_limits.MAX_UUIDS,
    )


WORDS: dict[str, tuple[str, str, str]] = {
    "a model": (names.MODEL, f"T4,{'x' * 129}", ": a model has 129 characters; 128 are the most"),
    "a scope": (names.SCOPE, LONG, " has 10000 characters; 4096 are the most"),
    "a pattern": (names.MODEL_PATTERN, LONG, " has 10000 characters; 4096 are the most"),
    "an amount": (
        names.MEMORY_AT_LEAST,
        "1" * 100,
        f": {'1' * 60}... is not an amount of memory, such as 40Gi",
    ),
    "a list": (names.MODEL, "," * 40_000, " has 40000 characters; 32768 are the most"),
    "a record": (
        "pod.alpha/DeviceInformation",
        "[" * 40_000,
        " has 40000 characters; 32768 are the most",
    ),
    "another project's list": (
        "nvidia.com/use-gputype",
        "A" * 40_000,
        " has 40000 characters; 32768 are the most",
    ),
}


@pytest.mark.parametrize(("key", "text", "sentence"), WORDS.values(), ids=WORDS.keys())
def test_text_that_is_too_long(key: str, text: str, sentence: str) -> None:
    """A text that nobody means is refused before it is read."""
    said = pod_requests.sentences(pod_requests.asking(CARD, annotations={key: text}))

    assert f"annotation {key}{sentence}" in said


def test_label_that_is_too_long() -> None:
    """A label with its value has a length of its own."""
    said = pod_requests.sentences(pod_requests.asking(NIC, annotations={names.LABELS: f"fabric={'a' * 400}"}))

    assert said == [f"annotation {names.LABELS}: a label has 407 characters; 400 are the most"]


def test_few_of_many_faults_are_told() -> None:
    """Thousands of misspelt keys give some sentences, and one that says that there are more."""
    odd = {f"{names.GROUP}/odd-{at}": "" for at in range(5000)}

    said = pod_requests.sentences(pod_requests.asking(CARD, annotations=odd))

    assert len(said) == pod_limits.MAX_FAULTS + 1
    assert said[-1] == "there is more that is wrong with the pod"


# ---------------------------------------------------------------- containers


def test_asks_of_all_containers_are_counted() -> None:
    """So many containers may ask for devices; of the others there may be any number."""
    asking = [builders.asking(f"c{at}", CARD) for at in range(pod_limits.MAX_ASKS)]
    plain = [builders.container(f"p{at}") for at in range(1000)]

    enough = pod_requests.request(builders.pod(containers=[*asking, *plain]))
    too_many = builders.pod(containers=[*asking, builders.asking("one-more", CARD)])

    assert len(enough.containers) == pod_limits.MAX_ASKS
    (said,) = pod_requests.sentences(too_many)
    assert said == (
        "the containers of the pod ask for devices 65 times, each kind of device in each container counted; "
        "Berth serves 64 at most"
    )


def test_pieces_of_all_containers_are_counted() -> None:
    """Replicas and MIG instances are placed one by one, so their sum has a limit."""
    shared = [builders.asking(f"c{at}", {names.NVIDIA_GPU_SHARED: 64}) for at in range(5)]

    (said,) = pod_requests.sentences(builders.pod(containers=shared))

    assert said == "the pod asks for 320 replicas and MIG instances; Berth serves 256 at most"


def test_amounts_of_devices_are_counted_before_they_are_read() -> None:
    """Thousands of amounts are refused for their number alone."""
    profiles = [{f"nvidia.com/mig-{each}g.{at}gb": 1 for at in range(60)} for each in range(9)]
    asking = [builders.asking(f"c{at}", one) for at, one in enumerate(profiles)]

    waiting = pod_requests.sentences(builders.pod(containers=asking))
    bound = pods.read_bound(builders.pod(nodeName="n1", containers=asking))

    assert waiting == ["the pod has 540 amounts of devices in its containers; Berth reads 256 at most"]
    assert bound.hold.withheld == holds.ALL_CARDS


def test_containers_of_a_record_are_counted_before_they_are_read() -> None:
    """KubeGPU's record may name as many containers as may ask for devices."""
    many = {f"c{at}": {"requests": {"alpha.gpu/numgpu": 1}} for at in range(65)}
    record = {aliases.KUBEGPU_RECORDS[0]: json.dumps({"runningcontainer": many})}
    containers = [builders.asking(name) for name in many]

    (said,) = pod_requests.sentences(builders.pod(containers=containers, annotations=record))

    assert said.endswith("names 65 containers; 64 are the most")


# ---------------------------------------------------------------- the spec


def term(*values: str, expressions: int = 1) -> dict[str, Any]:
    """Return one term of an affinity."""
    one = {"key": "zone", "operator": "In", "values": list(values) or ["a"]}
    return {"matchExpressions": [one] * expressions}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return an affinity of these terms."""
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def specs() -> Iterator[Any]:
    """Return specs that say too much of one thing, and what is said of each."""
    amounts = [builders.asking(f"c{at}", {"cpu": 1, "memory": 1}) for at in range(2049)]
    resources = {f"example.com/r{at}": 1 for at in range(65)}
    yield "amounts", {"containers": amounts}, "4098 requests and limits in its containers", 4096
    crowd = [builders.container(f"c{at}") for at in range(4097)]
    yield "containers", {"containers": crowd}, "4097 containers", 4096
    yield "names", {"containers": [builders.asking("main", resources)]}, "65 different resources", 64
    yield "names of the overhead", {"overhead": resources}, "66 different resources", 64
    yield "labels", {"nodeSelector": {f"l{at}": "" for at in range(65)}}, "65 labels in its node selector", 64
    yield "tolerations", {"tolerations": [{"key": "a"}] * 129}, "129 tolerations", 128
    yield "terms", affinity(*[term()] * 65), "65 terms in its node affinity", 64
    yield "expressions", affinity(term(expressions=257)), "257 expressions in its node affinity", 256
    yield "values", affinity(term(*["a"] * 1025)), "1025 values in its node affinity", 1024
    text = "32774 characters in its node selector, affinity and tolerations"
    yield "text", affinity(term("x" * 32_768)), text, 32_768


@pytest.mark.parametrize(("spec", "what", "most"), [pytest.param(*case[1:], id=case[0]) for case in specs()])
def test_spec_that_says_too_much(spec: dict[str, Any], what: str, most: int) -> None:
    """What is said of the place and of resources has limits, and what is beyond them is not kept."""
    candidate = pods.candidate(builders.pod(**{"gpus": 1} | spec))

    assert [(one.reason, one.detail) for one in candidate.faults] == [
        (Reason.UNSUPPORTED_REQUEST, f"the pod has {what}; Berth reads {most} at most")
    ]
    assert (candidate.request, candidate.demand) == (requests.NO_DEVICES, facts.NO_DEMAND)


FOREIGN: Final[dict[str, Any]] = {"nodeName": "n1", "schedulerName": "default-scheduler"}
MANY: Final = 5000  # More than is read of a pod that can be refused.


def crowds() -> Iterator[tuple[str, dict[str, Any], dict[str, int]]]:
    """Return specs of bound pods that say very much, and what that comes to."""
    words: dict[str, Any] = {"requests": {"cpu": "0", "memory": "0"}, "limits": {"ephemeral-storage": "1"}}
    nothing = [builders.container(f"c{at}", resources=words) for at in range(MANY)]
    yield "nothing", {"containers": nothing}, {"ephemeral-storage": MANY}
    figures = [builders.asking(f"c{at}", {"cpu": f"{at}m"}) for at in range(MANY)]
    yield "figures", {"containers": figures}, {facts.CPU: MANY * (MANY - 1) // 2}
    others = [{"restartPolicy": "Always"} | one for one in figures]
    yield "sidecars", {"initContainers": others, "containers": figures}, {facts.CPU: MANY * (MANY - 1)}
    yield "one by one", {"initContainers": figures}, {facts.CPU: MANY - 1}
    yield "no cards", {"containers": [builders.asking(f"c{at}", NO_CARD) for at in range(MANY)]}, {}


NO_CARD: Final = {names.NVIDIA_GPU: 0, names.GPU_MEMORY: 0}


@pytest.mark.parametrize(("spec", "takes"), [pytest.param(*case[1:], id=case[0]) for case in crowds()])
def test_a_bound_pod_counts_for_what_it_asks_however_much_it_says(
    spec: dict[str, Any], takes: dict[str, int]
) -> None:
    """It cannot be refused, and whoever writes very many words for nothing must not take a whole node."""
    found = pods.read_bound(builders.pod(**{"containers": [builders.container("main")]} | spec, **FOREIGN))

    assert dict(found.hold.amounts) == {facts.PODS: 1} | takes
    assert not found.hold.devices


@pytest.mark.parametrize("place", ["overhead", "resources"])
def test_of_a_bound_pod_only_so_many_names_are_kept(place: str) -> None:
    """No node has as many resources, and what is kept takes memory."""
    amounts = {f"hugepages-{at}": "1" for at in range(MANY)}
    spec: dict[str, Any] = {place: amounts if place == "overhead" else {"requests": amounts}}

    found = pods.read_bound(builders.pod(containers=[builders.asking("main", {"cpu": 1})], **spec, **FOREIGN))

    assert dict(found.hold.amounts)[facts.CPU] == 1000
    assert len(found.hold.amounts) <= pod_limits.MAX_BOUND_RESOURCES + 3


def test_a_bound_pod_of_many_amounts_of_devices_may_have_all_cards_that_it_names() -> None:
    """It keeps all of them back, and what each resource may have brought it is all of them as well."""
    amounts = [{"cpu": 1, names.NVIDIA_GPU: 1}, {"memory": 1, "nvidia.com/mig-1g.5gb": 1}] * 129
    containers = [builders.asking(f"c{at}", one) for at, one in enumerate(amounts)]

    found = pods.read_bound(builders.pod(containers=containers, **FOREIGN))

    assert found.hold.withheld == holds.ALL_CARDS
    assert found.nameless is not None
    assert found.nameless.plugged == dict.fromkeys(
        (names.NVIDIA_GPU, "nvidia.com/mig-1g.5gb"), holds.ALL_CARDS
    )


def test_a_bound_pod_of_many_containers_that_asks_for_no_card_keeps_none_back() -> None:
    """How much it says of other things is no reason to keep cards from others."""
    containers = [builders.asking(f"c{at}", {"cpu": 1}) for at in range(4097)]

    assert not pods.read_bound(builders.pod(containers=containers, **FOREIGN)).hold.devices


def test_a_bound_pod_of_many_containers_keeps_what_its_record_names() -> None:
    """Its record counts however much the pod says beside it."""
    containers = [builders.container("main", gpus=1), *(builders.container(f"c{at}") for at in range(4096))]
    annotations = builders.record("n1", main=[0])

    found = pods.read_bound(builders.pod(containers=containers, annotations=annotations, nodeName="n1"))

    assert [share.minor for share in found.hold.shares] == [0]
    assert not found.fault


def test_where_a_bound_pod_may_run_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is where it is: affinity and tolerations of a bound pod, however many, are not looked at."""
    monkeypatch.setattr(demands, "where", None)

    assert (
        pods.read_bound_request(builders.pod(gpus=1, tolerations=[{"key": "a"}], nodeName="n1")).sample
        is not None
    )


def test_bound_pod_of_many_resources_keeps_the_usual_ones() -> None:
    """It cannot be refused: what no node has is left out of a long list, cpu and memory never are."""
    containers = [
        builders.asking("a", {f"example.com/r{at:03}": 1 for at in range(500)}),
        builders.asking("b", {"cpu": 2, "memory": "1Gi"}),
    ]

    found = dict(demands.amounts(builders.pod(nodeName="n1", containers=containers).spec))

    assert (found[facts.CPU], found[facts.MEMORY]) == (2000, 2**30)
    assert len(found) == pod_limits.MAX_BOUND_RESOURCES + 3
