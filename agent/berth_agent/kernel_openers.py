"""What opens devices of built-in types to containers, where the kernel itself says by which device nodes.

Only an agent that opens devices by itself imports this. Of FPGAs the kernel says nothing: the drivers of
their makers name the nodes as they like.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from berth_agent import rdma, sysfs
from berth_agent.delivery.containers import Undeliverable
from berth_agent.delivery.other_devices import Opener
from berth_crds import device_sources, device_types


class RdmaOpener:
    """Opens RDMA devices; only files of the kernel are read, so nobody waits for it."""

    def __init__(self, devices: rdma.RdmaDevices) -> None:
        self._devices = devices

    async def open(self, devices: Sequence[device_sources.GivenDevice]) -> device_sources.Opening:
        """Return what opens these devices to one container, or raise `Undeliverable`."""
        try:
            return self._devices.deliver(devices)
        except rdma.NoDeviceNode as error:
            raise Undeliverable(f"{error}") from error


def of_kernel(kernel: sysfs.Kernel, dev: Path) -> Mapping[str, Opener]:
    """Return by type what opens the devices that a kernel lists; their device nodes are below `dev`."""
    return {device_types.RDMA.name: RdmaOpener(rdma.RdmaDevices(kernel, dev))}
