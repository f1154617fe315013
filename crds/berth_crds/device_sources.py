"""What the agent asks of a type of device: which devices its node has, and how a container gets them.

A package that adds a type implements `DeviceSource`; those of RDMA devices and FPGAs come with the agent. The
values are plain, so a package needs nothing but this module and `device_types`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SourceNode:
    """The node of a source, and where the agent sees its /sys, /proc and /dev.

    A `simulated` node has no hardware: what these folders show is of the machine on which the agent runs.
    """

    name: str
    sysfs: Path = Path("/sys")
    procfs: Path = Path("/proc")
    dev: Path = Path("/dev")
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """One virtual function of a device: its number, its PCI address, and by which labels pods choose it."""

    number: int
    bus_id: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDevice:
    """One device of a node.

    `id` stays the same when the node starts anew; the uuid of the device is the name of its type, a hyphen
    and this. `minor` is what people call the device by. Of one with a `bus_id` the kernel says NUMA node and
    PCIe root. No pod gets a device with a `reason`, one word in CamelCase, which `message` explains.
    """

    id: str
    minor: int
    vendor: str = ""
    model: str = ""
    memory: int | None = None
    bus_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    functions: tuple[VirtualFunction, ...] = ()
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenDevice:
    """What a container was given of a device: so many percent, or the virtual function at an address."""

    id: str
    minor: int
    percent: int = 100
    function: str = ""


@dataclass(frozen=True, slots=True)
class HostPath:
    """A file or folder of the host that a container sees at `destination`."""

    source: str
    destination: str
    writable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What opens devices to a container: variables, device nodes such as `/dev/npu0`, files of the host."""

    env: Mapping[str, str] = field(default_factory=dict)
    device_nodes: Sequence[str] = ()
    mounts: Sequence[HostPath] = ()


class DeviceSource(Protocol):
    """The devices of one type on one node. Its methods may block, and may be called at the same time."""

    def discover(self) -> Iterable[FoundDevice]:
        """Return all devices, sick ones included; raise what explains why they cannot be read."""

    def deliver(self, devices: Sequence[GivenDevice]) -> Opening:
        """Return what opens these devices to one container; raise what explains why they cannot be opened."""
