"""A node whose cards are judged look after look, for tests of health."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from berth_agent import probe, simulated
from berth_agent.health import judge, rules
from berth_crds import vocabulary

TICK = 10
PAIR = simulated.machine("n1", "2xA100-SXM4-80GB")
CARD, PEER = (each.uuid for each in PAIR.read())
RULES = rules.Rules(cool_down=60, clean_looks=3)
GONE = probe.Lost(0, "GpuIsLost", "it does not answer", CARD)


class Clinic:
    """A node whose looks are judged one after the other, ten seconds apart."""

    def __init__(self, chosen: rules.Rules = RULES, record: judge.Record | None = None) -> None:
        self.chosen = chosen
        self.record = record or judge.Record()
        self.now = 0.0

    def look(
        self, *told: int, lost: bool = False, repaired: Iterable[str] = (), **vitals: Any
    ) -> probe.Health:
        """Judge a look: errors told of the first card, whether it is lost, and what it measures else."""
        self.now += TICK
        cards = (dataclasses.replace(each, health=None, vitals=probe.Vitals()) for each in PAIR.read())
        first, second = cards
        measured: probe.Card | probe.Lost = dataclasses.replace(first, vitals=probe.Vitals(**vitals))
        sample = dataclasses.replace(
            PAIR,
            cards=(GONE if lost else measured, second),
            xids=tuple(probe.Xid(CARD, number) for number in told),
        )
        look = judge.Look(sample, {CARD: GONE} if lost else {}, self.now, frozenset(repaired))
        found = judge.judge(look, self.record, self.chosen)
        self.record = found.record
        assert found.verdicts[PEER] == judge.WELL
        return found.verdicts[CARD]

    def seconds_until_well(self, most: int = 10_000) -> int:
        """Return how long a card that shows nothing wrong any more is still held back."""
        start = self.now
        while self.now - start < most:
            if is_well(self.look()):
                return int(self.now - start)
        raise AssertionError("it never came back")


def is_well(health: probe.Health) -> bool:
    """Return whether a card may be given out."""
    return health.verdict is vocabulary.Health.HEALTHY
