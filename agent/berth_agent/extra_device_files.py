"""Extra devices from JSON files, which tools of other makers put into a folder.

A file lists devices with the fields of the Device:

    {"devices": [{"uuid": "npu-0000:5e:00.0", "type": "npu", "minor": 0, "vendor": "acme",
                  "model": "Acme N1", "memory": 34359738368, "busID": "0000:5e:00.0",
                  "labels": {"fabric": "a"}, "health": "Unhealthy", "reason": "Overheated"}]}

A file may also give labels to devices that the driver, the kernel or a package finds (`labels`); which
they go to, `given_labels` decides.

Where a `busID` is given, the kernel says NUMA node and PCIe root. Files are read for every
sample, so health may change. A file that cannot be used counts as it was last read: it may be
half written, and its devices must not come and go. So does a folder that cannot be read; one that
is not there is empty. What was never readable lists nothing, and the log says why, once. Everything
is checked here, because the server refuses a whole Device for one bad value. Which of two devices
with one uuid is listed, `extra_devices` decides.
"""

import logging
from pathlib import Path
from typing import Final

from berth_agent import device_entries, probe, sysfs
from berth_crds import schema_limits, text, vocabulary, wire

log = logging.getLogger(__name__)

MOST_FILES: Final = 64  # Each lists one device at least.
MOST_BYTES: Final = 1 << 20


class DeviceFolder:
    """The folder of one node, and the last usable content of its files."""

    def __init__(self, path: Path, kernel: sysfs.Kernel) -> None:
        self._path = path
        self._kernel = kernel
        self._last: dict[Path, device_entries.DeviceFile] = {}
        self._warnings: dict[Path, str] = {}

    def devices(self) -> tuple[probe.ExtraDevice, ...]:
        """Return the devices of all files, in the order of their names."""
        self._last = self._files()
        return tuple(
            _device(entry, path.name, self._kernel)
            for path, file in self._last.items()
            for entry in file.devices
        )

    def _files(self) -> dict[Path, device_entries.DeviceFile]:
        """Return the usable files in the order of their names; while the folder cannot be read, as before."""
        try:
            paths = _paths(self._path)
        except OSError as error:
            cause = text.cause(error)
            self._warn(
                self._path, f"the folder {self._path} cannot be read, and its files count as before: {cause}"
            )
            return self._last
        if len(paths) > MOST_FILES:
            last = paths[MOST_FILES - 1].name
            self._warn(
                self._path, f"{self._path} has more than {MOST_FILES} files: those after {last} are not read"
            )
        else:
            self._warnings.pop(self._path, None)
        paths = paths[:MOST_FILES]
        found = {path: file for path in paths if (file := self._read(path))}
        self._warnings = {
            path: words for path, words in self._warnings.items() if path in {self._path, *paths}
        }
        return found

    def labels(self) -> tuple[device_entries.LabelEntry, ...]:
        """Return the labels that the files give, in the order of their names, as `devices` read them last."""
        return tuple(entry for file in self._last.values() for entry in file.labels)

    def _read(self, path: Path) -> device_entries.DeviceFile | None:
        try:
            file = device_entries.decode(sysfs.contents(path, most=MOST_BYTES))
        except (OSError, ValueError) as error:
            self._warn(path, f"the file {path} cannot be used: {text.cause(error)}")
            return self._last.get(path)
        self._warnings.pop(path, None)
        return file

    def _warn(self, path: Path, words: str) -> None:
        if self._warnings.get(path) != words:
            log.warning("%s", text.line(words))
        self._warnings[path] = words


def _paths(folder: Path) -> list[Path]:
    """Return the paths of the files in a folder, none where it is not there, or raise OSError."""
    try:
        return sorted(each for each in sysfs.listing(folder) if each.suffix == ".json")
    except FileNotFoundError:
        return []


def _device(entry: device_entries.DeviceEntry, file: str, kernel: sysfs.Kernel) -> probe.ExtraDevice:
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


def _labels(entry: device_entries.DeviceEntry) -> dict[str, str]:
    return {
        text.line(key, most=schema_limits.LONGEST_LABEL): text.line(value, most=schema_limits.LONGEST_LABEL)
        for key, value in entry.labels.items()
    }
