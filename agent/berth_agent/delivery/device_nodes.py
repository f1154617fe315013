"""The device nodes of NVIDIA's driver: which there are, and which open a card or a MIG instance.

The kernel names no path for a device, so its numbers are read from the node that udev or the driver's own
tools made. What opens a MIG instance is listed by the driver below /proc.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from berth_agent import sysfs
from berth_agent.delivery.containers import DeviceNode, GivenCard, Undeliverable
from berth_crds import wire

DEV: Final = Path("/dev")
# Of the driver itself; the first is in every installation.
OF_DRIVER: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
CAPABILITY: Final = re.compile(r"^DeviceFileMinor: (\d+)$", re.MULTILINE)
LONGEST_ACCESS_FILE: Final = 1 << 12  # It has three lines.


class DeviceNodes:
    """The device nodes below one folder. Where they are `optional`, as for simulated cards, any may lack."""

    def __init__(self, dev: Path, procfs: Path, *, optional: bool = False) -> None:
        self._dev = dev
        self._procfs = procfs
        self._optional = optional

    def of_driver(self) -> Iterator[DeviceNode]:
        """Yield those of the driver that are there."""
        for name in OF_DRIVER:
            if (node := self._find(name)) is not None:
                yield node

    def of_card(self, given: GivenCard) -> Iterator[DeviceNode]:
        """Yield those that open a card, or a MIG instance and no other of its card."""
        minor = given.card.minor
        yield from self._required(f"nvidia{minor}")
        if given.instance:
            for access_file in self._access_files(minor, given.instance):
                yield from self._required(f"nvidia-caps/nvidia-cap{self._capability(access_file)}")

    def at(self, path: str) -> Iterator[DeviceNode]:
        """Yield the one at a path below /dev, as containers see it."""
        yield from self._required(f"{Path(path).relative_to(DEV)}")

    def _access_files(self, minor: int, instance: wire.MigInstance) -> tuple[Path, Path]:
        """Return the driver's files about the part of the card, and about the part of its compute."""
        folder = self._procfs / "driver" / "nvidia" / "capabilities" / f"gpu{minor}" / "mig"
        part = folder / f"gi{instance.gi}"
        return part / "access", part / f"ci{instance.ci}" / "access"

    def _capability(self, access_file: Path) -> str:
        try:
            content = sysfs.contents(access_file, most=LONGEST_ACCESS_FILE).decode(errors="replace")
        except OSError as error:
            if self._optional:
                return ""
            raise Undeliverable(f"{access_file} cannot be read: {error.strerror or error}") from error
        if (found := CAPABILITY.search(content)) is None:
            raise Undeliverable(f"{access_file} names no device")
        return found.group(1)

    def _required(self, name: str) -> Iterator[DeviceNode]:
        if (node := self._find(name)) is not None:
            yield node
        elif not self._optional:
            raise Undeliverable(f"there is no device node {self._dev / name}")

    def _find(self, name: str) -> DeviceNode | None:
        try:
            found = (self._dev / name).stat()
        except OSError:
            return None
        if not stat.S_ISCHR(found.st_mode):
            return None
        major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
        return DeviceNode(f"{DEV / name}", major, minor, stat.S_IMODE(found.st_mode))
