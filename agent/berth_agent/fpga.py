"""FPGAs, as the kernel lists them on PCI: accelerators of the makers of FPGAs.

A device is identified by its PCI address. Whether a card of such a maker is an FPGA, only its class says:
they make network cards and bridges, too.
"""

from typing import Final

from berth_agent import probe, sysfs
from berth_crds import vocabulary, wire

CLASS: Final = "0x1200"  # Processing accelerators; two digits that follow say how they are programmed.
VENDORS: Final = {
    "0x10ee": "xilinx",
    "0x1172": "altera",
    "0x8086": "intel",
}


def devices(kernel: sysfs.Kernel) -> tuple[probe.ExtraDevice, ...]:
    """Return all FPGAs of the node, in the order of their addresses."""
    makers = ((address, _maker(kernel, address)) for address in kernel.pci_addresses())
    found = ((address, maker) for address, maker in makers if maker)
    return tuple(_device(kernel, address, minor, maker) for minor, (address, maker) in enumerate(found))


def _maker(kernel: sysfs.Kernel, address: str) -> str:
    """Return who made an FPGA; empty for what is none, or is a virtual function of one."""
    place = kernel.device(address)
    if not (sysfs.text(place / "class") or "").startswith(CLASS) or kernel.is_virtual(address):
        return ""
    return VENDORS.get(sysfs.text(place / "vendor") or "", "")


def _device(kernel: sysfs.Kernel, address: str, minor: int, maker: str) -> probe.ExtraDevice:
    vfs = kernel.virtual_functions(address)
    number = (sysfs.text(kernel.device(address) / "device") or "").removeprefix("0x")
    return probe.ExtraDevice(
        wire.Card(
            uuid=f"fpga-{address}",
            type=vocabulary.DeviceType.FPGA,
            minor=minor,
            vendor=maker,
            model=probe.model_name(f"{maker} {number}".strip()),
            topology=kernel.location(address),
            vf_groups=(wire.VfGroup(vfs=vfs),) if vfs else (),
        ),
        health=None,
        origin="the kernel",
    )
