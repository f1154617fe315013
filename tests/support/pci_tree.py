"""A /sys of PCI devices, made as the kernel makes it."""

import os
from pathlib import Path

from berth_agent import sysfs


class PciTree:
    """A /sys to which PCI devices are added."""

    def __init__(self, root: Path) -> None:
        self.kernel = sysfs.Kernel(root / "sys", root / "proc")

    def function(self, address: str, root: str, **files: str) -> Path:
        """Add one function of a device, with files of one line each; return its folder."""
        place = self.kernel.sys / "devices" / root / "0000:3a:01.0" / address
        place.mkdir(parents=True)
        link(self.kernel.sys / "bus/pci/devices" / address, place)
        for file, text in files.items():
            (place / file).write_text(f"{text}\n")
        return place

    def drive(self, address: str, driver: str) -> None:
        """Have a driver of the kernel have a function."""
        folder = self.kernel.sys / "bus/pci/drivers" / driver
        folder.mkdir(parents=True, exist_ok=True)
        link(self.kernel.device(address).resolve() / "driver", folder)


def link_virtual(number: int, function: Path, of: Path) -> None:
    """Make a function a virtual one of another."""
    link(function / "physfn", of)
    link(of / f"virtfn{number}", function)


def link(path: Path, target: Path) -> None:
    """Make a link as the kernel does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.relpath(target, path.parent))
