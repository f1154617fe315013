"""A node whose cards are judged look after look, for tests of health."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from berth_agent import probe, simulated
from berth_agent.health import cooldown, health_rules, verdicts
from berth_crds import vocabulary

TICK = 10
PAIR = simulated.machine("n1", "2xA100-SXM4-80GB")
# Cards that say nothing of their health: it is judged.
FIRST, SECOND = (dataclasses.replace(card, health=None) for card in PAIR.answering_cards())
CARD, PEER = FIRST.uuid, SECOND.uuid
RULES = health_rules.HealthRules(cool_down=60, clean_probes=3)
GONE = probe.LostCard(0, "GpuIsLost", "it does not answer", CARD)


class Clinic:
    """A node whose looks are judged one after the other, ten seconds apart."""

    def __init__(
        self, rules: health_rules.HealthRules = RULES, history: cooldown.HealthHistory | None = None
    ) -> None:
        self.rules = rules
        self.history = history or cooldown.HealthHistory()
        self.now = 0.0

    def judge(
        self,
        *cards: probe.Card | probe.LostCard,
        xids: Iterable[probe.XidEvent] = (),
        repaired: Iterable[str] = (),
    ) -> Mapping[str, probe.DeviceHealth]:
        """Judge a look that shows these cards."""
        self.now += TICK
        sample = dataclasses.replace(PAIR, cards=cards, xids=tuple(xids))
        lost = {card.uuid: card for card in sample.lost_cards()}
        given = verdicts.HealthInput(sample, lost, self.now, frozenset(repaired))
        found, self.history = verdicts.judge(given, self.history, self.rules)
        return found

    def look(
        self, *numbers: int, lost: bool = False, repaired: Iterable[str] = (), **measured: Any
    ) -> probe.DeviceHealth:
        """Judge a look: errors reported of the first card, whether it is lost, and what it measures else."""
        first = dataclasses.replace(FIRST, measurements=probe.Measurements(**measured))
        xids = (probe.XidEvent(CARD, number) for number in numbers)
        found = self.judge(GONE if lost else first, SECOND, xids=xids, repaired=repaired)
        assert found[PEER] == verdicts.HEALTHY
        return found[CARD]

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
