"""What a bound pod holds by its record: as much as its containers have at once, and what it was given."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import allocation, names
from berth_operator.scheduling import allocation_recovery, decisions, holds
from berth_operator.scheduling.devices import allocator, device_facts, device_view
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.translate import held_devices, pods
from support import builders
from translate import pod_requests

ON_NODE: dict[str, Any] = {"nodeName": "n1"}


def test_readable_allocation_is_what_it_holds() -> None:
    """A bound pod holds the very cards of its record, and its share of the node."""
    pod = builders.pod(gpus=2, annotations=builders.record("n1", main=[1, 3]), **ON_NODE)

    found = pod_requests.bound(pod)

    amounts = ((names.NVIDIA_GPU, 2), ("pods", 1))
    shares = (builders.share(1), builders.share(3))
    assert (found.fault, found.hold) == ("", holds.Hold("uid-p", "ml/p", "n1", amounts, shares))


def part(uuid: str, core: int, memory: int = 0, vf: str = "") -> allocation.Share:
    """Return a part of a device as a record has it."""
    return allocation.Share(uuid, 0, core, memory, vf=vf)


Held = dict[str, tuple[int, int]]
PHASES: dict[str, tuple[dict[str, list[allocation.Share]], Held]] = {
    "containers add": ({"a": [part("G", 30, 3)], "b": [part("G", 20, 2)]}, {"G": (50, 5)}),
    "an init container borrows": ({"i": [part("G", 40, 4)], "a": [part("G", 30, 3)]}, {"G": (40, 4)}),
    "each of core and memory at its peak": (
        {"i": [part("G", 90, 1)], "a": [part("G", 30, 3)]},
        {"G": (90, 3)},
    ),
    "init containers take turns": (
        {"i": [part("G", 40, 4)], "j": [part("G", 60, 1)], "a": [part("G", 10, 1)]},
        {"G": (60, 4)},
    ),
    "an init container of its own card": (
        {"i": [part("H", 100, 8)], "a": [part("G", 30, 3)]},
        {"H": (100, 8), "G": (30, 3)},
    ),
    "a sidecar runs beside those after it": (
        {"s": [part("G", 20, 2)], "j": [part("G", 60, 6)], "a": [part("G", 30, 3)]},
        {"G": (80, 8)},
    ),
    "a sidecar is not there for those before it": (
        {"i": [part("G", 60, 6)], "s": [part("G", 20, 2)], "a": [part("G", 30, 3)]},
        {"G": (60, 6)},
    ),
    "a container that the pod does not have runs": (
        {"a": [part("G", 30, 3)], "ghost": [part("G", 20, 2)]},
        {"G": (50, 5)},
    ),
    "whatever the order of the record": (
        {"a": [part("G", 30, 3)], "j": [part("G", 60, 6)], "s": [part("G", 20, 2)]},
        {"G": (80, 8)},
    ),
}
ORDER: dict[str, Any] = {
    "initContainers": [
        builders.container("i"),
        builders.container("s", restartPolicy="Always"),
        builders.container("j"),
    ],
    "containers": [builders.container("a"), builders.container("b")],
}


@pytest.mark.parametrize(("record", "held"), PHASES.values(), ids=PHASES.keys())
def test_most_that_is_held_at_one_time(record: dict[str, list[allocation.Share]], held: Held) -> None:
    """A pod holds of each device what its containers have of it at the worst moment of its life."""
    written = builders.written("n1", {name: {"gpu": shares} for name, shares in record.items()})

    found = pod_requests.bound(builders.pod(**ORDER, **ON_NODE, annotations=written))

    assert {share.uuid: (share.core, share.memory) for share in found.hold.shares} == held


def test_functions_of_one_nic_are_held_apart() -> None:
    """Two virtual functions of one NIC are both held; the first carries what is held of the NIC."""
    written = builders.written(
        "n1", {"a": {"rdma": [part("r", 1, vf="f1")]}, "b": {"rdma": [part("r", 1, vf="f2")]}}
    )

    found = pod_requests.bound(builders.pod(**ORDER, **ON_NODE, annotations=written))

    assert [(share.function, share.core) for share in found.hold.shares] == [("f1", 2), ("f2", 0)]


Shares = list[tuple[str, int, int]]
SHARES: st.SearchStrategy[Shares] = st.lists(
    st.tuples(st.sampled_from("GHK"), st.integers(0, 100), st.integers(0, 9)),
    max_size=3,
    unique_by=lambda share: share[0],
)


@pod_requests.PROPERTY
@hypothesis.given(
    early=st.lists(st.tuples(SHARES, st.booleans()), max_size=4),
    late=st.lists(SHARES, min_size=1, max_size=3),
)
def test_peaks_are_those_of_the_pods_life_moment_by_moment(
    early: list[tuple[Shares, bool]], late: list[Shares]
) -> None:
    """Each init container runs beside the sidecars before it; then all others run beside all sidecars."""
    hypothesis.assume(any(shares for shares in (*(shares for shares, _ in early), *late)))
    running: Shares = []
    moments: list[Shares] = []
    init, record = [], {}
    for at, (shares, stays) in enumerate(early):
        moments.append(running + shares)
        running = running + shares if stays else running
        init.append(builders.container(f"i{at}", restartPolicy="Always" if stays else None))
        record[f"i{at}"] = {"gpu": [part(*share) for share in shares]}
    moments.append(sum(late, running))
    record |= {f"c{at}": {"gpu": [part(*share) for share in shares]} for at, shares in enumerate(late)}
    main = [builders.container(f"c{at}") for at in range(len(late))]
    written = builders.written("n1", record)

    found = pod_requests.bound(
        builders.pod(initContainers=init, containers=main, annotations=written, **ON_NODE)
    )

    uuids = {uuid for moment in moments for uuid, _, _ in moment}
    sums = [{uuid: _sum(moment, uuid) for uuid in uuids} for moment in moments]
    assert {share.uuid: (share.core, share.memory) for share in found.hold.shares} == {
        uuid: (max(total[uuid][0] for total in sums), max(total[uuid][1] for total in sums)) for uuid in uuids
    }


def _sum(shares: Shares, uuid: str) -> tuple[int, int]:
    own = [share for share in shares if share[0] == uuid]
    return sum(core for _, core, _ in own), sum(memory for _, _, memory in own)


# ---------------------------------------------------------------- from a request to a record and back

GIB = 2**30
FUNCTIONS = tuple(device_facts.Function(f"0000:1f:00.{at}", at) for at in range(1, 4))
DEVICE = device_facts.Device(
    "n1",
    cards=(
        *(PhysicalDevice(f"GPU-{at}", at, "A100-SXM4-80GB", 80 * GIB, root="pci0") for at in range(3)),
        PhysicalDevice("GPU-3", 3, "T4", 16 * GIB, replicas=4),
        PhysicalDevice(
            "GPU-4",
            4,
            "A100-SXM4-80GB",
            80 * GIB,
            mig=True,
            instances=tuple(device_facts.Instance(f"MIG-{at}", "1g.10gb", 10 * GIB, at) for at in range(3)),
        ),
    ),
    others=(
        PhysicalDevice("fpga-0", 0, type="fpga"),
        PhysicalDevice("rdma-0", 0, type="rdma", root="pci0", functions=FUNCTIONS),
        PhysicalDevice("rdma-1", 1, type="rdma"),
    ),
)
JOURNEYS: dict[str, dict[str, Any]] = {
    "one card": {"gpus": 1},
    "no card": {},
    "several containers": {"containers": [builders.container("b", gpus=1), builders.container("a", gpus=2)]},
    "shares of one card": {
        "containers": [builders.asking("a", {names.GPU: 30}), builders.asking("b", {names.GPU_MEMORY: "1Gi"})]
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
    pod_info = pods.pod_info(builders.pod(**spec))
    grants = allocator.allocate_or_explain(device_view.View(DEVICE), pod_info.request)
    assert isinstance(grants, tuple)

    record = builders.answered(decisions.Placement("n1", grants))
    after = builders.pod(**spec | ON_NODE | {"annotations": record})

    found = pods.read_bound(after)
    assert found.hold.shares == allocator.peak_shares(grants)
    assert found.hold.amounts == tuple(sorted(pod_info.demand.amounts + pod_info.demand.device_resources))
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
