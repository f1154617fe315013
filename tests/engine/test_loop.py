"""The loop decides when there is news, in bursts and crowds, and follows what it sent to its end."""

import itertools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from berth_operator.engine import bind_sender, loop, ports
from berth_operator.scheduling import cycle, decisions
from berth_operator.scheduling.decisions import Count, Reason, Refusal
from berth_operator.scheduling.devices import requests
from engine.harness import Engine
from support import builders, clock, random_clusters, timeless
from support.writers import Reply

NO = ports.Refused("no")


def names(count: int) -> list[str]:
    """Return names of pods."""
    return [f"p{number:03}" for number in range(count)]


def large_engine(**limits: Any) -> Engine:
    """Return an engine with room for all pods, and with these limits."""
    return Engine(nodes=30, cards=8, limits=bind_sender.Limits(**limits))


@pytest.fixture
def rounds() -> Iterator[mock.Mock]:
    """Count the rounds of decisions."""
    with mock.patch.object(cycle, "schedule", wraps=cycle.schedule) as counted:
        yield counted


# ---------------------------------------------------------------- when rounds are made


@timeless.scenario
async def test_burst_is_one_round() -> None:
    """Events that come together are decided together, so that order and priority count."""
    engine = Engine(cards=1)
    engine.wait("late")
    await engine.advance(0.0005)
    engine.wait("vip", priority=5)

    await engine.run(until=lambda: engine.writer.binds)

    assert [call.name for call in engine.writer.binds] == ["vip"]


@timeless.scenario
async def test_stream_of_events_cannot_hold_a_round_up() -> None:
    """However busy the cluster is, a round is made within the longest window."""
    engine = Engine()
    engine.wait()

    for number in range(100):
        engine.ledger.node_seen(builders.node("busy", cpu=number))
        await engine.advance((number + 1) * 0.0005)

    assert engine.bound_at("p") <= loop.LONGEST_WINDOW_SECONDS + 0.002


@timeless.scenario
async def test_nothing_is_decided_without_news(rounds: mock.Mock) -> None:
    """A pod that waits for a change costs nothing until it comes."""
    engine = Engine(cards=1)
    engine.wait(cards=2)
    await engine.advance(1.0)
    few = rounds.call_count

    await engine.advance(50.0)

    assert 0 < rounds.call_count == few <= 3


@timeless.scenario
async def test_pause_ends_by_time_alone() -> None:
    """A pod that waits out a pause is tried when it is over, though nothing has happened."""
    engine = Engine()
    engine.wait("p", NO, NO, NO, ports.Bound())

    await engine.run(until=engine.placed)

    calls = [engine.writer.binds[0], *engine.writer.dry_runs]
    pauses = [later.moment - earlier.moment for earlier, later in itertools.pairwise(calls)]
    assert pauses == [pytest.approx(pause, abs=0.02) for pause in (0.1, 0.2, 0.4)]


@timeless.scenario
async def test_freed_cards_go_to_who_waits() -> None:
    """When a pod ends, the next one gets its cards, without anybody asking again."""
    engine = Engine(cards=1)
    await engine.occupy()
    engine.wait()
    await engine.advance(5.0)

    engine.ledger.pod_over("uid-holder")
    await engine.advance(5.1)

    waited = "0/1 nodes are available: 1 has no free card. Would fit if GPU-n1-0 of n1 were freed."
    assert engine.status_writer.of("p") == [waited, "placed on n1"]


# ---------------------------------------------------------------- crowds


@timeless.scenario
async def test_binds_under_way_are_bounded() -> None:
    """Many binds go out at once, but never more than the limit; all are done in the end."""
    engine = Engine(cards=8, limits=bind_sender.Limits(binds_at_once=3))
    engine.crowd(names(8), Reply(takes=0.3))

    await engine.run(until=lambda: engine.results() == {"bound": 8})

    shares = [
        share for placement in engine.writer.placements.values() for share in random_clusters.given(placement)
    ]
    assert engine.writer.most_open == 3
    assert len({share.uuid for share in shares}) == len(shares) == 8


