"""What a Device says of cards opens none of them after a reboot: their minors may be those of others now."""

import datetime as dt
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Final

import pytest

from agent.test_settings import parse
from berth_agent import __main__ as program
from berth_agent import device_spec, loop, node_view, probe, sampler, simulated, way
from berth_crds import wire
from berth_crds.client import api
from support import stub

DRIVER: Final = wire.Driver("550.107.02")
FAILED: Final = sampler.Observation(probe.SourceFailed("DriverNotLoaded", "No driver."))
NOW: Final = "boot-2"
PUBLISHED: Final = (("GPU-a", 0), ("GPU-b", 1), ("GPU-c", 2))
# The first card has died in the reboot, and the others have moved up.
SAMPLED: Final = (("GPU-b", 0), ("GPU-c", 1))

Minors = tuple[tuple[str, int], ...]


class RecordingWay(way.Way):
    """A way that records which cards it is notified of."""

    def __init__(self, access: way.NodeAccess) -> None:
        self.access = access
        self.notified: list[Minors] = []

    def set_device(self, spec: wire.DeviceSpec, unusable: Collection[str]) -> None:  # noqa: ARG002
        """Record the cards."""
        self.notified.append(minors(spec.devices))

    def cards(self) -> Minors | None:
        """Return the cards that may be opened."""
        cards = self.access.cards()
        return None if cards is None else minors(cards)


class Restarted:
    """An agent that has just been started on a node with a Device, and its only way."""

    def __init__(self, session: api.Api, published: str, boot: str) -> None:
        self.ways: list[RecordingWay] = []
        config = loop.NodeConfig(
            "n1", simulated.SimulatedProbe("n1", "1xA10"), boot_id=boot, ways=(self.way,)
        )
        process = loop.ProcessContext(clock=lambda: dt.datetime(2026, 1, 1, tzinfo=dt.UTC), identity="me")
        view = node_view.NodeView("n1")
        self._agent = loop.NodeAgent(session, config, loop.Timing(10, 5, 40), process, view)
        spec = device_spec.spec("n1", sample(published, PUBLISHED), None)
        meta = wire.Meta(name="n1", uid="d", resource_version="5")
        self._agent._publisher._mirror.upserted(wire.Device(metadata=meta, spec=spec))

    def way(self, access: way.NodeAccess) -> RecordingWay:
        """Return a new way, and keep it."""
        self.ways.append(RecordingWay(access))
        return self.ways[-1]

    def describe(self, observation: sampler.Observation) -> wire.DeviceSpec:
        """Return what the agent would publish of what it sees."""
        return self._agent._describe(observation)[0]


def minors(cards: Collection[wire.Card]) -> Minors:
    """Return uuids and minors."""
    return tuple((card.uuid, card.minor) for card in cards)


def sample(boot: str, cards: Minors) -> probe.Sample:
    """Return a sample of cards in a boot."""
    found = (probe.Card(uuid, minor, minor, "NVIDIA A100", 80 << 30) for uuid, minor in cards)
    return probe.Sample(DRIVER, boot, tuple(found))


@pytest.fixture
async def restarted() -> AsyncIterator[Callable[[str, str], Restarted]]:
    """Lend what starts an agent where a Device of a boot is published, in a boot."""
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        yield lambda published, boot: Restarted(session, published, boot)


async def test_no_card_is_opened_by_its_minor_of_an_earlier_boot(
    restarted: Callable[[str, str], Restarted],
) -> None:
    """They are known with the first good sample; until then the Device stays as it is."""
    agent = restarted("boot-1", NOW)
    (only,) = agent.ways

    assert only.cards() is None
    assert minors(agent.describe(FAILED).devices) == PUBLISHED
    assert (only.cards(), only.notified) == (None, [])
    agent.describe(sampler.Observation(sample(NOW, SAMPLED)))
    assert only.cards() == SAMPLED
    agent.describe(FAILED)
    assert (only.cards(), only.notified) == (SAMPLED, [SAMPLED, SAMPLED])


async def test_cards_of_this_boot_are_opened_before_the_first_sample(
    restarted: Callable[[str, str], Restarted],
) -> None:
    """An agent that restarts beside a driver that hangs keeps no pod waiting."""
    agent = restarted(NOW, NOW)
    (only,) = agent.ways

    assert only.cards() == PUBLISHED
    agent.describe(FAILED)
    assert (only.cards(), only.notified) == (PUBLISHED, [PUBLISHED])


async def test_where_no_boot_is_known_a_sample_is_waited_for(
    restarted: Callable[[str, str], Restarted],
) -> None:
    """Two boots of which neither has an id are not one."""
    agent = restarted("", "")
    (only,) = agent.ways

    assert only.cards() is None
    agent.describe(sampler.Observation(sample("", SAMPLED)))
    assert only.cards() == SAMPLED


@pytest.mark.parametrize(
    ("words", "boot"),
    [
        pytest.param([], NOW, id="as the kernel says"),
        pytest.param(["--simulate=1xA10"], simulated.boot_id("host-1"), id="a simulated node has one"),
    ],
)
def test_the_program_knows_the_boot(tmp_path: Path, words: list[str], boot: str) -> None:
    """Samples have the same."""
    file = tmp_path / "sys/kernel/random/boot_id"
    file.parent.mkdir(parents=True)
    file.write_text(f"{NOW}\n")
    chosen = parse(*words, *([] if words else [f"--procfs={tmp_path}"]))

    assert program._config(chosen.nodes[0], chosen, ()).boot_id == boot
