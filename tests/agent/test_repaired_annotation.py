"""What the agent says and does about `berth.dev/repaired`: what it has heeded goes, and no more is told."""

import datetime as dt
import json
import logging
from typing import Final

import pytest

from berth_agent import device_spec, loop, node_view, probe, sampler, simulated
from berth_crds import names, wire
from berth_crds.client import api, resources
from support import stub

NODE: Final = "n1"
SICK, WELL = "GPU-a", "GPU-b"
SICK_STATUS: Final = wire.DeviceStatus(devices=(wire.CardStatus(SICK, "Unhealthy", "XidCritical"),))


def sample(*, lost: bool) -> probe.Sample:
    """Return a sample of two cards that are well, or of which the first is lost."""
    first, second = (
        probe.Card(uuid, minor, minor, "NVIDIA A100", 80 << 30, health=None)
        for minor, uuid in enumerate((SICK, WELL))
    )
    gone = probe.LostCard(0, "GpuIsLost", "GPU is lost", SICK)
    return probe.Sample(wire.Driver("550.107.02"), "boot", (gone if lost else first, second))


@pytest.mark.parametrize(
    ("text", "lost", "left", "repaired"),
    [
        pytest.param("GPU-a", False, None, True, id="a card that was sick"),
        pytest.param("GPU-a,GPU-typo", False, "GPU-typo", True, id="and one that is not there"),
        pytest.param("GPU-a", True, None, False, id="a card that is lost"),
        pytest.param("1", False, None, False, id="a card that was well"),
        pytest.param("GPU-typo,", False, "GPU-typo,", False, id="no card, and a comma"),
        pytest.param("GPU-x, GPU-y", False, "GPU-x, GPU-y", False, id="no card, and a blank"),
    ],
)
async def test_what_was_heeded_goes_and_is_told_if_it_has_healed_a_card(
    caplog: pytest.LogCaptureFixture, text: str, left: str | None, *, lost: bool, repaired: bool
) -> None:
    """What names no card of the node stays as it was written; a card that is sick still was not repaired."""
    caplog.set_level(logging.INFO)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        server.on("PATCH", resources.DEVICES.path(NODE), stub.thing({}))
        process = loop.ProcessContext(clock=lambda: dt.datetime(2026, 1, 1, tzinfo=dt.UTC), identity="me")
        config = loop.NodeConfig(NODE, simulated.SimulatedProbe(NODE, "1xA10"))
        agent = loop.NodeAgent(session, config, loop.Timing(10, 5, 40), process, node_view.NodeView(NODE))
        meta = wire.Meta(name=NODE, uid="d", resource_version="5", annotations={names.REPAIRED: text})
        spec = device_spec.spec(NODE, sample(lost=False), None)
        agent._publisher._mirror.upserted(wire.Device(metadata=meta, spec=spec, status=SICK_STATUS))

        agent._describe(sampler.Observation(sample(lost=lost)))
        await agent._clear_repaired_annotation()
        written = [json.loads(body)[1].get("value") for body in server.bodies]

    assert written == ([] if left == text else [left])
    told = [line for line in caplog.messages if "repaired" in line]
    assert told == (["node n1: GPU-a is healthy again: it is taken as repaired"] if repaired else [])
