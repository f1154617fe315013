"""What the operator makes of the record of a pod that Berth did not place: it knows those very cards."""

import msgspec
import pytest

from berth_agent import device_spec, probe
from berth_agent.gpupods import desired, watched_pod
from berth_agent.kubelet import device_ids
from berth_crds import vocabulary, wire
from berth_operator.scheduling import allocation_recovery
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import allocator, device_view, requests
from berth_operator.scheduling.holds import Hold
from berth_operator.translate import devices, gpupods
from support import nodes
from support.nvml import presets

CARDS = tuple(wire.Card(uuid=f"GPU-{one}", type="gpu", minor=at, memory=16) for at, one in enumerate("abcd"))
DEVICE = devices.read(wire.Device(wire.Meta(name="n1"), wire.DeviceSpec("n1", devices=CARDS)))
ALLOCATABLE = device_ids.allocatable_devices(CARDS)
META = wire.Meta(name="p", namespace="ns", uid="u-1")


def held(*uuids: str, asks: int) -> Hold:
    """Say what the operator takes a pod to hold that asks for so many cards and was given these."""
    pod = watched_pod.Pod(META, watched_pod.PodSpec("n1"), watched_pod.PodStatus("Running"))
    given = desired.allocation_by_kubelet(
        "n1", {"main": [device_ids.HeldDevice(one, ALLOCATABLE.get(one)) for one in uuids]}
    )
    spec = desired.spec(pod, given, desired.NodeCards("n1", {}, None, ALLOCATABLE))
    named = gpupods.read(wire.GpuPod(META, spec))
    assert isinstance(named, allocation_recovery.NamedDevices)
    nameless = allocation_recovery.UnreadableAllocation((("main", True),), fewest=asks)
    return allocation_recovery.held(Hold("u-1", "ns/p", "n1", withheld=asks), nameless, named, DEVICE)


def test_named_cards_are_charged_and_none_is_withheld() -> None:
    """With all cards named, those are taken, whole, and the others are free."""
    hold = held("GPU-b", "GPU-c", asks=2)

    assert [(one.uuid, one.core, one.memory) for one in hold.shares] == [
        ("GPU-b", 100, 16),
        ("GPU-c", 100, 16),
    ]
    assert hold.withheld == 0


def test_what_is_left_open_stays_withheld() -> None:
    """A device that is no card of the node leaves its place withheld."""
    hold = held("GPU-b", "GPU-x", asks=2)

    assert ([one.uuid for one in hold.shares], hold.withheld) == (["GPU-b"], 1)


# ---------------------------------------------------------------- sick cards

SHARED = wire.Sharing(vocabulary.SharingStrategy.TIME_SLICING, 4)


@pytest.mark.parametrize(
    ("ask", "sharing"),
    [(requests.cards(1), None), (requests.Gpus(1, core=10, ratio=10), None), (requests.Replicas(1), SHARED)],
    ids=["whole card", "share", "replica"],
)
def test_each_share_of_a_sick_card_is_refused(
    place: nodes.Place, ask: requests.Ask, sharing: wire.Sharing | None
) -> None:
    """One error closes the card for all who would share it, and not for one of them."""
    rig = place(presets.A10)
    count = len(list(rig.look().answering_cards()))

    for card in range(count - 1):
        rig.machine.raise_xid(card, 79)
    assert not refused(rig.source, ask, sharing), "one card is left"
    for card in range(count):
        rig.machine.raise_xid(card, 79)
    assert refused(rig.source, ask, sharing) == {Reason.UNHEALTHY}


@pytest.mark.parametrize("profile", ["1g.10gb", "2g.20gb", "3g.40gb"])
def test_each_instance_of_a_sick_card_is_refused(place: nodes.Place, profile: str) -> None:
    """An error of one MIG instance, or of the card as a whole, closes all of them."""
    rig, ask = place(presets.MIG), requests.Instances(profile, 1)
    looking = rig.start()
    assert not refused(looking, ask)

    rig.machine.raise_xid(0, 79, at=(1, 0))
    assert refused(looking, ask) == {Reason.UNHEALTHY}


def refused(looking: probe.Probe, ask: requests.Ask, sharing: wire.Sharing | None = None) -> set[Reason]:
    """Say why the operator refuses to place a pod on the cards as the agent sees them, if it does."""
    sample = nodes.look(looking)
    spec = device_spec.spec(nodes.NODE, sample, None)
    status = nodes.status(sample, spec)
    cards = tuple(msgspec.structs.replace(each, sharing=sharing) for each in spec.devices)
    seen = wire.Device(wire.Meta(name="n1"), msgspec.structs.replace(spec, devices=cards), status)
    request = requests.DeviceRequest((requests.ContainerRequest("main", (ask,)),))
    found = allocator.allocate_or_explain(device_view.View(devices.read(seen), {}), request)
    return (
        {each.reason for each in found.verdicts or (found,)}
        if isinstance(found, allocator.Shortfall)
        else set()
    )
