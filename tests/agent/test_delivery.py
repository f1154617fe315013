"""What a container gets of what was decided for it: its environment, and what opens its cards (K21, G7)."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from berth_agent.delivery import containers, guard
from berth_agent.delivery.containers import Delivery, DeviceNode, Edits, GivenCard, Mount, Undeliverable
from berth_agent.delivery.device_nodes import DeviceNodes
from berth_agent.delivery.driver_files import DriverFiles
from berth_agent.delivery.means import CdiMeans, DirectMeans
from berth_crds import allocation, names, wire

INSTANCE = wire.MigInstance("MIG-1", "1g.10gb", 10, gi=9, ci=0)
CARDS = (
    wire.Card("GPU-a", "gpu", 0),
    wire.Card("GPU-b", "gpu", 1, mig=wire.Mig(enabled=True, instances=(INSTANCE,))),
    wire.Card("nic", "rdma", 0),
)
CDI = CdiMeans("nvidia.com/gpu")


def share(uuid: str, minor: int, core: int = 100, memory: int = 7) -> allocation.Share:
    """Return a share of a card."""
    return allocation.Share(uuid, minor, core, memory)


def bound(node: str = "n1", **shares: Mapping[str, list[allocation.Share]]) -> dict[str, str]:
    """Return the annotations of a bound pod whose containers hold these shares by type."""
    return {names.TERM: "t", names.ALLOCATION: allocation.encode(allocation.of(node, shares))}


def delivered(annotations: Mapping[str, str], container: str = "main") -> Delivery | None:
    """Return what a container of such a pod gets on node n1."""
    return containers.delivery(annotations, container, "n1", CARDS, CDI)


def test_a_container_gets_its_own_shares() -> None:
    """In the order of the record; GPUs alone, and a MIG instance by its own uuid."""
    found = delivered(
        bound(
            main={"gpu": [share("MIG-1", 1, 100, 10), share("GPU-a", 0, 50, 3)], "rdma": [share("nic", 0)]},
            other={"gpu": [share("GPU-a", 0, 20, 1)]},
        )
    )

    assert found == Delivery(
        {"NVIDIA_VISIBLE_DEVICES": "MIG-1,GPU-a", "BERTH_GPU_MEMORY": "10,3", "BERTH_GPU_CORE": "100,50"},
        Edits(cdi_devices=("nvidia.com/gpu=MIG-1", "nvidia.com/gpu=GPU-a")),
    )


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({names.TERM: "t"}, id="a pod without cards"),
        pytest.param(bound(other={"gpu": [share("GPU-a", 0)]}), id="a container without cards"),
        pytest.param(bound(main={"rdma": [share("nic", 0)]}), id="one that has another device"),
    ],
)
def test_a_container_that_was_given_no_card_sees_none(annotations: dict[str, str]) -> None:
    """Whatever its image says."""
    assert delivered(annotations) == Delivery(
        {"NVIDIA_VISIBLE_DEVICES": "void", "BERTH_GPU_MEMORY": "", "BERTH_GPU_CORE": ""}
    )


def test_pods_that_berth_did_not_bind_stay_as_they_are() -> None:
    """What somebody wrote into their annotations does not count."""
    annotations = bound(main={"gpu": [share("GPU-a", 0)]})
    del annotations[names.TERM]

    assert delivered(annotations) is None


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        pytest.param({names.TERM: "t", names.ALLOCATION: "{"}, "cannot be read", id="spoiled"),
        pytest.param(
            bound("n2", main={"gpu": [share("GPU-a", 0)]}), "node n2, and this is n1", id="elsewhere"
        ),
        pytest.param(
            bound(main={"gpu": [share("GPU-z", 0)]}),
            "GPU-z is no longer on this node",
            id="a card that is gone",
        ),
        pytest.param(
            bound(main={"gpu": [share("MIG-2", 1)]}), "MIG-2 is no longer on this node", id="an instance, too"
        ),
        pytest.param(bound(main={"gpu": [share("nic", 0)]}), "nic is no longer on this node", id="no GPU"),
        pytest.param(
            bound(main={"gpu": [share("GPU-a", 3)]}),
            "changed from 3 to 0 after the bind",
            id="moved since the bind",
        ),
    ],
)
def test_what_cannot_be_carried_out_is_refused(annotations: dict[str, str], why: str) -> None:
    """No container starts with other devices than the ledger has it hold."""
    with pytest.raises(Undeliverable, match=why):
        delivered(annotations)


# ---------------------------------------------------------------- device nodes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the root of a driver with one library in two folders, and a program."""
    for path in ("usr/lib64/libcuda.so.1", "usr/lib/libcuda.so.1", "usr/lib/libc.so.6", "usr/bin/nvidia-smi"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    return tmp_path


def nodes(tmp_path: Path, *names: str, optional: bool = False) -> DeviceNodes:
    """Make device nodes of major 1 whose minors count from 3, and return the view of them."""
    if os.geteuid() != 0:
        pytest.skip("only root can make device nodes")
    for minor, name in enumerate(names, 3):
        path = tmp_path / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, minor))
    return DeviceNodes(tmp_path / "dev", tmp_path / "proc", optional=optional)


def test_cards_are_opened_by_their_device_nodes(root: Path) -> None:
    """Each once, by the paths that programs know, with the numbers that the node has, and the driver's."""
    view = nodes(root, "nvidia0", "nvidia1", "nvidiactl")
    means = DirectMeans(view, DriverFiles(root, Path("/host")))

    assert means.edits([GivenCard(CARDS[0]), GivenCard(CARDS[0])]) == Edits(
        (DeviceNode("/dev/nvidia0", 1, 3, 0o600), DeviceNode("/dev/nvidiactl", 1, 5, 0o600)),
        (
            Mount("/host/usr/lib64/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"),
            Mount("/host/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi"),
        ),
    )


