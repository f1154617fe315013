"""Whatever the server answers, and whenever: no card is given away twice, and every pod is taken further."""

import itertools
from collections.abc import Callable

import pytest

from berth_operator.engine import bind_sender, ports
from berth_operator.engine.hold_states import State
from engine.stages import Stage, errors
from support import builders, pictures, timeless, worlds
from support.hands import Reply

OPEN = ports.Unknown("timed out")
CLOSED = ports.Unknown("conflict", open=False)
NO = ports.Refused("no")


@timeless.scenario
async def test_bound() -> None:
    """An accepted bind is told, and its hold is assumed until the watch shows it."""
    stage = Stage()
    stage.wait()

    await stage.run(until=lambda: stage.status_writer.told)
    before = stage.state()
    stage.confirm()

    assert stage.status_writer.of("p") == ["placed on n1"]
    assert (before, stage.state()) == (State.ASSUMED, State.CONFIRMED)


@timeless.scenario
async def test_refused() -> None:
    """A refused bind is told and taken back, and tried again after a pause."""
    stage = Stage()
    stage.writer.when_bound("p", Reply(NO), Reply())
    stage.wait()

    await stage.run(until=lambda: len(stage.status_writer.told) == 2)

    (first, second), _ = stage.moments()
    assert stage.status_writer.of("p") == ["failed: no", "placed on n1"]
    assert second - first >= 0.1
    assert stage.state() is State.ASSUMED


@timeless.scenario
async def test_gone() -> None:
    """A pod that does not exist any more holds nothing and waits for nothing."""
    stage = Stage()
    stage.writer.when_bound("p", Reply(ports.Gone()))
    stage.wait()

    await stage.run(until=lambda: stage.writer.binds)

    assert stage.state() is State.FREE
    assert "uid-p" not in stage.ledger.backlog
    assert stage.status_writer.told == []


@pytest.mark.parametrize(
    ("found", "state", "told"),
    [
        pytest.param(ports.Bound(), State.ASSUMED, ["placed on n1"], id="it is bound"),
        pytest.param(NO, State.FREE, ["failed: no"], id="somebody else bound it"),
        pytest.param(ports.Gone(), State.FREE, [], id="it is gone"),
    ],
)
@pytest.mark.parametrize("unknown", [pytest.param(OPEN, id="open"), pytest.param(CLOSED, id="closed")])
@timeless.scenario
async def test_unclear_answer(
    unknown: ports.Unknown, found: ports.Answer, state: State, told: list[str]
) -> None:
    """When only the pod can tell, it is read, and what it says is done."""
    stage = Stage()
    stage.writer.when_bound("p", Reply(unknown))
    stage.writer.when_looked_at("p", Reply(found))
    stage.wait()

    await stage.run(until=lambda: stage.writer.looks)

    assert stage.state() is state
    assert stage.status_writer.of("p") == told


@pytest.mark.parametrize(
    ("unknown", "takes", "look"),
    [
        pytest.param(OPEN, 4.0, 7.0, id="the client gave up: the server may have begun just then"),
        pytest.param(OPEN, 0.5, 3.5, id="the server failed: a part of it may still be at work"),
        pytest.param(CLOSED, 0.5, 0.5, id="it is decided, and only the outcome is unclear"),
    ],
)
@timeless.scenario
async def test_look_waits_for_the_servers_deadline(unknown: ports.Unknown, takes: float, look: float) -> None:
    """A bind that may yet happen is not looked for before it cannot happen any more (I1)."""
    stage = Stage(limits=bind_sender.Limits(bind_deadline=3.0))
    stage.writer.when_bound("p", Reply(unknown, takes=takes))
    stage.wait()

    await stage.run(until=lambda: stage.writer.looks)

    (sent,), (looked,) = stage.moments()
    assert looked - sent == pytest.approx(look, abs=0.01)


