"""FPGAs, as the kernel lists them on PCI: accelerators of the makers of FPGAs.

A device is identified by its PCI address. Whether a card of such a maker is an FPGA, only its class says:
they make network cards and bridges, too.
"""

from collections.abc import Sequence
from typing import Final

from berth_agent import found_devices, probe, sysfs
from berth_crds import device_sources, device_types

CLASS: Final = "0x1200"  # Processing accelerators; two digits that follow say how they are programmed.
VENDORS: Final = {
    "0x10ee": "xilinx",
    "0x1172": "altera",
    "0x8086": "intel",
}


def devices(kernel: sysfs.Kernel) -> tuple[probe.ExtraDevice, ...]:
    """Return all FPGAs of the node, in the order of their addresses, as they are listed."""
    found = Fpgas(kernel).discover()
    return tuple(
        found_devices.extra_device(device_types.FPGA.name, each, kernel, origin="the kernel")
        for each in found
    )


class Fpgas:
    """The FPGAs of a node."""

    def __init__(self, kernel: sysfs.Kernel) -> None:
        self._kernel = kernel

    def discover(self) -> tuple[device_sources.FoundDevice, ...]:
        """Return all of them, in the order of their addresses."""
        kernel = self._kernel
        makers = ((address, _maker(kernel, address)) for address in kernel.pci_addresses())
        found = ((address, maker) for address, maker in makers if maker)
        return tuple(_device(kernel, address, minor, maker) for minor, (address, maker) in enumerate(found))

    def deliver(self, devices: Sequence[device_sources.GivenDevice]) -> device_sources.Opening:
        """Return nothing: which device nodes an FPGA has, its maker's driver alone knows."""
        del devices
        return device_sources.Opening()


def _maker(kernel: sysfs.Kernel, address: str) -> str:
    """Return who made an FPGA; empty for what is none, or is a virtual function of one."""
    place = kernel.device(address)
    if not (sysfs.text(place / "class") or "").startswith(CLASS) or kernel.is_virtual(address):
        return ""
    return VENDORS.get(sysfs.text(place / "vendor") or "", "")


def _device(kernel: sysfs.Kernel, address: str, minor: int, maker: str) -> device_sources.FoundDevice:
    number = (sysfs.text(kernel.device(address) / "device") or "").removeprefix("0x")
    return device_sources.FoundDevice(
        id=address,
        minor=minor,
        vendor=maker,
        model=f"{maker} {number}".strip(),
        bus_id=address,
        labels=found_devices.of_driver(kernel, address),
        functions=found_devices.functions(kernel, address),
    )
