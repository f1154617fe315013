"""Whatever the server answers, and whenever: no card is given away twice, and every pod is taken further."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from berth_operator.engine import assumed_pods, ports
from berth_operator.engine.hold_states import State
from engine.harness import Engine, errors
from support import builders, inventories, timeless
from support.writers import Reply

BOUND = ports.Bound()
GONE = ports.Gone()
NO = ports.Refused("no")
OPEN = ports.Unknown("timed out")
CLOSED = ports.Unknown("conflict", open=False)
LOST = ports.Unknown("timed out", version="7")
UNBOUND = ports.Unbound()
SEVENTH = ports.Unbound(version="7")
EDITED = ports.Unbound(same=False, version="8")
BROKEN = RuntimeError("broken")
FAILED = "the bind of ml/p failed"
PLACED = ["placed on n1"]


def conflict(version: str = "") -> ports.Unknown:
    """Return the answer to a bind that the server refused, perhaps for the pod's revision alone."""
    return ports.Unknown("too large", open=False, version=version)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What becomes of a bind: what is answered to its copies, what reads of its pod find, what follows.

    What the pod is told in the end, how the attempts are counted, how its hold stands, and whether it waits
    again; how often the bind is sent, the pod is read and changed; after how many seconds the first read
    comes, and within how many the last copy of the bind is sent.
    """

    answers: Sequence[Any]
    found: Sequence[Any] = (RuntimeError("nobody asked for this"),)
    reports: Sequence[str] = ()
    counted: Sequence[str] = ("bound",)
    state: State = State.FREE
    waits: bool = False
    calls: tuple[int, int, int] = (1, 0, 0)
    looked_after: float | None = None
    within: float = 0.1
    logged: Sequence[str] = ()


TWICE = (2, 1, 0)
READ = (1, 1, 0)
bound = functools.partial(Outcome, reports=PLACED, state=State.ASSUMED)
refused = functools.partial(Outcome, reports=["The bind failed: no"], counted=["error"], waits=True)
gone = functools.partial(Outcome, found=[GONE], counted=["gone"], calls=READ)
OUTCOMES: dict[str, Outcome] = {
    "bound": bound([BOUND]),
    "refused": refused([NO]),
    "throttled": bound(
        [ports.Throttled("slow down", 0.05), BOUND], calls=(2, 0, 0), counted=["error", "bound"]
    ),
    "gone": gone([GONE], calls=(1, 0, 0)),
    "lost, and bound": bound([OPEN], [BOUND], calls=READ),
    "lost, and bound by another": refused([OPEN], [NO], calls=READ),
    "lost, and gone": gone([OPEN]),
    "lost, and may be carried out until the server's deadline": bound(
        [Reply(OPEN, takes=4.0)], [BOUND], calls=READ, looked_after=7.0
    ),
    "lost by the server, a part of which may still be at work": bound(
        [Reply(OPEN, takes=0.5)], [BOUND], calls=READ, looked_after=3.5
    ),
    "lost, of a known revision": bound([LOST, BOUND], [SEVENTH], calls=TWICE, within=4.0),
    "lost, of a known revision, again and again": refused(
        [Reply(LOST, takes=4.0)],
        [SEVENTH],
        calls=(2, 2, 1),
        within=9.0,
        reports=["The bind failed: timed out"],
    ),
    "lost, and the pod is edited": bound(
        [LOST, BOUND], [EDITED], calls=(2, 1, 1), within=4.0, counted=["stale", "bound"]
    ),
    "unclear, and bound": bound([CLOSED], [BOUND], calls=READ, looked_after=0.01),
    "unclear, and bound by another": refused([CLOSED], [NO], calls=READ),
    "unclear, and gone": gone([CLOSED]),
    "refused for its revision": bound([CLOSED, BOUND], [UNBOUND], calls=TWICE),
    "refused for its revision all the time": refused(
        [CLOSED], [UNBOUND], calls=(5, 4, 0), within=5.0, reports=["The bind failed: conflict"]
    ),
    "refused in the present revision": refused(
        [conflict("7"), NO], [SEVENTH], calls=READ, reports=["The bind failed: too large"]
    ),
    "refused in an earlier revision": refused([conflict("6"), NO], [SEVENTH], calls=TWICE),
    "refused without a revision": refused([conflict(), NO], [SEVENTH], calls=TWICE),
    "refused, and the pod is edited": bound(
        [conflict("7"), BOUND], [EDITED], calls=TWICE, counted=["stale", "bound"]
    ),
    "the read fails": bound([CLOSED], [BROKEN, BOUND], calls=(1, 2, 0), logged=["ml/p cannot be read"]),
    "the request fails": bound(
        [BROKEN, BOUND], [UNBOUND], calls=TWICE, within=4.0, counted=["error", "bound"], logged=[FAILED]
    ),
    "the request fails, and the pod is gone": gone([BROKEN], counted=["error", "gone"], logged=[FAILED]),
}


def settled(engine: Engine) -> bool:
    """Whether something was told to the pod, or it is known to be bound or gone."""
    under_way = engine.loop.binder.busy or engine.ledger.unbound("uid-p") is not None
    return bool(engine.status_writer.reports) or not under_way


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES.keys())
@timeless.scenario
async def test_what_becomes_of_a_bind(outcome: Outcome, caplog: pytest.LogCaptureFixture) -> None:
    """Each outcome settles the hold, is told to the pod and counted; an unclear one is followed first (I1).

    What may yet be carried out is not read before that is over, and is sent again or made void. What was
    refused for the pod's revision is sent again at once; what would be refused again is not sent.
    """
    engine = Engine(cards=1)
    engine.writer.when_looked_at("p", *outcome.found)
    engine.wait("p", *outcome.answers)

    await engine.run(until=lambda: settled(engine))

    sent, looks, voided = (getattr(engine.writer, calls) for calls in ("binds", "looks", "voided"))
    assert engine.status_writer.of("p") == [*outcome.reports]
    assert engine.results() == dict.fromkeys(outcome.counted, 1)
    assert (engine.state(), "uid-p" in engine.ledger.backlog) == (outcome.state, outcome.waits)
    assert (len(sent), len(looks), len(voided)) == outcome.calls
    assert sent[-1].moment < outcome.within
    assert all(sent[0].moment < call.moment for call in voided)
    if outcome.looked_after is not None:
        assert looks[0].moment - sent[0].moment == pytest.approx(outcome.looked_after, abs=0.01)
    assert errors(caplog) == [*outcome.logged]


@timeless.scenario
async def test_unknown_is_never_forgotten() -> None:
    """As long as nobody knows whether a pod is bound, its cards go to nobody else (I1)."""
    engine = Engine(cards=1)
    engine.writer.when_looked_at("p", *[OPEN] * 9, NO)
    engine.wait("p", Reply(OPEN, takes=4.0), priority=1)
    engine.wait("rival")

    await engine.run(until=lambda: engine.placed("rival"))

    _, looks = engine.moments()
    pauses = [round(later - earlier - 0.01, 1) for earlier, later in itertools.pairwise(looks)]
    assert pauses == [0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0]
    assert engine.bound_at("rival") > looks[-1]


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(ports.Refused("fenced"), id="refused"),
        pytest.param(ports.Throttled("slow down", 2.0), id="throttled"),
        pytest.param(OPEN, id="lost as well"),
        pytest.param(CLOSED, id="overtaken"),
        pytest.param(BROKEN, id="broken on our side"),
    ],
)
@timeless.scenario
async def test_a_bind_that_may_still_arrive_is_sent_again_and_never_given_up(
    again: ports.Answer | Exception,
) -> None:
    """While a lost bind may arrive its cards stay with its pod, whatever copies of it are told (I1)."""
    engine = Engine(cards=1)
    engine.writer.when_looked_at("p", UNBOUND)
    engine.wait("p", Reply(OPEN, takes=4.0), *[again] * 5, BOUND, priority=1)
    engine.wait("rival")

    await engine.run(until=engine.placed)

    assert {call.name for call in engine.writer.binds} == {"p"}
    assert (len(engine.writer.binds), engine.state()) == (7, State.ASSUMED)


@pytest.mark.parametrize(
    "seen", [ports.Unknown("the pod cannot be changed"), BROKEN], ids=["unclear", "broken"]
)
@timeless.scenario
async def test_a_lost_bind_that_could_not_be_made_void_keeps_its_card(
    seen: ports.ReadResult | Exception,
) -> None:
    """Nothing is given out twice for impatience (I1)."""
    engine = Engine(cards=1)
    engine.writer.when_looked_at("p", SEVENTH, SEVENTH, seen, SEVENTH, seen)
    engine.wait("p", Reply(LOST, takes=4.0), priority=1)
    engine.wait("rival")

    await engine.advance(60.0)

    assert engine.moments("rival") == ([], [])
    assert engine.state("p") is State.ASSUMED


@timeless.scenario
async def test_people_are_told_of_a_bind_without_a_clear_answer() -> None:
    """Not at once, for most are found again with the first look; then by event, condition and page."""
    engine = Engine()
    engine.writer.when_looked_at("p", ports.Unknown("no route"))
    engine.wait("p", OPEN)

    await engine.advance(3.5)
    early = engine.status_writer.of("p")
    await engine.advance(30.0)

    pod_info = engine.ledger.assumed_pods["uid-p"].pod_info
    assert (early, set(engine.status_writer.of("p"))) == ([], {"Bind not confirmed yet, retrying: no route"})
    assert engine.loop.reporter.reasons.last_message(pod_info) == "Bind not confirmed yet, retrying: no route"


@timeless.scenario
async def test_who_is_throttled_keeps_its_place() -> None:
    """The rest is everybody's: a pod at which the server has not looked is not overtaken for that."""
    engine = Engine(cards=1)
    engine.wait("high", *[ports.Throttled("slow down", 0.5)] * 6, BOUND, priority=9)

    await engine.advance(2.8)
    engine.wait("low")
    await engine.advance(lambda: engine.status_writer.of("high"))

    assert engine.status_writer.of("high") == PLACED
    assert engine.moments("low") == ([], [])


