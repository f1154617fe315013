"""From a pod to its devices, to the record on it, and back to what the pod holds."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import allocation, names
from berth_operator.scheduling import allocation_recovery, decisions
from berth_operator.scheduling.devices import allocator, device_view, facts
from berth_operator.translate import held_devices, pods
from support import builders
from translate import pod_requests

ON_NODE: dict[str, Any] = {"nodeName": "n1"}
GIB = 2**30
FUNCTIONS = tuple(facts.Function(f"0000:1f:00.{at}", at) for at in range(1, 4))
DEVICE = facts.Device(
    "n1",
    cards=(
        *(facts.Card(f"GPU-{at}", at, "A100-SXM4-80GB", 80 * GIB, root="pci0") for at in range(3)),
        facts.Card("GPU-3", 3, "T4", 16 * GIB, replicas=4),
        facts.Card(
            "GPU-4",
            4,
            "A100-SXM4-80GB",
            80 * GIB,
            mig=True,
            instances=tuple(facts.Instance(f"MIG-{at}", "1g.10gb", 10 * GIB, at) for at in range(3)),
        ),
    ),
    others=(
        facts.Card("fpga-0", 0, type="fpga"),
        facts.Card("rdma-0", 0, type="rdma", root="pci0", functions=FUNCTIONS),
        facts.Card("rdma-1", 1, type="rdma"),
    ),
)
JOURNEYS: dict[str, dict[str, Any]] = {
    "one card": {"gpus": 1},
    "no card": {},
    "several containers": {"containers": [builders.container("b", gpus=1), builders.container("a", gpus=2)]},
    "shares of one card": {
        "containers": [
            builders.asking("a", {names.GPU: 30}),
            builders.asking("b", {names.GPU_MEMORY: "1Gi"}),
        ]
    },
    "a borrowing init container": {
        "initContainers": [builders.container("i", gpus=2)],
        "containers": [builders.container("a", gpus=1)],
    },
    "a greedy init container beside a sidecar": {
        "initContainers": [
            builders.asking("s", {names.GPU: 30}, restartPolicy="Always"),
            builders.asking("i", {names.GPU_CORE: 60, names.GPU_MEMORY: "40Gi"}),
        ],
        "containers": [builders.asking("a", {names.GPU: 20})],
    },
    "replicas": {"containers": [builders.asking("a", {names.NVIDIA_GPU_SHARED: 2})]},
    "instances": {"containers": [builders.asking("a", {"nvidia.com/mig-1g.10gb": 2})]},
    "a card with a function of a NIC": {
        "annotations": {names.JOINT: "gpu,rdma"},
        "containers": [builders.asking("a", {names.NVIDIA_GPU: 1, names.RDMA: 1})],
    },
    "functions in two containers, and one that is borrowed": {
        "initContainers": [builders.asking("i", {names.RDMA: 1})],
        "containers": [builders.asking("a", {names.RDMA: 1}), builders.asking("b", {names.RDMA: 1})],
    },
    "every NIC and an FPGA": {
        "annotations": {names.APPLY: "rdma=every"},
        "containers": [builders.asking("a", {names.FPGA: 50, names.RDMA: 10})],
    },
    "slices of another project": {
        "containers": [builders.asking("a", {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1000})]
    },
}


@pytest.mark.parametrize("spec", JOURNEYS.values(), ids=JOURNEYS.keys())
def test_bound_pod_is_read_as_what_it_was_given(spec: dict[str, Any]) -> None:
    """What the watch says of a pod that we bound is what was assumed when it was placed."""
    candidate = pods.candidate(builders.pod(**spec))
    grants = allocator.place(device_view.View(DEVICE), candidate.request)
    assert isinstance(grants, tuple)

    record = builders.answered(decisions.Placement("n1", grants))
    after = builders.pod(**spec | ON_NODE | {"annotations": record})

    found = pods.read_bound(after)
    assert found.hold.shares == allocator.held(grants)
    assert found.hold.amounts == tuple(sorted(candidate.demand.amounts + candidate.demand.served))
    assert (found.hold.withheld, found.fault) == (0, "")


GRANTS = st.lists(
    st.builds(
        decisions.Share,
        st.sampled_from(["GPU-a", "GPU-b", "MIG-c"]),
        st.integers(0, 9),
        st.integers(0, 100),
        st.integers(0, 2**40),
        st.sampled_from(["gpu", "rdma"]),
        st.sampled_from(["", "1g.10gb"]),
        st.sampled_from(["", "0000:1f:00.2"]),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda share: (share.type, share.uuid, share.function),
).map(tuple)


@pod_requests.PROPERTY
@hypothesis.given(GRANTS)
def test_record_is_read_as_it_was_written(shares: tuple[decisions.Share, ...]) -> None:
    """What a Binding writes of a container is what the pod is read to hold, to the last field."""
    by_type = tuple(sorted(shares, key=lambda share: [one.type for one in shares].index(share.type)))
    placement = decisions.Placement("n1", (decisions.Grant("main", by_type),))

    record = allocation.decode(builders.answered(placement)[names.ALLOCATION])

    assert isinstance(record, allocation.Allocation)
    starts = held_devices.start_order(builders.pod().spec)
    assert allocation_recovery.in_turn(held_devices.granted(record), starts) == placement.grants
