"""Who is on a card that nobody gave it stands in the Device, whatever else is said of the card."""

import datetime as dt

import msgspec
import pytest

from berth_agent import device_spec, device_status, probe, simulated
from berth_crds import vocabulary, wire
from support import nodes

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
LATER = NOON + dt.timedelta(minutes=5)
PAIR = simulated.machine("n1", "2xT4")
SPEC = device_spec.spec("n1", PAIR, None)
FIRST, SECOND = (card.uuid for card in SPEC.devices)
STRAY, OTHER = wire.Occupant(7, 5), wire.Occupant(8, 5, "ml", "train")
SICK = wire.CardStatus(FIRST, "Unhealthy", reason="XidCritical", since="2025-01-01T00:00:00Z")
KUBELET = wire.Condition("PodResourcesReady", "True", "Answered", "It answers.")


def status(
    occupants: dict[str, tuple[wire.Occupant, ...]],
    before: wire.DeviceStatus | None = None,
    *,
    outcome: probe.Outcome = PAIR,
    kubelet: wire.Condition | None = None,
    now: dt.datetime = NOON,
) -> wire.DeviceStatus:
    """Describe the status of the pair with these on its cards."""
    beside = device_status.other_sources(SPEC, occupants, kubelet)
    return nodes.status(outcome, SPEC, before, now=now, beside=beside)


def test_occupied_card_that_is_well_gets_an_entry() -> None:
    """The entry says that it is healthy, and who is there; it goes when they go."""
    there = status({SECOND: (STRAY, OTHER)})

    assert there.devices == (wire.CardStatus(SECOND, "Healthy", occupants=(STRAY, OTHER)),)
    assert status({}, there).devices == ()


def test_occupants_stand_beside_a_verdict() -> None:
    """A sick card keeps its verdict and its moment; who was there before and left is not listed."""
    failed = probe.SourceFailed("DriverNotLoaded", "The driver is not loaded.")
    before = wire.DeviceStatus(devices=(msgspec.structs.replace(SICK, occupants=(OTHER,)),))

    there = status({FIRST: (STRAY,)}, before, outcome=failed)

    assert there.devices == (msgspec.structs.replace(SICK, occupants=(STRAY,)),)


def test_cards_that_are_not_listed_have_no_occupants() -> None:
    """The server would refuse an entry for a card that the Device does not have."""
    assert status({"GPU-x": (STRAY,)}).devices == ()


def test_same_occupants_give_an_equal_status() -> None:
    """Nothing is written while nothing changes."""
    first = status({SECOND: (STRAY,)}, kubelet=KUBELET)

    assert status({SECOND: (STRAY,)}, first, kubelet=KUBELET, now=LATER) == first


def test_condition_of_the_kubelet_is_dated_by_its_change() -> None:
    """It keeps its moment while it stays, gets another when it turns, and is absent where nobody is asked."""
    away = wire.Condition("PodResourcesReady", "False", "Unreachable", "Nobody answers.")
    first = status({}, kubelet=KUBELET)
    second = status({}, first, kubelet=away, now=LATER)

    assert [one.last_transition_time for one in (first.conditions[1], second.conditions[1])] == [
        "2026-01-01T12:00:00Z",
        "2026-01-01T12:05:00Z",
    ]
    assert [one.type for one in status({}, second).conditions] == [vocabulary.DeviceCondition.NVML_READY]


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        pytest.param({}, {FIRST: (OTHER,)}, [f"{FIRST}: process 8 of pod ml/train"], id="comes"),
        pytest.param({FIRST: (OTHER,)}, {FIRST: (OTHER,)}, [], id="stays"),
        pytest.param({FIRST: (STRAY,)}, {FIRST: (wire.Occupant(7, 9),)}, [], id="grows"),
        pytest.param({FIRST: (STRAY,)}, {}, [f"over: {FIRST}: process 7 of no pod"], id="leaves"),
    ],
)
def test_occupants_are_logged_once(
    before: dict[str, tuple[wire.Occupant, ...]],
    after: dict[str, tuple[wire.Occupant, ...]],
    lines: list[str],
) -> None:
    """Coming and going are told, each once, and nothing of a card that was well all along."""
    told = device_status.changes(status(before), status(after, status(before)))

    assert [line.partition(" is on it")[0] for line in told] == lines
