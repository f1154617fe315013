"""Finds the NPUs X of a node, and opens them to containers."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from berth_crds.device_sources import FoundDevice, GivenDevice, HostPath, Opening, SourceNode

SIMULATED = 2
LIBRARY = "/opt/npu-x/lib"


class NpuSource:
    """The NPUs X of one node; the driver lists them below /sys/class/npu_x."""

    def __init__(self, node: SourceNode) -> None:
        self._node = node

    def discover(self) -> Iterator[FoundDevice]:
        """Yield all of them; a node that is simulated has two."""
        if self._node.simulated:
            for minor in range(SIMULATED):
                yield FoundDevice(id=f"{self._node.name[:40]}-{minor}", minor=minor, model="NPU X")
            return
        for folder in sorted((self._node.sysfs / "class/npu_x").glob("npu[0-9]*")):
            yield _device(folder)

    def deliver(self, devices: Sequence[GivenDevice]) -> Opening:
        """Return the device node of each, their numbers in a variable, and the driver's library."""
        minors = [str(device.minor) for device in devices]
        library = [] if self._node.simulated else [HostPath(LIBRARY, LIBRARY)]
        return Opening(
            env={"NPU_X_VISIBLE": ",".join(minors)},
            device_nodes=[f"/dev/npu{minor}" for minor in minors],
            mounts=library,
        )


def _device(folder: Path) -> FoundDevice:
    sick = (folder / "state").read_text().strip() != "ready"
    return FoundDevice(
        id=(folder / "serial").read_text().strip(),
        minor=int(folder.name.removeprefix("npu")),
        vendor="example",
        model="NPU X",
        memory=int((folder / "memory").read_text()),
        labels={"fabric": (folder / "fabric").read_text().strip()},
        reason="NotReady" if sick else "",
        message="its driver does not call it ready" if sick else "",
    )
