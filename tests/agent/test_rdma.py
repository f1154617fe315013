"""RDMA devices and their virtual functions, read from a tree made as the kernel makes it."""

import dataclasses
import os
from pathlib import Path

import pytest

from berth_agent import cardless, device_spec, probe, rdma, simulated
from berth_agent.health import cooldown, verdicts
from berth_crds import vocabulary, wire
from support import nodes, pci_tree
from support.clinic import RULES
from support.nvml import presets

CARDLESS = dataclasses.replace(simulated.machine("n1", "1xT4"), cards=(), partitions=())


class Tree(pci_tree.PciTree):
    """A /sys to which RDMA devices are added."""

    def add(self, name: str, address: str, *, root: str = "pci0000:3a", **files: str) -> Path:
        """Add one RDMA device at a PCI address."""
        place = self.function(address, root, **{"vendor": "0x15b3", "numa_node": "1"} | files)
        own = place / "infiniband" / name
        own.mkdir(parents=True)
        (own / "hca_type").write_text("MT4123\n")
        pci_tree.link(own / "device", place)
        pci_tree.link(self.kernel.sys / "class/infiniband" / name, own)
        return place

    def add_vf(self, number: int, address: str, *, of: Path, name: str = "") -> None:
        """Add a virtual function, that may be listed as a device of its own too."""
        root = of.parent.parent.name
        place = self.add(name, address, root=root) if name else self.function(address, root)
        pci_tree.link_virtual(number, place, of)

    def port(self, name: str, number: int | str, state: str) -> None:
        """Have a port of a device be in a state, in the kernel's words."""
        port = self.kernel.sys / "class/infiniband" / name / "ports" / str(number)
        port.mkdir(parents=True, exist_ok=True)
        (port / "state").write_text(f"{state}\n")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Lend a node without devices."""
    return Tree(tmp_path)


def test_node_without_rdma_has_none(tree: Tree) -> None:
    """Without a list of RDMA devices there are none, nor does one count that exists in software only."""
    assert rdma.devices(tree.kernel) == ()
    (tree.kernel.sys / "class/infiniband/rxe0").mkdir(parents=True)
    assert rdma.devices(tree.kernel) == ()


@pytest.mark.parametrize(
    ("states", "words"),
    [
        pytest.param([], "", id="no port"),
        pytest.param(["1: DOWN", "2: INIT"], "port 1 is DOWN, port 2 is INIT", id="none active"),
        pytest.param(["1: DOWN", "4: ACTIVE"], "", id="one active"),
        pytest.param([""], "", id="empty"),
        pytest.param(["nonsense"], "", id="words of another kernel"),
    ],
)
def test_device_without_an_active_port_is_closed(tree: Tree, states: list[str], words: str) -> None:
    """One port is enough, and a port that tells nothing is not held against its device."""
    tree.add("mlx5_0", "0000:3b:00.0")
    for number, state in enumerate(states, start=1):
        tree.port("mlx5_0", number, state)

    (device,) = rdma.devices(tree.kernel)
    down = probe.DeviceHealth(
        vocabulary.Health.UNHEALTHY, "PortDown", message=f"none of its ports is active: {words}"
    )
    assert (device.health, device.problem) == (None, down if words else None)


def test_port_that_flaps_is_damped(tree: Tree) -> None:
    """Once down, the device is closed until its link was there for as long as a card has to be well."""
    tree.add("mlx5_0", "0000:3b:00.0")
    history, seen = cooldown.HealthHistory(), []
    for second in range(0, 200, 10):
        tree.port("mlx5_0", 1, "1: DOWN" if second % 20 == 0 and second < 100 else "4: ACTIVE")
        sample = dataclasses.replace(CARDLESS, devices=rdma.devices(tree.kernel))
        found, history = verdicts.judge(verdicts.HealthInput(sample, {}, now=second), history, RULES)
        seen.append(str(found["rdma-0000:3b:00.0"].state))

    assert seen == ["Unhealthy"] * 14 + ["Healthy"] * 6


def test_device_is_told_by_its_address(tree: Tree) -> None:
    """Devices come in the order of the bus, whatever their names, with vendor, model and place."""
    tree.add("mlx5_0", "0000:9f:00.0", numa_node="-1", vendor="0xffff", root="pci0000:97")
    tree.add("mlx5_1", "0000:3b:00.0")

    assert tuple(each.entry for each in rdma.devices(tree.kernel)) == (
        wire.Card(
            uuid="rdma-0000:3b:00.0",
            type="rdma",
            minor=0,
            vendor="mellanox",
            model="MT4123",
            topology=wire.Topology(1, "pci0000:3a", "0000:3b:00.0"),
        ),
        wire.Card(
            uuid="rdma-0000:9f:00.0",
            type="rdma",
            minor=1,
            model="MT4123",
            topology=wire.Topology(None, "pci0000:97", "0000:9f:00.0"),
        ),
    )


def test_virtual_functions_belong_to_their_device(tree: Tree) -> None:
    """Virtual functions stand in their device, by number and address, and are no devices themselves."""
    place = tree.add("mlx5_0", "0000:3b:00.0")
    tree.add_vf(10, "0000:3b:01.4", of=place)
    tree.add_vf(0, "0000:3b:00.2", of=place, name="mlx5_2")
    tree.add_vf(1, "0000:3b:00.3", of=place)

    (found,) = rdma.devices(tree.kernel)
    assert found.entry.vf_groups == (
        wire.VfGroup(
            vfs=(wire.Vf(0, "0000:3b:00.2"), wire.Vf(1, "0000:3b:00.3"), wire.Vf(10, "0000:3b:01.4"))
        ),
    )


def test_function_with_two_names_is_one_device(tree: Tree) -> None:
    """Two ports of one function are one device."""
    place = tree.add("mlx4_0", "0000:3b:00.0")
    pci_tree.link(tree.kernel.sys / "class/infiniband/mlx4_1", place / "infiniband/mlx4_0")

    assert len(rdma.devices(tree.kernel)) == 1


def spoil(path: Path) -> None:
    """Put a link that leads in a circle in the place of what is there."""
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.symlink_to(path)


def test_links_in_circles_cost_what_they_stand_for(tree: Tree) -> None:
    """A device whose links lead in circles is not there, or knows less; the others are as they were."""
    place = tree.add("mlx5_0", "0000:3b:00.0")
    tree.add_vf(0, "0000:3b:00.2", of=place)
    tree.port("mlx5_0", 1, "1: DOWN")
    for name in ("virtfn1", "physfn", "numa_node"):
        spoil(place / name)
    for name in (
        "class/infiniband/mlx5_0/ports/2",
        "class/infiniband/mlx5_7",
        "bus/pci/devices/0000:3b:00.2",
    ):
        spoil(tree.kernel.sys / name)

    (found,) = rdma.devices(tree.kernel)
    assert found.entry.vf_groups == (wire.VfGroup(vfs=(wire.Vf(0, "0000:3b:00.2"),)),)
    assert found.entry.topology == wire.Topology(None, "pci0000:3a", "0000:3b:00.0")
    assert found.problem is not None


def test_words_of_a_driver_are_one_line(tree: Tree) -> None:
    """Whatever a driver writes, and however it names its ports, the Device can be written, and read."""
    place = tree.add("mlx5_0", "0000:3b:00.0")
    (place / "infiniband/mlx5_0/hca_type").write_text("MT\x1b[31m4123\n" + "!" * 500)
    tree.port("mlx5_0", 1, "1: DO\x1b[2JWN " + "!" * 2000)
    tree.port("mlx5_0", os.fsdecode(b"2\n\xff"), "2: INIT")
    sample = dataclasses.replace(CARDLESS, devices=rdma.devices(tree.kernel))

    spec = device_spec.spec(nodes.NODE, sample, None)
    (card,), (verdict,) = spec.devices, nodes.status(sample, spec).devices
    assert card.model.startswith(r"MT\x1b[31m4123 !!")
    assert verdict.message.startswith(r"none of its ports is active: port 1 is DO\x1b[2JWN !!")
    assert verdict.message.isprintable()


@pytest.mark.parametrize("name", ["virtfn01", "virtfn999999", "virtfn1\n", "virtfn-1"])
def test_virtual_function_of_an_odd_number_is_none(tree: Tree, name: str) -> None:
    """The kernel counts them from 0, without zeros before."""
    place = tree.add("mlx5_0", "0000:3b:00.0")
    tree.add_vf(1, "0000:3b:00.2", of=place)
    pci_tree.link(place / name, tree.kernel.device("0000:3b:00.2"))

    (found,) = rdma.devices(tree.kernel)
    assert found.entry.vf_groups == (wire.VfGroup(vfs=(wire.Vf(1, "0000:3b:00.2"),)),)


def test_devices_stand_beside_the_cards(tree: Tree, place: nodes.Place) -> None:
    """The Device lists both, counts the cards only, and stays as it was while the cards' source fails."""
    rig = place(presets.A10)
    tree.add_vf(0, "0000:3b:00.2", of=tree.add("mlx5_0", "0000:3b:00.0"))
    looking = rig.start(lambda: rdma.devices(tree.kernel))

    spec = nodes.spec(looking)
    assert [each.type for each in spec.devices] == ["gpu"] * 8 + ["rdma"]
    assert spec.summary == wire.SpecSummary("A10 x8", 8)
    assert spec.devices[8].vf_groups == (wire.VfGroup(vfs=(wire.Vf(0, "0000:3b:00.2"),)),)
    assert spec.devices[8].topology == wire.Topology(1, "pci0000:3a", "0000:3b:00.0")
    rig.machine.unload()
    assert device_spec.spec(nodes.NODE, nodes.failed(looking), spec) == spec


