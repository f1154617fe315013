"""RDMA devices and their virtual functions, as the kernel lists them under /sys/class/infiniband.

A device is identified by its PCI address: names such as `mlx5_0` change with the order in which
drivers load. The kernel lists virtual functions as devices of their own; here they belong to their
physical function, which is the device that is shared, and keep the kernel's numbers.

A device without an active port reaches no peer: a pod that got it would wait for ever.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from berth_agent import probe, sysfs
from berth_crds import schema_limits, vocabulary, wire

MOST_PORTS: Final = 256  # More than any device has.

# PCI vendors of RDMA devices; those of others stay without a vendor.
VENDORS: Final = {
    "0x14e4": "broadcom",
    "0x15b3": "mellanox",
    "0x1d0f": "amazon",
    "0x8086": "intel",
}

ACTIVE: Final = "ACTIVE"

_VF: Final = re.compile(r"virtfn(0|[1-9][0-9]{0,4})")


def devices(kernel: sysfs.Kernel) -> tuple[probe.ExtraDevice, ...]:
    """Return all RDMA devices of the node, in the order of their addresses."""
    found = sorted(_physical(kernel).items())
    return tuple(_device(kernel, address, minor, name) for minor, (address, name) in enumerate(found))


def _physical(kernel: sysfs.Kernel) -> dict[str, str]:
    """Return by address the name of each device that is no virtual function."""
    listed = ((_address(entry), entry.name) for entry in sysfs.entries(kernel.sys / "class/infiniband"))
    # Two names of one function are one device; either will do.
    return {
        address: name
        for address, name in sorted(listed, reverse=True)
        if address and not sysfs.exists(kernel.device(address) / "physfn")
    }


def _address(entry: Path) -> str:
    """Return the PCI address of a device; empty for one that exists in software only."""
    name = sysfs.target(entry / "device")
    return name if schema_limits.BUS_ID.matches(name) else ""


def _device(kernel: sysfs.Kernel, address: str, minor: int, name: str) -> probe.ExtraDevice:
    place, own = kernel.device(address), kernel.sys / "class/infiniband" / name
    vfs = tuple(_virtual(place))
    return probe.ExtraDevice(
        wire.Card(
            uuid=f"rdma-{address}",
            type=vocabulary.DeviceType.RDMA,
            minor=minor,
            vendor=VENDORS.get(sysfs.text(place / "vendor") or "", ""),
            model=probe.model_name(sysfs.text(own / "hca_type") or ""),
            topology=kernel.location(address),
            vf_groups=(wire.VfGroup(vfs=vfs),) if vfs else (),
        ),
        health=None,
        problem=_problem(dict(_ports(own))),
        origin="the kernel",
    )


def _problem(ports: Mapping[str, str]) -> probe.DeviceHealth | None:
    """Return the problem that the states of the ports show; None where no states are known."""
    if not ports or ACTIVE in ports.values():
        return None
    states = ", ".join(f"port {number} is {state}" for number, state in ports.items())
    return probe.DeviceHealth(
        vocabulary.Health.UNHEALTHY, "PortDown", message=f"none of its ports is active: {states}"
    )


def _ports(own: Path) -> Iterator[tuple[str, str]]:
    """Yield the state of each port; the kernel writes it as `4: ACTIVE`."""
    for port in sorted(sysfs.entries(own / "ports"), key=lambda each: each.name)[:MOST_PORTS]:
        if state := (sysfs.text(port / "state") or "").partition(":")[2].strip():
            yield port.name, state


def _virtual(place: Path) -> Iterator[wire.Vf]:
    """Return the virtual functions of a device, in the order of their numbers."""
    numbered = ((_VF.fullmatch(entry.name), entry) for entry in sysfs.entries(place))
    found = sorted((int(match.group(1)), sysfs.target(entry)) for match, entry in numbered if match)
    return (
        wire.Vf(number, address)
        for number, address in found[: schema_limits.MOST_VFS]
        if schema_limits.BUS_ID.matches(address)
    )
