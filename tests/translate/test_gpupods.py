"""A GpuPod is read by the rules of the record that it copies; what cannot be read names nothing."""

from typing import Any

import pytest

from berth_crds import names, schema_limits, wire
from berth_operator.scheduling import allocation_recovery, decisions
from berth_operator.translate import gpupods, pods, raw
from support import builders
from translate import pod_requests

CARD = wire.HeldCard("GPU-n1-0", 0, "gpu", 100, 5)


def of(*containers: wire.HoldingContainer) -> wire.GpuPod:
    """Return a GpuPod of these."""
    return wire.GpuPod(wire.Meta("p", "ml"), wire.GpuPodSpec("n1", "uid-p", containers))


def held(*cards: wire.HeldCard, name: str = "main") -> wire.HoldingContainer:
    """Return a container that holds these."""
    return wire.HoldingContainer(name, cards)


def test_every_field_of_a_device_is_read() -> None:
    """Type, profile and function count as they do in the record on the pod."""
    nic = wire.HeldCard("nic-0", 1, "rdma", 50, 0, vf="0000:1f:00.2")
    part = wire.HeldCard("MIG-0", 3, "gpu", 100, 10, model="A100", profile="1g.10gb")

    oversold = wire.HeldCard("GPU-n1-1", 1, "gpu", 60, 5, limit=150)

    found = gpupods.read(of(held(CARD, nic, oversold), held(part, name="side")))

    assert found == allocation_recovery.NamedDevices(
        "ml/p",
        "uid-p",
        "n1",
        (
            decisions.Grant(
                "main",
                (
                    decisions.Share("GPU-n1-0", 0, 100, 5),
                    decisions.Share("GPU-n1-1", 1, 60, 5, core_limit=150),
                    decisions.Share("nic-0", 1, 50, 0, "rdma", function="0000:1f:00.2"),
                ),
            ),
            decisions.Grant("side", (decisions.Share("MIG-0", 3, 100, 10, profile="1g.10gb"),)),
        ),
    )


@pytest.mark.parametrize(
    "thing",
    [pytest.param(of(), id="no containers"), pytest.param(of(held()), id="a container without devices")],
)
def test_one_without_devices_is_read_and_names_none(thing: wire.GpuPod) -> None:
    """The agent writes it so where it could not read the allocation either: that is no fault."""
    assert gpupods.read(thing) == allocation_recovery.NamedDevices("ml/p", "uid-p", "n1")


FAULTS: dict[str, tuple[wire.GpuPod, str]] = {
    "compute below nothing": (
        of(held(wire.HeldCard("GPU-n1-0", 0, "gpu", -100, 5))),
        "containers.main.gpu[0].core: expected 0 to 100, found -100",
    ),
    "more compute than a card has": (
        of(held(wire.HeldCard("GPU-n1-0", 0, "gpu", 101, 5))),
        "containers.main.gpu[0].core: expected 0 to 100, found 101",
    ),
    "memory below nothing": (
        of(held(wire.HeldCard("GPU-n1-0", 0, "gpu", 100, -5))),
        f"containers.main.gpu[0].memory: expected 0 to {2**50}, found -5",
    ),
    "no uuid": (
        of(held(wire.HeldCard("", 0, "gpu", 100, 5))),
        "containers.main.gpu[0].uuid: not a well-formed name: ''",
    ),
    "a device named twice": (of(held(CARD, CARD)), "containers.main.gpu: a device is named twice"),
    "more devices than a pod can have": (
        of(*(held(*[CARD] * 8, name=f"c{at}") for at in range(129))),
        "it lists 1032 devices; 1024 are the most",
    ),
    "a container named twice": (of(held(CARD), held(CARD)), "container main is given twice"),
    "no node": (
        wire.GpuPod(wire.Meta("p", "ml"), wire.GpuPodSpec("", "uid-p", (held(CARD),))),
        "node: not a well-formed name: ''",
    ),
}


@pytest.mark.parametrize(("thing", "fault"), FAULTS.values(), ids=list(FAULTS))
def test_what_cannot_be_trusted_names_nothing(thing: wire.GpuPod, fault: str) -> None:
    """A share that is misread would look free: the whole GpuPod is refused, with the field that is wrong."""
    assert gpupods.read(thing) == fault


