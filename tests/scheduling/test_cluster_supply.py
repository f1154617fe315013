"""What the nodes have together: who counts, and how often a change of it is seen."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import facts as devices
from support import builders, clock, ledgers

LARGE = [builders.card(minor, at="n9", memory=1 << 40) for minor in range(64)]
ILL = [dataclasses.replace(one, trouble=Reason.UNHEALTHY) for one in LARGE]
Change = Callable[[Ledger], None]


def joins(
    cards: Sequence[devices.Card] = LARGE, *, failed: str = "", silent: bool = False, **node: Any
) -> Change:
    """Have a node with many cards and few cpus join."""

    def join(ledger: Ledger) -> None:
        ledger.node_seen(builders.node("n9", cpu=1000, **node))
        ledger.device_seen(builders.device("n9", cards, failed=failed))
        ledger.agent_silent("n9", silent=silent)

    return join


def leaves_its_device(ledger: Ledger) -> None:
    """Have a node join and go, and its Device stay."""
    joins()(ledger)
    ledger.node_gone("n9")


IDLE: dict[str, Change] = {
    "a node that is cordoned": joins(unschedulable=True),
    "a node whose cards cannot be read": joins(failed="NVML"),
    "a node whose agent is silent": joins(silent=True),
    "a node whose cards are all ill": joins(ILL),
    "a node that is gone": leaves_its_device,
}


@pytest.mark.parametrize("happen", IDLE.values(), ids=IDLE.keys())
def test_a_node_that_can_give_nothing_does_not_count(happen: Change) -> None:
    """Where other pods go does not depend on cards that nobody can have."""
    ledger = ledgers.with_nodes(3)
    before = ledger.inventory.demand_model(), ledger.inventory.scale()

    happen(ledger)

    assert (ledger.inventory.demand_model(), ledger.inventory.scale()) == before


def test_a_node_that_can_give_something_counts() -> None:
    """It does from the moment its agent is heard, and no more once it is gone."""
    ledger = ledgers.with_nodes(3)
    before = ledger.inventory.demand_model(), ledger.inventory.scale()

    joins()(ledger)
    there = ledger.inventory.demand_model(), ledger.inventory.scale()
    ledger.device_gone("n9")

    assert there[0] != before[0]
    assert there[1] == (64, 64 << 40)
    assert (ledger.inventory.demand_model(), ledger.inventory.scale()) == before


def test_what_is_no_news_of_all_voids_no_answer() -> None:
    """A number of a card that changes neither what nodes have together nor who is the largest is its own."""
    ledger = ledgers.with_nodes(3)
    ledger.inventory.demand_model()
    before = ledger.inventory.supply_version, ledger.inventory.layout

    for less in range(1, 9):
        first = builders.card(memory=builders.MEMORY - less)
        ledger.device_seen(builders.device(cards=[first, *(builders.card(minor) for minor in (1, 2, 3))]))
        ledger.inventory.demand_model()

    # The first of these takes from a node that was as large as any, and the others do not.
    assert ledger.inventory.supply_version <= before[0] + 1
    assert ledger.inventory.layout == before[1]


def test_a_node_that_changes_without_end_is_counted_anew_once_in_a_second() -> None:
    """Each other state would void all that is remembered; the latest counts when the second is over."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(3, now=now)
    ledger.inventory.demand_model()
    found = []

    for step in range(1, 31):
        now.advance(0.1)
        ledger.device_seen(builders.device(cards=1 + step % 4))
        ledgers.decide(ledger, now.now)
        found.append((ledger.inventory.demand_model(), ledger.inventory.layout))

    assert len(set(found)) <= 4
    assert ledger.inventory.supply_version > 1


def test_the_latest_state_counts_in_a_later_round() -> None:
    """What was left out because it came too soon is made up for, without another event."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(2, now=now)
    ledger.inventory.demand_model()
    for cards in (5, 9):
        now.advance(0.5)
        ledger.device_seen(builders.device(cards=cards))
        ledger.inventory.demand_model()

    soon = ledger.inventory.scale()
    now.advance(1.0)
    ledgers.decide(ledger, now.now)

    assert (soon[0], ledger.inventory.scale()[0]) == (5, 9)
