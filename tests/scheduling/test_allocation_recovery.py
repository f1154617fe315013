"""What a pod holds whose own record cannot be read: what its GpuPod names is held, the rest withheld (I9)."""

import dataclasses

import pytest

from berth_operator.scheduling import allocation_recovery, decisions, holds
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from support import builders

HALF = builders.MEMORY // 2


def gone(minor: int) -> decisions.Share:
    """Return a card that the node does not have (any more)."""
    return dataclasses.replace(builders.share(minor), uuid=f"GPU-gone-{minor}")


def nic(minor: int = 0) -> decisions.Share:
    """Return a device of another type."""
    return decisions.Share(f"nic-{minor}", minor, 100, 0, "rdma")


def part(number: int, minor: int = 3) -> decisions.Share:
    """Return a MIG instance of the last card."""
    return decisions.Share(f"MIG-n1-{minor}-{number}", minor, 100, 10, profile=builders.PROFILE)


CUT = builders.card(3, mig=True, instances=builders.instances("n1", 3, 2))
DEVICE = builders.device(
    cards=[*(builders.card(minor) for minor in range(3)), CUT],
    others=[PhysicalDevice("nic-0", 0, type="rdma")],
)
ALL = holds.ALL_CARDS
# What the pod withholds and has at least; what its GpuPod names; what it holds then, and still withholds.
TABLE: dict[str, tuple[int, int, tuple[decisions.Share, ...], tuple[decisions.Share, ...], int]] = {
    "all of them": (2, 2, (builders.share(0), builders.share(2)), (builders.share(0), builders.share(2)), 0),
    "one of two": (2, 2, (builders.share(1),), (builders.share(1),), 1),
    "none": (2, 2, (), (), 2),
    "shares that lie on one card": (
        2,
        1,
        (builders.share(0, core=50, memory=HALF),),
        (builders.share(0, core=50, memory=HALF),),
        0,
    ),
    "one where nobody knows how many": (ALL, 1, (builders.share(1),), (builders.share(1),), 0),
    "none where nobody knows how many": (ALL, 1, (), (), ALL),
    "more than it asked for": (
        1,
        1,
        (builders.share(0), builders.share(1)),
        (builders.share(0), builders.share(1)),
        0,
    ),
    "a card by its minor alone": (1, 1, (gone(1),), (builders.share(1),), 0),
    "a card that is not there": (1, 1, (gone(7),), (), 1),
    "one that is there and one that is not": (2, 2, (builders.share(0), gone(7)), (builders.share(0),), 1),
    "one that is there and one that is not, of as many as it may have": (
        2,
        1,
        (builders.share(0), gone(7)),
        (builders.share(0),),
        1,
    ),
    "a minor that another uuid has already": (2, 2, (gone(0), builders.share(0)), (builders.share(0),), 1),
    "two that claim one minor": (
        2,
        2,
        (gone(0), dataclasses.replace(gone(0), uuid="GPU-x")),
        (builders.share(0),),
        1,
    ),
    "an instance": (1, 1, (part(1),), (part(1),), 0),
    "an instance that is not there": (1, 1, (part(7),), (), 1),
    "an instance of a card that is not cut any more": (1, 1, (part(0, minor=0),), (), 1),
    "a whole card at the minor of one that is cut": (1, 1, (gone(3),), (), 1),
    "a card by a uuid of another type": (1, 1, (dataclasses.replace(nic(9), uuid="GPU-n1-0"),), (), 1),
    "another device alone": (1, 1, (nic(),), (nic(),), 1),
    "another device, of a pod that asks for no card": (0, 0, (nic(),), (nic(),), 0),
}


@pytest.mark.parametrize(("withheld", "fewest", "named", "shares", "left"), TABLE.values(), ids=list(TABLE))
def test_table(
    withheld: int,
    fewest: int,
    named: tuple[decisions.Share, ...],
    shares: tuple[decisions.Share, ...],
    left: int,
) -> None:
    """What is named and there is held; what is missing of it stays withheld."""
    hold = builders.hold("p", withheld=withheld)
    says = allocation_recovery.NamedDevices("ml/p", "uid-p", "n1", (decisions.Grant("main", named),))

    found = allocation_recovery.held(
        hold, allocation_recovery.UnreadableAllocation((("main", True),), fewest), says, DEVICE
    )

    assert found == dataclasses.replace(hold, shares=shares, withheld=left)


WHOLE = allocation_recovery.NamedDevices(
    "ml/p", "uid-p", "n1", (decisions.Grant("main", (builders.share(0),)),)
)


