"""RDMA devices and their virtual functions, read from a tree made as the kernel makes it."""

import dataclasses
import os
import stat
from pathlib import Path

import pytest

from berth_agent import cardless, device_spec, extra_devices, kernel_openers, probe, rdma, simulated
from berth_agent.delivery.containers import Delivery, Undeliverable
from berth_agent.delivery.device_nodes import DeviceNodes
from berth_agent.delivery.driver_files import DriverFiles
from berth_agent.delivery.means import DirectMeans
from berth_agent.health import cooldown, verdicts
from berth_agent.nri import adjuster, messages
from berth_crds import allocation, names, vocabulary, wire
from support import nodes, pci_tree
from support.clinic import RULES
from support.nvml import presets
from support.rdma_tree import RdmaTree

CARDLESS = dataclasses.replace(simulated.machine("n1", "1xT4"), cards=(), partitions=())


@pytest.fixture
def tree(tmp_path: Path) -> RdmaTree:
    """Lend a node without devices."""
    return RdmaTree(tmp_path)


def test_node_without_rdma_has_none(tree: RdmaTree) -> None:
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
def test_device_without_an_active_port_is_closed(tree: RdmaTree, states: list[str], words: str) -> None:
    """One port is enough, and a port that tells nothing is not held against its device."""
    tree.add("mlx5_0", "0000:3b:00.0")
    for number, state in enumerate(states, start=1):
        tree.port("mlx5_0", number, state)

    (device,) = rdma.devices(tree.kernel)
    down = probe.DeviceHealth(
        vocabulary.Health.UNHEALTHY, "PortDown", message=f"none of its ports is active: {words}"
    )
    assert (device.health, device.problem) == (None, down if words else None)


def test_port_that_flaps_is_damped(tree: RdmaTree) -> None:
    """Once down, the device is closed until its link was there for as long as a card has to be well."""
    tree.add("mlx5_0", "0000:3b:00.0")
    history, seen = cooldown.HealthHistory(), []
    for second in range(0, 200, 10):
        tree.port("mlx5_0", 1, "1: DOWN" if second % 20 == 0 and second < 100 else "4: ACTIVE")
        sample = dataclasses.replace(CARDLESS, devices=rdma.devices(tree.kernel))
        found, history = verdicts.judge(verdicts.HealthInput(sample, {}, now=second), history, RULES)
        seen.append(str(found["rdma-0000:3b:00.0"].state))

    assert seen == ["Unhealthy"] * 14 + ["Healthy"] * 6


def test_device_is_told_by_its_address(tree: RdmaTree) -> None:
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


def test_virtual_functions_belong_to_their_device(tree: RdmaTree) -> None:
    """Virtual functions stand in their device, by number and address, and are no devices themselves."""
    place = tree.add("mlx5_0", "0000:3b:00.0")
    tree.add_vf(10, "0000:3b:01.4", of=place)
    tree.add_vf(0, "0000:3b:00.2", of=place, name="mlx5_2")
    tree.add_vf(1, "0000:3b:00.3", of=place)
    tree.add_vf(2, "0000:3b:00.4", of=place, is_rdma=False)  # Of a virtual machine: no program can open it.

    (found,) = rdma.devices(tree.kernel)
    assert found.entry.vf_groups == (
        wire.VfGroup(
            vfs=(wire.Vf(0, "0000:3b:00.2"), wire.Vf(1, "0000:3b:00.3"), wire.Vf(10, "0000:3b:01.4"))
        ),
    )


def test_function_with_two_names_is_one_device(tree: RdmaTree) -> None:
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


def test_links_in_circles_cost_what_they_stand_for(tree: RdmaTree) -> None:
    """A device whose links lead in circles is not there, or knows less; the others are as they were."""
    place = tree.add("mlx5_0", "0000:3b:00.0")
    tree.add_vf(0, "0000:3b:00.2", of=place, is_rdma=False)
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
    assert found.entry.vf_groups == ()
    assert found.entry.topology == wire.Topology(None, "pci0000:3a", "0000:3b:00.0")
    assert found.problem is not None


