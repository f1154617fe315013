"""The loop decides when there is news, in bursts and crowds, and follows what it sent to its end."""

import dataclasses
import itertools
from typing import Any
from unittest import mock

import pytest

from berth_operator.engine import bind_sender, loop, ports
from berth_operator.engine.hold_states import State
from berth_operator.scheduling import cycle, decisions, queued_pods
from berth_operator.scheduling.decisions import Count, Reason, Refusal
from berth_operator.scheduling.devices import requests
from engine.stages import Stage
from support import builders, clock, hands, ledgers, timeless, worlds
from support.hands import Reply

NO = ports.Refused("no")


# ---------------------------------------------------------------- when rounds are made


@timeless.scenario
async def test_burst_is_one_round() -> None:
    """Events that come together are decided together, so that order and priority count."""
    stage = Stage(cards=1)

    with mock.patch.object(cycle, "each", wraps=cycle.each) as rounds:
        async with timeless.beside(stage.loop.run()):
            stage.wait("late", priority=0)
            await timeless.at(0.0005)
            stage.wait("vip", priority=5)
            await timeless.until(lambda: rounds.called)
            await stage.loop.binder.drain()

    assert [call.name for call in stage.writer.binds] == ["vip"]


@timeless.scenario
async def test_stream_of_events_cannot_hold_a_round_up() -> None:
    """However busy the cluster is, a round is made within the longest window."""
    stage = Stage()
    stage.wait()

    async with timeless.beside(stage.loop.run()):
        for number in range(100):
            stage.ledger.node_seen(builders.node("busy", cpu=number))
            await timeless.at((number + 1) * 0.0005)

    ((bound,), _) = stage.moments()
    assert bound <= loop.LONGEST_SECONDS + 0.002


@timeless.scenario
async def test_nothing_is_decided_without_news() -> None:
    """A pod that waits for a change costs nothing until it comes."""
    stage = Stage(cards=1)
    stage.wait("p", cards=2)

    with mock.patch.object(cycle, "each", wraps=cycle.each) as rounds:
        async with timeless.beside(stage.loop.run()):
            await timeless.until(lambda: stage.status_writer.told)
            await timeless.at(1.0)
            few = rounds.call_count
            await timeless.at(50.0)

    assert rounds.call_count == few <= 3


@timeless.scenario
async def test_pause_ends_by_time_alone() -> None:
    """A pod that waits out a pause is tried when it is over, though nothing has happened."""
    stage = Stage()
    stage.crowd(["p"], Reply(NO), Reply(NO), Reply(NO), Reply())

    await stage.run(until=stage.placed)

    requests_ = [stage.writer.binds[0], *stage.writer.dry_runs]
    pauses = [later.moment - earlier.moment for earlier, later in itertools.pairwise(requests_)]
    assert pauses == [pytest.approx(pause, abs=0.02) for pause in (0.1, 0.2, 0.4)]


@timeless.scenario
async def test_freed_cards_go_to_who_waits() -> None:
    """When a pod ends, the next one gets its cards, without anybody asking again."""
    stage = Stage(cards=1)
    stage.wait("first", priority=1)
    stage.wait("second")

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: len(stage.status_writer.told) == 2)
        stage.confirm("first")
        await timeless.at(5.0)
        stage.ledger.pod_over("uid-first")
        await timeless.until(lambda: stage.placed("second"), most=0.1)

    waited, placed = stage.status_writer.of("second")
    assert waited == "0/1 nodes are available: 1 has no free card. Would fit if GPU-n1-0 of n1 were freed."
    assert placed == "placed on n1"


# ---------------------------------------------------------------- crowds


@timeless.scenario
async def test_binds_under_way_are_bounded() -> None:
    """Many binds go out at once, but never more than the limit; all are done in the end."""
    stage = Stage(cards=8, limits=bind_sender.Limits(binds_at_once=3))
    names = [f"p{number}" for number in range(8)]
    stage.crowd(names, Reply(takes=0.3))

    await stage.run(until=lambda: len(stage.status_writer.told) == len(names))

    assert stage.writer.most_open == 3
    assert sorted(stage.writer.placements) == sorted(names)
    shares = [
        share.uuid for placement in stage.writer.placements.values() for share in worlds.given(placement)
    ]
    assert len(set(shares)) == len(shares) == 8


