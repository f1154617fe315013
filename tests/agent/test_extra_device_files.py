"""Further devices from files: listed beside the cards, and never able to spoil them."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from berth_agent import extra_device_files, probe, sysfs
from berth_crds import vocabulary, wire
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
        self.folder = extra_device_files.DeviceFolder(path, sysfs.Kernel(path / "sys", path / "proc"))

    def put(self, name: str, *entries: dict[str, Any]) -> None:
        """Write a file of devices."""
        (self.path / name).write_text(json.dumps({"devices": entries}))

    def uuids(self) -> list[str]:
        """Read which devices the files name."""
        return [each.entry.uuid for each in self.folder.devices()]


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """Lend an empty folder."""
    path = tmp_path / "devices"
    path.mkdir()
    return Shelf(path)


@pytest.fixture
def rig(place: nodes.Place) -> nodes.Mocked:
    """Lend a node with eight A10."""
    return place(presets.A10)


@pytest.fixture
def looking(rig: nodes.Mocked, shelf: Shelf) -> probe.Probe:
    """Lend a probe of its cards and of the devices in the folder."""
    return rig.start(shelf.folder.devices)


def test_files_name_devices(shelf: Shelf) -> None:
    """Devices come in the order of the files' names, with all that is said of them."""
    shelf.put("b.json", NPU | {"uuid": "npu-1", "minor": 1, "busID": "0000:5e:00.0"})
    shelf.put("a.json", NPU)
    shelf.put("notes.txt", NPU)

    first, second = shelf.folder.devices()
    assert first.entry == wire.Card(
        "npu-0000:5e:00.0", "npu", 0, "acme", "Acme N1", memory=1 << 35, labels={"fabric": "a"}
    )
    assert second.entry.topology == wire.Topology(None, None, "0000:5e:00.0")


def test_half_a_file_counts_as_it_was(tmp_path: Path) -> None:
    """What is being written does not make devices come and go; a file that is gone, or a folder, does."""
    shelf = Shelf(tmp_path / "later")
    found = [shelf.uuids()]
    shelf.path.mkdir()
    shelf.put("a.json", NPU)
    found.append(shelf.uuids())
    (shelf.path / "a.json").write_text((shelf.path / "a.json").read_text()[:40])
    found.append(shelf.uuids())
    (shelf.path / "a.json").unlink()

    assert [*found, shelf.uuids()] == [[], [NPU["uuid"]], [NPU["uuid"]], []]


