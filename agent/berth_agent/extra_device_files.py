"""Extra devices from JSON files, which tools of other makers put into a folder.

A file lists devices with the fields of the Device:

    {"devices": [{"uuid": "npu-0000:5e:00.0", "type": "npu", "minor": 0, "vendor": "acme",
                  "model": "Acme N1", "memory": 34359738368, "busID": "0000:5e:00.0",
                  "labels": {"fabric": "a"}, "health": "Unhealthy", "reason": "Overheated"}]}

Where a `busID` is given, the kernel says NUMA node and PCIe root. Files are read for every
sample, so health may change. A file that cannot be used counts as it was last read: it may be
half written, and its devices must not come and go. One that was never readable lists nothing,
and the log says why, once. Everything is checked here, because the server refuses a whole Device
for one bad value. Which of two devices with one uuid is listed, `extra_devices` decides.
"""

import logging
from pathlib import Path
from typing import Annotated, Final

import msgspec

from berth_agent import probe, sysfs
from berth_crds import schema_limits, text, vocabulary, wire

log = logging.getLogger(__name__)

MOST_FILES: Final = 64  # Each lists one device at least.
MOST_BYTES: Final = 1 << 20

Text = Annotated[str, msgspec.Meta(max_length=schema_limits.LONGEST_LABEL)]


def _formatted(text_format: schema_limits.TextFormat, *, optional: bool = False) -> msgspec.Meta:
    """Return the constraint that a text has a format, or is empty where that is optional."""
    pattern = f"({text_format.pattern})?" if optional else text_format.pattern
    return msgspec.Meta(max_length=text_format.longest, pattern=f"^{pattern}\\Z")


class DeviceEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One device of a file, within what the schema takes."""

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


class DeviceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file."""

    devices: Annotated[tuple[DeviceEntry, ...], msgspec.Meta(max_length=schema_limits.MOST_DEVICES)]


_decoder: Final = msgspec.json.Decoder(DeviceFile)


class DeviceFolder:
    """The folder of one node, and the last usable content of its files."""

    def __init__(self, path: Path, kernel: sysfs.Kernel) -> None:
        self._path = path
        self._kernel = kernel
        self._last: dict[Path, DeviceFile] = {}
        self._warnings: dict[Path, str] = {}

    def devices(self) -> tuple[probe.ExtraDevice, ...]:
        """Return the devices of all files, in the order of their names."""
        paths = sorted(each for each in sysfs.entries(self._path) if each.suffix == ".json")
        if len(paths) > MOST_FILES:
            last = paths[MOST_FILES - 1].name
            self._warn(
                self._path, f"{self._path} has more than {MOST_FILES} files: those after {last} are not read"
            )
            paths = paths[:MOST_FILES]
        found = {path: file for path in paths if (file := self._read(path))}
        self._last = found
        self._warnings = {
            path: words for path, words in self._warnings.items() if path in {self._path, *paths}
        }
        return tuple(
            _device(entry, path.name, self._kernel) for path, file in found.items() for entry in file.devices
        )

    def _read(self, path: Path) -> DeviceFile | None:
        try:
            file = _decoder.decode(sysfs.contents(path, most=MOST_BYTES))
            _check(file)
        except (OSError, ValueError) as error:
            self._warn(path, f"the file {path} cannot be used: {text.cause(error)}")
            return self._last.get(path)
        self._warnings.pop(path, None)
        return file

    def _warn(self, path: Path, words: str) -> None:
        if self._warnings.get(path) != words:
            log.warning("%s", text.line(words))
        self._warnings[path] = words


def _check(file: DeviceFile) -> None:
    for entry in file.devices:
        if entry.type == vocabulary.DeviceType.GPU and entry.memory is None:
            raise ValueError(f"{entry.uuid} is of type gpu and must have memory")


def _device(entry: DeviceEntry, file: str, kernel: sysfs.Kernel) -> probe.ExtraDevice:
    healthy = entry.health is vocabulary.Health.HEALTHY
    message = text.line(entry.message, most=schema_limits.LONGEST_MESSAGE)
    return probe.ExtraDevice(
        wire.Card(
            uuid=entry.uuid,
            type=entry.type,
            minor=entry.minor,
            vendor=entry.vendor,
            model=probe.model_name(entry.model),
            memory=entry.memory,
            topology=kernel.location(entry.bus_id) if entry.bus_id else None,
            labels=dict(sorted(_labels(entry).items())),
        ),
        health=probe.DeviceHealth()
        if healthy
        else probe.DeviceHealth(entry.health, entry.reason, message=message),
        origin=file,
    )


def _labels(entry: DeviceEntry) -> dict[str, str]:
    return {
        text.line(key, most=schema_limits.LONGEST_LABEL): text.line(value, most=schema_limits.LONGEST_LABEL)
        for key, value in entry.labels.items()
    }