@timeless.scenario
async def test_decisions_run_only_a_little_ahead_of_the_binds() -> None:
    """What cannot be sent yet is not decided yet, so that a pod that matters more goes before it."""
    limits = bind_sender.Limits(binds_at_once=4)
    count = limits.most_unanswered + 40
    stage = Stage(nodes=30, cards=8, limits=limits)
    stage.crowd((f"p{number}" for number in range(count)), Reply(takes=0.1))

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: stage.writer.binds)
        stage.wait("urgent", priority=1)
        await timeless.until(lambda: any(call.name == "urgent" for call in stage.writer.binds))

    assert len(stage.writer.binds) <= limits.most_unanswered + limits.binds_at_once


@timeless.scenario
async def test_binds_keep_to_the_rate_that_was_set() -> None:
    """No second has more binds than a person allowed, and what is decided is never much older."""
    stage = Stage(nodes=30, cards=8, limits=bind_sender.Limits(binds_per_second=10))
    for number in range(50):
        stage.wait(f"p{number}")

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: len(stage.writer.binds) >= 25)
        assert len(stage.ledger.assumed_pods) - len(stage.writer.binds) <= 10
        stage.wait("urgent", priority=1)
        await timeless.until(lambda: len(stage.writer.binds) == 51)

    moments = [call.moment for call in stage.writer.binds]
    assert all(later - sooner >= 0.1 - 1e-6 for sooner, later in itertools.pairwise(moments))
    assert moments[-1] == pytest.approx(5.0, abs=0.2)
    assert 25 <= [call.name for call in stage.writer.binds].index("urgent") <= 36


@timeless.scenario
async def test_a_server_that_asks_for_a_rest_gets_it() -> None:
    """After a 429 nothing is sent until the time that it named, then everything is; no pod hears of it."""
    stage = Stage(nodes=30, cards=8, limits=bind_sender.Limits(binds_at_once=4))
    stage.writer.when_bound("p0", Reply(ports.Throttled("slow down", 5.0), takes=0.4), Reply())
    for number in range(40):
        stage.wait(f"p{number}")
        if number:
            stage.writer.when_bound(f"p{number}", Reply(takes=0.4))

    await stage.run(until=lambda: len(stage.status_writer.told) == 40)

    moments = [call.moment for call in stage.writer.binds]
    assert [moment for moment in moments if 0.42 < moment < 5.4] == []
    assert sum(moment >= 5.4 for moment in moments) >= 36
    assert all(sentence.startswith("placed on") for _, sentence in stage.status_writer.told)


@timeless.scenario
async def test_nothing_is_decided_during_a_rest() -> None:
    """What could not be sent anyway is decided when it can be, so that who comes meanwhile has its turn."""
    stage = Stage(cards=1)
    stage.crowd(["p"], Reply(ports.Throttled("slow down", 5.0)), Reply())

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: stage.writer.binds)
        await timeless.at(1.0)
        stage.wait("urgent", priority=1)
        await timeless.until(lambda: stage.status_writer.of("p"))

    assert [call.name for call in stage.writer.binds] == ["p", "urgent"]


@timeless.scenario
async def test_what_is_not_sent_when_we_are_told_to_end_is_dropped() -> None:
    """Only binds that the server may have are waited for: the next leader decides the others anew."""
    stage = Stage(nodes=30, cards=8, limits=bind_sender.Limits(binds_at_once=4))
    stage.crowd((f"p{number}" for number in range(40)), Reply(takes=1.0))

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: stage.writer.binds)
    await stage.loop.binder.drain()

    assert stage.now() < 1.2
    assert len(stage.writer.binds) == len(stage.status_writer.told) == 4
    assert not stage.loop.binder.busy


@timeless.scenario
async def test_hopeless_pods_starve_nobody() -> None:
    """A crowd that can never fit, first in order and woken by every change, does not keep others waiting."""
    stage = Stage()
    for number in range(600):
        stage.wait(f"hopeless{number}", cards=50, priority=100)
    stage.wait("modest")

    async with timeless.beside(stage.loop.run()):
        for cards in range(1, 20):
            stage.ledger.device_seen(builders.device("n2", cards))
            await timeless.at(cards * 0.01)

    assert stage.status_writer.of("modest") == ["placed on n1"]
    assert stage.moments("modest")[0][0] < 0.1


