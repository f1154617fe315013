"""Further devices from files: listed beside the cards, and never able to spoil them."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth_agent import beside, describe, dropins, probe, sysfs
from berth_crds import device, vocabulary, wire
from support import nodes
from support.nvml import presets

NPU: dict[str, Any] = {
    "uuid": "npu-0000:5e:00.0",
    "type": "npu",
    "minor": 0,
    "vendor": "acme",
    "model": "Acme N1",
    "memory": 1 << 35,
    "labels": {"fabric": "a"},
}


class Shelf:
    """A folder of files, and who reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = dropins.Folder(path, sysfs.Kernel(path / "sys", path / "proc"))

    def put(self, name: str, *entries: dict[str, Any]) -> None:
        """Write a file of devices."""
        (self.path / name).write_text(json.dumps({"devices": entries}))

    def uuids(self) -> list[str]:
        """Read which devices the files name."""
        return [each.uuid for each in self.folder.devices()]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """Lend an empty folder."""
    path = tmp_path / "devices"
    path.mkdir()
    return Shelf(path)


def test_files_name_devices(shelf: Shelf) -> None:
    """Devices come in the order of the files' names, with all that is said of them."""
    shelf.put("b.json", NPU | {"uuid": "npu-1", "minor": 1, "busID": "0000:5e:00.0"})
    shelf.put("a.json", NPU)
    shelf.put("notes.txt", NPU)

    first, second = shelf.folder.devices()
    assert first == probe.Device(
        "npu-0000:5e:00.0", "npu", 0, "acme", "Acme N1", 1 << 35, labels=(("fabric", "a"),)
    )
    assert second.place == probe.Place(None, None, "0000:5e:00.0")


def test_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """A folder may come later."""
    shelf = Shelf(tmp_path / "later")
    assert shelf.uuids() == []

    shelf.path.mkdir()
    shelf.put("a.json", NPU)
    assert shelf.uuids() == [NPU["uuid"]]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        pytest.param({"uuid": "no spaces"}, "uuid", id="uuid"),
        pytest.param({"uuid": "npu-1\n"}, "uuid", id="uuid with a line end"),
        pytest.param({"type": "npu\n"}, "type", id="type with a line end"),
        pytest.param({"vendor": "acme\n"}, "vendor", id="vendor with a line end"),
        pytest.param({"busID": "0000:5e:00.0\n"}, "busID", id="address with a line end"),
        pytest.param({"reason": "Worn\n"}, "reason", id="reason with a line end"),
        pytest.param({"type": "NPU"}, "type", id="type"),
        pytest.param({"minor": -1}, "minor", id="minor"),
        pytest.param({"minor": "0"}, "minor", id="minor as text"),
        pytest.param({"memory": 0}, "memory", id="no memory"),
        pytest.param({"type": "gpu", "memory": None}, "must have memory", id="GPU without memory"),
        pytest.param({"busID": "5E:00.0"}, "busID", id="address"),
        pytest.param({"health": "Poorly"}, "Poorly", id="health"),
        pytest.param({"vendor": "Acme!"}, "vendor", id="vendor"),
        pytest.param({"colour": "red"}, "colour", id="unknown field"),
    ],
)
def test_file_that_cannot_be_used_lists_nothing(
    shelf: Shelf, caplog: pytest.LogCaptureFixture, entry: dict[str, Any], words: str
) -> None:
    """A bad value is told once in the log, and costs its own file only."""
    shelf.put("bad.json", NPU | {"uuid": "npu-9"} | entry)
    shelf.put("good.json", NPU)

    assert shelf.uuids() == shelf.uuids() == [NPU["uuid"]]
    (told,) = caplog.messages
    assert words in told


def test_half_a_file_counts_as_it_was(shelf: Shelf) -> None:
    """What is being written does not make devices come and go; a file that is gone does."""
    shelf.put("a.json", NPU)
    assert shelf.uuids() == [NPU["uuid"]]
    whole = (shelf.path / "a.json").read_text()

    (shelf.path / "a.json").write_text(whole[:40])
    assert shelf.uuids() == [NPU["uuid"]]
    (shelf.path / "a.json").unlink()
    assert shelf.uuids() == []


def test_devices_stand_beside_the_cards(shelf: Shelf, place: nodes.Place) -> None:
    """Sick ones have a verdict, GPUs of other makers count as GPUs, and the schema accepts it all."""
    shelf.put(
        "a.json",
        NPU | {"health": "Unhealthy", "reason": "Overheated", "message": "too hot"},
        NPU | {"uuid": "acme-gpu", "type": "gpu", "minor": 8, "model": "Acme G1"},
    )
    looking = beside.Beside(place(presets.A10).start(), [shelf.folder.devices])

    sample = nodes.look(looking)
    spec = describe.spec(nodes.NODE, sample, None)
    assert len(device.DeviceSpec.model_validate_json(msgspec.json.encode(spec)).devices) == 10
    assert spec.summary == wire.SpecSummary("A10 x8, Acme-G1 x1", 9)
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    (verdict,) = nodes.status(sample, spec, now=now).devices
    assert (verdict.uuid, verdict.health, verdict.reason) == (
        NPU["uuid"],
        vocabulary.Health.UNHEALTHY,
        "Overheated",
    )


def test_lost_card_keeps_its_minor(shelf: Shelf, place: nodes.Place) -> None:
    """A device that claims the minor of a card that is lost for now is not listed over it."""
    rig = place(presets.A10)
    looking = beside.Beside(rig.start(), [shelf.folder.devices])
    before = describe.spec(nodes.NODE, nodes.look(looking), None)
    rig.machine.lose(0)
    shelf.put("a.json", NPU | {"type": "gpu", "minor": 0})

    assert describe.spec(nodes.NODE, nodes.look(looking), before) == before


def test_what_clashes_is_left_out(shelf: Shelf, place: nodes.Place, caplog: pytest.LogCaptureFixture) -> None:
    """A device whose uuid or minor is taken, or that finds no room, does not spoil the cards; it is told."""
    looking = beside.Beside(place(presets.A10).start(), [shelf.folder.devices])
    card = next(nodes.look(looking).read())
    shelf.put(
        "a.json",
        NPU | {"uuid": card.uuid},
        NPU | {"uuid": "same-minor", "type": "gpu", "minor": card.minor},
        *(NPU | {"uuid": f"npu-{number}", "minor": number} for number in range(60)),
    )

    sample = nodes.look(looking)
    assert [each.uuid for each in sample.devices] == [f"npu-{number}" for number in range(56)]
    nodes.look(looking)
    assert sum("left out" in message for message in caplog.messages) == 6
