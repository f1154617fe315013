"""Device ids are read as pieces of the node's cards, and what is no GPU is left out."""

import time

import pytest

from berth_agent import flag_table
from berth_agent.kubelet import device_ids
from berth_agent.kubelet.podresources import ListedContainer, ListedDevices, ListedPod
from berth_crds import names, wire

WHOLE = wire.Card(uuid="GPU-a", type="gpu", minor=0, memory=16)
SHARED = wire.Card(
    uuid="GPU-b", type="gpu", minor=1, memory=16, sharing=wire.Sharing("time-slicing", replicas=4)
)
CUT = wire.Card(
    uuid="GPU-c",
    type="gpu",
    minor=2,
    memory=40,
    mig=wire.Mig(True, (wire.MigInstance("MIG-1", "1g.5gb", memory=5, gi=7, ci=0),)),
)
NIC = wire.Card(uuid="rdma-0000:1f:00.0", type="rdma", minor=3)
ALLOCATABLE = device_ids.allocatable_devices((WHOLE, SHARED, CUT, NIC))
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"


def held(*devices: ListedDevices, patterns: tuple[str, ...] = flag_table.GPU_RESOURCES) -> dict[str, float]:
    """Give what one container holds: how much of each uuid."""
    found = device_ids.holdings(
        (ListedPod("ns", "p", (ListedContainer("c", devices),)),), patterns, ALLOCATABLE
    )
    return {one.uuid: one.part.share() for one in found[("ns", "p")]["c"]} if found else {}


@pytest.mark.parametrize(
    ("device", "uuid", "card"),
    [
        pytest.param("GPU-a", "GPU-a", "GPU-a", id="whole card"),
        pytest.param("GPU-b::3", "GPU-b", "GPU-b", id="replica"),
        pytest.param("MIG-1", "MIG-1", "GPU-c", id="MIG instance"),
        pytest.param("MIG-1::0", "MIG-1", "GPU-c", id="replica of a MIG instance"),
        pytest.param("MIG-GPU-c/7/0", "MIG-1", "GPU-c", id="MIG instance as older drivers say it"),
        pytest.param("GPU-zzz", "GPU-zzz", None, id="unknown card"),
        pytest.param("rdma-0000:1f:00.0", "rdma-0000:1f:00.0", None, id="no GPU at all"),
    ],
)
def test_ids_mean_pieces(device: str, uuid: str, card: str | None) -> None:
    """Each form of an id leads to the card it is of, and keeps the uuid of an instance."""
    found = device_ids.holdings(
        (ListedPod("ns", "p", (ListedContainer("c", (ListedDevices(GPU, (device,)),)),)),),
        flag_table.GPU_RESOURCES,
        ALLOCATABLE,
    )

    (one,) = found[("ns", "p")]["c"]
    assert (one.uuid, one.device.card if one.device else None) == (uuid, card)


@pytest.mark.parametrize(
    ("resource", "is_gpu"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-3g.20gb", True),
        ("nvidia.com/mig-1g.5gb.shared", True),
        ("berth.dev/gpu", True),
        ("berth.dev/gpu-core", False),
        ("nvidia.com/gpus", False),
        ("nvidia.com/hostdev", False),
        ("amd.com/gpu", False),
        ("xnvidia.com/gpu", False),
    ],
)
def test_resources_that_count(resource: str, is_gpu: bool) -> None:  # noqa: FBT001
    """NVIDIA's names of GPUs count, and nothing that only looks like them."""
    assert device_ids.is_gpu_resource(resource, flag_table.GPU_RESOURCES) is is_gpu


def test_resources_can_be_chosen() -> None:
    """Another plugin's resource counts where it is named, and NVIDIA's then only where it is, too."""
    devices = (ListedDevices(GPU, ("GPU-a",)), ListedDevices("volcano.sh/vgpu-number", ("GPU-b",)))

    assert held(*devices) == {"GPU-a": 1}
    assert held(*devices, patterns=("volcano.sh/vgpu-*",)) == {"GPU-b": 0.25}


def test_replicas_of_one_card_add_up() -> None:
    """A container with two replicas of a card holds that card, twice."""
    assert held(ListedDevices(GPU, ("GPU-b::3",)), ListedDevices(GPU, ("GPU-b::1",))) == {"GPU-b": 0.5}


def test_each_percent_counts() -> None:
    """By Berth's own resource, on a card that has no replicas."""
    assert held(ListedDevices(names.GPU, ("GPU-a::3", "GPU-a::99"))) == {"GPU-a": 0.02}


def test_what_is_listed_as_all_of_a_card_is_no_more() -> None:
    """Replicas of a card that tells none, and the card itself, whose replicas are others' now."""
    assert held(ListedDevices(GPU, ("GPU-a::0", "GPU-a::1"))) == {"GPU-a": 1}
    assert held(ListedDevices(GPU, ("GPU-b",))) == {"GPU-b": 1}


def test_device_that_is_listed_for_each_numa_node_counts_once() -> None:
    """The same id in two entries is one device."""
    assert held(ListedDevices(GPU, ("GPU-b::3",)), ListedDevices(GPU, ("GPU-b::3",))) == {"GPU-b": 0.25}


def test_order_is_that_of_the_cards() -> None:
    """In whatever order the ids come, the pieces stand in the order of their minors."""
    assert list(held(ListedDevices(MIG, ("MIG-1",)), ListedDevices(GPU, ("GPU-b", "GPU-a")))) == [
        "GPU-a",
        "GPU-b",
        "MIG-1",
    ]


def test_who_holds_nothing_is_left_out() -> None:
    """Containers and pods without GPUs do not appear."""
    listed = (
        ListedPod("ns", "idle", (ListedContainer("c"),)),
        ListedPod("ns", "nic", (ListedContainer("c", (ListedDevices("rdma/hca", ("x",)),)),)),
        ListedPod(
            "ns", "busy", (ListedContainer("a"), ListedContainer("b", (ListedDevices(GPU, ("GPU-a",)),)))
        ),
    )

    found = device_ids.holdings(listed, flag_table.GPU_RESOURCES, ALLOCATABLE)

    assert {key: list(containers) for key, containers in found.items()} == {("ns", "busy"): ["b"]}


def test_pod_that_is_listed_twice_holds_both() -> None:
    """Where an ended pod and its successor share a name, neither entry hides the other."""
    twice = tuple(
        ListedPod("ns", "p", (ListedContainer("c", (ListedDevices(GPU, (one,)),)),))
        for one in ("GPU-a", "GPU-b")
    )

    found = device_ids.holdings(twice, flag_table.GPU_RESOURCES, ALLOCATABLE)

    assert [one.uuid for one in found[("ns", "p")]["c"]] == ["GPU-a", "GPU-b"]


def test_a_pod_that_is_listed_often_takes_no_longer() -> None:
    """One pod in thousands of entries is read as fast as thousands of pods."""
    listed = [
        ListedPod("ml", "train", (ListedContainer("main", (ListedDevices(GPU, (f"GPU-{number}",)),)),))
        for number in range(40_000)
    ]
    started = time.process_time()

    assert len(device_ids.holdings(listed, flag_table.GPU_RESOURCES, {})["ml", "train"]["main"]) == 40_000
    assert time.process_time() - started < 20.0