@timeless.scenario
async def test_rejected_pod_waits_for_an_edit() -> None:
    """A request that cannot be served is told once, and decided anew when it is edited."""
    stage = Stage()
    fault = Refusal(Reason.INVALID_REQUEST, detail="nonsense")
    stage.ledger.pod_waiting(dataclasses.replace(builders.candidate(), faults=(fault,)), gated=False)

    async with timeless.beside(stage.loop.run()):
        await timeless.at(60.0)
        before = stage.status_writer.of("p")
        stage.ledger.node_seen(builders.node("n2"))
        await timeless.at(61.0)
        stage.wait()
        await timeless.until(lambda: len(stage.status_writer.told) == 2)

    assert before == ["nonsense"]
    assert stage.status_writer.of("p") == ["nonsense", "placed on n1"]


# ---------------------------------------------------------------- the end


@timeless.scenario
async def test_binds_under_way_are_finished() -> None:
    """When deciding has ended, what was sent is followed to its end, and nothing new is begun."""
    stage = Stage()
    stage.crowd(["p"], Reply(takes=2.0))

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: stage.writer.binds)
    stage.wait("late")
    await stage.loop.binder.drain()

    assert stage.status_writer.told == [("p", "placed on n1")]
    assert stage.now() >= 2.0
    assert stage.state("late") is State.FREE


def test_decision_that_fits_nobody_is_put_off_only_while_it_waits() -> None:
    """A pod that left between the decision and the act is told nothing."""
    ledger, status_writer = ledgers.with_nodes(), hands.PodStatusWriter()
    rounds = loop.Loop(ledger, hands.Writer(lambda: 0.0), status_writer, clock=lambda: 0.0)
    answer = decisions.Wait("uid-p", (Count(Reason.NO_NODES, "", 0),), frozenset())

    rounds.reporter.report_round([answer], until=1.0)

    assert status_writer.told == []
    assert len(ledger.backlog) == 0


# ---------------------------------------------------------------- rounds have an end


def hard(name: str, **fields: Any) -> queued_pods.Candidate:
    """Make a pod of which only long searches tell that it fits nowhere."""
    two_fifths = requests.Gpus(1, core=40, memory=builders.GIB)
    return builders.candidate(name, request=builders.request(*[two_fifths] * 17), **fields)


@timeless.scenario
async def test_round_that_is_out_of_time_goes_on_in_the_next_one() -> None:
    """Others have their turn between the rounds, and in the end every pod has had its own."""
    stage = Stage(nodes=4, cards=8, clock=clock.Ticking(0.004, timeless.clock()))
    for at in range(20):
        stage.wait(f"p{at:02}")

    with mock.patch.object(cycle, "each", wraps=cycle.each) as rounds:
        await stage.run(until=lambda: len(stage.writer.binds) == 20)

    assert rounds.call_count > 3


@timeless.scenario
async def test_hard_pod_is_demoted() -> None:
    """A pod that has used up its time comes after all others from then on, and says why it waits."""
    stage = Stage(nodes=4, cards=8, clock=clock.Ticking(0.002, timeless.clock()))
    stage.ledger.pod_waiting(hard("hard", priority=10), gated=False)

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: stage.status_writer.told)
    stage.wait("easy")

    entries = {entry.candidate.name: entry for entry in stage.ledger.backlog.each()}
    assert entries["hard"].demoted
    assert not entries["easy"].demoted
    assert [one.name for one in stage.ledger.backlog.ready(1e6)] == ["easy", "hard"]
    assert "not fully evaluated: search budget" in stage.status_writer.of("hard")[-1]


@timeless.scenario
async def test_crowd_of_demoted_pods_keeps_nobody_waiting() -> None:
    """However many of them are due, a pod that comes anew has its place after one round."""
    stage = Stage(nodes=4, cards=8, clock=clock.Ticking(0.002, timeless.clock()))
    for at in range(300):
        candidate = hard(f"hard-{at}", priority=10)
        stage.ledger.pod_waiting(candidate, gated=False)
        stage.ledger.backlog.put_off(candidate.uid, now=-1e6, wants=None, demoted=True)
    stage.loop.round()
    stage.wait("easy")

    stage.loop.round()
    await timeless.until(lambda: stage.writer.binds)

    assert [call.name for call in stage.writer.binds] == ["easy"]


@timeless.scenario
async def test_pod_that_does_not_fit_is_not_demoted() -> None:
    """Only the time that a pod takes counts against it, not that there is no room."""
    stage = Stage(nodes=4, cards=8)
    stage.wait("large", cards=9)

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: stage.status_writer.told)

    (entry,) = stage.ledger.backlog.each()
    assert not entry.demoted
