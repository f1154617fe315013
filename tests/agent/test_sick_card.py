"""One of eight cards falls sick and is well again: how soon no pod gets it, counted in looks of its agent.

The agent would look once an hour, so each look here has its cause, and the count of looks is the time that
passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from berth_agent import probe
from berth_agent.health import health_rules
from berth_crds import wire
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import cycle, decisions
from berth_operator.translate import devices
from support import builders, clock, nodes
from support.nvml import presets

if TYPE_CHECKING:
    from agent.conftest import Scene
    from berth_agent.nvml import nvml_probe

CARDS: Final = 8
SICK: Final = 5  # The index of the card that falls sick.
XID: Final = 79
HARMLESS_XID: Final = 13  # A program failed, which says nothing of its card.
RULES: Final = health_rules.HealthRules(cool_down=0, clean_probes=2)
SECONDS_BETWEEN_LOOKS: Final = 3600.0


class CountedLooks:
    """A probe that keeps what each look has found."""

    def __init__(self, source: nvml_probe.NvmlProbe) -> None:
        self._source = source
        self.found: list[probe.Outcome] = []
        self.has_events, self.close = source.has_events, source.close

    def sample(self) -> probe.Outcome:
        """Look at the cards."""
        self.found.append(self._source.sample())
        return self.found[-1]


class Operator:
    """The ledger of an operator that reads the Device of the node, and places pods of one card each."""

    def __init__(self, node: str) -> None:
        self._clock = clock.Clock()
        self._ledger = Ledger(self._clock)
        self._ledger.node_seen(builders.node(node))

    def read(self, device: wire.Device) -> None:
        """Take the Device up, as the informer does."""
        self._ledger.device_seen(devices.read(device))
        self._ledger.agent_silent(device.metadata.name, silent=False)
        self._ledger.all_devices_read()

    def place(self, *names: str) -> set[str]:
        """Have these pods wait beside those that do; return the cards that are given now."""
        for name in names:
            self._ledger.pod_waiting(builders.pod_info(name, 1), gated=False)
        self._ledger.backlog.cluster_event(decisions.ClusterEvent)
        found = cycle.schedule(self._ledger.search, self._ledger.backlog, self._clock(), self._ledger.policy)
        holds = [
            cycle.hold_for(self._ledger.assume(one), one.placement)
            for one in found
            if isinstance(one, decisions.Bind)
        ]
        for hold in holds:
            self._ledger.pod_bound(hold)
        return {share.uuid for hold in holds for share in hold.shares}


async def test_one_of_eight_cards_is_refused_from_the_next_look_until_it_is_well(
    scene: Scene, place: nodes.Place
) -> None:
    """The look that an XID causes publishes it: just that card gets no pod, and gets one when it is well.

    Nothing is started anew, neither the agent nor what places pods.
    """
    rig = place(presets.DGX_A100)
    looks, operator = CountedLooks(rig.start()), Operator(scene.node)
    scene.rules, scene.interval = RULES, SECONDS_BETWEEN_LOOKS
    cards = [rig.machine.read()[f"card.{index}.uuid"] for index in range(CARDS)]

    async with scene.agent(source=looks) as view:

        async def sick_after(published: int) -> set[str]:
            """Wait for the next look, and have the operator read what it publishes; return the sick cards."""
            await scene.until(lambda: view.ticks >= published, what=f"look {published}")
            device = await scene.until_device(lambda _: True, what="the Device")
            operator.read(device)
            # One look more was made before the API was known.
            assert (view.ticks, len(looks.found)) == (published, published + 1)
            return {one.uuid for one in device.status.devices if (one.health, one.xid) == ("Unhealthy", XID)}

        assert await sick_after(1) == set()

        rig.machine.raise_xid(SICK, XID)
        assert await sick_after(2) == {cards[SICK]}
        assert operator.place(*(f"p{number}" for number in range(CARDS))) == {*cards} - {cards[SICK]}

        for published, sick in enumerate([{cards[SICK]}, set()], start=3):
            rig.machine.raise_xid(0, HARMLESS_XID)  # It has the agent look again.
            assert await sick_after(published) == sick
            assert operator.place() == {cards[SICK]} - sick
