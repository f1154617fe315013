"""Pods written for other projects ask for the very same as their spelling in Berth's own keys."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from berth_crds import aliases, names
from berth_operator.scheduling.decisions import Reason
from berth_operator.translate import converters, device_requests, raw
from support import builders
from translate import pod_requests

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden" / "aliases"
PAIRS: Final = {
    f"{path.stem}: {pair['name']}": pair
    for path in sorted(GOLDEN.glob("*.yaml"))
    for pair in yaml.safe_load(path.read_text())
}


def pod(written: dict[str, Any]) -> raw.Pod:
    """Make a pod of the short form in the golden files."""
    main = builders.container("main", resources={"limits": written.get("limits", {})})
    return builders.pod(
        annotations=written.get("annotations", {}),
        labels=written.get("labels", {}),
        initContainers=written.get("initContainers", []),
        containers=written.get("containers", [main]),
    )


def keys(written: dict[str, Any]) -> Iterator[str]:
    """Return every key by which a pod of the golden files asks."""
    for kind in ("annotations", "labels", "limits"):
        yield from written.get(kind, {})
    for container in (*written.get("containers", ()), *written.get("initContainers", ())):
        yield from container.get("resources", {}).get("limits", {})


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_pair(pair: dict[str, Any]) -> None:
    """The two spellings give equal requests, neither is refused, and the second is in Berth's words alone.

    Nor does what a bound pod withholds depend on the words in which it asked.
    """
    theirs, ours = pod(pair["theirs"]), pod(pair["ours"])
    foreign = {*aliases.RESOURCES, *(row.key for row in aliases.OPTIONS)}

    assert pod_requests.request(theirs) == pod_requests.request(ours)
    assert device_requests.amounts_request(theirs) == device_requests.amounts_request(ours)
    assert not foreign & {*keys(pair["ours"])}
    assert {key.partition("/")[0] for key in keys(pair["ours"])} <= {names.GROUP, "nvidia.com", "cpu"}


def test_every_alias_has_a_pair() -> None:
    """No row of the tables of aliases is there without an example of what it means, nor without a reader."""
    shown = {key for pair in PAIRS.values() for key in keys(pair["theirs"])}
    every = {row.key for row in (*aliases.AMOUNTS, *aliases.OPTIONS)}
    every |= {aliases.KAI_CONTAINER, *aliases.KUBEGPU_RECORDS}

    assert every <= shown
    assert {row.converter for row in aliases.OPTIONS} == set(converters.CONVERTERS)


# ---------------------------------------------------------------- Koordinator's hints in JSON

INVALID, UNSUPPORTED = Reason.INVALID_REQUEST, Reason.UNSUPPORTED_REQUEST
HINT = "scheduling.koordinator.sh/device-allocate-hint"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
PARTITION = "scheduling.koordinator.sh/gpu-partition-spec"

NO_EXPRESSION = "which is no expression; write key, operator (In, NotIn, Exists, DoesNotExist) and values"

HINTS: dict[str, tuple[str, object, Reason, str]] = {
    "not JSON": (HINT, "no", INVALID, " is not JSON: no"),
    "a hint that is no object": (HINT, {"rdma": 1}, INVALID, ": expected an object in JSON, found 1"),
    "a field nobody knows": (HINT, {"rdma": {"speed": 1}}, UNSUPPORTED, ": rdma: speed is not served"),
    "a selector of functions of cards": (
        HINT,
        {"gpu": {"vfSelector": {"matchLabels": {"a": "b"}}}},
        UNSUPPORTED,
        ": gpu.vfSelector is not served: cards have no virtual functions",
    ),
    "any function of cards": (
        HINT,
        {"gpu": {"vfSelector": {}}},
        UNSUPPORTED,
        ": gpu.vfSelector is not served: cards have no virtual functions",
    ),
    "an expression that is none": (
        HINT,
        {"rdma": {"vfSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}},
        INVALID,
        f": rdma.vfSelector.matchExpressions holds '{{'key': 'a', 'operator': 'Near'}}', {NO_EXPRESSION}",
    ),
    "expressions that are no list": (
        HINT,
        {"rdma": {"selector": {"matchExpressions": {"key": "a"}}}},
        INVALID,
        ": rdma.selector.matchExpressions is no list",
    ),
    "a selector with a field of its own": (
        HINT,
        {"rdma": {"selector": {"matchNames": ["a"]}}},
        UNSUPPORTED,
        ": rdma.selector: matchNames is not served",
    ),
    "a type nobody knows": (
        HINT,
        {"nic": {"selector": {"matchLabels": {"a": "b"}}}},
        INVALID,
        ": nic is no type of device; write one of gpu, fpga, rdma",
    ),
    "labels that are none": (
        HINT,
        {"rdma": {"selector": {"matchLabels": {"a": "b,c=d"}}}},
        INVALID,
        ": rdma.selector.matchLabels holds what is no label",
    ),
    "a scope of one card for two": (
        HINT,
        {"gpu": {"requiredTopologyScope": "Device"}},
        INVALID,
        " keeps the pod to one card, but 2 are asked for; ask for one, or write a wider scope",
    ),
    "a scope that nobody knows": (
        HINT,
        {"gpu": {"requiredTopologyScope": "Rack"}},
        UNSUPPORTED,
        ": gpu.requiredTopologyScope: Rack is not served",
    ),
    "a scope of NICs": (
        HINT,
        {"rdma": {"requiredTopologyScope": "PCIe"}},
        UNSUPPORTED,
        ": rdma.requiredTopologyScope: PCIe is not served",
    ),
    "a socket for this pod alone": (
        HINT,
        {"rdma": {"exclusivePolicy": "SocketLevel"}},
        UNSUPPORTED,
        ": rdma.exclusivePolicy: SocketLevel is not served",
    ),
    "a strategy that nobody knows": (
        HINT,
        {"rdma": {"allocateStrategy": "Any", "exclusivePolicy": "DeviceLevel"}},
        UNSUPPORTED,
        ": rdma: Any is not served; see berth.dev/apply for what is",
    ),
    "every card": (
        HINT,
        {"gpu": {"allocateStrategy": "ApplyForAll"}},
        UNSUPPORTED,
        ": gpu: ApplyForAll is not served; see berth.dev/apply for what is",
    ),
    "a joint of another scope": (
        JOINT,
        {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SameNUMA"},
        UNSUPPORTED,
        ".requiredScope: SameNUMA is not served; write SamePCIe",
    ),
    "a joint of no types": (JOINT, {"deviceTypes": "gpu"}, INVALID, ": deviceTypes is not a list of types"),
    "a joint with a stranger": (
        JOINT,
        {"deviceTypes": ["gpu", "npu"], "requiredScope": "SamePCIe"},
        INVALID,
        ": npu is no type of device; write two or more of gpu, rdma, fpga",
    ),
    "a policy of partitions that nobody knows": (
        PARTITION,
        {"allocatePolicy": "Strict"},
        UNSUPPORTED,
        ": Strict is not served; write Restricted or BestEffort",
    ),
    "a bandwidth that is none": (
        PARTITION,
        {"ringBusBandwidth": "fast"},
        INVALID,
        ": fast is not a bandwidth in bytes a second, such as 400Gi",
    ),
}


@pytest.mark.parametrize(("key", "hint", "reason", "sentence"), HINTS.values(), ids=HINTS.keys())
def test_hints_of_koordinator(key: str, hint: object, reason: Reason, sentence: str) -> None:
    """A hint that has no meaning in Berth is refused, never passed over."""
    text = hint if isinstance(hint, str) else json.dumps(hint)
    pod = pod_requests.asking({names.NVIDIA_GPU: 2, names.RDMA: 1}, annotations={key: text})

    assert pod_requests.faults(pod) == [(reason, f"annotation {key}{sentence}")]