def test_a_mig_instance_needs_the_nodes_that_the_driver_names(tmp_path: Path) -> None:
    """One of its part of the card, one of that of the compute; where the driver names none it is refused."""
    view = nodes(tmp_path, "nvidia1", "nvidia-caps/nvidia-cap66", "nvidia-caps/nvidia-cap67")
    access = tmp_path / "proc/driver/nvidia/capabilities/gpu1/mig/gi9"
    given = GivenCard(CARDS[1], INSTANCE)

    with pytest.raises(Undeliverable, match="gi9/access cannot be read: No such file"):
        list(view.of_card(given))
    (access / "ci0").mkdir(parents=True)
    (access / "access").write_text("DeviceFileMinor: 66\nDeviceFileMode: 292\n")
    (access / "ci0/access").write_text("DeviceFileMode: 292\n")
    with pytest.raises(Undeliverable, match="ci0/access names no device"):
        list(view.of_card(given))
    (access / "ci0/access").write_text("DeviceFileMinor: 67\n")

    assert [node.path for node in view.of_card(given)] == [
        "/dev/nvidia1",
        "/dev/nvidia-caps/nvidia-cap66",
        "/dev/nvidia-caps/nvidia-cap67",
    ]


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_card_without_a_device_node_is_refused(tmp_path: Path, make: Any) -> None:
    """Also where something else has its name; a simulated card has none, and needs none."""
    (tmp_path / "dev").mkdir()
    make(tmp_path / "dev" / "nvidia0")

    with pytest.raises(Undeliverable, match=r"there is no device node .*/dev/nvidia0"):
        list(nodes(tmp_path).of_card(GivenCard(CARDS[0])))
    simulated = nodes(tmp_path, optional=True)
    assert list(simulated.of_card(GivenCard(CARDS[0]))) == list(simulated.of_driver()) == []
    assert list(simulated.of_card(GivenCard(CARDS[1], INSTANCE))) == []


# ---------------------------------------------------------------- the guard


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ((), ()),
        (("PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"), ("all",)),
        (("NVIDIA_VISIBLE_DEVICES=void",), ()),
        (("NVIDIA_VISIBLE_DEVICES=none",), ()),
        (("NVIDIA_VISIBLE_DEVICES",), ()),
        (("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_VISIBLE_DEVICES=void"), ()),
        (("NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_VISIBLE_DEVICES=0, 1,"), ("0", "1")),
        (("MY_NVIDIA_VISIBLE_DEVICES=all",), ()),
        (("CUDA_VERSION=8",), ("all",)),
        (("CUDA_VERSION=8", "NVIDIA_REQUIRE_CUDA="), ("all",)),
        (("CUDA_VERSION=",), ()),
        (("CUDA_VERSION=12", "NVIDIA_REQUIRE_CUDA=cuda>=12"), ()),
        (("CUDA_VERSION=8", "NVIDIA_VISIBLE_DEVICES=void"), ()),
    ],
)
def test_what_an_environment_asks_for(environment: tuple[str, ...], asked: tuple[str, ...]) -> None:
    """The last value counts, and an old CUDA image that says nothing asks for all, as for the runtime."""
    assert guard.asked_for(environment) == asked


@pytest.mark.parametrize(
    ("asked", "given", "stray"),
    [
        (["all"], set(), True),
        (["all"], {"GPU-a"}, True),
        (["GPU-a"], set(), True),
        (["GPU-a"], {"GPU-a", "GPU-b"}, False),
        (["GPU-a", "GPU-c"], {"GPU-a", "GPU-b"}, True),
        (["0"], {"GPU-a"}, False),
        (["0", "1"], {"GPU-a"}, True),
        (["/var/run/nvidia-container-devices"], {"GPU-a"}, False),
        (["/var/run/nvidia-container-devices"], set(), True),
        (["all"], None, True),
        (["0"], None, True),
        (["GPU-a", "MIG-b"], None, False),
    ],
)
def test_who_asks_for_cards_that_nobody_gave(
    asked: list[str], given: set[str] | None, *, stray: bool
) -> None:
    """Of an unknown pod, a container that the kubelet does not list keeps the uuids that it names."""
    assert guard.is_stray(asked, given, {"0": "GPU-a", "1": "GPU-b"}) is stray


@pytest.mark.parametrize(
    ("asked", "requests_cards", "stray"),
    [
        (["GPU-a"], False, True),
        (["0"], False, True),
        (["/var/run/nvidia-container-devices"], False, True),
        (["GPU-a"], True, False),
        (["0"], True, False),
        (["all"], True, True),
    ],
)
def test_what_an_init_container_keeps_depends_on_what_it_requests(
    asked: list[str], *, requests_cards: bool, stray: bool
) -> None:
    """The kubelet does not list it, and a plugin serves it only where it requests cards."""
    assert guard.is_stray(asked, None, {"0": "GPU-a"}, requests_cards=requests_cards) is stray


def test_who_asked_for_too_much_gets_what_was_given() -> None:
    """And nothing where nothing was."""
    assert guard.only({"GPU-b", "GPU-a"}).env == {"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"}
    assert guard.only(set()).env == guard.only(None).env == {"NVIDIA_VISIBLE_DEVICES": "void"}