@timeless.scenario
async def test_unknown_is_never_forgotten() -> None:
    """As long as nobody knows whether a pod is bound, its cards go to nobody else (I1)."""
    stage = Stage(cards=1)
    stage.writer.when_bound("p", Reply(OPEN, takes=4.0))
    stage.writer.when_looked_at("p", *[Reply(OPEN)] * 9, Reply(NO))
    stage.wait("p", priority=1)
    stage.wait("rival")

    await stage.run(until=lambda: "placed on n1" in stage.status_writer.of("rival"))

    _, looks = stage.moments()
    (rival,), _ = stage.moments("rival")
    pauses = [round(later - earlier - 0.01, 1) for earlier, later in itertools.pairwise(looks)]
    assert pauses == [0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    assert rival > looks[-1]


@timeless.scenario
async def test_a_bind_refused_for_its_revision_is_sent_again_at_once() -> None:
    """That somebody labelled the pod meanwhile is no refusal: nobody hears of it, and the place stays."""
    stage = Stage()
    stage.writer.when_bound("p", Reply(CLOSED), Reply())
    stage.writer.when_looked_at("p", Reply(ports.Unbound()))
    stage.wait()

    await stage.run(until=lambda: stage.status_writer.told)

    (first, second), _ = stage.moments()
    assert second - first < 0.05
    assert stage.status_writer.of("p") == ["placed on n1"]


@pytest.mark.parametrize(
    ("named", "found", "binds"),
    [
        pytest.param("7", "7", 1, id="of the revision that it named"),
        pytest.param("7", "8", 2, id="of another one"),
        pytest.param("", "7", 2, id="it named none"),
    ],
)
@timeless.scenario
async def test_a_bind_refused_in_the_same_revision_keeps_no_card(named: str, found: str, binds: int) -> None:
    """What was refused and is as it was would be refused again: its cards are free at once."""
    stage = Stage()
    stage.writer.when_bound("p", Reply(ports.Unknown("too large", open=False, version=named)), Reply(NO))
    stage.writer.when_looked_at("p", Reply(ports.Unbound(version=found)))
    stage.wait()

    await stage.run(until=lambda: stage.status_writer.told)

    assert len(stage.writer.binds) == binds
    assert stage.state() is State.FREE
    assert stage.status_writer.of("p") == ["failed: too large" if binds == 1 else "failed: no"]


@timeless.scenario
async def test_a_lost_bind_is_followed_though_the_revision_is_the_same() -> None:
    """What is still on its way is good for just that revision."""
    stage = Stage()
    stage.writer.when_bound("p", Reply(ports.Unknown("lost", version="7")), Reply())
    stage.writer.when_looked_at("p", Reply(ports.Unbound(version="7")))
    stage.wait()

    await stage.run(until=lambda: stage.status_writer.told)

    assert stage.status_writer.of("p") == ["placed on n1"]


@timeless.scenario
async def test_a_pod_that_asks_for_something_else_is_decided_anew() -> None:
    """The bind is not sent again, and the cards are free for whoever comes first."""
    stage = Stage(cards=1)
    stage.writer.when_bound("p", Reply(CLOSED), Reply())
    stage.writer.when_looked_at("p", Reply(ports.Unbound(same=False)))
    stage.wait("p")
    stage.wait("rival", priority=-1)

    await stage.run(until=lambda: stage.status_writer.of("p"))

    assert stage.status_writer.of("p") == ["placed on n1"]
    assert len(stage.writer.binds) == 2


@timeless.scenario
async def test_a_pod_that_is_changed_all_the_time_does_not_keep_its_cards() -> None:
    """After a few tries within seconds its bind counts as refused, and others have their turn."""
    stage = Stage(cards=1)
    stage.writer.when_bound("p", Reply(CLOSED))
    stage.writer.when_looked_at("p", Reply(ports.Unbound()))
    stage.wait("p", priority=1)
    stage.wait("rival")

    await stage.run(until=lambda: "placed on n1" in stage.status_writer.of("rival"))

    assert stage.status_writer.of("p")[0] == "failed: conflict"
    assert stage.writer.binds[-1].moment < 5


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(ports.Refused("fenced"), id="refused"),
        pytest.param(ports.Throttled("slow down", 2.0), id="throttled"),
        pytest.param(OPEN, id="lost as well"),
        pytest.param(CLOSED, id="overtaken"),
        pytest.param(RuntimeError("broken"), id="broken on our side"),
    ],
)
@timeless.scenario
async def test_a_bind_that_may_still_arrive_is_sent_again_and_never_given_up(
    again: ports.Answer | Exception,
) -> None:
    """While a lost bind may arrive its cards stay with its pod, whatever copies of it are told (I1)."""
    stage = Stage(cards=1)
    stage.writer.when_bound("p", Reply(OPEN, takes=4.0), *[Reply(again)] * 5, Reply())
    stage.writer.when_looked_at("p", Reply(ports.Unbound()))
    stage.wait("p", priority=1)
    stage.wait("rival")

    await stage.run(until=lambda: "placed on n1" in stage.status_writer.of("p"))

    assert stage.moments("rival") == ([], [])
    assert len(stage.writer.binds) == 7
    assert stage.state("p") is State.ASSUMED


@timeless.scenario
async def test_a_break_on_our_side_is_followed_up_like_a_lost_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """If we break ourselves, nothing is given out twice, and the pod is bound in the end."""
    stage = Stage(cards=2)
    stage.writer.when_bound("p", Reply(RuntimeError("broken")), Reply())
    stage.writer.when_looked_at("p", Reply(ports.Unbound()))
    stage.wait("p", priority=1)
    stage.wait("q")

    await stage.run(until=lambda: stage.status_writer.of("p"))

    assert worlds.given(stage.writer.placements["p"]) == (builders.share(0),)
    assert worlds.given(stage.writer.placements["q"]) == (builders.share(1),)
    assert "the bind of ml/p failed" in caplog.text


@timeless.scenario
async def test_a_look_that_breaks_is_followed_up_too(caplog: pytest.LogCaptureFixture) -> None:
    """A fault of our own in looking leaves nothing assumed for ever."""
    stage = Stage(cards=1)
    stage.writer.when_bound("p", Reply(CLOSED))
    stage.writer.when_looked_at("p", Reply(RuntimeError("broken")), Reply())
    stage.wait()

    await stage.run(until=lambda: "placed on n1" in stage.status_writer.of("p"))

    assert "ml/p cannot be looked at" in caplog.text


