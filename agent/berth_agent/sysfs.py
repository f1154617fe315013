"""What the kernel knows about devices, read from /sys and /proc; both paths can be set.

Everything here is optional: in a container without these files, or with firmware that reports
nothing, the answer is None, never zero. The kernel says -1 for a device whose NUMA node it does
not know, and reading that as 0 would put half of a machine's cards on the wrong socket.

The trees are what somebody mounted, and all kinds of drivers write in them. Links in circles,
files that may not be read or do not end, and names with line breaks count as unknown: they
never make a sample fail.
"""

import itertools
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from berth_crds import schema_limits, wire
from berth_crds import text as texts

_VF: Final = re.compile(r"virtfn(0|[1-9][0-9]{0,4})")
LONGEST_TEXT: Final = 4096  # The kernel writes no more than a page.
MOST_ENTRIES: Final = 1 << 14  # Of one folder.


@dataclass(frozen=True, slots=True)
class Kernel:
    """The two trees of files that the kernel serves."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")

    def boot_id(self) -> str:
        """Return the id of the current boot; empty where unknown."""
        return (text(self.proc / "sys/kernel/random/boot_id") or "")[: schema_limits.LONGEST_BOOT_ID]

    def location(self, address: str) -> wire.Topology:
        """Return the location of a PCI device."""
        return wire.Topology(self.numa_node(address), self.pcie_root(address), address)

    def numa_node(self, address: str) -> int | None:
        """Return the NUMA node that a PCI device is attached to."""
        number = text(self.device(address) / "numa_node")
        return (
            int(number)
            if number and number.isdecimal() and int(number) <= schema_limits.LARGEST_NUMA_NODE
            else None
        )

    def pcie_root(self, address: str) -> str | None:
        """Return the PCIe root complex above a PCI device, such as `pci0000:3a`."""
        place = _resolved(self.device(address))
        parts = place.parts if place else ()
        # Under some virtual roots another root is nested; the nearest one is what is shared.
        return next((part for part in reversed(parts) if schema_limits.PCIE_ROOT.matches(part)), None)

    def driven_by(self, driver: str) -> frozenset[str] | None:
        """Return the addresses of the PCI devices of a driver; None where the kernel does not say."""
        if (listed := _listed(self.sys / "bus/pci/drivers" / driver)) is None:
            return None
        return frozenset(each.name for each in listed if schema_limits.BUS_ID.matches(each.name))

    def driver(self, address: str) -> str:
        """Return the name of the driver that has a PCI device; empty where none has it."""
        return target(self.device(address) / "driver")

    def device(self, address: str) -> Path:
        """Return the folder of a PCI device."""
        return self.sys / "bus/pci/devices" / address

    def pci_addresses(self) -> tuple[str, ...]:
        """Return the addresses of all PCI devices, in their order."""
        listed = (each.name for each in entries(self.sys / "bus/pci/devices"))
        return tuple(sorted(name for name in listed if schema_limits.BUS_ID.matches(name)))

    def is_virtual(self, address: str) -> bool:
        """Whether a PCI device is a virtual function of another."""
        return exists(self.device(address) / "physfn")

    def virtual_functions(self, address: str) -> tuple[wire.Vf, ...]:
        """Return the virtual functions of a PCI device, in the order of their numbers."""
        numbered = ((_VF.fullmatch(entry.name), entry) for entry in entries(self.device(address)))
        found = sorted((int(match.group(1)), target(entry)) for match, entry in numbered if match)
        return tuple(
            wire.Vf(number, place)
            for number, place in found[: schema_limits.MOST_VFS]
            if schema_limits.BUS_ID.matches(place)
        )


def entries(folder: Path) -> tuple[Path, ...]:
    """Return the entries of a folder; none for one that cannot be read."""
    return _listed(folder) or ()


def listing(folder: Path) -> tuple[Path, ...]:
    """Return the entries of a folder, or raise OSError; a folder without an end is read so far."""
    with os.scandir(folder) as found:
        return tuple(folder / each.name for each in itertools.islice(found, MOST_ENTRIES))


def exists(path: Path) -> bool:
    """Whether a path leads to something."""
    return _resolved(path) is not None


def target(link: Path) -> str:
    """Return the name of what a link leads to; empty where it leads nowhere."""
    place = _resolved(link)
    return place.name if place else ""


def text(path: Path) -> str | None:
    """Return the content of one file as one line; None where it cannot be read."""
    try:
        return texts.line(contents(path, most=LONGEST_TEXT).decode("ascii").strip(), most=LONGEST_TEXT)
    except (OSError, UnicodeDecodeError):
        return None


def contents(path: Path, *, most: int) -> bytes:
    """Return the content of a regular file, or raise OSError; never read more bytes, or wait for a pipe."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is no regular file")
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(f"it is larger than {most} bytes")
    return found


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _listed(folder: Path) -> tuple[Path, ...] | None:
    """Return the entries of a folder; None for one that cannot be read."""
    try:
        return listing(folder)
    except OSError:
        return None


def _resolved(path: Path) -> Path | None:
    """Return a path without links; None for a broken one, or a circle (two kinds of exceptions)."""
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
