"""Device ids are read as pieces of the node's cards, and what is no GPU is left out."""

import time
from typing import Final

import pytest

from berth_agent import flag_table
from berth_agent.kubelet import device_ids
from berth_agent.kubelet.podresources import (
    ClaimedDevice,
    ListedClaim,
    ListedContainer,
    ListedDevices,
    ListedPod,
)
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


# ---------------------------------------------------------------- claims

NVIDIA: Final = "gpu.nvidia.com"
# Minors and indices differ from the second card on.
NUMBERED: Final = device_ids.allocatable_devices(
    (
        wire.Card(uuid="GPU-a", type="gpu", minor=0, index=0, memory=16),
        wire.Card(uuid="GPU-b", type="gpu", minor=2, index=1, memory=16),
        wire.Card(uuid="GPU-c", type="gpu", minor=1, index=2, memory=16),
        wire.Card(
            uuid="GPU-d",
            type="gpu",
            minor=3,
            index=3,
            memory=40,
            mig=wire.Mig(
                True,
                tuple(
                    wire.MigInstance(
                        f"MIG-{at}", "1g.5gb", 5, gi=at, ci=0, placement=wire.MigPlacement(at, 1)
                    )
                    for at in range(3)
                ),
            ),
        ),
    )
)


def claimed(*names: str, driver: str = NVIDIA, drivers: tuple[str, ...] = (NVIDIA,)) -> dict[str, float]:
    """Return what one container holds by a claim: how much of each uuid."""
    claim = ListedClaim("card", "ns", tuple(ClaimedDevice(driver, name) for name in names))
    listed = (ListedPod("ns", "p", (ListedContainer("c", claims=(claim,)),)),)
    found = device_ids.holdings(listed, flag_table.GPU_RESOURCES, NUMBERED, drivers)
    return {one.uuid: one.part.share() for one in found[("ns", "p")]["c"]} if found else {}


@pytest.mark.parametrize(
    ("name", "uuids"),
    [
        pytest.param("gpu-0", {"GPU-a"}, id="a card whose minor is its index"),
        pytest.param("gpu-1", {"GPU-b", "GPU-c"}, id="a number that is a minor here and an index there"),
        pytest.param("GPU-b", {"GPU-b"}, id="a uuid"),
        pytest.param("gpu-3-mig-19-1-1", {"MIG-1"}, id="an instance, by the names of older drivers"),
        pytest.param("gpu-3-mig-1g5gb-19-2", {"MIG-2"}, id="an instance, by the names of newer drivers"),
        pytest.param("gpu-3-mig-19-6-1", {"MIG-0", "MIG-1", "MIG-2"}, id="an instance that is not known"),
        pytest.param("gpu-3-mig-me", {"MIG-0", "MIG-1", "MIG-2"}, id="an instance without a place"),
        pytest.param("gpu-77", {"gpu-77"}, id="a card that is not known"),
        pytest.param("gpu-vfio-0", {"gpu-vfio-0"}, id="a name of another form"),
    ],
)
def test_devices_of_claims_are_cards(name: str, uuids: set[str]) -> None:
    """By the number in its name a device is a card or an instance; where that may be two cards, both."""
    assert claimed(name) == dict.fromkeys(uuids, 1.0)


def test_claimed_card_is_held_whole_however_it_is_shared() -> None:
    """Replicas are the device plugin's: a driver gives all of a card."""
    assert claimed("GPU-b") == {"GPU-b": 1.0}
    shared = device_ids.allocatable_devices((SHARED,))
    claim = ListedClaim("card", "ns", (ClaimedDevice(NVIDIA, "GPU-b"),))
    listed = (ListedPod("ns", "p", (ListedContainer("c", claims=(claim,)),)),)

    found = device_ids.holdings(listed, flag_table.GPU_RESOURCES, shared, (NVIDIA,))

    assert found[("ns", "p")]["c"][0].part == device_ids.ALL


@pytest.mark.parametrize(
    ("driver", "drivers", "holds"),
    [
        pytest.param(NVIDIA, (NVIDIA,), True, id="NVIDIA's"),
        pytest.param("gpu.example.com", (NVIDIA, "gpu.*"), True, id="chosen by a pattern"),
        pytest.param("dra.networking", (NVIDIA,), False, id="of network devices"),
        pytest.param(NVIDIA, (), False, id="none is chosen"),
    ],
)
def test_drivers_can_be_chosen(driver: str, drivers: tuple[str, ...], holds: bool) -> None:  # noqa: FBT001
    """Devices of other drivers than these are no cards, whatever they are called."""
    assert bool(claimed("gpu-0", driver=driver, drivers=drivers)) is holds


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
