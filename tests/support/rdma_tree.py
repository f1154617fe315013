"""A /sys of RDMA devices, made as the kernel makes it."""

from pathlib import Path

from support import pci_tree


class RdmaTree(pci_tree.PciTree):
    """A /sys to which RDMA devices are added."""

    def add(self, name: str, address: str, *, root: str = "pci0000:3a", **files: str) -> Path:
        """Add one RDMA device at a PCI address; its device nodes have the number of its name."""
        place = self.function(address, root, **{"vendor": "0x15b3", "numa_node": "1"} | files)
        own = place / "infiniband" / name
        own.mkdir(parents=True)
        (own / "hca_type").write_text("MT4123\n")
        pci_tree.link(own / "device", place)
        pci_tree.link(self.kernel.sys / "class/infiniband" / name, own)
        number = name.rpartition("_")[2]
        for node in (f"verbs/uverbs{number}", f"mad/umad{number}", f"mad/issm{number}"):
            (place / f"infiniband_{node}").mkdir(parents=True)
        return place

    def add_vf(self, number: int, address: str, *, of: Path, name: str = "", is_rdma: bool = True) -> None:
        """Add a virtual function, which is listed as a device of its own unless it is for other uses."""
        root, name = of.parent.parent.name, name or f"mlx5_{100 + number}"
        place = self.add(name, address, root=root) if is_rdma else self.function(address, root)
        pci_tree.link_virtual(number, place, of)

    def port(self, name: str, number: int | str, state: str) -> None:
        """Have a port of a device be in a state, in the kernel's words."""
        port = self.kernel.sys / "class/infiniband" / name / "ports" / str(number)
        port.mkdir(parents=True, exist_ok=True)
        (port / "state").write_text(f"{state}\n")
