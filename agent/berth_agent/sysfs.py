"""What the kernel tells about devices, read from /sys and /proc; both paths can be set.

Everything here is optional: in a container without these files, or on a machine whose
firmware tells nothing, the answer is None, never zero. The kernel says -1 for a device
whose NUMA node it does not know, and to take that for 0 would put half a machine's cards
on the wrong socket.

The trees are what somebody mounted, and drivers of any make write in them. Links that lead
in circles, files that nobody may read or that do not end, and names with line breaks are
unknown as well: they cost what they stand for, and never a look.
"""

import itertools
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from berth_agent import probe
from berth_crds import schema_limits
from berth_crds import text as texts

LONGEST_TEXT: Final = 4096  # The kernel writes no more than a page.
MOST_ENTRIES: Final = 1 << 14  # Of one folder.


@dataclass(frozen=True, slots=True)
class Kernel:
    """The two trees that the kernel tells in."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")

    def boot_id(self) -> str:
        """Return what tells one boot from another; empty where unknown."""
        return (text(self.proc / "sys/kernel/random/boot_id") or "")[: schema_limits.LONGEST_BOOT_ID]

    def place(self, address: str) -> probe.Place:
        """Return where a PCI device sits."""
        return probe.Place(self.numa_node(address), self.pcie_root(address), address)

    def numa_node(self, address: str) -> int | None:
        """Return the NUMA node that a PCI device is attached to."""
        told = text(self.device(address) / "numa_node")
        return (
            int(told) if told and told.isdecimal() and int(told) <= schema_limits.LARGEST_NUMA_NODE else None
        )

    def pcie_root(self, address: str) -> str | None:
        """Return the PCIe root complex above a PCI device, such as `pci0000:3a`."""
        place = _resolved(self.device(address))
        parts = place.parts if place else ()
        # Under some virtual roots another root is nested; the nearest one is what is shared.
        return next((part for part in reversed(parts) if schema_limits.PCIE_ROOT.matches(part)), None)

    def driven_by(self, driver: str) -> frozenset[str] | None:
        """Name the PCI devices that a driver has taken; None where the kernel does not say."""
        listing = self.sys / "bus/pci/drivers" / driver
        if not _is_readable(listing):
            return None
        return frozenset(each.name for each in entries(listing) if is_address(each.name))

    def device(self, address: str) -> Path:
        """Return the folder of a PCI device."""
        return self.sys / "bus/pci/devices" / address


def is_address(name: str) -> bool:
    """Return whether a name is that of a PCI device."""
    return schema_limits.BUS_ID.matches(name)


def entries(folder: Path) -> tuple[Path, ...]:
    """List a folder; one that is not there is empty."""
    try:
        with os.scandir(folder) as found:
            return tuple(folder / each.name for each in itertools.islice(found, MOST_ENTRIES))
    except OSError:
        return ()


def exists(path: Path) -> bool:
    """Whether there is something that can be looked at."""
    return _resolved(path) is not None


def target(link: Path) -> str:
    """Return the name of what a link leads to; empty where it leads nowhere."""
    place = _resolved(link)
    return place.name if place else ""


def text(path: Path) -> str | None:
    """Read what one file says, as one line; None where it cannot be read."""
    try:
        return texts.line(contents(path, most=LONGEST_TEXT).decode("ascii").strip(), most=LONGEST_TEXT)
    except (OSError, UnicodeDecodeError):
        return None


def contents(path: Path, *, most: int) -> bytes:
    """Read a regular file, or raise OSError; one of more bytes is not read, and nobody waits for a pipe."""
    with open(path, "rb", opener=_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no regular file")
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(f"it is larger than {most} bytes")
    return found


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _is_readable(folder: Path) -> bool:
    try:
        with os.scandir(folder):
            return True
    except OSError:
        return False


def _resolved(path: Path) -> Path | None:
    """Follow all links; None where that leads nowhere, or in a circle, of which Python tells in two ways."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
