"""FPGAs, found among the PCI devices of a tree made as the kernel makes it."""

from pathlib import Path

import pytest

from berth_agent import fpga
from berth_crds import wire
from support import pci_tree

FPGA = "0x120000"


class Tree(pci_tree.PciTree):
    """A /sys to which FPGAs are added."""

    def add(self, address: str, *, root: str = "pci0000:3a", **files: str) -> Path:
        """Add one FPGA."""
        described = {"class": FPGA, "vendor": "0x10ee", "device": "0x5020", "numa_node": "1"}
        return self.function(address, root, **described | files)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Lend a node without devices."""
    return Tree(tmp_path)


def test_a_node_without_pci_has_none(tree: Tree) -> None:
    """Nor has one whose devices are something else."""
    assert fpga.devices(tree.kernel) == ()
    tree.add("0000:3a:00.0", vendor="0x10de", **{"class": "0x030200"})
    tree.add("0000:3b:00.0", **{"class": "0x020000"})
    tree.add("0000:3c:00.0", vendor="0x1d0f")
    (tree.add("0000:3d:00.0") / "vendor").unlink()
    assert fpga.devices(tree.kernel) == ()


def test_each_is_told_with_its_place(tree: Tree) -> None:
    """In the order of their addresses."""
    tree.add("0000:5e:00.0", root="pci0000:5d", vendor="0x1172", device="0x2b59", numa_node="-1")
    tree.add("0000:3b:00.0")

    first, second = (one.entry for one in fpga.devices(tree.kernel))

    assert (first.uuid, first.type, first.minor) == ("fpga-0000:3b:00.0", "fpga", 0)
    assert (first.vendor, first.model) == ("xilinx", "xilinx 5020")
    assert first.topology == wire.Topology(1, "pci0000:3a", "0000:3b:00.0")
    assert (second.uuid, second.minor, second.model) == ("fpga-0000:5e:00.0", 1, "altera 2b59")
    assert second.topology == wire.Topology(None, "pci0000:5d", "0000:5e:00.0")


def test_virtual_functions_are_parts_of_their_device(tree: Tree) -> None:
    """And no devices of their own."""
    whole = tree.add("0000:3b:00.0")
    for number in (1, 0):
        part = tree.add(f"0000:3b:00.{number + 1}")
        pci_tree.link_virtual(number, part, whole)

    (found,) = (one.entry for one in fpga.devices(tree.kernel))

    assert found.vf_groups == (wire.VfGroup(vfs=(wire.Vf(0, "0000:3b:00.1"), wire.Vf(1, "0000:3b:00.2"))),)


def test_functions_are_told_apart_by_their_drivers(tree: Tree) -> None:
    """Those of one driver are one group; what no driver has has no label."""
    whole = tree.add("0000:3b:00.0")
    for number, driver in enumerate(("vfio-pci", "xocl", "vfio-pci", "")):
        address = f"0000:3b:00.{number + 1}"
        pci_tree.link_virtual(number, tree.add(address), whole)
        if driver:
            tree.drive(address, driver)
    tree.drive("0000:3b:00.0", "xclmgmt")

    (found,) = (one.entry for one in fpga.devices(tree.kernel))

    assert found.labels == {"driver": "xclmgmt"}
    assert found.vf_groups == (
        wire.VfGroup({"driver": "vfio-pci"}, (wire.Vf(0, "0000:3b:00.1"), wire.Vf(2, "0000:3b:00.3"))),
        wire.VfGroup({"driver": "xocl"}, (wire.Vf(1, "0000:3b:00.2"),)),
        wire.VfGroup({}, (wire.Vf(3, "0000:3b:00.4"),)),
    )
