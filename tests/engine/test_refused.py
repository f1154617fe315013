"""Pods whose binds are refused keep no card from others, and go on at once when the refusals end."""

import dataclasses
import itertools

import pytest

from berth_operator.engine import bind_refusals, ports
from berth_operator.scheduling import decisions
from berth_operator.scheduling.backlog import Backlog
from engine.stages import Stage
from support import builders, timeless
from support.hands import Reply

NO = ports.Refused("no")
SLOW = 0.5
CROWD = 300
OTHERS = [f"other{number}" for number in range(bind_refusals.MOST_WITHOUT_TURNS)]
SOMEWHERE = decisions.Placement("n1")


def bound_at(stage: Stage, name: str) -> float:
    """Return when the bind was sent by which a pod got its place."""
    assert stage.placed(name)
    return stage.moments(name)[0][-1]


# ---------------------------------------------------------------- what others feel of it


@timeless.scenario
async def test_a_refused_pod_keeps_its_card_from_nobody() -> None:
    """While the server is asked about it again, the card goes to the next that fits."""
    stage = Stage(cards=1)
    stage.crowd(["bad"], Reply(NO, takes=SLOW), priority=5)

    async with timeless.beside(stage.loop.run()):
        await timeless.at(20.0)
        while not stage.writer.now_open:
            await timeless.at(timeless.clock()() + 0.01)
        asked = timeless.clock()()
        stage.wait("good")
        await timeless.until(lambda: stage.placed("good"))

    assert len(stage.writer.binds) == 2
    assert bound_at(stage, "good") - asked < 0.1


async def a_card_is_freed(*, takes: float, important: int) -> Stage:
    """Free the only card at 5 s: a crowd waits for it whose binds are refused, and a good pod behind it."""
    stage = Stage(cards=1)
    stage.wait("holder")
    await stage.run(until=lambda: stage.status_writer.of("holder"))
    stage.confirm("holder")
    stage.crowd((f"bad{number}" for number in range(CROWD)), Reply(NO, takes=takes), priority=important)
    stage.wait("good")

    async with timeless.beside(stage.loop.run()):
        await timeless.at(5.0)
        stage.ledger.pod_over("uid-holder")
        await timeless.until(lambda: stage.placed("good"))
    return stage


@timeless.scenario
async def test_a_crowd_that_is_refused_keeps_a_freed_card_from_nobody() -> None:
    """More important pods that were never tried are not bound on trial once several were refused."""
    stage = await a_card_is_freed(takes=0.02, important=5)

    assert bound_at(stage, "good") < 5.5
    assert len(stage.writer.binds) <= 2 + bind_refusals.OFTEN


@pytest.mark.parametrize("important", [5, 0])
@timeless.scenario
async def test_a_slow_server_is_asked_early_about_the_one_that_it_accepts(important: int) -> None:
    """Whether the crowd before it is more important, or only older."""
    stage = await a_card_is_freed(takes=0.2, important=important)

    assert bound_at(stage, "good") < 6.5
    assert len(stage.writer.dry_runs) < CROWD / 2


@timeless.scenario
async def test_other_namespaces_are_bound_as_ever() -> None:
    """Refusals in one namespace cost nobody else a dry run."""
    stage = Stage()
    stage.crowd((f"bad{number}" for number in range(4)), Reply(NO))

    async with timeless.beside(stage.loop.run()):
        await timeless.at(2.0)
        stage.ledger.pod_waiting(
            dataclasses.replace(builders.candidate("other"), namespace="else"), gated=False, version=""
        )
        await timeless.until(lambda: stage.status_writer.of("other"))

    assert "other" not in {call.name for call in stage.writer.dry_runs}


# ---------------------------------------------------------------- when it ends


@timeless.scenario
async def test_all_are_bound_within_moments_when_the_refusals_end() -> None:
    """However long their pauses have become, one of them is tried each second, and then all."""
    stage = Stage(nodes=5)
    names = [f"p{number}" for number in range(20)]
    stage.crowd(names, Reply(NO))

    async with timeless.beside(stage.loop.run()):
        await timeless.at(60.3)
        for name in names:
            stage.writer.when_bound(name, Reply())
        await timeless.until(lambda: all("placed on" in stage.status_writer.of(name)[-1] for name in names))

    assert max(bound_at(stage, name) for name in names) < 60.3 + 1.5


@timeless.scenario
async def test_a_pod_without_a_card_hears_of_it_too() -> None:
    """Whether the server would bind it is asked while all cards are taken; then it has its turn again."""
    stage = Stage(cards=1)
    stage.crowd(["vip"], Reply(NO), priority=5)

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: stage.status_writer.of("vip"))
        stage.wait("holder")
        await timeless.until(lambda: stage.status_writer.of("holder"))
        stage.confirm("holder")
        stage.wait("other")
        await timeless.at(20.3)
        stage.writer.when_bound("vip", Reply())
        await timeless.at(22.0)
        stage.ledger.pod_over("uid-holder")
        await timeless.until(lambda: stage.placed("vip"))

    assert bound_at(stage, "vip") < 22.1
    assert "placed on n1" not in stage.status_writer.of("other")


