"""Whatever the server answers, and whenever: no card is given away twice, and every pod is taken further."""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from berth_operator.engine import bind_sender, ports
from berth_operator.engine.hold_states import State
from engine.stages import Stage, errors
from support import builders, inventories, timeless, worlds
from support.hands import Reply

OPEN = ports.Unknown("timed out")
CLOSED = ports.Unknown("conflict", open=False)
NO = ports.Refused("no")


# What the server answers and what a read finds then; the state of the hold, whether the pod waits again,
# what it is told, and as what it is counted.
OUTCOMES: dict[str, tuple[Any, ...]] = {
    "bound": (ports.Bound(), None, State.ASSUMED, False, ["placed on n1"], "bound"),
    "refused": (NO, None, State.FREE, True, ["failed: no"], "error"),
    "throttled": (ports.Throttled("slow down", 9.0), None, State.FREE, True, [], "error"),
    "gone": (ports.Gone(), None, State.FREE, False, [], "gone"),
    "a bug of ours": (ValueError("a bug"), ports.Gone(), State.FREE, False, [], "error"),
    **{
        f"{unclear.message}, then {what}": (unclear, found, *outcome)
        for unclear in (OPEN, CLOSED)
        for what, found, *outcome in (
            ("bound", ports.Bound(), State.ASSUMED, False, ["placed on n1"], "bound"),
            ("bound by another", NO, State.FREE, True, ["failed: no"], "error"),
            ("gone", ports.Gone(), State.FREE, False, [], "gone"),
        )
    },
}


@pytest.mark.parametrize(
    ("answer", "found", "state", "waits", "told", "result"), OUTCOMES.values(), ids=OUTCOMES.keys()
)
@timeless.scenario
async def test_what_becomes_of_a_bind(
    answer: ports.Answer | Exception,
    found: ports.Answer | None,
    state: State,
    waits: bool,  # noqa: FBT001  a column of the table
    told: list[str],
    result: str,
) -> None:
    """Each outcome settles the hold, and is told to the pod and counted; an unclear answer is read up."""
    stage = Stage()
    stage.writer.when_looked_at("p", Reply(found or RuntimeError("nobody asked for this")))
    stage.crowd(["p"], Reply(answer))

    await stage.run(until=lambda: stage.writer.binds)

    assert (stage.state(), "uid-p" in stage.ledger.backlog) == (state, waits)
    assert stage.status_writer.of("p") == told
    assert len(stage.writer.looks) == (found is not None)
    assert stage.value("scheduling_attempts_total", result=result) == 1
    assert stage.value("scheduling_attempts_total", result="bound") == (result == "bound")


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
    stage.crowd(["p"], Reply(unknown, takes=takes))

    await stage.run(until=lambda: stage.writer.looks)

    (sent,), (looked,) = stage.moments()
    assert looked - sent == pytest.approx(look, abs=0.01)


