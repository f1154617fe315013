"""What takes long to be read and changes all the time is read seldom, and as it is then."""

from collections.abc import Sequence

import pytest

from berth_crds import wire
from berth_operator.engine import paced_wakes
from berth_operator.scheduling.devices import device_facts
from kube.sinks import NODE, Sinks, feed
from support import builders, clock


def published_cards(sinks: Sinks) -> Sequence[device_facts.PhysicalDevice]:
    """Return the cards that count as those of the node."""
    info = sinks.ledger.inventory.node(NODE)
    return info.published.cards if info is not None and info.published is not None else ()


def read_slowly(sinks: Sinks) -> None:
    """Have an agent publish ever more cards, each time in a way that takes long to be read."""
    sinks.ledger.paced_wakes.cpu_clock = clock.Ticking(0.05)
    for count in range(1, 50):
        feed(sinks.devices, builders.published(cards=[{}] * count))


def later(sinks: Sinks) -> int:
    """Return how many cards count once the time of what was put off has come."""
    sinks.time.advance(60.0)
    sinks.ledger.paced_wakes.wake_delayed()
    return len(published_cards(sinks))


def test_a_device_that_takes_long_and_changes_all_the_time_is_read_seldom() -> None:
    """At first each time, and then as it is when its time has come."""
    sinks = Sinks()

    read_slowly(sinks)
    at_first = len(published_cards(sinks))

    assert 2 <= at_first <= paced_wakes.WAKES_IN_A_ROW
    assert [later(sinks), later(sinks)] == [49, 49]


def test_a_device_that_takes_no_time_is_read_each_time() -> None:
    """However often a node's cards change."""
    sinks = Sinks()

    for count in range(1, 50):
        feed(sinks.devices, builders.published(cards=[{}] * count))

    assert len(published_cards(sinks)) == 49


def test_a_device_that_was_deleted_before_it_was_read_never_comes() -> None:
    """It is gone."""
    sinks = Sinks()
    read_slowly(sinks)

    feed(sinks.devices, wire.Meta(NODE))

    assert [len(published_cards(sinks)), later(sinks)] == [0, 0]


@pytest.mark.parametrize(("node", "expected"), [(NODE, 0), ("other", 1)], ids=["its own", "of another"])
def test_gpupods_of_an_agent_that_takes_long_are_read_seldom(node: str, expected: int) -> None:
    """All that one agent writes takes a part of the time together, and that of others none of it."""
    sinks = Sinks()
    read_slowly(sinks)
    written = builders.gpupod("p", node, main=[0])

    feed(sinks.gpupods, written)
    known = sinks.ledger.unreadable_pods
    found = [len(known._gpupods)]
    later(sinks)

    assert [*found, len(known._gpupods)] == [expected, 1]