def test_words_of_a_driver_are_one_line(tree: RdmaTree) -> None:
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
def test_virtual_function_of_an_odd_number_is_none(tree: RdmaTree, name: str) -> None:
    """The kernel counts them from 0, without zeros before."""
    place = tree.add("mlx5_0", "0000:3b:00.0")
    tree.add_vf(1, "0000:3b:00.2", of=place)
    pci_tree.link(place / name, tree.kernel.device("0000:3b:00.2"))

    (found,) = rdma.devices(tree.kernel)
    assert found.entry.vf_groups == (wire.VfGroup(vfs=(wire.Vf(1, "0000:3b:00.2"),)),)


def test_devices_stand_beside_the_cards(tree: RdmaTree, place: nodes.Place) -> None:
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


def test_a_node_without_cards_has_its_network_cards(tree: RdmaTree) -> None:
    """No driver of NVIDIA's is asked, and that there are no cards is no failure."""
    tree.add("mlx5_0", "0000:3b:00.0")

    extra = extra_devices.ExtraDevices([lambda: rdma.devices(tree.kernel)])
    sample = cardless.CardlessProbe(tree.kernel, extra.complete).sample()

    assert sample.cards == () and not list(sample.lost_cards())
    assert [one.entry.uuid for one in sample.devices] == ["rdma-0000:3b:00.0"]
    spec = device_spec.spec("n1", sample, None)
    assert spec.summary and spec.summary.gpus == 0


def test_a_device_without_a_device_node_is_closed(tree: RdmaTree) -> None:
    """No program could use it: that is said before its ports are looked at."""
    place = tree.add("mlx5_0", "0000:3b:00.0")
    tree.port("mlx5_0", 1, "1: DOWN")
    (place / "infiniband_verbs/uverbs0").rename(place / "infiniband_verbs/other0")

    (device,) = rdma.devices(tree.kernel)

    assert device.problem == probe.DeviceHealth(
        vocabulary.Health.UNHEALTHY,
        "NoDeviceNode",
        message="it has no device node: load the module ib_uverbs on the node",
    )


# ---------------------------------------------------------------- what containers get

ADDRESS, FUNCTION = "0000:3b:00.0", "0000:3b:00.2"
DEVICE = wire.Card(f"rdma-{ADDRESS}", "rdma", 0, vf_groups=(wire.VfGroup(vfs=(wire.Vf(0, FUNCTION),)),))


@pytest.fixture
def two(tree: RdmaTree, tmp_path: Path) -> RdmaTree:
    """Lend a node with a device and one virtual function of it, and all their device nodes."""
    tree.add_vf(0, FUNCTION, of=tree.add("mlx5_0", ADDRESS), name="mlx5_1")
    nodes_below(tmp_path, "uverbs0", "uverbs1", "umad0", "umad1", "issm0", "issm1", "rdma_cm")
    return tree


def nodes_below(root: Path, *names: str) -> None:
    """Make device nodes of RDMA devices."""
    if os.geteuid() != 0:
        pytest.skip("only root can make device nodes")
    for number, name in enumerate(names):
        path = root / "dev/infiniband" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(231, number))


async def delivered(
    tree: RdmaTree, root: Path, *shares: allocation.Share, listed: tuple[wire.Card, ...] = (DEVICE,)
) -> Delivery:
    """Return what a container gets that was given these shares of RDMA devices."""
    device_nodes = DeviceNodes(root / "dev", root / "proc", optional=False)
    config = adjuster.NriConfig(
        Path("/nri"),
        DirectMeans(device_nodes, DriverFiles(root, root)),
        openers=kernel_openers.of_kernel(tree.kernel, root / "dev"),
        device_nodes=device_nodes,
    )
    record = allocation.encode(allocation.of("n1", {"main": {"rdma": list(shares)}}))
    made = adjuster.Adjuster("n1", lambda: listed, lambda _: (), config)
    annotations = {names.TERM: "t", names.ALLOCATION: record}
    found = await made.delivery(messages.NewContainer("ml", "p", "main", annotations))
    assert found is not None
    return found


def paths(found: Delivery) -> list[str]:
    """Return the names of the device nodes that were delivered."""
    return [one.path.removeprefix("/dev/infiniband/") for one in found.edits.device_nodes]


