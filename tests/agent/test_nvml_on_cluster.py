"""Real cards, as the mock of NVML tells them, in a Device on the real API server.

Sick ones are condemned, held back by the rules in force, and let go by a person; a driver may be
missing, fail or hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from agent import programs
from berth_agent import device_spec
from berth_agent.health import health_rules
from berth_crds import names, wire
from berth_crds.client import api, errors, resources
from support import nodes
from support.nvml import build, fixtures, machine, presets
from testbed import proxy

if TYPE_CHECKING:
    from agent.conftest import Scene

PATIENT = health_rules.HealthRules(cool_down=3600, clean_probes=1)


@pytest.fixture
async def policy(admin: api.Api, scene: Scene) -> AsyncIterator[str]:  # noqa: ARG001  The scene has none.
    """Lend the name of the policy in force, and take it away at the end."""
    yield names.DEFAULT_POLICY
    with contextlib.suppress(errors.NotFound):
        await admin.delete(resources.POLICIES, names.DEFAULT_POLICY)


async def apply_policy(admin: api.Api, name: str, **health: object) -> None:
    """Put rules of health in force."""
    thing = {"metadata": {"name": name}, "spec": {"health": health}}
    await admin.apply(resources.POLICIES, thing, manager="test")


def told(device: wire.Device) -> dict[str, str]:
    """Give the reason for each card that is not healthy, by uuid."""
    return {each.uuid: each.reason for each in device.status.devices if each.health != "Healthy"}


async def sick(scene: Scene, rig: nodes.Mocked, card: int, xid: int) -> str:
    """Have the driver tell an error once the agent listens, and wait for the verdict."""
    uuid = rig.machine.read()[f"card.{card}.uuid"]
    await scene.until_device(lambda device: len(device.spec.devices) == 8, what="the cards")
    rig.machine.raise_xid(card, xid)
    await scene.until_device(lambda device: uuid in told(device), what="the verdict")
    return uuid


async def test_policy_is_read_live(scene: Scene, place: nodes.Place, admin: api.Api, policy: str) -> None:
    """Errors that the policy ignores condemn nobody, and a shorter wait lets a card go at once."""
    rig = place(presets.DGX_A100)
    scene.rules = PATIENT
    await scene.create_node()
    await apply_policy(admin, policy, ignoredXids=[48], coolDownSeconds=3600, cleanProbes=1)
    async with scene.agent(source=rig.start()):
        uuid = await sick(scene, rig, 3, 95)
        rig.machine.raise_xid(4, 48)
        await sick(scene, rig, 5, 119)
        device = await scene.device()
        assert device is not None
        assert told(device).keys() == {uuid, rig.machine.read()["card.5.uuid"]}

        await apply_policy(admin, policy, ignoredXids=[48], coolDownSeconds=0, cleanProbes=1)
        await scene.until_device(lambda device: told(device) == {}, what="all well")


async def test_verdict_outlives_the_agent(scene: Scene, place: nodes.Place) -> None:
    """An agent that is started anew takes the case up where it stood, and writes nothing for it."""
    rig = place(presets.DGX_A100)
    scene.rules = PATIENT
    async with scene.agent(source=rig.start()):
        await sick(scene, rig, 3, 95)
    before = await scene.device()
    beats = await scene.heartbeat()
    assert before is not None and beats is not None

    async with scene.agent(source=rig.start(), name="agent-2"):
        await scene.until_lease(
            lambda one: one.spec.holder_identity == "agent-2", what="the second agent to vouch for it"
        )
    assert await scene.device() == before


async def test_error_told_before_the_api_is_there_counts(scene: Scene, place: nodes.Place) -> None:
    """An agent that starts while there is no API server listens to its driver all the same."""
    rig = place(presets.DGX_A100)
    scene.rules = PATIENT
    await scene.create_node()
    async with proxy.Proxy(scene.cluster.port) as wire_:
        wire_.refuse()
        watched = mock.Mock(wraps=rig.start(), spec=["sample", "has_events", "close"])
        async with scene.agent(kubeconfig=scene.kubeconfig(wire_.server), source=watched):
            # The driver is asked for events between looks.
            await scene.until(lambda: watched.has_events.called, what="the end of the first look")
            rig.machine.raise_xid(4, 48)
            await asyncio.sleep(0.5)
            assert await scene.device() is None
            await wire_.accept()
            device = await scene.until_device(lambda each: each.status.devices, what="the verdict")

    assert told(device) == {rig.machine.read()["card.4.uuid"]: "XidCritical"}


@pytest.mark.parametrize(
    ("word", "left"),
    [
        pytest.param("{uuid}", None, id="by uuid"),
        pytest.param("3", None, id="by minor"),
        pytest.param("all", None, id="all"),
        pytest.param(" 3 ,GPU-nowhere", "GPU-nowhere", id="one that is not there"),
    ],
)
async def test_person_lets_a_card_go(scene: Scene, place: nodes.Place, word: str, left: str | None) -> None:
    """`kubectl annotate device N berth.dev/repaired=…` ends the wait, and what was heeded goes from it."""
    rig = place(presets.DGX_A100)
    scene.rules = PATIENT
    async with scene.agent(source=rig.start()):
        uuid = await sick(scene, rig, 3, 95)
        await scene.patch_device({"metadata": {"annotations": {names.REPAIRED: word.format(uuid=uuid)}}})

        await scene.until_device(lambda device: told(device) == {}, what="the card to be well")
        heeded = await scene.until_device(
            lambda device: device.metadata.annotations.get(names.REPAIRED) == left,
            what="the word to be heeded",
        )
        assert heeded.spec.devices[3].uuid == uuid
        await asyncio.sleep(1.0)  # Several ticks.
        assert await scene.device() == heeded, "the agent goes on writing"


async def test_word_waits_for_a_look_that_shows_cards(scene: Scene, place: nodes.Place) -> None:
    """Who repairs a card with the driver unloaded is heard once it is loaded again."""
    rig = place(presets.DGX_A100)
    scene.rules = PATIENT
    async with scene.agent(source=rig.start()):
        await sick(scene, rig, 3, 95)
        rig.machine.unload()
        await scene.until_device(
            lambda device: device.status.conditions[0].status == "False", what="no driver"
        )
        await scene.patch_device({"metadata": {"annotations": {names.REPAIRED: "3"}}})
        await asyncio.sleep(1.0)  # Several ticks.
        waiting = await scene.device()
        assert waiting is not None
        assert waiting.metadata.annotations[names.REPAIRED] == "3"

        rig.machine.load()
        await scene.until_device(
            lambda device: told(device) == {} and names.REPAIRED not in device.metadata.annotations,
            what="the word to be heeded",
        )


async def test_word_does_not_heal_what_is_still_broken(scene: Scene, place: nodes.Place) -> None:
    """A card that is lost stays lost, whatever people say; the word is heeded and spent."""
    rig = place(presets.DGX_A100)
    async with scene.agent(source=rig.start()):
        await scene.until_device(lambda device: len(device.spec.devices) == 8, what="the cards")
        rig.machine.lose(3)
        hurt = await scene.until_device(told, what="the loss")
        await scene.patch_device({"metadata": {"annotations": {names.REPAIRED: "all"}}})

        after = await scene.until_device(
            lambda device: names.REPAIRED not in device.metadata.annotations, what="the word to be heeded"
        )
        assert told(after) == told(hurt)


# ---------------------------------------------------------------- what the driver answers, and does not


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


async def test_program_outlives_a_driver_that_hangs(scene: Scene, tmp_path: Path) -> None:
    """A call that hangs is told while the Lease is renewed, and a signal ends the program all the same."""
    fixtures.require()
    rig = machine.Machine.make(tmp_path / "node", presets.DGX_A100)
    await scene.create_node()
    command = [
        *(sys.executable, "-m", "berth_agent", "--node", scene.node, "--interval", "0.2"),
        *("--sysfs", str(rig.sys), "--procfs", str(rig.proc), "--sample-deadline", "0.5"),
        *("--kubeconfig", str(scene.kubeconfig())),
    ]
    library = {"LD_LIBRARY_PATH": str(build.library().parent), machine.VARIABLE: str(rig.state)}
    async with programs.running(command, tmp_path / "log", env=library) as agent:
        whole = await scene.until_device(lambda device: condition(device)[0] == "True", what="the cards")
        rig.hang("nvmlDeviceGetMemoryInfo", card=3)
        hung = await scene.until_device(lambda device: condition(device)[1] == "Hung", what="the hang")
        first = await scene.until_lease(lambda it: it.spec.renew_time, what="the Lease")
        await scene.until_lease(lambda it: it.spec.renew_time != first.spec.renew_time, what="a renewal")
        await programs.ends(agent)

    assert whole.spec.summary == wire.SpecSummary("A100-SXM4-80GB x8", 8)
    assert (whole.spec.driver, hung.spec) == (wire.Driver("550.107.02", "12.4"), whole.spec)
    assert "Traceback" not in (tmp_path / "log").read_text()
