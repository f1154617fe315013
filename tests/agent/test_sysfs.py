"""What the kernel tells about places, and what it does not tell."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from berth_agent import sysfs
from berth_crds import schema_limits, wire

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

    assert (nothing.boot_id(), nothing.driven_by("nvidia")) == ("", None)
    assert nothing.location(ADDRESS) == wire.Topology(None, None, ADDRESS)


def test_driver_holds_devices_and_not_its_other_files(tmp_path: Path) -> None:
    """Beside the devices a driver's folder has other files; a line break makes no name that of a device."""
    listing = tmp_path / "bus/pci/drivers/nvidia"
    for name in (ADDRESS, "bind", "new_id", f"{ADDRESS}\n", "\n", "a\x1b[2J", os.fsdecode(b"\xff")):
        (listing / name).mkdir(parents=True)

    assert sysfs.Kernel(tmp_path, tmp_path).driven_by("nvidia") == frozenset({ADDRESS})


# ---------------------------------------------------------------- irregular trees


def giant(path: Path) -> None:
    """Make a file that is larger than the memory of any machine."""
    with path.open("wb") as file:
        file.truncate(1 << 42)


IRREGULAR_FILES: dict[str, Callable[[Path], object]] = {
    "a link in a circle": lambda path: path.symlink_to(path),
    "a link to nowhere": lambda path: path.symlink_to(path.parent / "nowhere"),
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a giant": giant,
    "no ASCII": lambda path: path.write_bytes(b"\xff\xfe1"),
    "NULs": lambda path: path.write_bytes(b"1\0"),
    "many digits": lambda path: path.write_bytes(b"1" * 4000),
    "two lines": lambda path: path.write_bytes(b"1\n2\n"),
}


@pytest.mark.parametrize("make", IRREGULAR_FILES.values(), ids=IRREGULAR_FILES.keys())
def test_irregular_file_is_unknown(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """Whatever stands where a number should be, nothing is known, nobody waits, and nothing fails."""
    tree = kernel(tmp_path, under="pci0000:3a", numa=None)
    make(tree.device(ADDRESS) / "numa_node")
    boot_id = tmp_path / "sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True)
    make(boot_id)

    assert tree.numa_node(ADDRESS) is None
    assert tree.boot_id().isprintable()
    assert len(tree.boot_id()) <= schema_limits.LONGEST_BOOT_ID


def test_file_that_nobody_may_read_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree of another user tells nothing, which is no failure."""

    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    tree = kernel(tmp_path, under="pci0000:3a", numa="1")
    for name in ("open", "scandir"):
        monkeypatch.setattr(os, name, forbidden)
    monkeypatch.setattr(os.path, "realpath", forbidden)

    assert tree.location(ADDRESS) == wire.Topology(None, None, ADDRESS)
    assert tree.driven_by("nvidia") is None
    assert not sysfs.exists(tree.device(ADDRESS))


@pytest.mark.parametrize("kind", ["a link in a circle", "a folder"])
def test_irregular_place_is_under_no_root(tmp_path: Path, kind: str) -> None:
    """A device whose link leads in a circle sits nowhere that is known."""
    listing = tmp_path / "bus/pci/devices"
    listing.mkdir(parents=True)
    IRREGULAR_FILES[kind](listing / ADDRESS)

    assert sysfs.Kernel(tmp_path, tmp_path).location(ADDRESS) == wire.Topology(None, None, ADDRESS)


@pytest.mark.parametrize("make", IRREGULAR_FILES.values(), ids=IRREGULAR_FILES.keys())
def test_irregular_folder_of_a_driver_names_nothing(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """What is no folder holds no device, and what is none of its names is none."""
    drivers = tmp_path / "bus/pci/drivers"
    drivers.mkdir(parents=True)
    make(drivers / "nvidia")

    assert not sysfs.Kernel(tmp_path, tmp_path).driven_by("nvidia")


def test_folder_is_listed_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder has so many names that to list them takes for ever."""
    monkeypatch.setattr(sysfs, "MOST_ENTRIES", 3)
    for number in range(10):
        (tmp_path / str(number)).touch()

    assert len(sysfs.entries(tmp_path)) == 3
