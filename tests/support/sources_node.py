"""A node with a device of each source that the agent has, as folders that the program is given."""

import json
from pathlib import Path
from typing import Final

from support import device_package, pci_tree
from support.rdma_tree import RdmaTree

NIC, NIC_FUNCTION, FPGA, FPGA_FUNCTION = "0000:3b:00.0", "0000:3b:00.2", "0000:9f:00.0", "0000:9f:00.1"
# What each source finds, by the uuid of its device.
DEVICES: Final = {
    "RDMA devices": f"rdma-{NIC}",
    "FPGAs": f"fpga-{FPGA}",
    "files": "acme-1",
    "packages": "npu-x-77",
}
FILE: Final = {
    "devices": [{"uuid": "acme-1", "type": "acme", "minor": 0, "labels": {"fabric": "a"}}],
    "labels": [
        {"type": "gpu", "minor": 1, "labels": {"tier": "gold"}},
        {"type": "rdma", "labels": {"example.com/rack": "r7"}, "functionLabels": {"use": "storage"}},
    ],
}


class SourcesNode:
    """Makes the folders; `site` is for Python's search path, with a package that adds a type."""

    def __init__(self, root: Path) -> None:
        self.tree = RdmaTree(root)
        self.folder = root / "devices"
        self.folder.mkdir(parents=True)
        (self.folder / "a.json").write_text(json.dumps(FILE))
        self._add_network_card()
        self._add_fpga()
        self._add_npu()
        self.site = root / "site"
        self.site.mkdir()
        device_package.installed(self.site)

    @property
    def flags(self) -> list[str]:
        """Return the flags by which the agent reads these folders."""
        kernel = self.tree.kernel
        folders = {"--sysfs": kernel.sys, "--procfs": kernel.proc, "--devices": self.folder}
        return [word for flag, path in folders.items() for word in (flag, str(path))]

    def _add_network_card(self) -> None:
        whole = self.tree.add("mlx5_0", NIC)
        self.tree.port("mlx5_0", 1, "4: ACTIVE")
        (self.tree.kernel.sys / "class/infiniband/mlx5_0/ports/1/link_layer").write_text("InfiniBand\n")
        self.tree.add_vf(0, NIC_FUNCTION, of=whole)
        for address in (NIC, NIC_FUNCTION):
            self.tree.drive(address, "mlx5_core")

    def _add_fpga(self) -> None:
        kind = {"class": "0x120000", "vendor": "0x10ee", "device": "0x5020"}
        whole = self.tree.function(FPGA, "pci0000:97", **kind)
        pci_tree.link_virtual(0, self.tree.function(FPGA_FUNCTION, "pci0000:97", **kind), whole)
        self.tree.drive(FPGA_FUNCTION, "vfio-pci")

    def _add_npu(self) -> None:
        place = self.tree.kernel.sys / "class/npu_x/npu0"
        place.mkdir(parents=True)
        for file, text in {"serial": "77", "memory": "1024", "fabric": "b", "state": "ready"}.items():
            (place / file).write_text(f"{text}\n")