# ---------------------------------------------------------------- the watch is faster than the answer


def deleted(engine: Engine) -> None:
    """Have the watch show that the pod is gone."""
    engine.ledger.pod_over("uid-p")


def bound_elsewhere(engine: Engine) -> None:
    """Have the watch show that another scheduler bound the pod."""
    engine.ledger.pod_bound(builders.hold("p", "n2", [0]))


NO_ANSWER = ports.Unknown("no route")
SLOW_DOWN = ports.Throttled("slow down", 1.0)
# What the watch shows, just before which answer to the bind, or read of the pod; and what the pod is told.
OVERTAKEN: dict[str, tuple[Callable[[Engine], None], str, ports.Answer, Sequence[str]]] = {
    "bound, and accepted": (Engine.confirm, "bind", BOUND, PLACED),
    "bound, and refused": (Engine.confirm, "bind", NO, []),
    "bound, and throttled": (Engine.confirm, "bind", SLOW_DOWN, []),
    "bound, and unclear": (Engine.confirm, "bind", OPEN, PLACED),
    "bound, and nobody can be asked": (Engine.confirm, "read", NO_ANSWER, PLACED),
    "bound by another, and nobody can be asked": (bound_elsewhere, "read", NO_ANSWER, []),
    "deleted, and accepted": (deleted, "bind", BOUND, PLACED),
    "deleted, and refused": (deleted, "bind", NO, []),
    "deleted, and gone": (deleted, "bind", GONE, []),
    "deleted, and unclear": (deleted, "bind", OPEN, []),
    "deleted, and nobody can be asked": (deleted, "read", NO_ANSWER, []),
}