HDR = "200 Gb/sec (4X HDR)"


@pytest.mark.parametrize(
    ("ports", "labels"),
    [
        pytest.param([], {}, id="no port"),
        pytest.param([("InfiniBand", HDR)], {"linkLayer": "InfiniBand", "gbps": "200"}, id="one"),
        pytest.param(
            [("Ethernet", "25 Gb/sec (1X EDR)"), ("Ethernet", "100 Gb/sec (4X EDR)")],
            {"linkLayer": "Ethernet", "gbps": "100"},
            id="the fastest",
        ),
        pytest.param([("InfiniBand", "2.5 Gb/sec"), ("Ethernet", "?")], {"gbps": "2"}, id="of two kinds"),
        pytest.param([("Token Ring", "fast")], {}, id="nothing that is known"),
    ],
)
def test_pods_may_select_devices_by_their_networks(
    tree: Tree, ports: list[tuple[str, str]], labels: dict[str, str]
) -> None:
    """By its kind and its speed."""
    tree.add("mlx5_0", "0000:3b:00.0")
    for number, (layer, rate) in enumerate(ports, start=1):
        tree.port("mlx5_0", number, "4: ACTIVE")
        own = tree.kernel.sys / "class/infiniband/mlx5_0/ports" / f"{number}"
        (own / "link_layer").write_text(f"{layer}\n")
        (own / "rate").write_text(f"{rate}\n")

    (found,) = (one.entry for one in rdma.devices(tree.kernel))

    assert found.labels == labels


def test_a_node_without_cards_has_its_network_cards(tree: Tree) -> None:
    """No driver of NVIDIA's is asked, and that there are no cards is no failure."""
    tree.add("mlx5_0", "0000:3b:00.0")

    sample = cardless.CardlessProbe(tree.kernel, lambda _: rdma.devices(tree.kernel)).sample()

    assert sample.cards == () and not list(sample.lost_cards())
    assert [one.entry.uuid for one in sample.devices] == ["rdma-0000:3b:00.0"]
    spec = device_spec.spec("n1", sample, None)
    assert spec.summary and spec.summary.gpus == 0
