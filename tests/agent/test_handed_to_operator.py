"""What the operator makes of the record of a pod that Berth did not place: it knows those very cards."""

from berth_agent.gpupods import record
from berth_agent.kubelet import ids
from berth_crds import wire
from berth_operator.scheduling import naming
from berth_operator.scheduling.holds import Hold
from berth_operator.translate import devices, gpupods

CARDS = tuple(wire.Card(uuid=f"GPU-{one}", type="gpu", minor=at, memory=16) for at, one in enumerate("abcd"))
DEVICE = devices.device(wire.Device(wire.Meta(name="n1"), wire.DeviceSpec("n1", devices=CARDS)))
PIECES = ids.pieces(CARDS)
META = wire.Meta(name="p", namespace="ns", uid="u-1")


def held(*uuids: str, asks: int) -> Hold:
    """Say what the operator takes a pod to hold that asks for so many cards and was given these."""
    pod = record.Pod(META, record.PodSpec("n1"), record.PodStatus("Running"))
    given = record.handed("n1", {"main": [ids.Held(one, PIECES.get(one)) for one in uuids]})
    spec = record.spec(pod, given, record.View("n1", {}, None, PIECES))
    named = gpupods.named(wire.GpuPod(META, spec))
    assert isinstance(named, naming.Named)
    nameless = naming.Nameless((("main", True),), fewest=asks)
    return naming.held(Hold("u-1", "ns/p", "n1", withheld=asks), nameless, named, DEVICE)


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

    assert [one.uuid for one in hold.shares] == ["GPU-b"]
    assert hold.withheld == 1
