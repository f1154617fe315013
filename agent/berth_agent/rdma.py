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
LINK_LAYER: Final = "linkLayer"
LINK_LAYERS: Final = frozenset({"InfiniBand", "Ethernet"})
SPEED: Final = "gbps"

RATE: Final = re.compile(r"([0-9]{1,6})(?:[.][0-9]+)? Gb/sec")


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
        if address and not kernel.is_virtual(address)
    }


def _address(entry: Path) -> str:
    """Return the PCI address of a device; empty for one that exists in software only."""
    name = sysfs.target(entry / "device")
    return name if schema_limits.BUS_ID.matches(name) else ""


def _device(kernel: sysfs.Kernel, address: str, minor: int, name: str) -> probe.ExtraDevice:
    place, own = kernel.device(address), kernel.sys / "class/infiniband" / name
    vfs = kernel.virtual_functions(address)
    return probe.ExtraDevice(
        wire.Card(
            uuid=f"rdma-{address}",
            type=vocabulary.DeviceType.RDMA,
            minor=minor,
            vendor=VENDORS.get(sysfs.text(place / "vendor") or "", ""),
            model=probe.model_name(sysfs.text(own / "hca_type") or ""),
            topology=kernel.location(address),
            vf_groups=(wire.VfGroup(vfs=vfs),) if vfs else (),
            labels=_labels(own),
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