@timeless.scenario
async def test_decisions_run_only_a_little_ahead_of_the_binds() -> None:
    """What cannot be sent yet is not decided yet, so that a pod that matters more goes before it."""
    limits = bind_sender.Limits(binds_at_once=4)
    engine = large_engine(binds_at_once=4)
    engine.crowd(names(limits.most_unanswered + 40), Reply(takes=0.1))
    await engine.advance(lambda: engine.writer.binds)

    engine.wait("urgent", priority=1)
    await engine.advance(lambda: engine.placed("urgent"))

    sent = [call.name for call in engine.writer.binds]
    assert sent.index("urgent") < limits.most_unanswered + limits.binds_at_once


@timeless.scenario
async def test_binds_keep_to_the_rate_that_was_set() -> None:
    """No second has more binds than a person allowed, and what is decided is never much older."""
    engine = large_engine(binds_per_second=10)
    engine.crowd(names(50))
    await engine.advance(lambda: len(engine.writer.binds) >= 25)
    ahead = len(engine.ledger.assumed_pods) - len(engine.writer.binds)

    engine.wait("urgent", priority=1)
    await engine.advance(lambda: len(engine.writer.binds) == 51)

    moments = [call.moment for call in engine.writer.binds]
    assert ahead <= 10
    assert all(later - sooner >= 0.1 - 1e-6 for sooner, later in itertools.pairwise(moments))
    assert moments[-1] == pytest.approx(5.0, abs=0.2)
    assert 25 <= [call.name for call in engine.writer.binds].index("urgent") <= 36


@timeless.scenario
async def test_a_server_that_asks_for_a_rest_gets_it() -> None:
    """After a 429 nothing is sent until the time that it named, then everything is; no pod hears of it."""
    engine = large_engine(binds_at_once=4)
    engine.wait("first", Reply(ports.Throttled("slow down", 4.0), takes=0.4), ports.Bound())
    engine.crowd(names(39), Reply(takes=0.4))

    await engine.run(until=lambda: len(engine.status_writer.reports) == 40)

    moments = [call.moment for call in engine.writer.binds]
    assert [moment for moment in moments if 0.42 < moment < 4.4] == []
    assert sum(moment >= 4.4 for moment in moments) >= 36
    assert all(sentence.startswith("placed on") for _, sentence in engine.status_writer.reports)


@timeless.scenario
async def test_nothing_is_decided_during_a_rest() -> None:
    """What could not be sent anyway is decided when it can be, so that who comes meanwhile has its turn."""
    engine = Engine(cards=1)
    engine.wait("p", ports.Throttled("slow down", 5.0), ports.Bound())
    await engine.advance(1.0)

    engine.wait("urgent", priority=1)
    await engine.advance(lambda: len(engine.writer.binds) == 2)

    assert [call.name for call in engine.writer.binds] == ["p", "urgent"]


@timeless.scenario
async def test_hopeless_pods_starve_nobody() -> None:
    """A crowd that can never fit, first in order and woken by every change, does not keep others waiting."""
    engine = Engine()
    engine.crowd(names(600), cards=50, priority=100)
    engine.wait("modest")

    for cards in range(1, 20):
        engine.ledger.device_seen(builders.device("n2", cards))
        await engine.advance(cards * 0.01)

    assert engine.bound_at("modest") < 0.1


@timeless.scenario
async def test_rejected_pod_waits_for_an_edit() -> None:
    """A request that cannot be served is told once, and decided anew when it is edited."""
    engine = Engine()
    engine.wait(faults=(Refusal(Reason.INVALID_REQUEST, detail="nonsense"),))
    await engine.advance(60.0)
    engine.ledger.node_seen(builders.node("n2"))
    await engine.advance(61.0)

    engine.wait()
    await engine.advance(engine.placed)

    assert engine.status_writer.of("p") == ["nonsense", "placed on n1"]


