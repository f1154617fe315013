"""Koordinator's hints in JSON: what has a meaning in Berth is in the golden pairs, all else is refused."""

import json

import pytest

from berth_crds import names
from berth_operator.scheduling.decisions import Reason
from translate import pod_requests

INVALID, UNSUPPORTED = Reason.INVALID_REQUEST, Reason.UNSUPPORTED_REQUEST
HINT = "scheduling.koordinator.sh/device-allocate-hint"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
PARTITION = "scheduling.koordinator.sh/gpu-partition-spec"

HINTS: dict[str, tuple[str, object, Reason, str]] = {
    "not JSON": (HINT, "no", INVALID, " is not JSON: no"),
    "a hint that is no object": (HINT, {"rdma": 1}, INVALID, ": expected an object in JSON, found 1"),
    "a field nobody knows": (HINT, {"rdma": {"speed": 1}}, UNSUPPORTED, ": rdma: speed is not served"),
    "a selector of cards": (
        HINT,
        {"gpu": {"selector": {"matchLabels": {"a": "b"}}}},
        UNSUPPORTED,
        ": gpu.selector is not served; choose cards by berth.dev/model or berth.dev/uuids",
    ),
    "expressions": (
        HINT,
        {"rdma": {"vfSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}},
        UNSUPPORTED,
        ": rdma.vfSelector.matchExpressions is not served; write matchLabels",
    ),
    "labels that are none": (
        HINT,
        {"rdma": {"selector": {"matchLabels": {"a": "b,c=d"}}}},
        INVALID,
        ": rdma.selector.matchLabels holds what is no label",
    ),
    "a scope that cannot be met": (
        HINT,
        {"gpu": {"requiredTopologyScope": "Device"}},
        UNSUPPORTED,
        ": gpu.requiredTopologyScope: Device is not served",
    ),
    "a scope of NICs": (
        HINT,
        {"rdma": {"requiredTopologyScope": "PCIe"}},
        UNSUPPORTED,
        ": rdma.requiredTopologyScope: PCIe is not served",
    ),
    "a root for this pod alone": (
        HINT,
        {"rdma": {"exclusivePolicy": "PCIeLevel"}},
        UNSUPPORTED,
        ": rdma: PCIeLevel is not served; see berth.dev/apply for what is",
    ),
    "every NIC, for this pod alone": (
        HINT,
        {"rdma": {"allocateStrategy": "ApplyForAll", "exclusivePolicy": "DeviceLevel"}},
        UNSUPPORTED,
        ": rdma: ApplyForAll with DeviceLevel is not served; see berth.dev/apply for what is",
    ),
    "every card": (
        HINT,
        {"gpu": {"allocateStrategy": "ApplyForAll"}},
        UNSUPPORTED,
        ": gpu: ApplyForAll is not served; see berth.dev/apply for what is",
    ),
    "a joint that is a wish": (
        JOINT,
        {"deviceTypes": ["gpu", "rdma"]},
        UNSUPPORTED,
        " is served as a condition only; add requiredScope: SamePCIe",
    ),
    "a joint of no types": (JOINT, {"deviceTypes": "gpu"}, INVALID, ": deviceTypes is not a list of types"),
    "a joint with a stranger": (
        JOINT,
        {"deviceTypes": ["gpu", "npu"], "requiredScope": "SamePCIe"},
        INVALID,
        ": npu is no type of device; write two or more of gpu, rdma, fpga",
    ),
    "the best partitions only": (
        PARTITION,
        {"allocatePolicy": "Restricted"},
        UNSUPPORTED,
        ": Restricted is not served; write BestEffort or leave it out",
    ),
    "a bandwidth": (
        PARTITION,
        {"ringBusBandwidth": "100Gi"},
        UNSUPPORTED,
        ": ringBusBandwidth is not served",
    ),
}


@pytest.mark.parametrize(("key", "hint", "reason", "sentence"), HINTS.values(), ids=HINTS.keys())
def test_hints_of_koordinator(key: str, hint: object, reason: Reason, sentence: str) -> None:
    """A hint that has no meaning in Berth is refused, never passed over."""
    text = hint if isinstance(hint, str) else json.dumps(hint)
    pod = pod_requests.asking({names.NVIDIA_GPU: 2, names.RDMA: 1}, annotations={key: text})

    assert pod_requests.faults(pod) == [(reason, f"annotation {key}{sentence}")]
