"""What the kernel tells about devices, read from /sys and /proc; both paths can be set.

Everything here is optional: in a container without these files, or on a machine whose
firmware tells nothing, the answer is None, never zero. The kernel says -1 for a device
whose NUMA node it does not know, and to take that for 0 would put half a machine's cards
on the wrong socket.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from berth_agent import probe

LARGEST_NUMA_NODE: Final = 1023  # The schema takes no larger one, nor has any kernel.

_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class Kernel:
    """The two trees that the kernel tells in."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")

    def boot_id(self) -> str:
        """Tell one boot from another; empty where unknown."""
        return text(self.proc / "sys/kernel/random/boot_id") or ""

    def place(self, address: str) -> probe.Place:
        """Say where a PCI device sits."""
        return probe.Place(self.numa_node(address), self.pcie_root(address), address)

    def numa_node(self, address: str) -> int | None:
        """Give the NUMA node that a PCI device is attached to."""
        told = text(self.device(address) / "numa_node")
        return int(told) if told and told.isdecimal() and int(told) <= LARGEST_NUMA_NODE else None

    def pcie_root(self, address: str) -> str | None:
        """Give the PCIe root complex above a PCI device, such as `pci0000:3a`."""
        try:
            parts = self.device(address).resolve(strict=True).parts
        except OSError:
            return None
        # Under some virtual roots another root is nested; the nearest one is what is shared.
        return next((part for part in reversed(parts) if _ROOT.fullmatch(part)), None)

    def driven_by(self, driver: str) -> frozenset[str] | None:
        """Name the PCI devices that a driver has taken; None where the kernel does not say."""
        listing = self.sys / "bus/pci/drivers" / driver
        if not listing.is_dir():
            return None
        return frozenset(each.name for each in entries(listing) if is_address(each.name))

    def device(self, address: str) -> Path:
        """Give the folder of a PCI device."""
        return self.sys / "bus/pci/devices" / address


def is_address(name: str) -> bool:
    """Tell whether a name is that of a PCI device."""
    return _ADDRESS.fullmatch(name) is not None


def entries(folder: Path) -> tuple[Path, ...]:
    """List a folder; one that is not there is empty."""
    try:
        return tuple(folder.iterdir())
    except OSError:
        return ()


def target(link: Path) -> str:
    """Give the name of what a link leads to; empty where it leads nowhere."""
    try:
        return link.resolve(strict=True).name
    except OSError:
        return ""


def text(path: Path) -> str | None:
    """Read what one file says; None where it cannot be read."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
