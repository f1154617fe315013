"""RDMA devices and their virtual functions, as the kernel lists them under /sys/class/infiniband.

A device is identified by its PCI address: names such as `mlx5_0` change with the order in which
drivers load. The kernel lists virtual functions as devices of their own; here they belong to their
physical function, which is the device that is shared, and keep the kernel's numbers.

A device without an active port reaches no peer: a pod that got it would wait for ever.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from berth_agent import found_devices, probe, sysfs
from berth_crds import device_sources, device_types, schema_limits

MOST_PORTS: Final = 256  # More than any device has.

# PCI vendors of RDMA devices; those of others stay without a vendor.
VENDORS: Final = {
    "0x14e4": "broadcom",
    "0x15b3": "mellanox",
    "0x1d0f": "amazon",
    "0x8086": "intel",
}

ACTIVE: Final = "ACTIVE"
LINK_LAYER: Final = "linkLayer"
LINK_LAYERS: Final = frozenset({"InfiniBand", "Ethernet"})
SPEED: Final = "gbps"

RATE: Final = re.compile(r"([0-9]{1,6})(?:[.][0-9]+)? Gb/sec")


def devices(kernel: sysfs.Kernel) -> tuple[probe.ExtraDevice, ...]:
    """Return all RDMA devices of the node, in the order of their addresses, as they are listed."""
    found = RdmaDevices(kernel).discover()
    return tuple(
        found_devices.extra_device(device_types.RDMA.name, each, kernel, origin="the kernel")
        for each in found
    )


class RdmaDevices:
    """The RDMA devices of a node."""

    def __init__(self, kernel: sysfs.Kernel) -> None:
        self._kernel = kernel

    def discover(self) -> tuple[device_sources.FoundDevice, ...]:
        """Return all of them, in the order of their addresses."""
        found = sorted(_physical(self._kernel).items())
        return tuple(
            _device(self._kernel, address, minor, name) for minor, (address, name) in enumerate(found)
        )

    def deliver(self, devices: Sequence[device_sources.GivenDevice]) -> device_sources.Opening:
        """Return nothing: pods get network cards by a network of their own."""
        del devices
        return device_sources.Opening()


def _physical(kernel: sysfs.Kernel) -> dict[str, str]:
    """Return by address the name of each device that is no virtual function."""
    listed = ((_address(entry), entry.name) for entry in sysfs.entries(kernel.sys / "class/infiniband"))
    # Two names of one function are one device; either will do.
    return {
        address: name
        for address, name in sorted(listed, reverse=True)
        if address and not kernel.is_virtual(address)
    }


def _address(entry: Path) -> str:
    """Return the PCI address of a device; empty for one that exists in software only."""
    name = sysfs.target(entry / "device")
    return name if schema_limits.BUS_ID.matches(name) else ""


def _device(kernel: sysfs.Kernel, address: str, minor: int, name: str) -> device_sources.FoundDevice:
    place, own = kernel.device(address), kernel.sys / "class/infiniband" / name
    problem = _problem(dict(_ports(own)))
    return device_sources.FoundDevice(
        id=address,
        minor=minor,
        vendor=VENDORS.get(sysfs.text(place / "vendor") or "", ""),
        model=sysfs.text(own / "hca_type") or "",
        bus_id=address,
        functions=found_devices.functions(kernel, address),
        labels=_labels(own),
        reason="PortDown" if problem else "",
        message=problem,
    )


def _problem(ports: Mapping[str, str]) -> str:
    """Return the problem that the states of the ports show; empty where no states are known."""
    if not ports or ACTIVE in ports.values():
        return ""
    states = ", ".join(f"port {number} is {state}" for number, state in ports.items())
    return f"none of its ports is active: {states}"


def _labels(own: Path) -> dict[str, str]:
    """Return by what pods may select the device: the kind of its network, and Gb/s of the fastest port."""
    ports = _port_folders(own)
    layers = sorted({sysfs.text(port / "link_layer") or "" for port in ports} & LINK_LAYERS)
    rates = [int(found[1]) for port in ports if (found := RATE.match(sysfs.text(port / "rate") or ""))]
    labels = {LINK_LAYER: layers[0]} if len(layers) == 1 else {}
    return labels | ({SPEED: str(max(rates))} if rates else {})


def _ports(own: Path) -> Iterator[tuple[str, str]]:
    """Yield the state of each port; the kernel writes it as `4: ACTIVE`."""
    for port in _port_folders(own):
        if state := (sysfs.text(port / "state") or "").partition(":")[2].strip():
            yield port.name, state


def _port_folders(own: Path) -> list[Path]:
    return sorted(sysfs.entries(own / "ports"), key=lambda each: each.name)[:MOST_PORTS]