def test_folder_that_cannot_be_read_counts_as_it_was(
    shelf: Shelf, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails for a moment takes neither devices nor labels away, which is told once each time."""
    labels = {"labels": [{"uuid": "GPU-a", "labels": {"rack": "r1"}}]}
    (shelf.path / "a.json").write_text(json.dumps({"devices": [NPU]} | labels))
    found = [shelf.uuids()]
    given = shelf.folder.labels()
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(os, "scandir", unreadable)
            found += [shelf.uuids(), shelf.uuids()]
        (shelf.path / "a.json").write_text('{"devices": [')
        found.append(shelf.uuids())

    assert found == [[NPU["uuid"]]] * 7
    assert shelf.folder.labels() == given != ()
    failure = f"the folder {shelf.path} cannot be read, and its files count as before: Input/output error"
    assert [words for words in caplog.messages if "the folder" in words] == [failure, failure]


def unreadable(_folder: Path) -> None:
    """Fail as a disk that cannot be read."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_devices_stand_beside_the_cards(shelf: Shelf, looking: probe.Probe) -> None:
    """Sick ones have a verdict, GPUs of other makers count as GPUs, and the schema accepts it all."""
    shelf.put(
        "a.json",
        NPU | {"health": "Unhealthy", "reason": "Overheated", "message": "too hot"},
        NPU | {"uuid": "acme-gpu", "type": "gpu", "minor": 8, "model": "Acme G1"},
    )
    spec = nodes.spec(looking)
    (verdict,) = nodes.status(nodes.look(looking), spec).devices

    assert (len(spec.devices), spec.summary) == (10, wire.SpecSummary("A10 x8, Acme-G1 x1", 9))
    assert (verdict.uuid, verdict.health, verdict.reason) == (NPU["uuid"], "Unhealthy", "Overheated")


def test_lost_card_keeps_its_minor(shelf: Shelf, looking: probe.Probe, rig: nodes.Mocked) -> None:
    """A device that claims the minor of a card that is lost for now is not listed over it."""
    before = nodes.spec(looking)
    rig.machine.lose(0)
    shelf.put("a.json", NPU | {"type": "gpu", "minor": 0})

    assert nodes.spec(looking, before) == before


def test_what_clashes_is_left_out(
    shelf: Shelf, looking: probe.Probe, caplog: pytest.LogCaptureFixture
) -> None:
    """A device whose uuid or minor is taken, or that finds no room, does not spoil the cards; it is told."""
    card = next(nodes.look(looking).answering_cards())
    shelf.put(
        "a.json",
        NPU | {"uuid": card.uuid},
        NPU | {"uuid": "same-minor", "type": "gpu", "minor": card.minor},
        *(NPU | {"uuid": f"npu-{number}", "minor": number} for number in range(60)),
    )

    assert [each.entry.uuid for each in nodes.look(looking).devices] == [
        f"npu-{number}" for number in range(56)
    ]
    nodes.look(looking)
    assert sum("left out" in message for message in caplog.messages) == 6


# ---------------------------------------------------------------- files that cannot be used


def test_words_of_a_file_are_one_line(shelf: Shelf) -> None:
    """What is written for people steers no terminal, whoever wrote the file."""
    words = {"model": "N\x1b[2J1", "labels": {"fab\nric": "a\u202eb"}, "message": "too\r\nhot\x07\u200b"}
    shelf.put("a.json", NPU | words | {"health": "Unhealthy"})

    (found,) = shelf.folder.devices()
    assert (found.entry.model, found.entry.labels) == (r"N\x1b[2J1", {"fab ric": r"a\u202eb"})
    assert found.health == probe.DeviceHealth(
        vocabulary.Health.UNHEALTHY, "ToldByFile", message=r"too hot\x07\u200b"
    )


def test_words_that_grow_by_their_escapes_still_fit(shelf: Shelf, looking: probe.Probe) -> None:
    """A text that is as long as may be, and none of which can be printed, is one that the server takes."""
    bad = "\u202e"
    words = {"model": bad * 128, "labels": {bad * 253: bad * 253}, "message": bad * 1024}
    shelf.put("a.json", NPU | words | {"health": "Unhealthy"})

    assert nodes.status(nodes.look(looking), nodes.spec(looking)).devices[0].message


def test_summary_fits_however_many_models_there_are(shelf: Shelf, looking: probe.Probe) -> None:
    """The columns of kubectl are short; the list of models is cut to what the server takes."""
    gpus = ({"uuid": f"g-{at}", "type": "gpu", "minor": 8 + at, "model": f"{at}" * 40} for at in range(30))
    shelf.put("a.json", *(NPU | one for one in gpus))

    summary = nodes.spec(looking).summary
    assert summary is not None
    assert (summary.models.partition(" ")[0], summary.gpus) == ("A10", 38)


def entry(changes: dict[str, Any]) -> Callable[[Path], object]:
    """Return a function that writes a file of one device with these changes."""
    text = json.dumps({"devices": [NPU | {"uuid": "npu-9"} | changes]})
    return lambda path: path.write_text(text)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        pytest.param(entry({"uuid": "no spaces"}), "uuid", id="uuid"),
        pytest.param(entry({"uuid": "npu-1\n"}), "uuid", id="uuid with a line end"),
        pytest.param(entry({"type": "npu\n"}), "type", id="type with a line end"),
        pytest.param(entry({"vendor": "acme\n"}), "vendor", id="vendor with a line end"),
        pytest.param(entry({"busID": "0000:5e:00.0\n"}), "busID", id="address with a line end"),
        pytest.param(entry({"reason": "Worn\n"}), "reason", id="reason with a line end"),
        pytest.param(entry({"type": "NPU"}), "type", id="type"),
        pytest.param(entry({"minor": -1}), "minor", id="minor"),
        pytest.param(entry({"minor": "0"}), "minor", id="minor as text"),
        pytest.param(entry({"memory": 0}), "memory", id="no memory"),
        pytest.param(entry({"type": "gpu", "memory": None}), "must have memory", id="GPU without memory"),
        pytest.param(entry({"busID": "5E:00.0"}), "busID", id="address"),
        pytest.param(entry({"health": "Poorly"}), "Poorly", id="health"),
        pytest.param(entry({"vendor": "Acme!"}), "vendor", id="vendor"),
        pytest.param(entry({"colour": "red"}), "colour", id="unknown field"),
        pytest.param(lambda path: path.symlink_to(path), "symbolic links", id="a link in a circle"),
        pytest.param(lambda path: path.mkdir(), "directory", id="a folder"),
        pytest.param(os.mkfifo, "no regular file", id="a pipe"),
        pytest.param(
            lambda path: path.write_bytes(b" " * (extra_device_files.MOST_BYTES + 1)), "larger", id="a giant"
        ),
        pytest.param(lambda path: path.write_bytes(b"[" * 100_000), "object", id="nested without end"),
        pytest.param(
            lambda path: path.write_bytes(b'{"devices": [{"uuid": "\xff"}]}'), "utf-8", id="no text"
        ),
    ],
)
def test_file_that_cannot_be_used_lists_nothing(
    shelf: Shelf, caplog: pytest.LogCaptureFixture, write: Callable[[Path], object], words: str
) -> None:
    """A bad value, or no file of a reasonable size, is one line of the log, and costs its own file only."""
    write(shelf.path / "a\n\x1b.json")
    shelf.put("b.json", NPU)

    assert shelf.uuids() == shelf.uuids() == [NPU["uuid"]]
    (message,) = caplog.messages
    assert words in message
    assert message.isprintable()


