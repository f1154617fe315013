"""What the kernel tells about places, and what it does not tell."""

from pathlib import Path

import pytest

from berth_agent import sysfs

ADDRESS = "0000:3b:00.0"


def kernel(root: Path, *, under: str, numa: str | None) -> sysfs.Kernel:
    """Make a tree with one PCI device in it."""
    place = root / "devices" / under / ADDRESS
    place.mkdir(parents=True)
    if numa is not None:
        (place / "numa_node").write_text(numa)
    listing = root / "bus/pci/devices"
    listing.mkdir(parents=True)
    (listing / ADDRESS).symlink_to(place)
    return sysfs.Kernel(root, root)


@pytest.mark.parametrize(
    ("told", "node"),
    [
        pytest.param("0\n", 0, id="node 0"),
        pytest.param("7\n", 7, id="node 7"),
        pytest.param("-1\n", None, id="unknown to the kernel"),
        pytest.param("", None, id="empty"),
        pytest.param("zero", None, id="no number"),
        pytest.param(None, None, id="no file"),
    ],
)
def test_numa_node_is_a_number_or_unknown(tmp_path: Path, told: str | None, node: int | None) -> None:
    """Only a number from 0 is a NUMA node; all else is unknown, never 0."""
    assert kernel(tmp_path, under="pci0000:3a/0000:3a:01.0", numa=told).numa_node(ADDRESS) == node


@pytest.mark.parametrize(
    ("under", "root"),
    [
        pytest.param("pci0000:3a", "pci0000:3a", id="at the root"),
        pytest.param("pci0000:3a/0000:3a:01.0/0000:3b:00.0x", "pci0000:3a", id="behind bridges"),
        pytest.param("LNXSYSTM:00/VMBUS:00/pci10000:e1", "pci10000:e1", id="on a virtual bus"),
        pytest.param("pci0000:00/0000:00:0e.0/pci10000:e0", "pci10000:e0", id="one root in another"),
        pytest.param("platform", None, id="under no root"),
    ],
)
def test_pcie_root_is_the_nearest_above(tmp_path: Path, under: str, root: str | None) -> None:
    """The root complex is read from where the device's folder really is."""
    assert kernel(tmp_path, under=under, numa=None).pcie_root(ADDRESS) == root


def test_nothing_there_is_unknown(tmp_path: Path) -> None:
    """Without the trees everything is unknown, what a driver holds included."""
    nothing = sysfs.Kernel(tmp_path / "sys", tmp_path / "proc")

    assert nothing.boot_id() == ""
    assert nothing.numa_node(ADDRESS) is None
    assert nothing.pcie_root(ADDRESS) is None
    assert nothing.driven_by("nvidia") is None


def test_driver_holds_devices_and_not_its_other_files(tmp_path: Path) -> None:
    """Beside the devices a driver's folder has files of its own."""
    listing = tmp_path / "bus/pci/drivers/nvidia"
    for name in (ADDRESS, "bind", "module", "new_id"):
        (listing / name).mkdir(parents=True)

    assert sysfs.Kernel(tmp_path, tmp_path).driven_by("nvidia") == frozenset({ADDRESS})