@timeless.scenario
async def test_each_of_many_has_its_turn() -> None:
    """One pod that is refused for ever does not keep those behind it from being tried."""
    stage = Stage(nodes=2)
    stage.crowd(("bad", "late"), Reply(NO))

    async with timeless.beside(stage.loop.run()):
        await timeless.at(100.0)
        stage.writer.when_bound("late", Reply())
        await timeless.until(lambda: "placed on" in stage.status_writer.of("late")[-1])

    assert bound_at(stage, "late") < 102.5


# ---------------------------------------------------------------- dry runs without a clear answer


@pytest.mark.parametrize(
    "unclear",
    [
        ports.Unknown("lost"),
        ports.Unknown("of another revision", open=False),
        ports.Throttled("not so fast", 0.5),
        RuntimeError("broken"),
    ],
    ids=["lost", "of another revision", "throttled", "broken"],
)
@timeless.scenario
async def test_an_unclear_dry_run_is_made_again(unclear: ports.Answer | Exception) -> None:
    """Nothing was written, so nothing has to be followed: the pod comes again after its pause."""
    stage = Stage()
    stage.crowd(["p"], Reply(NO), Reply(unclear), Reply())

    await stage.run(until=stage.placed)

    assert stage.moments()[1] == []
    assert bound_at(stage, "p") < 3.0


@timeless.scenario
async def test_a_server_that_wants_a_rest_from_dry_runs_has_it() -> None:
    """Neither binds nor further dry runs are sent until it wants more."""
    stage = Stage()
    stage.writer.when_dry_run("p", Reply(ports.Throttled("not so fast", 5.0)), Reply(NO))
    stage.crowd(["p"], Reply(NO))

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: stage.writer.dry_runs)
        asked = stage.now()
        await timeless.at(asked + 0.1)
        stage.wait("other")
        await timeless.until(lambda: stage.placed("other"))
        await timeless.until(lambda: len(stage.writer.dry_runs) > 1)

    assert bound_at(stage, "other") >= asked + 5.0
    assert stage.writer.dry_runs[1].moment >= asked + 5.0


@timeless.scenario
async def test_a_server_that_accepts_dry_runs_alone_is_not_hammered() -> None:
    """A webhook may treat the two differently, etcd hears of binds alone; then the pauses grow as ever."""
    stage = Stage()
    stage.writer.when_dry_run("p", Reply())
    stage.crowd(["p"], Reply(NO))

    async with timeless.beside(stage.loop.run()):
        await timeless.at(120.0)

    binds, _ = stage.moments()
    assert 5 <= len(binds) <= 10
    assert max(later - earlier for earlier, later in itertools.pairwise(binds)) < 70
    assert len(stage.writer.dry_runs) <= 3


@timeless.scenario
async def test_what_a_refused_pod_shows_stays() -> None:
    """Neither a dry run nor its acceptance says anything else than the refusal before the pod is bound."""
    stage = Stage()
    stage.crowd(["p"], Reply(NO), Reply(NO), Reply())

    await stage.run(until=stage.placed)

    assert stage.status_writer.of("p") == ["failed: no", "failed: no", "placed on n1"]


@timeless.scenario
async def test_a_pod_that_goes_during_its_dry_run_is_forgotten() -> None:
    """Nothing is told of it, and nothing is kept."""
    stage = Stage()
    stage.crowd(["p"], Reply(NO, takes=SLOW))

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: stage.writer.dry_runs)
        stage.ledger.pod_over("uid-p")
        told = len(stage.status_writer.told)
        await timeless.at(20.0)

    assert (len(stage.status_writer.told), len(stage.writer.dry_runs)) == (told, 1)


# ---------------------------------------------------------------- who needs a dry run


def refused(*names: str, at: float = 100.0) -> bind_refusals.BindRefusals:
    """Return what is known after the binds of some pods were refused."""
    found = bind_refusals.BindRefusals()
    for name in names:
        found.dry_run_refused(builders.candidate(name), SOMEWHERE, at)
    return found


def test_a_refused_pod_needs_a_dry_run_until_one_is_accepted() -> None:
    """That counts for some seconds, and for that pod alone."""
    one, other = builders.candidate("a"), builders.candidate("b")
    found = refused("a")

    before = found.needs_dry_run(one, 101.0), found.needs_dry_run(other, 101.0)
    hurried = found.dry_run_accepted(one, 101.0)

    assert before == (True, False)
    assert hurried == ["uid-a"]
    assert [found.needs_dry_run(one, 101.0 + later) for later in (0.0, 4.9, 5.0)] == [False, False, True]