def test_folder_is_read_so_far(shelf: Shelf, caplog: pytest.LogCaptureFixture) -> None:
    """More files than there may be devices are not read, which is told once."""
    for number in range(extra_device_files.MOST_FILES + 2):
        shelf.put(f"{number:03}.json", NPU | {"uuid": f"npu-{number}", "minor": number})

    assert (
        shelf.uuids() == shelf.uuids() == [f"npu-{number}" for number in range(extra_device_files.MOST_FILES)]
    )
    (told,) = caplog.messages
    assert "more than 64 files: those after 063.json are not read" in told


# ---------------------------------------------------------------- one uuid, named twice


@pytest.mark.parametrize("second", [{"minor": 1, "model": "later"}, {}], ids=["another", "equal"])
def test_the_first_file_that_names_a_uuid_has_it(
    shelf: Shelf, looking: probe.Probe, caplog: pytest.LogCaptureFixture, second: dict[str, Any]
) -> None:
    """Of two files that name one uuid the first counts, by their names; one sentence tells of both."""
    shelf.put("b.json", NPU | second)
    shelf.put("a.json", NPU)

    for _ in range(2):
        (found,) = nodes.look(looking).devices
        assert found.entry.model == NPU["model"]
    assert caplog.messages == [
        f"the device {NPU['uuid']} of b.json is left out: a.json names this uuid already"
    ]


@pytest.mark.parametrize("minor", [0, 40], ids=["and its minor", "and another minor"])
def test_the_drivers_card_wins(
    shelf: Shelf, looking: probe.Probe, rig: nodes.Mocked, caplog: pytest.LogCaptureFixture, minor: int
) -> None:
    """A file that names the uuid of a card is refused, whether the card answers or is lost for now."""
    before = nodes.spec(looking)
    shelf.put("a.json", NPU | {"uuid": before.devices[0].uuid, "type": "gpu", "minor": minor})

    assert nodes.spec(looking, before) == before
    assert "of a.json is left out: the driver names this uuid already" in caplog.text
    rig.machine.lose(0)
    assert nodes.spec(looking, before) == before


def test_an_instance_of_the_driver_wins(
    shelf: Shelf, place: nodes.Place, caplog: pytest.LogCaptureFixture
) -> None:
    """The uuid of a MIG instance is taken, too: containers are given instances by it."""
    looking = place(presets.MIG).start(shelf.folder.devices)
    card = next(nodes.look(looking).answering_cards())
    assert card.mig is not None
    shelf.put("a.json", NPU | {"uuid": card.mig.instances[0].uuid})

    assert nodes.look(looking).devices == ()
    assert "the driver names this uuid already" in caplog.text


def test_reader_that_fails_keeps_nobody_from_the_cards(
    shelf: Shelf, place: nodes.Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours in reading what stands beside costs what is new of that, and is told once."""
    shelf.put("a.json", NPU)
    faults: list[Exception] = []

    def read() -> tuple[probe.ExtraDevice, ...]:
        if faults:
            raise faults[0]
        return shelf.folder.devices()

    looking = place(presets.A10).start(read)
    before = nodes.look(looking)
    faults.append(RuntimeError("Symlink loop"))

    assert nodes.look(looking).devices == nodes.look(looking).devices == before.devices
    assert sum("cannot be read" in message for message in caplog.messages) == 1
