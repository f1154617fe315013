"""The device nodes of NVIDIA's driver: which there are, and which open a card or a MIG instance.

The kernel names no path for a device, so its numbers are read from the node that udev or the driver's own tools
made. What opens a MIG instance is listed by the driver below /proc.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from berth_agent import sysfs
from berth_agent.delivery.containers import DeviceNode, Undeliverable
from berth_crds import wire

DEV: Final = Path("/dev")
# Of the driver itself; the first is in every installation.
DRIVER: Final = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
CAPABILITY: Final = re.compile(r"^DeviceFileMinor: (\d+)$", re.MULTILINE)
LONGEST: Final = 1 << 12  # Of three lines.


class HostDeviceNodes:
    """The device nodes below one folder; where they are `optional`, as for simulated cards, some may lack."""

    def __init__(self, dev: Path, procfs: Path, *, optional: bool = False) -> None:
        self._dev = dev
        self._procfs = procfs
        self._optional = optional

    def of_driver(self) -> Iterator[DeviceNode]:
        """Return those of the driver that are there."""
        for name in DRIVER:
            if (found := self._find(name)) is not None:
                yield found

    def of_card(self, minor: int) -> DeviceNode:
        """Return that of a card."""
        return self._get(f"nvidia{minor}")

    def of_instance(self, minor: int, instance: wire.MigInstance) -> Iterable[DeviceNode]:
        """Return those that open a MIG instance: of the part of the card, and of the part of its compute."""
        folder = self._procfs / "driver" / "nvidia" / "capabilities" / f"gpu{minor}" / "mig"
        part = folder / f"gi{instance.gi}"
        for access in (part / "access", part / f"ci{instance.ci}" / "access"):
            yield self._get(f"nvidia-caps/nvidia-cap{_capability(access)}")

    def _get(self, name: str) -> DeviceNode:
        if (found := self._find(name)) is None:
            raise Undeliverable(f"{self._dev / name} is not there")
        return found

    def _find(self, name: str) -> DeviceNode | None:
        try:
            found = (self._dev / name).stat()
        except OSError:
            return None
        if not stat.S_ISCHR(found.st_mode):
            return None
        return DeviceNode(
            f"{DEV / name}", os.major(found.st_rdev), os.minor(found.st_rdev), stat.S_IMODE(found.st_mode)
        )


def _capability(access: Path) -> str:
    try:
        found = CAPABILITY.search(sysfs.contents(access, most=LONGEST).decode(errors="replace"))
    except OSError as error:
        raise Undeliverable(f"{access} cannot be read: {error.strerror}") from error
    if found is None:
        raise Undeliverable(f"{access} names no device")
    return found.group(1)
