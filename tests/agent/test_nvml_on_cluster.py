"""Real cards, as the mock of NVML tells them, in a Device on the real API server."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agent import programs
from berth_agent import device_spec
from berth_crds import names, wire
from support import nodes
from support.nvml import build, fixtures, machine, presets
from testbed import cluster as clusters

if TYPE_CHECKING:
    from agent.conftest import Scene


def condition(device: wire.Device) -> tuple[str, str]:
    """Give status and reason of what the agent says of its source."""
    found = next((each for each in device.status.conditions if each.type == "NVMLReady"), None)
    return (found.status, found.reason) if found else ("", "")


async def test_agent_waits_for_the_driver_and_lives_through_its_loss(
    scene: Scene, place: nodes.Place
) -> None:
    """Without a driver the Device says so; with it, it lists the cards; one that is lost is one bad entry."""
    rig = place(presets.DGX_A100)
    rig.machine.unload()
    async with scene.agent(source=rig.start()):
        empty = await scene.until_device(
            lambda device: condition(device) == ("False", "DriverNotLoaded"), what="the agent to say so"
        )
        assert empty.spec.devices == ()

        rig.machine.load()
        whole = await scene.until_device(
            lambda device: condition(device) == ("True", "CardsRead"), what="the cards"
        )
        with contextlib.closing(rig.start()) as another:
            assert whole.spec == device_spec.spec(scene.node, nodes.look(another), None)
        assert [len(group.members) for group in whole.spec.partitions] == [8, 4, 4, 2, 2, 2, 2, *[1] * 8]

        rig.machine.lose(2)
        hurt = await scene.until_device(lambda device: device.status.devices, what="the bad entry")
        assert [each.reason for each in hurt.status.devices] == ["GpuIsLost"]
        assert (hurt.status.devices[0].uuid, hurt.spec) == (whole.spec.devices[2].uuid, whole.spec)

        rig.machine.unload(18)
        silent = await scene.until_device(
            lambda device: condition(device) == ("False", "VersionMismatch"), what="the failed source"
        )
        assert silent.spec == whole.spec

        rig.machine.find(2)
        rig.machine.load()
        await scene.until_device(
            lambda device: condition(device)[0] == "True" and not device.status.devices, what="all well"
        )


async def test_server_takes_every_machine(scene: Scene, place: nodes.Place) -> None:
    """Whatever the driver tells of the known machines is a Device that the server accepts."""
    await scene.create_node()
    for preset in (presets.DGX_1V, presets.HGX_H100, presets.A10, presets.MIXED, presets.MIG):
        with contextlib.closing(place(preset).start()) as looking:
            expected = device_spec.spec(scene.node, nodes.look(looking), None)
            async with scene.agent(source=looking):
                await scene.until_device(lambda device: device.spec == expected, what=preset.name)  # noqa: B023


async def test_program_outlives_a_driver_that_hangs(
    berth: clusters.Cluster, scene: Scene, tmp_path: Path
) -> None:
    """The program reads the cards; a call that hangs is told, and a signal ends it all the same."""
    fixtures.require()
    rig = machine.Machine.make(tmp_path / "node", presets.DGX_A100)
    await scene.create_node()
    command = [
        *(sys.executable, "-m", "berth_agent", "--node", scene.node, "--interval", "0.2"),
        *("--sysfs", str(rig.sys), "--procfs", str(rig.proc), "--sample-deadline", "0.5"),
        *("--kubeconfig", str(berth.kubeconfig_for(names.SYSTEM_NAMESPACE, names.AGENT_ACCOUNT))),
    ]
    mock = {"LD_LIBRARY_PATH": str(build.library().parent), machine.VARIABLE: str(rig.state)}
    async with programs.running(command, tmp_path / "log", env=mock) as agent:
        whole = await scene.until_device(lambda device: condition(device)[0] == "True", what="the cards")
        rig.hang("nvmlDeviceGetMemoryInfo", card=3)
        hung = await scene.until_device(lambda device: condition(device)[1] == "Hung", what="the hang")
        await programs.ends(agent)

    assert whole.spec.summary == wire.SpecSummary("A100-SXM4-80GB x8", 8)
    assert (whole.spec.driver, hung.spec) == (wire.Driver("550.107.02", "12.4"), whole.spec)
    assert "Traceback" not in (tmp_path / "log").read_text()
