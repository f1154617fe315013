"""Labels that follow from what driver and kernel say: of cards, of RDMA devices and their functions."""

from pathlib import Path

import pytest

from berth_agent import found_labels, probe, rdma
from berth_crds import schema_limits, wire
from support.rdma_tree import RdmaTree


@pytest.fixture
def tree(tmp_path: Path) -> RdmaTree:
    """Lend a node without devices."""
    return RdmaTree(tmp_path)


@pytest.mark.parametrize(
    ("model", "capability", "labels"),
    [
        pytest.param(
            "NVIDIA H100 80GB HBM3",
            "9.0",
            {"product": "H100-80GB-HBM3", "computeCapability": "9.0", "family": "hopper"},
            id="all is known",
        ),
        pytest.param("Acme G1", "", {"product": "Acme-G1"}, id="a card without CUDA"),
        pytest.param("", "", {}, id="nothing is known"),
    ],
)
def test_cards_are_labelled_by_what_they_are(model: str, capability: str, labels: dict[str, str]) -> None:
    """What is not known has no label."""
    card = probe.Card("GPU-1", 0, 0, model, memory=1, compute_capability=capability)

    assert found_labels.of_card(card) == labels


@pytest.mark.parametrize("text", ["_my driver!\n" + "x" * 80, "\u202e", "-", "a\x1b[31mb", "é" * 99])
def test_whatever_something_is_called_a_selector_can_name_it(text: str) -> None:
    """A value is one of Kubernetes, or there is no label."""
    value = found_labels.value(text)

    assert value == "" or schema_limits.LABEL_NAME.matches(value)
    assert found_labels.of_driver(text) == ({"driver": value} if value else {})


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
    tree: RdmaTree, ports: list[tuple[str, str]], labels: dict[str, str]
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


def test_functions_have_the_labels_of_their_driver_and_their_network(tree: RdmaTree) -> None:
    """Pods may select them by these, and a device by its own driver."""
    place = tree.add("mlx5_0", "0000:3b:00.0")
    tree.port("mlx5_0", 1, "4: ACTIVE")
    port = tree.kernel.sys / "class/infiniband/mlx5_0/ports/1"
    (port / "link_layer").write_text("InfiniBand\n")
    (port / "rate").write_text(f"{HDR}\n")
    for number, driver in enumerate(("mlx5_core", "mlx5_core", "other")):
        tree.add_vf(number, f"0000:3b:00.{number + 2}", of=place)
        tree.drive(f"0000:3b:00.{number + 2}", driver)
    tree.drive("0000:3b:00.0", "mlx5_core")

    (found,) = (one.entry for one in rdma.devices(tree.kernel))

    assert found.labels == {"driver": "mlx5_core", "gbps": "200", "linkLayer": "InfiniBand"}
    assert found.vf_groups == (
        wire.VfGroup(
            {"driver": "mlx5_core", "linkLayer": "InfiniBand"},
            (wire.Vf(0, "0000:3b:00.2"), wire.Vf(1, "0000:3b:00.3")),
        ),
        wire.VfGroup({"driver": "other", "linkLayer": "InfiniBand"}, (wire.Vf(2, "0000:3b:00.4"),)),
    )