@pytest.mark.parametrize(
    ("shares", "opened", "addresses"),
    [
        pytest.param([(100, "")], ["uverbs0", "umad0", "rdma_cm"], ADDRESS, id="a whole device"),
        pytest.param([(50, "")], ["uverbs0", "rdma_cm"], ADDRESS, id="a part: others have the rest"),
        pytest.param([(1, FUNCTION)], ["uverbs1", "umad1", "rdma_cm"], FUNCTION, id="a virtual function"),
        pytest.param(
            [(1, FUNCTION), (1, "")],
            ["uverbs1", "umad1", "uverbs0", "rdma_cm"],
            f"{FUNCTION},{ADDRESS}",
            id="a function, and a part",
        ),
    ],
)
async def test_a_container_gets_the_device_nodes_of_its_devices(
    two: RdmaTree, tmp_path: Path, shares: list[tuple[int, str]], opened: list[str], addresses: str
) -> None:
    """And of no others; the node of a device's management only with all of the device."""
    given = [allocation.Share(DEVICE.uuid, 0, core, 0, vf=vf) for core, vf in shares]

    found = await delivered(two, tmp_path, *given)

    assert paths(found) == opened
    assert found.env["PCIDEVICE_BERTH_DEV_RDMA"] == addresses


async def test_what_not_every_node_has_may_lack(tree: RdmaTree, tmp_path: Path) -> None:
    """Programs that connect by themselves need no rdma_cm, and few manage devices."""
    tree.add("mlx5_0", ADDRESS)
    nodes_below(tmp_path, "uverbs0")

    found = await delivered(tree, tmp_path, allocation.Share(DEVICE.uuid, 0, 100, 0))

    assert paths(found) == ["uverbs0"]


async def test_a_container_that_cannot_open_its_device_is_not_made(two: RdmaTree, tmp_path: Path) -> None:
    """It says what to do on the node: a program would go on by a slower way and say nothing."""
    function = allocation.Share(DEVICE.uuid, 0, 1, 0, vf=FUNCTION)
    place = two.kernel.device(FUNCTION).resolve()
    (place / "infiniband_verbs/uverbs1").rmdir()
    with pytest.raises(Undeliverable, match=f"{FUNCTION} has no device node for RDMA: load the module"):
        await delivered(two, tmp_path, function)

    for file in ("hca_type", "device"):
        (place / "infiniband/mlx5_1" / file).unlink()
    (place / "infiniband/mlx5_1").rmdir()
    (place / "infiniband").rmdir()
    with pytest.raises(Undeliverable, match="for RDMA: no driver of the node has it"):
        await delivered(two, tmp_path, function)

    (two.kernel.sys / "bus/pci/drivers/vfio-pci").mkdir(parents=True)
    pci_tree.link(place / "driver", two.kernel.sys / "bus/pci/drivers/vfio-pci")
    with pytest.raises(Undeliverable, match="the driver vfio-pci makes no RDMA device of it"):
        await delivered(two, tmp_path, function)

    (tmp_path / "dev/infiniband/uverbs0").unlink()
    with pytest.raises(Undeliverable, match=r"there is no device node .*/dev/infiniband/uverbs0"):
        await delivered(two, tmp_path, allocation.Share(DEVICE.uuid, 0, 100, 0))


async def test_a_device_must_be_there_and_may_have_another_minor(two: RdmaTree, tmp_path: Path) -> None:
    """Its minor counts the devices that there are, so it changes when another goes; its address does not."""
    share = allocation.Share(DEVICE.uuid, 3, 100, 0)

    assert paths(await delivered(two, tmp_path, share)) == ["uverbs0", "umad0", "rdma_cm"]
    with pytest.raises(Undeliverable, match=f"device rdma-{ADDRESS} is no longer on this node"):
        await delivered(two, tmp_path, share, listed=())


async def test_a_device_of_a_file_opens_nothing(two: RdmaTree, tmp_path: Path) -> None:
    """Which device nodes it has, nobody says, unless its name is its address."""
    listed = wire.Card("rdma-by-hand", "rdma", 0)

    found = await delivered(two, tmp_path, allocation.Share(listed.uuid, 0, 100, 0), listed=(listed,))

    assert paths(found) == [] and "PCIDEVICE_BERTH_DEV_RDMA" not in found.env