@pytest.mark.parametrize(
    ("named", "device"),
    [
        pytest.param(None, DEVICE, id="there is none"),
        pytest.param(WHOLE, None, id="there is no Device"),
        pytest.param(WHOLE, builders.device(cards=[]), id="the Device has no cards"),
        pytest.param(dataclasses.replace(WHOLE, uid="uid-old"), DEVICE, id="it is of an earlier pod"),
        pytest.param(dataclasses.replace(WHOLE, node="n2"), DEVICE, id="it is of another node"),
    ],
)
def test_who_does_not_speak_for_the_pod_changes_nothing(
    named: allocation_recovery.NamedDevices | None, device: device_facts.Device | None
) -> None:
    """Nothing but the word of the pod's own GpuPod on cards that are there ends the withholding."""
    hold = builders.hold("p", withheld=1)

    assert (
        allocation_recovery.held(
            hold, allocation_recovery.UnreadableAllocation((("main", True),)), named, device
        )
        == hold
    )


def test_containers_that_borrow_are_not_added_up() -> None:
    """An init container that ends before the others start has the very card that they get."""
    grants = tuple(decisions.Grant(name, (builders.share(0),)) for name in ("main", "init"))
    says = dataclasses.replace(WHOLE, grants=grants)
    starts = ("init", False), ("main", True)

    found = allocation_recovery.held(
        builders.hold("p", withheld=1), allocation_recovery.UnreadableAllocation(starts), says, DEVICE
    )

    assert found == builders.hold("p", shares=[0])


def test_what_is_named_is_what_a_record_would_have_said() -> None:
    """Named by its GpuPod, a pod holds just what it would hold by its own record."""
    grants = (
        decisions.Grant("side", (builders.share(1, core=30, memory=5), part(0))),
        decisions.Grant("main", (builders.share(1, core=20, memory=7), nic())),
    )
    starts = ("main", True), ("side", True)

    found = allocation_recovery.held(
        builders.hold("p", withheld=2),
        allocation_recovery.UnreadableAllocation(starts, 2),
        dataclasses.replace(WHOLE, grants=grants),
        DEVICE,
    )

    assert found.shares == (builders.share(1, core=50, memory=12), nic(), part(0))
    assert found.withheld == 0


@pytest.mark.parametrize(
    ("named", "most", "believed"),
    [
        pytest.param((builders.share(0), builders.share(1)), 2, True, id="as many"),
        pytest.param((builders.share(0), builders.share(1)), 1, False, id="more"),
        pytest.param((builders.share(0), gone(7)), 1, False, id="more, with one that is not there"),
        pytest.param((part(0), part(1)), 1, False, id="more instances"),
        pytest.param((builders.share(0, core=50), nic()), 1, True, id="as many, beside another device"),
    ],
)
def test_a_pod_has_no_more_cards_than_it_asks_for(
    named: tuple[decisions.Share, ...], most: int, *, believed: bool
) -> None:
    """One card may be held by several containers; of a GpuPod that names more cards nothing counts."""
    hold = builders.hold("p", withheld=ALL)
    grants = (decisions.Grant("main", named), decisions.Grant("init", named[:1]))
    says = allocation_recovery.NamedDevices("ml/p", "uid-p", "n1", grants)

    found = allocation_recovery.held(hold, allocation_recovery.UnreadableAllocation(most=most), says, DEVICE)

    assert (bool(found.shares), found.withheld < ALL) == (believed, believed)
    assert bool(allocation_recovery.rejection(hold, says, most)) is not believed


def test_a_nic_frees_no_card_with_its_minor() -> None:
    """A mark of a card ends with a GpuPod that names that card, not with a NIC of that minor."""
    hold = builders.hold("p", withheld=1, marked=frozenset({0}))
    says = dataclasses.replace(WHOLE, grants=(decisions.Grant("main", (builders.share(1), nic())),))

    found = allocation_recovery.held(hold, allocation_recovery.UnreadableAllocation(), says, DEVICE)

    assert nic().minor == 0
    assert found.marked == {0}


def test_a_hold_that_withholds_otherwise_is_the_same_in_all_else() -> None:
    """Also in what holds are not compared by; it is written out field by field."""
    fields = {one.name: object() for one in dataclasses.fields(holds.Hold)}
    other = {"withheld": 2, "withheld_types": frozenset({"nic"})}

    found = holds.Hold(**fields).withholding(2, frozenset({"nic"}))  # type: ignore[arg-type]  # whatever they are

    assert {name: getattr(found, name) for name in fields} == fields | other
