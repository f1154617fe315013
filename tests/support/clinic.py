"""A node whose cards are judged look after look, for tests of health."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from berth_agent import probe, simulated
from berth_agent.health import cooldown, health_rules, verdicts
from berth_crds import vocabulary

TICK = 10
PAIR = simulated.machine("n1", "2xA100-SXM4-80GB")
CARD, PEER = (each.uuid for each in PAIR.answering_cards())
RULES = health_rules.HealthRules(cool_down=60, clean_looks=3)
GONE = probe.LostCard(0, "GpuIsLost", "it does not answer", CARD)


class Clinic:
    """A node whose looks are judged one after the other, ten seconds apart."""

    def __init__(
        self, rules: health_rules.HealthRules = RULES, history: cooldown.HealthHistory | None = None
    ) -> None:
        self.rules = rules
        self.history = history or cooldown.HealthHistory()
        self.now = 0.0

    def look(
        self, *told: int, lost: bool = False, repaired: Iterable[str] = (), **vitals: Any
    ) -> probe.DeviceHealth:
        """Judge a look: errors told of the first card, whether it is lost, and what it measures else."""
        self.now += TICK
        cards = (
            dataclasses.replace(each, health=None, measurements=probe.Measurements())
            for each in PAIR.answering_cards()
        )
        first, second = cards
        measured: probe.Card | probe.LostCard = dataclasses.replace(
            first, measurements=probe.Measurements(**vitals)
        )
        sample = dataclasses.replace(
            PAIR,
            cards=(GONE if lost else measured, second),
            xids=tuple(probe.XidEvent(CARD, number) for number in told),
        )
        look = verdicts.HealthInput(sample, {CARD: GONE} if lost else {}, self.now, frozenset(repaired))
        found = verdicts.judge(look, self.history, self.rules)
        self.history = found.history
        assert found.verdicts[PEER] == verdicts.HEALTHY
        return found.verdicts[CARD]

    def seconds_until_well(self, most: int = 10_000) -> int:
        """Return how long a card that shows nothing wrong any more is still held back."""
        start = self.now
        while self.now - start < most:
            if is_well(self.look()):
                return int(self.now - start)
        raise AssertionError("it never came back")


def is_well(health: probe.DeviceHealth) -> bool:
    """Whether a card may be given out."""
    return health.state is vocabulary.Health.HEALTHY