@timeless.scenario
async def test_unknown_is_never_forgotten() -> None:
    """As long as nobody knows whether a pod is bound, its cards go to nobody else (I1)."""
    stage = Stage(cards=1)
    stage.writer.when_looked_at("p", *[Reply(OPEN)] * 9, Reply(NO))
    stage.crowd(["p"], Reply(OPEN, takes=4.0), priority=1)
    stage.wait("rival")

    await stage.run(until=lambda: stage.placed("rival"))

    _, looks = stage.moments()
    (rival,), _ = stage.moments("rival")
    pauses = [round(later - earlier - 0.01, 1) for earlier, later in itertools.pairwise(looks)]
    assert pauses == [0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    assert rival > looks[-1]


def closed(message: str, version: str = "") -> ports.Unknown:
    """Return the answer to a bind that the server refused, perhaps for the pod's revision alone."""
    return ports.Unknown(message, open=False, version=version)


LOST = ports.Unknown("lost", version="7")
YES = ports.Bound()


@dataclasses.dataclass(frozen=True)
class Followed:
    """A bind that is followed: the answers to it, and what reads of the pod find.

    What the pod is told in the end, how often the bind is sent, the last time within so many seconds, and
    how often the pod is changed.
    """

    answers: list[Any]
    found: list[Any]
    told: str = "placed on n1"
    binds: int = 2
    within: float = 0.1
    voided: int = 0


SEVENTH = ports.Unbound(version="7")
EDITED = ports.Unbound(same=False, version="8")
FOLLOWED: dict[str, Followed] = {
    "in another revision": Followed([CLOSED, YES], [ports.Unbound()]),
    "refused as it was": Followed([closed("too large", "7"), NO], [SEVENTH], "failed: too large", 1),
    "refused otherwise": Followed([closed("too large", "6"), NO], [SEVENTH], "failed: no"),
    "it named no revision": Followed([closed("too large"), NO], [SEVENTH], "failed: no"),
    "lost": Followed([LOST, YES], [SEVENTH], within=4.0),
    "edited": Followed([closed("modified", "7"), YES], [EDITED]),
    "lost and edited": Followed([LOST, YES], [EDITED], within=4.0, voided=1),
    "reading breaks": Followed([CLOSED], [RuntimeError("broken"), YES], binds=1),
}


@pytest.mark.parametrize("case", FOLLOWED.values(), ids=FOLLOWED.keys())
@timeless.scenario
async def test_a_bind_without_a_clear_answer_is_followed(
    case: Followed, caplog: pytest.LogCaptureFixture
) -> None:
    """It is sent again, at once where it was refused for its revision alone, or decided anew.

    What was refused and is as it was would be refused again: its cards are free at once. A pod that asks
    for something else is changed first if a copy may still arrive.
    """
    stage = Stage(cards=1)
    stage.writer.when_looked_at("p", *map(Reply, case.found))
    stage.crowd(["p"], *map(Reply, case.answers))

    await stage.run(until=lambda: stage.status_writer.told)

    sent, changed = stage.writer.binds, stage.writer.voided
    assert stage.status_writer.of("p") == [case.told]
    assert stage.state() is (State.ASSUMED if stage.placed() else State.FREE)
    assert (len(sent), len(changed)) == (case.binds, case.voided)
    assert sent[-1].moment < case.within
    assert all(sent[0].moment < call.moment < sent[-1].moment for call in changed)
    assert errors(caplog) == ["ml/p cannot be looked at"] * any(
        isinstance(one, Exception) for one in case.found
    )


@timeless.scenario
async def test_a_pod_that_is_changed_all_the_time_does_not_keep_its_cards() -> None:
    """After a few tries within seconds its bind counts as refused, and others have their turn."""
    stage = Stage(cards=1)
    stage.writer.when_looked_at("p", Reply(ports.Unbound()))
    stage.crowd(["p"], Reply(CLOSED), priority=1)
    stage.wait("rival")

    await stage.run(until=lambda: stage.placed("rival"))

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
    stage.writer.when_looked_at("p", Reply(ports.Unbound()))
    stage.crowd(["p"], Reply(OPEN, takes=4.0), *[Reply(again)] * 5, Reply(), priority=1)
    stage.wait("rival")

    await stage.run(until=stage.placed)

    assert stage.moments("rival") == ([], [])
    assert len(stage.writer.binds) == 7
    assert stage.state("p") is State.ASSUMED


@timeless.scenario
async def test_a_break_on_our_side_is_followed_up_like_a_lost_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """If we break ourselves, nothing is given out twice, and the pod is bound in the end."""
    stage = Stage(cards=2)
    stage.writer.when_looked_at("p", Reply(ports.Unbound()))
    stage.crowd(["p"], Reply(RuntimeError("broken")), Reply(), priority=1)
    stage.wait("q")

    await stage.run(until=lambda: stage.status_writer.of("p"))

    assert worlds.given(stage.writer.placements["p"]) == (builders.share(0),)
    assert worlds.given(stage.writer.placements["q"]) == (builders.share(1),)
    assert "the bind of ml/p failed" in caplog.text


def out_of_reach(nodes: int) -> Stage:
    """Return a stage on which the answer to a pod's bind is lost, and nobody can be asked about the pod."""
    stage = Stage(nodes=nodes, cards=1)
    stage.writer.when_looked_at("p", Reply(ports.Unknown("no route")))
    stage.crowd(["p"], Reply(OPEN))
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


def deleted(stage: Stage) -> None:
    """Have the watch show that the pod is gone."""
    stage.ledger.pod_over("uid-p")


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        pytest.param(Stage.confirm, ["placed on n1"], id="our bind"),
        pytest.param(
            lambda stage: stage.ledger.pod_bound(builders.hold("p", "n2", [0])), [], id="somebody's"
        ),
        pytest.param(deleted, [], id="the pod's end"),
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


SLOW_DOWN = ports.Throttled("slow down", 1.0)
# What the watch shows just before the answer comes, the answer, and what the pod is told.
OVERTAKEN: dict[str, tuple[Callable[[Stage], None], ports.Answer, list[str]]] = {
    "bound, and accepted": (Stage.confirm, ports.Bound(), ["placed on n1"]),
    "bound, and refused": (Stage.confirm, NO, []),
    "bound, and throttled": (Stage.confirm, SLOW_DOWN, []),
    "bound, and unclear": (Stage.confirm, OPEN, ["placed on n1"]),
    "deleted, and accepted": (deleted, ports.Bound(), ["placed on n1"]),
    "deleted, and refused": (deleted, NO, []),
    "deleted, and gone": (deleted, ports.Gone(), []),
    "deleted, and unclear": (deleted, OPEN, []),
}


@pytest.mark.parametrize(("shown", "answer", "told"), OVERTAKEN.values(), ids=OVERTAKEN.keys())
@timeless.scenario
async def test_what_the_watch_has_shown_stays(
    shown: Callable[[Stage], None], answer: ports.Answer, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """No answer frees the cards of a pod that is bound, or brings back a pod that is gone."""
    stage = Stage()
    stage.writer.when_looked_at("p", Reply(ports.Gone()))
    stage.crowd(["p"], Reply(answer, meanwhile=lambda: shown(stage)))

    await stage.run(until=lambda: stage.writer.binds)

    bound = shown is not deleted
    assert stage.state() is (State.CONFIRMED if bound else State.FREE)
    assert inventories.free_cards(stage.ledger.inventory) == 4 - bound
    assert (stage.status_writer.of("p"), len(stage.ledger.backlog)) == (told, 0)
    assert errors(caplog) == []


@timeless.scenario
async def test_edited_while_the_bind_is_under_way() -> None:
    """A pod that asks for something else when its bind fails is decided anew by what it asks now."""
    stage = Stage()
    edited = builders.candidate("p", cards=3)
    edit = Reply(NO, meanwhile=lambda: stage.ledger.pod_waiting(edited, gated=False))
    stage.crowd(["p"], edit, Reply())

    await stage.run(until=stage.placed)

    assert len(worlds.given(stage.writer.placements["p"])) == 3
