"""What is remembered of the cards of a node from look to look, and what is logged of it."""

import dataclasses
import logging

import pytest

from berth_agent import device_spec, health_monitor, probe
from berth_crds import wire
from support.clinic import CARD, PAIR, PEER, RULES, TICK

SPEC = device_spec.spec("n1", PAIR, None)
FAILED = probe.SourceFailed("DriverNotLoaded", "no driver")
BARE = dataclasses.replace(
    PAIR, cards=tuple(dataclasses.replace(each, health=None) for each in PAIR.answering_cards()), devices=()
)


NOTHING = wire.DeviceStatus()
ILL = wire.DeviceStatus(devices=(wire.CardStatus(CARD, "Unhealthy", "XidCritical", 48),))


class Watched:
    """A health monitor, asked every ten seconds."""

    def __init__(self, known: wire.DeviceStatus = NOTHING) -> None:
        self.monitor = health_monitor.HealthMonitor(RULES)
        self.known = known
        self.now = 0.0

    def look(self, *numbers: int, failed: bool = False) -> bool | None:
        """Look, with errors told of the first card; say whether it is well, or None where nobody can say."""
        self.now += TICK
        told = tuple(probe.XidEvent(CARD, number) for number in numbers)
        outcome = FAILED if failed else dataclasses.replace(BARE, xids=told)
        verdicts = self.monitor.judge(outcome, SPEC, SPEC, self.known, now=self.now)
        return verdicts[CARD].state == "Healthy" if CARD in verdicts else None

    def looks_until_well(self) -> int:
        """Count the looks until the card is well again."""
        for count in range(1, 1000):
            if self.look():
                return count
        raise AssertionError("it never came back")


@pytest.mark.parametrize("before", [0, 2, 5])
def test_time_in_which_nobody_could_look_heals_nobody(before: int) -> None:
    """A card must be seen well for so many seconds: those without a driver are no part of them."""
    plain, interrupted = Watched(), Watched()
    for each in (plain, interrupted):
        each.look(48)
        assert [each.look() for _ in range(before)] == [False] * before
    assert [interrupted.look(failed=True) for _ in range(100)] == [None] * 100

    # The look before and the look after the gap tell nothing of what was between them.
    assert interrupted.looks_until_well() == plain.looks_until_well() + 1


@pytest.mark.parametrize("failures", [0, 1, 30])
def test_first_look_that_fails_delays_nothing(failures: int) -> None:
    """What stood in the Device is taken up with the first look that shows cards, whenever that is."""
    watched = Watched(known=ILL)
    watched.now = 864_000.0  # The machine has been up for days.
    for _ in range(failures):
        assert watched.look(failed=True) is None
    assert watched.look() is False

    assert watched.looks_until_well() == RULES.cool_down // TICK


def test_card_that_is_seen_ill_after_a_gap_is_no_relapse() -> None:
    """Nor does such time make a case be forgotten."""
    watched = Watched()
    watched.look(48)
    watched.looks_until_well()
    for _ in range(10_000):
        watched.look(failed=True)
    watched.look(48)

    assert watched.looks_until_well() == 2 * RULES.cool_down // TICK


def test_errors_are_logged_with_their_number(caplog: pytest.LogCaptureFixture) -> None:
    """A card that rains one error is one line in each look."""
    watched = Watched()
    with caplog.at_level(logging.INFO):
        watched.look(*[48] * 1000, 63)

    lines = [line for line in caplog.messages if "XID" in line]
    assert len(lines) == 2
    assert lines[0].startswith(f"{CARD}: XID 48 (1000 times): ")
    assert lines[1].startswith(f"{CARD}: XID 63: ")
    assert PEER not in caplog.text
