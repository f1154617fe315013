"""A node that improves again and again wakes pods a few times at once, then now and then; nothing is lost."""

import pytest

from berth_operator.engine import loop, paced_calls
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions
from berth_operator.scheduling.decisions import ClusterEvent
from engine.harness import Engine
from support import builders, clock, ledgers, timeless

FLAPS = 100
SECONDS = FLAPS * 0.01


def flap(ledger: Ledger, node: str = "n1") -> None:
    """Have all cards of a node fall sick and recover."""
    for reason in (decisions.Reason.UNHEALTHY, None):
        cards = [builders.card(minor, at=node, trouble=reason) for minor in range(4)]
        ledger.device_seen(builders.device(node, cards))


def times_woken(ledger: Ledger, now: clock.Clock) -> int:
    """Have a node flap for a second, and count how often that woke a pod which then did not fit."""
    woken = 0
    for _ in range(FLAPS):
        now.advance(SECONDS / FLAPS)
        flap(ledger)
        ledger.paced_calls.make_delayed()
        if ledgers.ready_names(ledger):
            woken += 1
            ledgers.requeue(ledger, "p", ClusterEvent.DEVICE_CHANGED)
    return woken


def test_a_flapping_node_wakes_pods_a_few_times_only() -> None:
    """However often its card recovers, within a second it is offered in a row once."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(2, now=now)
    ledgers.add_sleeping(ledger, "p", ClusterEvent.DEVICE_CHANGED)

    first, second = times_woken(ledger, now), times_woken(ledger, now)

    assert paced_calls.CALLS_IN_A_ROW <= first <= paced_calls.CALLS_IN_A_ROW + 1
    assert second == 1


def test_another_node_is_offered_at_once() -> None:
    """The one that flaps takes nothing from the others."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(2, now=now)
    ledgers.add_sleeping(ledger, "p", ClusterEvent.DEVICE_CHANGED)
    times_woken(ledger, now)
    before = ledgers.ready_names(ledger)

    flap(ledger, "n2")

    assert (before, ledgers.ready_names(ledger)) == ([], ["p"])


def test_room_that_a_pod_leaves_is_offered_at_once() -> None:
    """A node may flap, and its pods may end: those who wait for a card come in."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(now=now)
    ledger.pod_bound(builders.hold("holder", shares=(0,)))
    ledgers.add_sleeping(ledger, "p", ClusterEvent.DEVICE_CHANGED, ClusterEvent.CAPACITY_FREED)
    times_woken(ledger, now)
    ledgers.requeue(ledger, "p", ClusterEvent.CAPACITY_FREED)

    ledger.pod_over("uid-holder")

    assert ledgers.ready_names(ledger) == ["p"]


def test_a_node_that_was_quiet_for_a_while_is_offered_where_nobody_leads() -> None:
    """A replica that stands by makes no rounds: what is late is offered with the next improvement."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(2, now=now)
    ledgers.add_sleeping(ledger, "p", ClusterEvent.DEVICE_CHANGED)
    for _ in range(FLAPS):
        now.advance(SECONDS / FLAPS)
        flap(ledger)
    ledgers.requeue(ledger, "p", ClusterEvent.DEVICE_CHANGED)

    now.advance(10 * SECONDS)
    flap(ledger)

    assert ledgers.ready_names(ledger) == ["p"]


@timeless.scenario
async def test_what_a_node_has_in_the_end_is_given() -> None:
    """The last recovery came too soon to be offered at once; a pod gets the card all the same."""
    engine = Engine(cards=0)
    engine.wait()
    await engine.advance(0.1)
    for _ in range(FLAPS):
        engine.ledger.device_seen(builders.device("n1", 0))
        await engine.advance(loop.ROUND_SECONDS / 10)
        engine.ledger.backlog.requeue("uid-p", now=0.0, awaited=frozenset({ClusterEvent.DEVICE_CHANGED}))
        engine.ledger.offers.offer("n1", ClusterEvent.DEVICE_CHANGED)
    engine.ledger.device_seen(builders.device("n1", 1))

    await engine.run(until=lambda: engine.writer.binds)

    assert [call.name for call in engine.writer.binds] == ["p"]


def test_a_node_that_wakes_many_kinds_is_offered_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is tried, and others wait meanwhile."""
    monkeypatch.setattr(paced_calls, "PAUSE_FOR_KIND", 4.0)
    now = clock.Clock()
    ledger = ledgers.with_nodes(2, now=now)
    ledgers.add_sleeping(ledger, "p", ClusterEvent.DEVICE_CHANGED)

    assert times_woken(ledger, now) < paced_calls.CALLS_IN_A_ROW // 2
