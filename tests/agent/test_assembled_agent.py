"""The agent as the program puts it together: each of its sources reaches the Device that is published.

The sources have tests of their own; here it is that the program has all of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from unittest import mock

import pytest

from agent import programs
from berth_agent import __main__ as program
from berth_agent import chosen_packages, chosen_ways, loop, probe, settings
from berth_crds import wire
from support import device_package, nodes, sources_node
from support.nvml import build, fixtures, machine, presets

if TYPE_CHECKING:
    from agent.conftest import Scene

CARD_LABELS: Final = {"product": "A10", "family": "ampere", "computeCapability": "8.6"}


@pytest.fixture
def packages() -> Iterator[None]:
    """Forget afterwards which types and modules of packages were loaded."""
    with device_package.added():
        yield
    for module in ("npu_x", "npu_x_source"):
        sys.modules.pop(module, None)


def assembled(*arguments: str) -> probe.Probe:
    """Return the probe that the program makes of its arguments."""
    return configured(*arguments).probe


def configured(*arguments: str) -> loop.NodeConfig:
    """Return the whole node that the program makes of its arguments."""
    chosen = settings.parse(["--node", "n1", *arguments], {}, host="n1")
    not_loaded = chosen_packages.load(chosen)
    return program._config(chosen.nodes[0], chosen, not_loaded)


def uuids(spec: wire.DeviceSpec) -> list[str]:
    """Return the uuids of the devices that are no cards."""
    return [card.uuid for card in spec.devices if card.type != "gpu"]


@pytest.mark.usefixtures("packages")
def test_a_node_with_cards_has_the_devices_of_all_sources(
    place: nodes.Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the cards of the driver, in the order of the sources."""
    rig = place(presets.A10)
    node = sources_node.SourcesNode(rig.machine.sys.parent)
    monkeypatch.syspath_prepend(str(node.site))

    spec = nodes.spec(assembled(*node.flags))

    assert [card.type for card in spec.devices[:8]] == ["gpu"] * 8
    assert [card.labels for card in spec.devices[:2]] == [CARD_LABELS, {**CARD_LABELS, "tier": "gold"}]
    assert uuids(spec) == [*sources_node.DEVICES.values()]


@pytest.mark.usefixtures("packages")
def test_a_node_without_cards_has_them_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver of NVIDIA's is asked for."""
    node = sources_node.SourcesNode(tmp_path)
    monkeypatch.syspath_prepend(str(node.site))

    spec = nodes.spec(assembled("--no-gpus", *node.flags))

    assert [card.uuid for card in spec.devices] == [*sources_node.DEVICES.values()]


@pytest.mark.usefixtures("packages")
def test_a_simulated_node_has_the_devices_of_packages_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the machine has on which it is simulated is not its own."""
    node = sources_node.SourcesNode(tmp_path)
    monkeypatch.syspath_prepend(str(node.site))

    spec = nodes.spec(assembled("--simulate", "2xT4"))

    assert uuids(spec) == ["npu-x-n1-0", "npu-x-n1-1"]


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(
    ("words", "types"),
    [
        pytest.param([], {"npu-x", "rdma"}, id="of a real node"),
        pytest.param(["--simulate", "2xT4"], {"npu-x"}, id="of a simulated node"),
    ],
)
def test_devices_of_kernel_and_packages_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], types: set[str]
) -> None:
    """The plugin of the runtime is told by what each type is opened."""
    monkeypatch.syspath_prepend(str(sources_node.SourcesNode(tmp_path).site))
    with mock.patch.object(chosen_ways, "makers", return_value=()) as makers:
        configured("--nri=n.sock", *words)

    assert makers.call_args.kwargs["openers"].keys() == types


async def test_the_program_publishes_what_all_sources_find(scene: Scene, tmp_path: Path) -> None:
    """The server takes it, with the labels of each: those of the agent, of files and of a package."""
    fixtures.require()
    rig = machine.Machine.make(tmp_path / "node", presets.A10)
    node = sources_node.SourcesNode(rig.sys.parent)
    await scene.create_node()
    command = [
        *(sys.executable, "-m", "berth_agent", "--node", scene.node, "--interval", "0.2", *node.flags),
        *("--kubeconfig", str(scene.kubeconfig())),
    ]
    path = os.pathsep.join(filter(None, (str(node.site), os.environ.get("PYTHONPATH"))))
    library = {"LD_LIBRARY_PATH": str(build.library().parent), machine.VARIABLE: str(rig.state)}
    async with programs.running(command, tmp_path / "log", env={**library, "PYTHONPATH": path}) as agent:
        device = await scene.until_device(lambda it: len(it.spec.devices) == 12, what="all devices")
        (node.folder / "a.json").write_text('{"labels": [{"type": "gpu", "labels": {"tier": "iron"}}]}')
        changed = await scene.until_device(lambda it: len(it.spec.devices) == 11, what="the change")
        await programs.ends(agent)

    labels = {card.uuid: card.labels for card in device.spec.devices if card.type != "gpu"}
    groups = {card.type: card.vf_groups for card in device.spec.devices if card.vf_groups}
    assert [card.labels for card in device.spec.devices[:2]] == [
        CARD_LABELS,
        {**CARD_LABELS, "tier": "gold"},
    ]
    assert labels == {
        sources_node.DEVICES["RDMA devices"]: {
            "driver": "mlx5_core",
            "example.com/rack": "r7",
            "linkLayer": "InfiniBand",
        },
        sources_node.DEVICES["FPGAs"]: {},
        sources_node.DEVICES["files"]: {"fabric": "a"},
        sources_node.DEVICES["packages"]: {"fabric": "b"},
    }
    assert groups == {
        "rdma": (
            wire.VfGroup(
                {"driver": "mlx5_core", "linkLayer": "InfiniBand", "use": "storage"},
                (wire.Vf(0, sources_node.NIC_FUNCTION),),
            ),
        ),
        "fpga": (wire.VfGroup({"driver": "vfio-pci"}, (wire.Vf(0, sources_node.FPGA_FUNCTION),)),),
    }
    assert {card.labels["tier"] for card in changed.spec.devices[:8]} == {"iron"}
