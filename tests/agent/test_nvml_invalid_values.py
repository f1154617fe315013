"""Answers of the driver and the kernel that make no sense cost one piece, not the whole list."""

import datetime as dt
from typing import Final

import msgspec
import pytest

from berth_agent import device_spec
from berth_crds import device
from support import nodes
from support.nvml import presets

NOON: Final = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        pytest.param({"card.1.minor": 4294967295}, 0, id="no minor"),
        pytest.param({"card.1.minor": -1}, 0, id="a minor below zero"),
        pytest.param({"card.1.capability": "-1 0"}, 0, id="a capability below zero"),
        pytest.param({"card.1.capability": "100000000 100000000"}, 0, id="a huge capability"),
        pytest.param({"card.1.memory": "18446744073709551615 0 0"}, 1, id="all the memory that there can be"),
        pytest.param({"card.1.uuid": "GPU with spaces"}, 1, id="a uuid that is none"),
        pytest.param({"card.1.name": "X" * 90}, 0, id="a long name"),
        pytest.param({"card.1.name": "X\x1b[2J\x07\u202e"}, 0, id="a name that steers a terminal"),
        pytest.param({"driver.version": "9\x1b[2J\u200b"}, 0, id="a version that steers a terminal"),
        pytest.param({"driver.version": "9" * 79}, 0, id="a long version"),
        pytest.param({"driver.version": "5\udcff"}, 0, id="a version that is no text"),
        pytest.param({"driver.cuda": -12}, 0, id="a CUDA version below zero"),
        pytest.param({"card.1.bus": "00000000:12345:00.0"}, 0, id="a bus that there cannot be"),
        pytest.param({"card.1.nvlink.0": "1 0 00000000:12345:00.0"}, 0, id="a link to nowhere"),
        pytest.param({"card.1.threshold.1": 0}, 0, id="a threshold of zero"),
        pytest.param({"card.1.temperature": 4294967295}, 0, id="a temperature of nowhere"),
    ],
)
def test_nonsense_costs_at_most_one_card(place: nodes.Place, changes: dict[str, object], lost: int) -> None:
    """What the server would refuse never reaches it: the field is absent, or that one card is lost."""
    rig = place(presets.DGX_A100, changes)
    sample = nodes.look(rig.start())
    spec = device_spec.spec(nodes.NODE, sample, None)

    device.DeviceSpec.model_validate_json(msgspec.json.encode(spec))
    assert (len(spec.devices), nodes.status(sample, spec, now=NOON).devices) == (8 - lost, ())
    assert spec.driver is not None
    assert all(text.isprintable() for text in (spec.driver.version, *(card.model for card in spec.devices)))


INSTANCE: Final = presets.instance("mig", 0, 9, 2, size=1)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        pytest.param(INSTANCE.replace("MIG-", "MIG "), 3, id="a uuid that is none"),
        pytest.param(f"MIG-{'x' * 70} {INSTANCE.partition(' ')[2]}", 3, id="a uuid that is too long"),
        pytest.param(INSTANCE.replace(" 9728 1 1 19 ", " 9728 0 0 77 "), 3, id="no slices"),
        pytest.param(presets.instance("mig", 2, 1, 4, size=4), 3, id="one that is there already"),
        pytest.param(INSTANCE.replace(" 9 0 ", " 900 0 "), 3, id="a number that is too large"),
        pytest.param(INSTANCE, 4, id="nothing wrong"),
    ],
)
def test_nonsense_costs_at_most_one_instance(place: nodes.Place, line: str, left: int) -> None:
    """An instance that the server would refuse is not listed; the card and its other instances are."""
    rig = place(presets.MIG)
    assert rig.machine.read()["card.0.mig.3"] == INSTANCE
    rig.machine.change({"card.0.mig.3": line})
    spec = device_spec.spec(nodes.NODE, nodes.look(rig.start()), None)

    device.DeviceSpec.model_validate_json(msgspec.json.encode(spec))
    assert spec.devices[0].mig is not None
    assert len(spec.devices[0].mig.instances) == left


def test_numa_node_that_there_cannot_be_is_unknown(place: nodes.Place) -> None:
    """What the kernel says of it reaches nobody."""
    rig = place(presets.A10)
    for told in rig.machine.sys.glob("devices/*/*/*/numa_node"):
        told.write_text("99999\n")
    spec = device_spec.spec(nodes.NODE, nodes.look(rig.start()), None)

    device.DeviceSpec.model_validate_json(msgspec.json.encode(spec))
    assert {card.topology.numa_node for card in spec.devices if card.topology} == {None}
