"""What the nodes have together: who counts, and how often a change of it is seen."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import facts as devices
from engine import books
from support import builders, clock

LARGE = [builders.card(minor, at="n9", memory=1 << 40) for minor in range(64)]
ILL = [dataclasses.replace(one, trouble=Reason.UNHEALTHY) for one in LARGE]
Change = Callable[[Ledger], None]


def joins(
    cards: Sequence[devices.Card] = LARGE, *, failed: str = "", silent: bool = False, **node: Any
) -> Change:
    """Have a node with many cards and few cpus join."""

    def join(book: Ledger) -> None:
        book.node_seen(builders.node("n9", cpu=1000, **node))
        book.device_seen(builders.device("n9", cards, failed=failed))
        book.agent_silent("n9", silent=silent)

    return join


def leaves_its_device(book: Ledger) -> None:
    """Have a node join and go, and its Device stay."""
    joins()(book)
    book.node_gone("n9")


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
    book = books.of(3)
    before = book.picture.lesson(), book.picture.scale()

    happen(book)

    assert (book.picture.lesson(), book.picture.scale()) == before


def test_a_node_that_can_give_something_counts() -> None:
    """It does from the moment its agent is heard, and no more once it is gone."""
    book = books.of(3)
    before = book.picture.lesson(), book.picture.scale()

    joins()(book)
    there = book.picture.lesson(), book.picture.scale()
    book.device_gone("n9")

    assert there[0] != before[0]
    assert there[1] == (64, 64 << 40)
    assert (book.picture.lesson(), book.picture.scale()) == before


def test_what_is_no_news_of_all_voids_no_answer() -> None:
    """A number of a card that changes neither what nodes have together nor who is the largest is its own."""
    book = books.of(3)
    book.picture.lesson()
    before = book.picture.supplies, book.picture.layout

    for less in range(1, 9):
        first = builders.card(memory=builders.MEMORY - less)
        book.device_seen(builders.device(cards=[first, *(builders.card(minor) for minor in (1, 2, 3))]))
        book.picture.lesson()

    # The first of these takes from a node that was as large as any, and the others do not.
    assert book.picture.supplies <= before[0] + 1
    assert book.picture.layout == before[1]


def test_a_node_that_changes_without_end_is_counted_anew_once_in_a_second() -> None:
    """Each other state would void all that is remembered; the latest counts when the second is over."""
    now = clock.Clock()
    book = books.of(3, now=now)
    book.picture.lesson()
    found = []

    for step in range(1, 31):
        now.advance(0.1)
        book.device_seen(builders.device(cards=1 + step % 4))
        books.decide(book, now.now)
        found.append((book.picture.lesson(), book.picture.layout))

    assert len(set(found)) <= 4
    assert book.picture.supplies > 1


def test_the_latest_state_counts_in_a_later_round() -> None:
    """What was left out because it came too soon is made up for, without another event."""
    now = clock.Clock()
    book = books.of(2, now=now)
    book.picture.lesson()
    for cards in (5, 9):
        now.advance(0.5)
        book.device_seen(builders.device(cards=cards))
        book.picture.lesson()

    soon = book.picture.scale()
    now.advance(1.0)
    books.decide(book, now.now)

    assert (soon[0], book.picture.scale()[0]) == (5, 9)
