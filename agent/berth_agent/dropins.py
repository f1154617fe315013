"""Other accelerators, from JSON files that their makers' tools drop into a folder.

A file names devices in the words of the Device:

    {"devices": [{"uuid": "npu-0000:5e:00.0", "type": "npu", "minor": 0, "vendor": "acme",
                  "model": "Acme N1", "memory": 34359738368, "busID": "0000:5e:00.0",
                  "labels": {"fabric": "a"}, "health": "Unhealthy", "reason": "Overheated"}]}

Where a `busID` is given, the kernel is asked for NUMA node and PCIe root. Files are read at
every look, so that health may change. One that cannot be used counts as it was last: it may
be half written, and a device that comes and goes with that would take its pods along. What
was never readable lists nothing, and the log says why, once. Everything is checked here,
because the server refuses a whole Device for one bad value, and what is written for people
is made a line. Which of two devices of one uuid is listed is for `beside` to say.
"""

import logging
from pathlib import Path
from typing import Annotated, Final

import msgspec

from berth_agent import probe, sysfs
from berth_crds import schema_limits, text, vocabulary

log = logging.getLogger(__name__)

MOST_FILES: Final = 64  # Of which each names a device at least.
MOST_BYTES: Final = 1 << 20

Text = Annotated[str, msgspec.Meta(max_length=schema_limits.LONGEST_LABEL)]


def _formatted(text_format: schema_limits.TextFormat, *, optional: bool = False) -> msgspec.Meta:
    """Return the constraint that a text has a format, or is empty where that is optional."""
    pattern = f"({text_format.pattern})?" if optional else text_format.pattern
    return msgspec.Meta(max_length=text_format.longest, pattern=f"^{pattern}\\Z")


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One device as a file names it, within what the schema takes."""

    uuid: Annotated[str, _formatted(schema_limits.UUID)]
    type: Annotated[str, _formatted(schema_limits.DNS_LABEL)]
    minor: Annotated[int, msgspec.Meta(ge=0, le=schema_limits.LARGEST_MINOR)]
    vendor: Annotated[str, _formatted(schema_limits.VENDOR, optional=True)] = ""
    model: Annotated[str, msgspec.Meta(max_length=schema_limits.LONGEST_MODEL)] = ""
    memory: Annotated[int, msgspec.Meta(ge=1, le=schema_limits.LARGEST_MEMORY)] | None = None
    bus_id: Annotated[str, _formatted(schema_limits.BUS_ID)] | None = msgspec.field(
        default=None, name="busID"
    )
    labels: Annotated[dict[Text, Text], msgspec.Meta(max_length=16)] = {}
    health: vocabulary.Health = vocabulary.Health.HEALTHY
    reason: Annotated[
        str, msgspec.Meta(max_length=schema_limits.REASON.longest, pattern="^[A-Za-z][A-Za-z0-9]*\\Z")
    ] = "ToldByFile"
    message: Annotated[str, msgspec.Meta(max_length=schema_limits.LONGEST_MESSAGE)] = ""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file."""

    devices: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=schema_limits.MOST_DEVICES)]


_decoder: Final = msgspec.json.Decoder(File)


class Folder:
    """The folder of one node, and what its files last said."""

    def __init__(self, path: Path, kernel: sysfs.Kernel) -> None:
        self._path = path
        self._kernel = kernel
        self._last: dict[Path, File] = {}
        self._complaints: dict[Path, str] = {}

    def devices(self) -> tuple[probe.Device, ...]:
        """Read what the files say now, in the order of their names."""
        paths = sorted(each for each in sysfs.entries(self._path) if each.suffix == ".json")
        if len(paths) > MOST_FILES:
            last = paths[MOST_FILES - 1].name
            self._complain(
                self._path, f"{self._path} has more than {MOST_FILES} files: those after {last} are not read"
            )
            paths = paths[:MOST_FILES]
        found = {path: file for path in paths if (file := self._read(path))}
        self._last = found
        self._complaints = {
            path: words for path, words in self._complaints.items() if path in {self._path, *paths}
        }
        return tuple(
            _device(entry, path.name, self._kernel) for path, file in found.items() for entry in file.devices
        )

    def _read(self, path: Path) -> File | None:
        try:
            file = _decoder.decode(sysfs.contents(path, most=MOST_BYTES))
            _check(file)
        except (OSError, ValueError) as error:
            self._complain(path, f"the file {path} cannot be used: {text.cause(error)}")
            return self._last.get(path)
        self._complaints.pop(path, None)
        return file

    def _complain(self, path: Path, words: str) -> None:
        if self._complaints.get(path) != words:
            log.warning("%s", text.line(words))
        self._complaints[path] = words


def _check(file: File) -> None:
    for entry in file.devices:
        if entry.type == vocabulary.DeviceType.GPU and entry.memory is None:
            raise ValueError(f"{entry.uuid} is of type gpu and must have memory")


def _device(entry: Entry, file: str, kernel: sysfs.Kernel) -> probe.Device:
    well = entry.health is vocabulary.Health.HEALTHY
    message = text.line(entry.message, most=schema_limits.LONGEST_MESSAGE)
    return probe.Device(
        uuid=entry.uuid,
        type=entry.type,
        minor=entry.minor,
        vendor=entry.vendor,
        model=probe.model(entry.model),
        memory=entry.memory,
        place=kernel.place(entry.bus_id) if entry.bus_id else probe.Place(),
        labels=tuple(sorted(_labels(entry).items())),
        health=probe.Health() if well else probe.Health(entry.health, entry.reason, message=message),
        origin=file,
    )


def _labels(entry: Entry) -> dict[str, str]:
    return {
        text.line(key, most=schema_limits.LONGEST_LABEL): text.line(value, most=schema_limits.LONGEST_LABEL)
        for key, value in entry.labels.items()
    }
