"""What the driver tells of sick cards, as the real bindings read it from the mock of NVML."""

from collections.abc import Callable
from typing import Final

import pytest

from berth_agent import probe
from berth_agent.nvml import nvml_probe
from berth_crds import vocabulary
from support import nodes
from support.nvml import machine, presets

UNKNOWN: Final = 999


def started(rig: nodes.Mocked) -> nvml_probe.NvmlProbe:
    """Look once, so that the driver is asked to tell errors."""
    looking = rig.start()
    nodes.look(looking)
    return looking


def told(looking: probe.Probe) -> list[tuple[str, int]]:
    """Look, and give the errors told since the last look."""
    return [(each.uuid, each.number) for each in nodes.look(looking).xids]


def uuid(rig: nodes.Mocked, card: int) -> str:
    """Name a card."""
    return rig.machine.read()[f"card.{card}.uuid"]


# ---------------------------------------------------------------- errors


def test_errors_are_told_once_and_in_order(place: nodes.Place) -> None:
    """A look takes along what the driver told since the last one, each error with its card."""
    rig = place(presets.DGX_A100)
    looking = started(rig)
    assert not looking.has_events()

    rig.machine.raise_xid(3, 48)
    rig.machine.raise_xid(3, 63)
    rig.machine.raise_xid(0, 79)

    assert looking.has_events()
    assert looking.has_events()
    assert told(looking) == [(uuid(rig, 3), 48), (uuid(rig, 3), 63), (uuid(rig, 0), 79)]
    assert not looking.has_events()
    assert told(looking) == []


def fall_off(broken: machine.Machine) -> None:
    """Have a card report an error, and answer no more."""
    broken.raise_xid(5, 79)
    broken.lose(5)


@pytest.mark.parametrize(
    ("preset", "happens", "error"),
    [
        pytest.param(presets.MIG, lambda it: it.raise_xid(0, 95, at=(1, 0)), (0, 95), id="of an instance"),
        pytest.param(presets.DGX_A100, fall_off, (5, 79), id="of a card that cannot be asked for its name"),
        pytest.param(
            presets.DGX_A100,
            lambda it: machine.main([str(it.folder), "event.1=6 8 79"]),
            (6, 79),
            id="made on the command line",
        ),
    ],
)
def test_error_is_its_card_s(
    place: nodes.Place,
    preset: presets.Preset,
    happens: Callable[[machine.Machine], None],
    error: tuple[int, int],
) -> None:
    """Every share and instance of a card hangs on the card: so does what befalls one of them."""
    rig = place(preset)
    looking = started(rig)
    happens(rig.machine)

    assert told(looking) == [(uuid(rig, error[0]), error[1])]


def test_errors_outlive_a_driver_that_fails(place: nodes.Place) -> None:
    """What was heard before the source failed is told by the first look that succeeds."""
    rig = place(presets.DGX_A100)
    looking = started(rig)
    rig.machine.raise_xid(1, 119)
    assert looking.has_events()
    rig.machine.unload()
    nodes.failed(looking)
    nodes.failed(looking)
    rig.machine.load()

    assert told(looking) == [(uuid(rig, 1), 119)]
    rig.machine.raise_xid(2, 48)
    assert told(looking) == [(uuid(rig, 2), 48)]


def test_errors_are_heard_of_cards_that_come_later(place: nodes.Place) -> None:
    """A card that was plugged in, or came back, is listened to like the others."""
    rig = place(presets.DGX_A100)
    rig.machine.unplug(4)
    looking = started(rig)
    rig.machine.plug(4)
    nodes.look(looking)
    rig.machine.raise_xid(4, 48)

    assert told(looking) == [(uuid(rig, 4), 48)]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"card.0.events": None}, id="a card that tells no errors"),
        pytest.param({"card.0.error.nvmlDeviceRegisterEvents": 3}, id="registration not supported"),
        pytest.param({"error.nvmlEventSetCreate": 3}, id="a driver without events"),
        pytest.param({"error.nvmlEventSetWait_v2": UNKNOWN}, id="a driver that fails to tell"),
    ],
)
def test_card_that_cannot_tell_errors_is_well(place: nodes.Place, changes: dict[str, object]) -> None:
    """Not to be told is no error, and the other cards are listened to as far as they can be."""
    rig = place(presets.DGX_A100, changes)
    looking = started(rig)
    rig.machine.raise_xid(0, 79)

    sample = nodes.look(looking)
    assert (len(list(sample.answering_cards())), sample.xids) == (8, ())
    if "card.0." in next(iter(changes)):
        rig.machine.raise_xid(1, 79)
        assert told(looking) == [(uuid(rig, 1), 79)]


# ---------------------------------------------------------------- vitals