# ---------------------------------------------------------------- for which pods it counts

ON_NODE: dict[str, Any] = {"nodeName": "n1"}
INIT: dict[str, Any] = {"initContainers": [builders.container("i", 1)]}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            builders.pod(gpus=2, **ON_NODE, **INIT),
            allocation_recovery.UnreadableAllocation((("i", False), ("main", True)), 2, most=3),
            id="no record",
        ),
        pytest.param(
            builders.pod(gpus=2, annotations=builders.record("n2", main=[0]), **ON_NODE),
            allocation_recovery.UnreadableAllocation((("main", True),), 2, most=2),
            id="a record of another node",
        ),
        pytest.param(
            builders.pod(gpus=3, annotations=builders.record("n1", main=[0]), **ON_NODE),
            None,
            id="a record that names too few cards",
        ),
        pytest.param(
            builders.pod(gpus=1, annotations=builders.record("n1", main=[0]), **ON_NODE),
            None,
            id="a record",
        ),
        pytest.param(builders.pod(**ON_NODE), None, id="nothing asked"),
    ],
)
def test_it_counts_where_the_own_record_cannot_be_read(
    pod: raw.Pod, expected: allocation_recovery.UnreadableAllocation | None
) -> None:
    """A pod with a readable record, and one that asks for nothing, take nothing from a GpuPod."""
    assert pods.read_bound(pod).nameless == expected


# ---------------------------------------------------------------- how many cards it may name

OTHERS: dict[str, Any] = {"schedulerName": "other", **ON_NODE}
FRACTION = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "3"}
DAMAGED = {names.ALLOCATION: "{"}
MOST: dict[str, tuple[raw.Pod, int]] = {
    "whole cards": (pod_requests.asking({names.NVIDIA_GPU: 2}, **ON_NODE), 2),
    "each container has its own, those that end included": (
        builders.pod(
            initContainers=[builders.container("i", 3)],
            containers=[builders.container("a", 1), builders.container("b", 2)],
            **ON_NODE,
        ),
        6,
    ),
    "instances": (pod_requests.asking({"nvidia.com/mig-1g.10gb": 3}, **ON_NODE), 3),
    "replicas": (pod_requests.asking({"nvidia.com/gpu.shared": 2}, **ON_NODE), 2),
    "percents": (pod_requests.asking({names.GPU: 50}, **ON_NODE), 50),
    "percents of more cards than a node has": (pod_requests.asking({names.GPU: 400}, **ON_NODE), 64),
    "what is asked by annotations, which can be edited": (
        builders.pod(annotations=FRACTION | DAMAGED, **ON_NODE),
        schema_limits.MOST_DEVICES,
    ),
    "of another scheduler's": (pod_requests.asking({names.NVIDIA_GPU: 2}, **OTHERS), 2),
    "of another scheduler's, in instances": (pod_requests.asking({"nvidia.com/mig-1g.10gb": 3}, **OTHERS), 3),
    "of another scheduler's, by units of memory": (
        pod_requests.asking({"aliyun.com/gpu-mem": 8}, **OTHERS),
        8,
    ),
    "of another scheduler's, by more units than there are cards": (
        pod_requests.asking({"aliyun.com/gpu-mem": 8000}, **OTHERS),
        schema_limits.MOST_DEVICES,
    ),
    "of another scheduler's, with a network card": (
        pod_requests.asking({names.NVIDIA_GPU: 1, names.RDMA: 100}, **OTHERS),
        1,
    ),
    "of another scheduler's, with annotations that anybody may write": (
        pod_requests.asking({names.NVIDIA_GPU: 1}, annotations=FRACTION, **OTHERS),
        1,
    ),
}


@pytest.mark.parametrize(("pod", "most"), MOST.values(), ids=MOST.keys())
def test_it_may_name_as_many_cards_as_its_pod_asks_for(pod: raw.Pod, most: int) -> None:
    """They are counted generously, for whoever names more is not believed at all; yet they are counted."""
    found = pods.read_bound(pod).nameless

    assert found is not None
    assert found.most == most