# ---------------------------------------------------------------- the end


@timeless.scenario
async def test_binds_under_way_are_finished_and_others_are_not_begun() -> None:
    """Only binds that the server may have are waited for: the next leader decides the others anew."""
    engine = large_engine(binds_at_once=4)
    engine.crowd(names(40), Reply(takes=1.0))
    await engine.advance(lambda: engine.writer.binds)

    await engine.stop()

    assert 1.0 <= engine.now() < 1.2
    assert len(engine.writer.binds) == len(engine.status_writer.reports) == 4
    assert not engine.loop.binder.busy


@timeless.scenario
async def test_decision_that_fits_nobody_is_requeued_only_while_it_waits() -> None:
    """A pod that left between the decision and the act is told nothing."""
    engine = Engine()
    answer = decisions.Wait("uid-p", (Count(Reason.NO_NODES, "", 0),), frozenset())

    engine.loop.reporter.requeue_and_report([answer], until=1.0)

    assert (engine.status_writer.reports, len(engine.ledger.backlog)) == ([], 0)


# ---------------------------------------------------------------- rounds have an end


def slow_engine(step: float) -> Engine:
    """Return an engine in which each look at the clock takes a while."""
    return Engine(nodes=4, cards=8, clock=clock.Ticking(step, timeless.clock()))


# Only long searches tell that it fits nowhere.
HARD = builders.request(*[requests.Gpus(1, core=40, memory=builders.GIB)] * 17)


@timeless.scenario
async def test_round_that_is_out_of_time_goes_on_in_the_next_one(rounds: mock.Mock) -> None:
    """Others have their turn between the rounds, and in the end every pod has had its own."""
    engine = slow_engine(0.004)
    engine.crowd(names(20))

    await engine.run(until=lambda: len(engine.writer.binds) == 20)

    assert rounds.call_count > 3


@timeless.scenario
async def test_only_a_hard_pod_is_demoted() -> None:
    """A pod that has used up its time comes after all others, and says why it waits; no room is no reason."""
    engine = slow_engine(0.002)
    engine.wait("hard", request=HARD, priority=10)
    engine.wait("large", cards=9)
    await engine.advance(lambda: len(engine.status_writer.reports) == 2)
    engine.wait("easy")

    demoted = [entry.pod_info.name for entry in engine.ledger.backlog.in_order() if entry.demoted]

    assert demoted == ["hard"]
    assert [pod.name for pod in engine.ledger.backlog.active(1e6)] == ["easy", "hard"]
    assert "not fully evaluated (time limit)" in engine.status_writer.of("hard")[-1]


@timeless.scenario
async def test_crowd_of_demoted_pods_keeps_nobody_waiting() -> None:
    """However many of them are due, a pod that comes anew has its place after one round."""
    engine = slow_engine(0.002)
    for name in names(300):
        engine.wait(name, request=HARD, priority=10)
        engine.ledger.backlog.requeue(f"uid-{name}", now=-1e6, awaited=None, demoted=True)
    engine.loop.round()
    engine.wait("easy")

    engine.loop.round()
    await timeless.until(lambda: engine.writer.binds)

    assert [call.name for call in engine.writer.binds] == ["easy"]


@timeless.scenario
async def test_pod_whose_search_gets_on_is_not_put_off_longer_each_time() -> None:
    """It is cut short once for each of the nodes, no two of which are alike, and has its place in seconds."""
    engine = Engine(nodes=31, cards=8, clock=clock.Ticking(0.0002, timeless.clock()))
    for at in range(1, 31):
        share = builders.share(0, at=f"n{at}", core=30, memory=builders.GIB + at)
        engine.ledger.inventory.charge(builders.hold(f"there-{at}", f"n{at}", [share]))
    engine.wait("hard", request=builders.request(*[requests.Gpus(1, core=40, memory=builders.GIB)] * 16))
    started = engine.now()

    await engine.run(until=lambda: bool(engine.writer.binds))

    assert engine.now() - started < 30