def test_vitals_are_what_the_card_measures(place: nodes.Place) -> None:
    """Each number stands under its own name, in its own unit."""
    rig = place(
        presets.DGX_A100,
        {
            "card.0.memory": "85899345920 536870912 1073741824",
            "card.0.utilization": "97 45",
            "card.0.encoder": "12 167000",
            "card.0.decoder": "34 167000",
            "card.0.power": 251_000,
            "card.0.temperature": 66,
            "card.0.ecc.0.0": 5,
            "card.0.ecc.1.0": 2,
            "card.0.rows": "3 1 1 0",
            "card.0.pages": 0,
            "card.0.field.230": 1,
        },
    )

    assert nodes.first(rig.start()).measurements == probe.Measurements(
        memory_reserved=536870912,
        memory_used=1073741824,
        memory_free=85899345920 - 536870912 - 1073741824,
        utilization=97,
        memory_utilization=45,
        encoder_utilization=12,
        decoder_utilization=34,
        power=251_000,
        power_limit=400_000,
        temperature=66,
        slowdown_temperature=95,
        core_clock=1410,
        memory_clock=1593,
        errors_corrected=5,
        errors_uncorrected=2,
        remapped_rows=probe.RemappedRows(3, 1, pending=True, failed=False),
        retirement_pending=False,
        recovery=vocabulary.Recovery.RESET,
    )


VITALS: Final = {
    "nvmlDeviceGetMemoryInfo_v2": ("memory_used", "memory_free", "memory_reserved"),
    "nvmlDeviceGetUtilizationRates": ("utilization", "memory_utilization"),
    "nvmlDeviceGetEncoderUtilization": ("encoder_utilization",),
    "nvmlDeviceGetDecoderUtilization": ("decoder_utilization",),
    "nvmlDeviceGetPowerUsage": ("power",),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit",),
    "nvmlDeviceGetTemperatureThreshold": ("slowdown_temperature",),
    "nvmlDeviceGetClockInfo": ("core_clock", "memory_clock"),
    "nvmlDeviceGetTotalEccErrors": ("errors_corrected", "errors_uncorrected"),
    "nvmlDeviceGetRemappedRows": ("remapped_rows",),
    "nvmlDeviceGetFieldValues": ("recovery",),
}


@pytest.mark.parametrize("code", [3, 4, 13, UNKNOWN])
@pytest.mark.parametrize("call", VITALS)
def test_what_a_card_does_not_measure_is_absent(place: nodes.Place, call: str, code: int) -> None:
    """A number that cannot be had is None and never zero; the card and its other numbers stay."""
    rig = place(presets.DGX_A100, {f"card.0.error.{call}": code})

    measurements = nodes.first(rig.start()).measurements
    assert {name for name in VITALS[call] if getattr(measurements, name) is not None} == set()
    assert measurements.temperature == 31


def test_old_driver_is_asked_for_the_temperature_in_the_old_way(place: nodes.Place) -> None:
    """The newer of two calls is missing before R565."""
    rig = place(presets.DGX_A100, {"error.nvmlDeviceGetTemperatureV": 13})

    assert nodes.first(rig.start()).measurements.temperature == 31


@pytest.mark.parametrize("call", VITALS)
def test_card_that_gets_lost_while_it_is_measured_is_lost(place: nodes.Place, call: str) -> None:
    """A card that goes between two calls is no card without numbers: it is gone."""
    rig = place(presets.DGX_A100, {f"card.0.error.{call}": 15})

    (lost,) = nodes.look(rig.start()).lost_cards()
    assert (lost.reason, lost.uuid) == ("GpuIsLost", uuid(rig, 0))


@pytest.mark.parametrize("action", range(8))
def test_every_recovery_action_has_a_word(place: nodes.Place, action: int) -> None:
    """What the driver asks for is told in Berth's words."""
    rig = place(presets.DGX_A100, {"card.0.field.230": action})

    found = nodes.first(rig.start()).measurements.recovery
    assert found is not None
    assert (found is vocabulary.Recovery.NONE) == (action == 0)


# ---------------------------------------------------------------- what fails now and then


def test_card_that_could_not_be_listened_to_is_asked_again(place: nodes.Place) -> None:
    """Registration that fails once costs neither the card nor what is told of it later."""
    rig = place(presets.DGX_A100, {"card.1.error.nvmlDeviceRegisterEvents": UNKNOWN})
    looking = started(rig)
    assert not list(nodes.look(looking).lost_cards())

    rig.machine.fail("nvmlDeviceRegisterEvents", None, card=1)
    nodes.look(looking)
    rig.machine.raise_xid(1, 48)
    assert told(looking) == [(uuid(rig, 1), 48)]


@pytest.mark.parametrize("call", ["nvmlEventSetCreate", "nvmlEventSetFree"])
def test_library_is_closed_whatever_becomes_of_its_events(place: nodes.Place, call: str) -> None:
    """A library that is opened once more than it is closed would never see the driver that comes after."""
    rig = place(presets.DGX_A100, {f"error.{call}": UNKNOWN})
    for _ in range(3):
        rig.source.sample()
        rig.machine.load()
    rig.machine.fail(call, None)
    rig.machine.load()

    assert len(list(rig.look().answering_cards())) == 8
    rig.machine.load()
    assert len(list(rig.look().answering_cards())) == 8
