"""RDMA devices and their virtual functions, as the kernel lists them under /sys/class/infiniband.

A device is identified by its PCI address: names such as `mlx5_0` change with the order in which
drivers load. The kernel lists virtual functions as devices of their own; here they belong to their
physical function, which is the device that is shared, and keep the kernel's numbers.

A device without an active port reaches no peer: a pod that got it would wait for ever. Nor is one of use
to a program without the device node of its verbs (`uverbs0`), which a module of the kernel makes. A virtual
function without it, because a virtual machine has it or no driver does, is not listed.

A container opens a device by its verbs, and connects by `rdma_cm`, which all devices share. One that has the
whole of a device, or a virtual function, also gets the node by which that is managed (`umad0`): with a part
of a device it would manage the parts of others, too. No pod gets `issm0`, by which a program becomes the
subnet manager of its fabric.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from berth_agent import found_devices, probe, sysfs
from berth_crds import card_part, device_sources, device_types, schema_limits

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

# Folders of a PCI device, with an entry for each of its device nodes, and which of these are meant.
VERBS: Final = "infiniband_verbs", re.compile("uverbs[0-9]{1,6}")
MANAGEMENT: Final = "infiniband_mad", re.compile("umad[0-9]{1,6}")
NODES: Final = Path("/dev/infiniband")
CONNECTIONS: Final = "rdma_cm"
# As the device plugin for SR-IOV calls it: the resource in capitals.
ADDRESSES: Final = f"PCIDEVICE_{re.sub('[^A-Z0-9]', '_', device_types.RDMA.resource.upper())}"

RATE: Final = re.compile(r"([0-9]{1,6})(?:[.][0-9]+)? Gb/sec")


def devices(kernel: sysfs.Kernel) -> tuple[probe.ExtraDevice, ...]:
    """Return all RDMA devices of the node, in the order of their addresses, as they are listed."""
    found = RdmaDevices(kernel).discover()
    return tuple(
        found_devices.extra_device(device_types.RDMA.name, each, kernel, origin="the kernel")
        for each in found
    )


class NoDeviceNode(Exception):
    """A device cannot be opened; the text is a clause."""


class RdmaDevices:
    """The RDMA devices of a node; `dev` has its device nodes."""

    def __init__(self, kernel: sysfs.Kernel, dev: Path = Path("/dev")) -> None:
        self._kernel = kernel
        self._nodes = dev / NODES.name

    def discover(self) -> tuple[device_sources.FoundDevice, ...]:
        """Return all of them, in the order of their addresses."""
        found = sorted(_physical(self._kernel).items())
        return tuple(
            _device(self._kernel, address, minor, name) for minor, (address, name) in enumerate(found)
        )

    def deliver(self, devices: Sequence[device_sources.GivenDevice]) -> device_sources.Opening:
        """Return their device nodes, and a variable with their PCI addresses, or raise `NoDeviceNode`.

        Of a device that a file lists under another name than its address, only functions can be opened.
        """
        addresses = tuple(
            dict.fromkeys(
                one.function or one.id
                for one in devices
                if one.function or schema_limits.BUS_ID.matches(one.id)
            )
        )
        if not addresses:
            return device_sources.Opening()
        managed = {
            one.function or one.id for one in devices if one.function or one.percent == card_part.WHOLE
        }
        nodes = [name for address in addresses for name in self._names(address, managed=address in managed)]
        if sysfs.exists(self._nodes / CONNECTIONS):
            nodes.append(CONNECTIONS)
        return device_sources.Opening(
            env={ADDRESSES: ",".join(addresses)}, device_nodes=[f"{NODES / name}" for name in nodes]
        )

    def _names(self, address: str, *, managed: bool) -> Iterator[str]:
        """Yield the names of the device nodes of a device or a virtual function."""
        if not (verbs := _nodes_of(self._kernel, address, VERBS)):
            raise NoDeviceNode(f"{address} has no device node for RDMA: {_cause(self._kernel, address)}")
        yield from verbs
        if managed:
            found = _nodes_of(self._kernel, address, MANAGEMENT)
            yield from (name for name in found if sysfs.exists(self._nodes / name))


def _nodes_of(kernel: sysfs.Kernel, address: str, kind: tuple[str, re.Pattern[str]]) -> list[str]:
    """Return the names of the device nodes of one kind."""
    folder, pattern = kind
    listed = (entry.name for entry in sysfs.entries(kernel.device(address) / folder))
    return sorted(name for name in listed if pattern.fullmatch(name))


def _cause(kernel: sysfs.Kernel, address: str) -> str:
    """Return why a device has no device node, as far as the kernel tells."""
    driver = kernel.driver(address)
    if sysfs.exists(kernel.device(address) / "infiniband"):
        return "load the module ib_uverbs on the node"
    return f"the driver {driver} makes no RDMA device of it" if driver else "no driver of the node has it"


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
    reason, message = _problem(kernel, address, dict(_ports(own)))
    labels = _labels(own)
    return device_sources.FoundDevice(
        id=address,
        minor=minor,
        vendor=VENDORS.get(sysfs.text(place / "vendor") or "", ""),
        model=sysfs.text(own / "hca_type") or "",
        bus_id=address,
        functions=_functions(kernel, address, labels),
        labels={**found_devices.of_driver(kernel, address), **labels},
        reason=reason,
        message=message,
    )


def _functions(
    kernel: sysfs.Kernel, address: str, labels: Mapping[str, str]
) -> tuple[device_sources.VirtualFunction, ...]:
    """Return the virtual functions that programs can open: those of machines (vfio) have no device node.

    Of the labels of their device they have the kind of network, for they share its ports.
    """
    shared = {key: value for key, value in labels.items() if key == LINK_LAYER}
    listed = found_devices.functions(kernel, address)
    return tuple(
        dataclasses.replace(one, labels={**one.labels, **shared})
        for one in listed
        if _nodes_of(kernel, one.bus_id, VERBS)
    )


def _problem(kernel: sysfs.Kernel, address: str, ports: Mapping[str, str]) -> tuple[str, str]:
    """Return reason and message of what keeps programs from a device; both are empty for nothing.

    Where no states of ports are known, they are no problem.
    """
    if not _nodes_of(kernel, address, VERBS):
        return "NoDeviceNode", f"it has no device node: {_cause(kernel, address)}"
    if not ports or ACTIVE in ports.values():
        return "", ""
    states = ", ".join(f"port {number} is {state}" for number, state in ports.items())
    return "PortDown", f"none of its ports is active: {states}"


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