@pytest.mark.parametrize(("shown", "when", "answer", "reports"), OVERTAKEN.values(), ids=OVERTAKEN.keys())
@timeless.scenario
async def test_what_the_watch_has_shown_stays(
    shown: Callable[[Engine], None],
    when: str,
    answer: ports.Answer,
    reports: Sequence[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No answer frees the cards of a pod that is bound, or brings back a pod that is gone."""
    engine = Engine(nodes=2)
    overtaken = Reply(answer, meanwhile=lambda: shown(engine))
    engine.writer.when_looked_at("p", overtaken if when == "read" else GONE)
    engine.wait("p", overtaken if when == "bind" else OPEN)

    await engine.run(until=lambda: engine.writer.binds)

    is_bound = shown is not deleted
    free = sum(inventories.free_cards(engine.ledger.inventory, node) for node in ("n1", "n2"))
    assert (engine.state(), free) == (State.CONFIRMED if is_bound else State.FREE, 8 - is_bound)
    assert len(engine.writer.looks) == (when == "read")
    assert (engine.status_writer.of("p"), len(engine.ledger.backlog)) == ([*reports], 0)
    assert errors(caplog) == []


# ---------------------------------------------------------------- the watch never shows what was answered


@pytest.mark.parametrize(
    ("found", "binds", "reports"),
    [
        pytest.param(SEVENTH, 2, PLACED, id="undone by a restore"),
        pytest.param(BOUND, 1, PLACED, id="the watch is late"),
        pytest.param(GONE, 1, PLACED, id="gone"),
    ],
)
@timeless.scenario
async def test_a_bind_that_the_watch_does_not_show_is_followed(
    found: ports.ReadResult, binds: int, reports: Sequence[str]
) -> None:
    """A restore of etcd may undo a bind that was answered: its cards must not be kept for ever."""
    engine = Engine(cards=1)
    engine.writer.when_looked_at("p", found)
    engine.wait("p", BOUND)

    await engine.advance(lambda: engine.writer.looks)
    await engine.advance(engine.now() + 1)

    assert len(engine.writer.binds) == binds
    assert engine.status_writer.of("p") == [*reports]
    assert engine.state() is (State.FREE if found is GONE else State.ASSUMED)
    assert engine.now() > assumed_pods.OVERDUE_SECONDS


@timeless.scenario
async def test_a_pod_that_was_edited_since_its_bind_was_undone_is_decided_anew() -> None:
    """It is changed first, so that no copy of that bind can be carried out."""
    engine = Engine(cards=2)
    engine.writer.when_looked_at("p", EDITED)
    engine.ledger.pod_waiting(builders.pod_info("p", cards=1), gated=False, version="7")
    await engine.advance(engine.placed)

    engine.ledger.pod_waiting(builders.pod_info("p", cards=2), gated=False, version="6")
    await engine.advance(lambda: len(engine.writer.binds) == 2)

    assert len(engine.writer.voided) == 1
    assert [len(grant.shares) for grant in engine.writer.placements["p"].grants] == [2]