def test_after_several_refusals_all_of_the_namespace_need_a_dry_run_for_a_while() -> None:
    """Fewer of them, or those of long ago, tell nothing of the next pod."""
    new = builders.candidate("new")
    stranger = dataclasses.replace(new, namespace="else")
    few, many = refused("a", "b"), refused("a", "b", "c")

    assert not few.needs_dry_run(new, 101.0)
    assert many.needs_dry_run(new, 101.0)
    assert not many.needs_dry_run(stranger, 101.0)
    assert not many.needs_dry_run(new, 100.0 + bind_refusals.RECENT_SECONDS)


def test_who_is_bound_or_gone_is_forgotten() -> None:
    """Nothing is kept of pods that do not wait any more."""
    found = refused("a", "b")
    backlog = Backlog()

    found.forget("uid-a")
    looked = found.due_retries(backlog, 200.0)

    assert (looked, found.next_retry(), repr(found)) == ([], None, "<BindRefusals: 0 pods>")


def test_one_of_each_namespace_is_looked_at_each_second() -> None:
    """The one that was tried longest ago comes first."""
    backlog = Backlog()
    found = bind_refusals.BindRefusals()
    for name, namespace in [("a", "x"), ("b", "x"), ("c", "y")]:
        candidate = dataclasses.replace(builders.candidate(name), namespace=namespace)
        backlog.push(candidate)
        found.dry_run_refused(candidate, SOMEWHERE, 100.0)

    looks = [found.due_retries(backlog, moment) for moment in (100.5, 101.0, 101.5, 102.0, 103.0)]

    named = [[one.candidate.name for one in look] for look in looks]
    assert named == [[], ["a", "c"], [], ["b", "c"], ["a", "c"]]


# ---------------------------------------------------------------- whose turn it is


@timeless.scenario
async def test_a_freed_card_is_no_reason_to_ask_about_refused_pods_again() -> None:
    """A crowd of them would keep the server from answering for the one pod that it has not refused."""
    stage = Stage(cards=1)
    names = [f"bad{number}" for number in range(CROWD)]
    stage.crowd(names, Reply(NO, takes=0.02), priority=5)

    async with timeless.beside(stage.loop.run()):
        await timeless.until(lambda: all(stage.status_writer.of(name) for name in names))
        stage.wait("holder")
        await timeless.until(lambda: stage.placed("holder"))
        stage.confirm("holder")
        await timeless.at(20.3)
        asked = len(stage.writer.dry_runs)
        stage.wait("good")
        stage.ledger.pod_over("uid-holder")
        await timeless.until(lambda: stage.placed("good"))

    assert bound_at(stage, "good") < 20.4
    assert len(stage.writer.dry_runs) - asked < CROWD / bind_refusals.ALL_ASKED_SECONDS + 2


def test_every_pod_of_a_crowd_has_its_turn_within_half_a_minute() -> None:
    """Of a large namespace more are asked about each second, and never too many of all together."""
    backlog, found = Backlog(), bind_refusals.BindRefusals()
    crowd = [builders.candidate(f"p{number}") for number in range(CROWD)]
    for candidate in crowd:
        backlog.push(candidate)
        found.dry_run_refused(candidate, SOMEWHERE, 100.0)

    turns = [found.due_retries(backlog, 100.0 + second) for second in range(1, 31)]

    assert {one.candidate.uid for turn in turns for one in turn} == {one.uid for one in crowd}
    assert {len(turn) for turn in turns} == {10}


def test_only_a_pod_of_a_crowd_is_postponed() -> None:
    """A few cost the server little, and an edited pod is another; until one of the crowd is accepted."""
    pod, other = builders.candidate("a"), builders.candidate(OTHERS[0])
    edited = dataclasses.replace(pod, priority=7)
    crowd, few = refused("a", *OTHERS), refused("a", *OTHERS[1:])

    before = [
        found.is_postponed(one, SOMEWHERE) for found, one in ((crowd, pod), (few, pod), (crowd, edited))
    ]
    crowd.dry_run_accepted(pod, 101.0)
    after = crowd.is_postponed(other, SOMEWHERE)
    crowd.dry_run_refused(other, SOMEWHERE, 102.0)

    assert (before, after) == ([True, False, False], False)
    assert crowd.is_postponed(other, SOMEWHERE), "the server refuses them again"


def test_a_postponed_pod_is_retried_where_it_would_go_now() -> None:
    """What is refused may be the node."""
    pod, elsewhere = builders.candidate("a"), decisions.Placement("n2")
    backlog, found = Backlog(), refused("a", *OTHERS)
    backlog.push(pod)

    found.is_postponed(pod, elsewhere)

    assert [one.placement for one in found.due_retries(backlog, 101.0)] == [elsewhere]
