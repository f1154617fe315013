"""The short version of `make chaos`: ways of breaking an operator, each once, with seeds that never change.

A few are in `make test`, all in `make thorough`.

After each: nothing was wrong at any revision that there was, every pod that fits is
bound within twenty seconds of the last fault, and no card is withheld for nobody.
"""

import functools
import itertools
from typing import Final

import pytest

from e2e import chaos, disasters, plans, rig, scenarios
from e2e.plans import Aim
from e2e.stage import Stage
from support import thorough
from testbed.interceptor import Deed, Fault

# Shorter than the usual ones, for a takeover soon; the rig starts a replica again that has lost the lead.
TERMS: Final = ("--lease-duration", "2", "--renew-deadline", "1.5", "--retry-period", "0.3")

BEFORE, AFTER = Fault(Deed.KILL_BEFORE), Fault(Deed.KILL_AFTER)
BETWEEN: Final = Fault(Deed.KILL_BETWEEN, 0.01)

# The server cannot tell at which moment of a read its sender died; a write is hit before and after it counts.
IN_TURN: Final = itertools.cycle((AFTER, BEFORE, BETWEEN))
EARLY: Final = [Aim(kind, one) for kind in plans.ELECTION for one in (BEFORE, AFTER)]
LATE: Final = [Aim(kind, one) for kind, one in zip((*plans.READS, *plans.LEADING[1:]), IN_TURN, strict=False)]
BINDS: Final = [Aim(plans.BIND, one) for one in (BEFORE, AFTER)]
AIMS: Final = (*EARLY, *LATE, *BINDS)


async def play(
    stage: Stage, story: scenarios.Story, *, seed: int = 1, flags: tuple[str, ...] = TERMS
) -> rig.Rig:
    """Play one story to its end."""
    return await chaos.play(stage, await chaos.furnish(stage), story, seed=seed, flags=flags)


@pytest.mark.slow
async def test_a_kill_around_a_bind_or_an_election_is_survived(stage: Stage) -> None:
    """Killed before the server hears of what gives out the lead or a card, or after it, others carry on."""
    aims = (*EARLY, *BINDS)

    on = await play(stage, functools.partial(scenarios.kills, aims=aims, replicas=2, hurried=True))

    assert {(aim.kind, aim.fault.deed) for aim in aims} <= hits(on)


@pytest.mark.slow
@pytest.mark.thorough
async def test_a_kill_at_any_kind_of_call_is_survived(stage: Stage) -> None:
    """Killed at each kind of call it makes, before the server hears of it or after, others carry on."""
    on = await play(stage, functools.partial(scenarios.kills, aims=AIMS, replicas=3, hurried=True))

    assert {(aim.kind, aim.fault.deed) for aim in AIMS} <= hits(on)
    assert {kind for kind, _ in hits(on)} == set(plans.KINDS)


def hits(on: rig.Rig) -> set[tuple[str, Deed]]:
    """Return what was done to which kinds of call."""
    return {(one.call.kind, one.deed) for replica in on.replicas for one in replica.wire.seen}


@pytest.mark.slow
async def test_a_late_bind_is_fenced_whatever_the_clocks_say(stage: Stage) -> None:
    """Binds that arrive after the change of leader are refused, also if the clocks are an hour apart."""
    half = scenarios.HOUR / 2

    on = await play(stage, functools.partial(scenarios.fenced, skews=(half, -half)))

    late = [one for replica in on.replicas for one in replica.wire.seen if one.deed is Deed.HOLD]
    assert [one.status for one in late] == [403, 403, 403]


@pytest.mark.slow
@pytest.mark.thorough
async def test_binds_that_race_the_change_of_leader_are_all_seen(stage: Stage) -> None:
    """What still arrives while the Lease changes hands is in the new leader's picture when it begins.

    How many binds race depends on how long the leader keeps the lead, so it has the periods that are shipped.
    """
    on = await play(stage, scenarios.races, flags=())

    raced = [one for replica in on.replicas for one in replica.wire.seen if one.deed is Deed.HOLD]
    assert len(raced) == 20
    assert all(one.status for one in raced)


@pytest.mark.slow
async def test_a_restored_etcd_is_found_out(stage: Stage) -> None:
    """What was decided after the copy never was; nobody is told, and no card is given twice by that."""
    await play(stage, disasters.restored)


ALL, DEVICES = disasters.KINDS_AT_ONCE[:2]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kinds", "pauses", "outage"),
    [
        pytest.param(ALL, (1.0, 3.0), False, id="all kinds, for seconds"),
        pytest.param(DEVICES, (0.0, 0.2), False, id="Devices alone, for a moment"),
        pytest.param(ALL, (0.5,), True, id="while the server restarts"),
    ],
)
async def test_kinds_that_are_deleted_and_made_again_are_told_of_again(
    stage: Stage, kinds: tuple[str, ...], pauses: tuple[float, ...], *, outage: bool
) -> None:
    """Summaries and conditions come back within a minute, and nothing that was promised is forgotten."""
    story = functools.partial(disasters.kinds_made_again, kinds=kinds, pauses=pauses, outage=outage)

    await play(stage, story)


@pytest.mark.slow
@pytest.mark.thorough
async def test_binds_that_are_refused_keep_nobody_waiting(stage: Stage) -> None:
    """Other pods are bound while it lasts, and all of them within seconds when it ends."""
    on = await play(stage, disasters.refused_binds)

    assert Deed.REFUSE in {one.deed for replica in on.replicas for one in replica.wire.seen}


@pytest.mark.slow
@pytest.mark.thorough
async def test_cards_of_spoiled_records_are_given_to_nobody(stage: Stage) -> None:
    """What somebody writes over a record does not free the cards that the pod has."""
    on = await play(stage, disasters.spoiled_records)

    assert on.invariants.spoiled


@pytest.mark.slow
@pytest.mark.parametrize("name", ["retires", *map(thorough.case, ("late", "sleeps", "volumes"))])
async def test_pods_are_bound_all_the_same_and_once(stage: Stage, name: str) -> None:
    """What the docstring of each scenario says: no pod is lost, none bound twice, no card shared."""
    await play(stage, scenarios.SCENARIOS[name])


@pytest.mark.slow
@pytest.mark.thorough
async def test_every_answer_may_be_lost_or_come_twice(stage: Stage) -> None:
    """Nobody takes over: to remove a GpuPod takes a leader of twenty seconds, so it has the usual terms."""
    await play(stage, scenarios.every_answer, flags=())