def out_of_reach(nodes: int) -> Stage:
    """Return a stage on which the answer to a pod's bind is lost, and nobody can be asked about the pod."""
    stage = Stage(nodes=nodes, cards=1)
    stage.writer.when_bound("p", Reply(OPEN))
    stage.writer.when_looked_at("p", Reply(ports.Unknown("no route")))
    stage.wait()
    return stage


@timeless.scenario
async def test_people_are_told_of_a_bind_without_a_clear_answer() -> None:
    """Not at once, for most are found again with the first look; then by event, condition and page."""
    stage = out_of_reach(nodes=1)

    async with timeless.beside(stage.loop.run()):
        await timeless.at(3.5)
        assert stage.status_writer.of("p") == []
        await timeless.at(30.0)
        candidate = stage.ledger.assumed_pods["uid-p"].candidate

        assert set(stage.status_writer.of("p")) == {"failed: no clear answer yet: no route"}
        assert stage.loop.reporter.reasons.last_message(candidate) == "no clear answer yet: no route"
        stage.writer.when_looked_at("p", Reply())
        await stage.loop.binder.drain()


@timeless.scenario
async def test_who_is_throttled_keeps_its_place() -> None:
    """The rest is everybody's: a pod at which the server has not looked is not overtaken for that."""
    stage = Stage(cards=1)
    slow = Reply(ports.Throttled("slow down", 0.5))
    stage.writer.when_bound("high", *[slow] * 6, Reply())
    stage.wait("high", priority=9)

    async with timeless.beside(stage.loop.run()):
        await timeless.at(2.8)
        stage.wait("low")
        await timeless.until(lambda: stage.status_writer.of("high"))

    assert stage.status_writer.of("high") == ["placed on n1"]
    assert stage.moments("low") == ([], [])


# ---------------------------------------------------------------- the watch is faster than the answer


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(ports.Bound(), ["placed on n1"], id="bound"),
        pytest.param(NO, [], id="refused"),
        pytest.param(ports.Throttled("slow down", 1.0), [], id="throttled"),
        pytest.param(OPEN, ["placed on n1"], id="unclear"),
    ],
)
@timeless.scenario
async def test_confirmed_before_the_answer(
    answer: ports.Answer, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """What the watch has shown stays, whatever the answer says."""
    stage = Stage()
    stage.writer.when_bound("p", Reply(answer, meanwhile=stage.confirm))
    stage.wait()

    await stage.run(until=lambda: stage.state() is State.CONFIRMED)

    assert stage.state() is State.CONFIRMED
    assert stage.status_writer.of("p") == told
    assert errors(caplog) == []


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        pytest.param(lambda stage: stage.confirm(), ["placed on n1"], id="our bind"),
        pytest.param(
            lambda stage: stage.ledger.pod_bound(builders.hold("p", "n2", [0])), [], id="somebody's"
        ),
        pytest.param(lambda stage: stage.ledger.pod_over("uid-p"), [], id="the pod's end"),
    ],
)
@timeless.scenario
async def test_what_the_watch_shows_needs_no_look(shown: Callable[[Stage], None], told: list[str]) -> None:
    """A lost bind of which the watch knows the end is followed no further, whoever cannot be asked."""
    stage = out_of_reach(nodes=2)

    async with timeless.beside(stage.loop.run()):
        await timeless.at(3.5)
        shown(stage)
        await timeless.at(30.0)
        assert not stage.loop.binder.busy

    assert stage.status_writer.of("p") == told


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ports.Bound(), id="bound"),
        pytest.param(NO, id="refused"),
        pytest.param(ports.Gone(), id="gone"),
        pytest.param(OPEN, id="unclear"),
    ],
)
@timeless.scenario
async def test_deleted_while_the_bind_is_under_way(
    answer: ports.Answer, caplog: pytest.LogCaptureFixture
) -> None:
    """A pod whose end was seen is not brought back by any answer to its bind."""
    stage = Stage()
    stage.writer.when_bound("p", Reply(answer, meanwhile=lambda: stage.ledger.pod_over("uid-p")))
    stage.writer.when_looked_at("p", Reply(ports.Gone()))
    stage.wait()

    await stage.run(until=lambda: stage.writer.binds)

    assert stage.state() is State.FREE
    assert len(stage.ledger.backlog) == 0
    assert pictures.free_cards(stage.ledger.inventory) == 4
    assert errors(caplog) == []


@timeless.scenario
async def test_edited_while_the_bind_is_under_way() -> None:
    """A pod that asks for something else when its bind fails is decided anew by what it asks now."""
    stage = Stage()
    edited = builders.candidate("p", cards=3)
    edit = Reply(NO, meanwhile=lambda: stage.ledger.pod_waiting(edited, gated=False))
    stage.writer.when_bound("p", edit, Reply())
    stage.wait()

    await stage.run(until=lambda: "placed on n1" in stage.status_writer.of("p"))

    assert len(worlds.given(stage.writer.placements["p"])) == 3
