"""A server that accepts dry runs and refuses the binds has no cards kept for these pods but for moments."""

from berth_operator.engine import bind_refusals, ports
from berth_operator.scheduling import decisions
from engine.stages import Stage
from support import builders, timeless
from support.hands import Reply

NO = ports.Refused("no")
SOMEWHERE = decisions.Placement("n1")


@timeless.scenario
async def test_cards_are_not_kept_for_pods_of_which_only_dry_runs_are_accepted() -> None:
    """However many such pods come before all others, the card is free nearly all of the time."""
    stage = Stage(cards=1)
    for number in range(12):
        stage.writer.when_bound(f"bad{number}", Reply(NO, takes=0.02))
        stage.writer.when_dry_run(f"bad{number}", Reply())
        stage.wait(f"bad{number}", priority=5)

    async with timeless.beside(stage.loop.run()):
        await timeless.at(60.0)
        before = len(stage.writer.binds)
        await timeless.at(180.0)

    assert len(stage.writer.binds) - before <= 12 * 3


@timeless.scenario
async def test_an_edit_makes_no_trial_earlier() -> None:
    """Who edits such a pod all the time has no card kept for it more often."""
    stage = Stage()
    stage.writer.when_dry_run("p", Reply())
    stage.crowd(["p"], Reply(NO))

    async with timeless.beside(stage.loop.run()):
        for number in range(600):
            await timeless.at(0.1 * (number + 1))
            if "uid-p" in stage.ledger.backlog:
                stage.wait(cards=1 + number % 2)

    assert len(stage.writer.binds) <= 10


@timeless.scenario
async def test_who_is_on_trial_is_bound_when_the_trouble_is_over() -> None:
    """Within the longest pause, for nothing else can tell."""
    stage = Stage()
    stage.writer.when_dry_run("p", Reply())
    stage.crowd(["p"], *[Reply(NO)] * 5, Reply())

    await stage.run(until=stage.placed)

    assert len(stage.writer.binds) == 6


def test_trials_of_long_ago_are_forgotten() -> None:
    """Nothing is kept of pods that are gone without a word."""
    found = bind_refusals.BindRefusals()
    for number in range(50):
        one, now = builders.candidate(f"p{number}"), 1000.0 * number
        found.dry_run_accepted(one, now)
        found.bind_refused(one, SOMEWHERE, now)

    assert len(found._on_trial) <= 2


def test_an_accepted_dry_run_that_was_not_true_brings_nobody_forward() -> None:
    """From then on the pod is bound when its trial is due, and nothing is asked about it."""
    found, one, other = bind_refusals.BindRefusals(), builders.candidate("a"), builders.candidate("b")
    found.bind_refused(one, SOMEWHERE, 100.0)
    found.bind_refused(other, SOMEWHERE, 100.0)

    first = found.dry_run_accepted(one, 101.0)
    found.bind_refused(one, SOMEWHERE, 101.1)
    second = found.dry_run_accepted(one, 102.0)

    assert (first, second) == (["uid-a", "uid-b"], [])
    assert (found.needs_dry_run(one, 102.0), found.is_postponed(one, SOMEWHERE)) == (True, True)
    assert not found.needs_dry_run(one, 103.2)
