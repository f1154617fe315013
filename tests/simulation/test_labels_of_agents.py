"""Labels that an agent writes are those by which pods choose, from the node's files to the decision."""

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from berth_agent import device_spec, extra_device_files, extra_devices, fpga, rdma, simulated
from berth_crds import names
from simulation import simulator
from support import manifests, pci_tree, wired_nodes
from support.rdma_tree import RdmaTree

HINT: Final = "scheduling.koordinator.sh/device-allocate-hint"
FILE: Final = {
    "labels": [
        {"type": "gpu", "minor": 1, "labels": {"tier": "gold"}},
        {"busID": "0000:3b:00.3", "labels": {"use": "backup"}},
        {"type": "fpga", "functionLabels": {"image": "codec"}},
    ]
}


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> simulator.Body:
    """Return the Device of an agent: two models of cards, two network cards with functions, an FPGA."""
    root = tmp_path_factory.mktemp("node")
    tree = RdmaTree(root)
    for number, (bus, layer) in enumerate((("3b", "InfiniBand"), ("5e", "Ethernet"))):
        _network_card(tree, f"mlx5_{number}", bus, layer)
    whole = tree.function("0000:9f:00.0", "pci0000:97", **{"class": "0x120000", "vendor": "0x10ee"})
    pci_tree.link_virtual(0, tree.function("0000:9f:00.1", "pci0000:97"), whole)
    tree.drive("0000:9f:00.1", "vfio-pci")
    (root / "labels").mkdir()
    (root / "labels/a.json").write_text(json.dumps(FILE))
    return _published(tree, root / "labels")


def _network_card(tree: RdmaTree, name: str, bus: str, layer: str) -> None:
    whole = tree.add(name, f"0000:{bus}:00.0")
    tree.port(name, 1, "4: ACTIVE")
    (tree.kernel.sys / f"class/infiniband/{name}/ports/1/link_layer").write_text(f"{layer}\n")
    for number in range(2):
        tree.add_vf(number, f"0000:{bus}:00.{number + 2}", of=whole, name=f"{name}{number}")
        tree.drive(f"0000:{bus}:00.{number + 2}", "mlx5_core")


def _published(tree: RdmaTree, folder: Path) -> simulator.Body:
    files = extra_device_files.DeviceFolder(folder, tree.kernel)
    readers = [lambda: rdma.devices(tree.kernel), lambda: fpga.devices(tree.kernel), files.devices]
    extra = extra_devices.ExtraDevices(readers, files.labels)
    cards = simulated.SimulatedProbe("n1", "2xT4+1xL4", complete=extra.complete)
    spec = json.loads(msgspec.json.encode(device_spec.spec("n1", cards.sample(), None)))
    return manifests.own("Device", "n1", spec=spec)


def hint(kind: str, **selectors: dict[str, str]) -> dict[str, str]:
    """Return Koordinator's hint with selectors by labels."""
    body = {key: {"matchLabels": labels} for key, labels in selectors.items()}
    return {HINT: json.dumps({kind: body})}


ONE: Final = {"nvidia.com/gpu": 1}
NIC: Final = {"berth.dev/rdma": 10}
FPGA: Final = {"berth.dev/fpga": 10}
CASES: Final[dict[str, tuple[dict[str, int], dict[str, str], str]]] = {
    "a card of a family": (ONE, {names.LABELS: "gpu: family=ada-lovelace"}, "n1: c0 gpu 2"),
    "a card of a product": (ONE, {names.LABELS: "gpu: product in (L4, L40)"}, "n1: c0 gpu 2"),
    "a card that can do no less": (ONE, {names.LABELS: "gpu: computeCapability!=7.5"}, "n1: c0 gpu 2"),
    "a card that a file labels": (ONE, {names.LABELS: "gpu: tier=gold"}, "n1: c0 gpu 1"),
    "the same in Koordinator's words": (ONE, hint("gpu", selector={"tier": "gold"}), "n1: c0 gpu 1"),
    "two cards where one has the label": (
        {"nvidia.com/gpu": 2},
        {names.LABELS: "gpu: tier=gold"},
        "other labels, unsuitable for this pod",
    ),
    "a network card of a network": (NIC, {names.LABELS: "linkLayer=Ethernet"}, "n1: c0 rdma 1@0000:5e:00.2"),
    "a function of a network": (
        NIC,
        {names.FUNCTION_LABELS: "rdma: linkLayer=Ethernet,driver=mlx5_core"},
        "n1: c0 rdma 1@0000:5e:00.2",
    ),
    "a function that a file labels": (
        NIC,
        {names.FUNCTION_LABELS: "rdma: use=backup"},
        "n1: c0 rdma 0@0000:3b:00.3",
    ),
    "the same function by vfSelector": (
        NIC,
        hint("rdma", vfSelector={"use": "backup"}),
        "n1: c0 rdma 0@0000:3b:00.3",
    ),
    "a function that no file labels": (
        NIC,
        {names.FUNCTION_LABELS: "rdma: !use"},
        "n1: c0 rdma 0@0000:3b:00.2",
    ),
    "a function of an FPGA": (
        FPGA,
        {names.FUNCTION_LABELS: "fpga: driver=vfio-pci,image=codec"},
        "n1: c0 fpga 0@0000:9f:00.1",
    ),
    "a function with a label that none has": (
        NIC,
        {names.FUNCTION_LABELS: "rdma: driver=vfio-pci"},
        "other labels, unsuitable for this pod",
    ),
}


@pytest.mark.parametrize(("limits", "annotations", "expected"), CASES.values(), ids=CASES)
def test_pods_get_what_they_select(
    device: simulator.Body, limits: dict[str, int], annotations: dict[str, str], expected: str
) -> None:
    """And nothing else, where nothing else is labelled so."""
    pod: Any = wired_nodes.asking(limits, annotations=annotations)

    (answer,) = simulator.place(manifests.node(), device, pod)

    assert expected in wired_nodes.outcome(answer)
