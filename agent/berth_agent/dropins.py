"""Other accelerators, from JSON files that their makers' tools drop into a folder.

A file names devices in the words of the Device:

    {"devices": [{"uuid": "npu-0000:5e:00.0", "type": "npu", "minor": 0, "vendor": "acme",
                  "model": "Acme N1", "memory": 34359738368, "busID": "0000:5e:00.0",
                  "labels": {"fabric": "a"}, "health": "Unhealthy", "reason": "Overheated"}]}

Where a `busID` is given, the kernel is asked for NUMA node and PCIe root. Files are read at
every look, so that health may change. One that cannot be used counts as it was last: it may
be half written, and a device that comes and goes with that would take its pods along. What
was never readable lists nothing, and the log says why, once. Everything is checked here,
because the server refuses a whole Device for one bad value.
"""

import logging
from pathlib import Path
from typing import Annotated, Final

import msgspec

from berth_agent import probe, sysfs
from berth_crds import vocabulary

log = logging.getLogger(__name__)

MOST_DEVICES: Final = 64  # The schema takes no more.
MOST_BYTES: Final = 1 << 20

Text = Annotated[str, msgspec.Meta(max_length=253)]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One device as a file names it, within what the schema takes."""

    uuid: Annotated[str, msgspec.Meta(max_length=64, pattern="^[A-Za-z0-9][A-Za-z0-9._:/-]*\\Z")]
    type: Annotated[str, msgspec.Meta(max_length=63, pattern="^[a-z0-9]([a-z0-9-]*[a-z0-9])?\\Z")]
    minor: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    vendor: Annotated[str, msgspec.Meta(max_length=63, pattern="^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?\\Z")] = ""
    model: Annotated[str, msgspec.Meta(max_length=128)] = ""
    memory: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    bus_id: (
        Annotated[
            str, msgspec.Meta(max_length=16, pattern="^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\\.[0-7]\\Z")
        ]
        | None
    ) = msgspec.field(default=None, name="busID")
    labels: Annotated[dict[Text, Text], msgspec.Meta(max_length=64)] = {}
    health: vocabulary.Health = vocabulary.Health.HEALTHY
    reason: Annotated[str, msgspec.Meta(max_length=128, pattern="^[A-Za-z][A-Za-z0-9]*\\Z")] = "ToldByFile"
    message: Annotated[str, msgspec.Meta(max_length=1024)] = ""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file."""

    devices: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=MOST_DEVICES)]


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
        found = {path: file for path in paths if (file := self._read(path))}
        self._last = found
        return tuple(_device(entry, self._kernel) for file in found.values() for entry in file.devices)

    def _read(self, path: Path) -> File | None:
        try:
            file = _decoder.decode(_contents(path))
            _check(file)
        except (OSError, ValueError) as error:
            self._complain(path, str(error))
            return self._last.get(path)
        self._complaints.pop(path, None)
        return file

    def _complain(self, path: Path, words: str) -> None:
        if self._complaints.get(path) != words:
            log.warning("the file %s cannot be used: %s", path, words)
        self._complaints[path] = words


def _contents(path: Path) -> bytes:
    """Read a file; a pipe, from which nothing may ever come, is none, and nor is a whole disk."""
    if not path.is_file():
        raise ValueError("it is no regular file")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES} bytes")
    return path.read_bytes()


def _check(file: File) -> None:
    for entry in file.devices:
        if entry.type == vocabulary.DeviceType.GPU and entry.memory is None:
            raise ValueError(f"{entry.uuid} is of type gpu and must have memory")


def _device(entry: Entry, kernel: sysfs.Kernel) -> probe.Device:
    well = entry.health is vocabulary.Health.HEALTHY
    return probe.Device(
        uuid=entry.uuid,
        type=entry.type,
        minor=entry.minor,
        vendor=entry.vendor,
        model=entry.model,
        memory=entry.memory,
        place=kernel.place(entry.bus_id) if entry.bus_id else probe.Place(),
        labels=tuple(sorted(entry.labels.items())),
        health=probe.Health() if well else probe.Health(entry.health, entry.reason, message=entry.message),
    )
