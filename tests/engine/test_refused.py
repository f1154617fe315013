"""Pods whose binds are refused keep no card from others, and go on at once when the refusals end."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from berth_operator.engine import bind_refusals, ports
from engine.harness import Engine
from support import timeless, writers
from support.writers import Reply

NO = ports.Refused("no")
BOUND = ports.Bound()
MODIFIED = ports.Unknown("modified", open=False, version="1")
SLOW = 0.5
CROWD = 300
BAD = [f"bad{number}" for number in range(CROWD)]


# ---------------------------------------------------------------- what others feel of it


@timeless.scenario
async def test_a_refused_pod_keeps_its_card_from_nobody() -> None:
    """While the server is asked about it again, the card goes to the next that fits."""
    engine = Engine(cards=1)
    engine.wait("bad", Reply(NO, takes=SLOW), priority=5)
    await engine.advance(20.0)
    await engine.advance(lambda: engine.writer.now_open)

    took = await engine.place_later("good", engine.now())

    assert len(engine.writer.binds) == 2
    assert took < 0.1


CONFLICTS = [ports.Unknown("modified", open=False, version=str(at)) for at in range(100)]
REVISIONS = [ports.Unbound(version=str(at + 1)) for at in range(100)]
# Pods of greater importance: what is answered to their binds, what reads of them find, how many binds of them
# are sent, and within how many seconds others have the card.
NEVER_BOUND: dict[str, tuple[Iterable[str], Sequence[Any], Sequence[Any], int, float]] = {
    "edited all the time": (
        "ab",
        [Reply(MODIFIED, takes=0.005)],
        [ports.Unbound(same=False)],
        1 + bind_refusals.OFTEN,
        1.0,
    ),
    "of another revision all the time": ("p", CONFLICTS, REVISIONS, 8, 0.5),
    "gone before they are bound": (
        BAD[:40],
        [Reply(MODIFIED, takes=0.3)],
        [ports.Gone()],
        1 + bind_refusals.OFTEN,
        2.0,
    ),
}


@pytest.mark.parametrize(
    ("names", "answers", "found", "most", "within"), NEVER_BOUND.values(), ids=NEVER_BOUND.keys()
)
@timeless.scenario
async def test_pods_that_are_never_bound_keep_no_card_from_others(
    names: Iterable[str], answers: Sequence[Any], found: Sequence[Any], most: int, within: float
) -> None:
    """After a few times their binds are treated as refused ones, and a dry run of them comes first."""
    engine = Engine(cards=1)
    for name in names:
        engine.writer.when_looked_at(name, *found)
    engine.crowd(names, *answers, priority=5)

    assert await engine.place_later("good", 0.01) < within
    assert len(engine.writer.binds) - 1 <= most


@pytest.mark.parametrize(
    ("takes", "priority", "within"),
    [
        pytest.param(0.02, 5, 0.5, id="more important, and the server is quick"),
        pytest.param(0.2, 5, 1.5, id="more important, and the server is slow"),
        pytest.param(0.2, 0, 1.5, id="older, and the server is slow"),
    ],
)
@timeless.scenario
async def test_a_crowd_that_is_refused_keeps_a_freed_card_from_nobody(
    takes: float, priority: int, within: float
) -> None:
    """Pods that were never tried are not bound on trial, and the server is soon asked about the good one."""
    engine = Engine(cards=1)
    await engine.occupy()
    engine.crowd(BAD, Reply(NO, takes=takes), priority=priority)
    engine.wait("good")
    await engine.advance(5.0)

    engine.ledger.pod_over("uid-holder")
    await engine.advance(lambda: engine.placed("good"))

    assert engine.bound_at("good") < 5.0 + within
    assert len(engine.writer.binds) <= 2 + bind_refusals.OFTEN
    assert len(engine.writer.dry_runs) < CROWD * (1 if takes < 0.2 else 0.5)


@timeless.scenario
async def test_other_namespaces_are_bound_as_ever() -> None:
    """Refusals in one namespace cost nobody else a dry run."""
    engine = Engine()
    engine.crowd(BAD[:4], NO)
    await engine.advance(2.0)

    engine.wait("other", namespace="else")
    await engine.advance(lambda: engine.placed("other"))

    assert "other" not in {call.name for call in engine.writer.dry_runs}


# ---------------------------------------------------------------- when it ends


@pytest.mark.parametrize(
    ("names", "accepted", "moment", "within"),
    [
        pytest.param(BAD[:20], BAD[:20], 60.3, 1.5, id="all of them"),
        pytest.param(["bad", "late"], ["late"], 100.0, 2.5, id="the second of two"),
    ],
)
@timeless.scenario
async def test_all_are_bound_within_moments_when_the_refusals_end(
    names: list[str], accepted: list[str], moment: float, within: float
) -> None:
    """However long their pauses have become, one of them is tried each second, and then all."""
    engine = Engine(nodes=5)
    engine.crowd(names, NO)
    await engine.advance(moment)

    for name in accepted:
        engine.writer.when_bound(name, BOUND)
    await engine.advance(lambda: all(map(engine.placed, accepted)))

    assert max(map(engine.bound_at, accepted)) < moment + within


@timeless.scenario
async def test_a_pod_without_a_card_hears_of_it_too() -> None:
    """Whether the server would bind it is asked while all cards are taken; then it has its turn again."""
    engine = Engine(cards=1)
    engine.wait("vip", NO, priority=5)
    await engine.advance(lambda: engine.status_writer.of("vip"))
    await engine.occupy()
    engine.wait("other")
    await engine.advance(20.3)
    engine.writer.when_bound("vip", BOUND)
    await engine.advance(22.0)

    engine.ledger.pod_over("uid-holder")
    await engine.advance(lambda: engine.placed("vip"))

    assert engine.bound_at("vip") < 22.1
    assert not engine.placed("other")


# ---------------------------------------------------------------- dry runs without a clear answer


@pytest.mark.parametrize(
    ("answer", "reports"),
    [
        pytest.param(ports.Unknown("lost"), 1, id="lost"),
        pytest.param(ports.Unknown("of another revision", open=False), 1, id="of another revision"),
        pytest.param(ports.Throttled("not so fast", 0.5), 1, id="throttled"),
        pytest.param(RuntimeError("broken"), 1, id="broken"),
        pytest.param(NO, 2, id="refused"),
    ],
)
@timeless.scenario
async def test_a_dry_run_that_is_not_accepted_is_made_again(answer: writers.Outcome, reports: int) -> None:
    """Nothing was written, so nothing has to be followed: the pod shows the refusal, and comes again."""
    engine = Engine()
    engine.wait("p", NO, answer, BOUND)

    await engine.run(until=engine.placed)

    assert engine.writer.looks == []
    assert engine.bound_at("p") < 3.0
    assert engine.status_writer.of("p") == [*["The bind failed: no"] * reports, "placed on n1"]


@timeless.scenario
async def test_a_server_that_wants_a_rest_from_dry_runs_has_it() -> None:
    """Neither binds nor further dry runs are sent until it wants more."""
    engine = Engine()
    engine.writer.when_dry_run("p", ports.Throttled("not so fast", 5.0), NO)
    engine.wait("p", NO)
    await engine.advance(lambda: engine.writer.dry_runs)
    asked = engine.now()

    took = await engine.place_later("other", asked + 0.1)
    await engine.advance(lambda: len(engine.writer.dry_runs) > 1)

    assert took >= 4.9
    assert engine.writer.dry_runs[1].moment >= asked + 5.0


@timeless.scenario
async def test_a_server_that_accepts_dry_runs_alone_is_not_hammered() -> None:
    """A webhook may treat the two differently, etcd hears of binds alone: the pauses grow to a minute."""
    engine = Engine()
    engine.writer.when_dry_run("p", BOUND)
    engine.wait("p", *[NO] * 7, BOUND)

    await engine.advance(100.0)
    await engine.advance(engine.placed)

    binds, _ = engine.moments()
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(binds)]
    assert pauses == sorted(pauses)
    assert 50 <= pauses[-1] < 70
    assert len(engine.writer.dry_runs) <= 3


@timeless.scenario
async def test_an_edit_makes_no_trial_earlier() -> None:
    """Who edits such a pod all the time has no card kept for it more often."""
    engine = Engine()
    engine.writer.when_dry_run("p", BOUND)
    engine.wait("p", NO)

    for number in range(600):
        await engine.advance(0.1 * (number + 1))
        if "uid-p" in engine.ledger.backlog:
            engine.wait(cards=1 + number % 2)

    assert len(engine.writer.binds) <= 10


@timeless.scenario
async def test_a_pod_that_goes_during_its_dry_run_is_forgotten() -> None:
    """Nothing is told of it, and nothing is kept."""
    engine = Engine()
    engine.wait("p", Reply(NO, takes=SLOW))
    await engine.advance(lambda: engine.writer.dry_runs)

    engine.ledger.pod_over("uid-p")
    reports = len(engine.status_writer.reports)
    await engine.advance(20.0)

    assert (len(engine.status_writer.reports), len(engine.writer.dry_runs)) == (reports, 1)


@timeless.scenario
async def test_a_freed_card_is_no_reason_to_ask_about_refused_pods_again() -> None:
    """A crowd of them would keep the server from answering for the one pod that it has not refused."""
    engine = Engine(cards=1)
    engine.crowd(BAD, Reply(NO, takes=0.02), priority=5)
    await engine.advance(lambda: all(map(engine.status_writer.of, BAD)))
    await engine.occupy()
    await engine.advance(20.3)
    asked = len(engine.writer.dry_runs)

    engine.ledger.pod_over("uid-holder")
    took = await engine.place_later("good", engine.now())

    assert took < 0.1
    assert len(engine.writer.dry_runs) - asked < CROWD / bind_refusals.ALL_ASKED_SECONDS + 2
