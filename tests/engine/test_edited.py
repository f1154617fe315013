"""Pods that are edited while they are bound: once in a while is nobody's loss, all the time keeps no card."""

import dataclasses

from berth_operator.engine import bind_refusals, ports
from engine.stages import Stage
from support import builders, timeless
from support.hands import Reply

EDITED = ports.Unbound(same=False)


@timeless.scenario
async def test_a_pod_that_is_edited_all_the_time_keeps_no_card_from_others() -> None:
    """After a few times its binds are treated as refused ones: it comes after all others."""
    stage = Stage(cards=1)
    conflict = ports.Unknown("the pod has been modified", open=False, version="1")
    for name in ("a", "b"):
        stage.writer.when_bound(name, Reply(conflict, takes=0.005))
        stage.writer.when_looked_at(name, Reply(EDITED))
        stage.wait(name, priority=5)

    await stage.place_later("good", 0.01)

    sent = [call for call in stage.writer.binds if call.name != "good"]
    assert timeless.clock()() < 1.0
    assert len(sent) <= 1 + bind_refusals.OFTEN


@timeless.scenario
async def test_a_pod_whose_revision_moves_on_keeps_its_card_for_moments_only() -> None:
    """Labels that change all the time make the server refuse each bind; others have the card soon."""
    stage = Stage(cards=1)
    versions = (Reply(ports.Unknown("modified", open=False, version=str(at))) for at in range(100))
    stage.writer.when_looked_at("p", *(Reply(ports.Unbound(version=str(at + 1))) for at in range(100)))
    stage.crowd(["p"], *versions, priority=5)

    await stage.place_later("good", 0.01)

    assert timeless.clock()() < 0.5


def test_a_second_edit_within_half_a_minute_is_a_habit() -> None:
    """Of one namespace; others are not concerned, and it is forgotten."""
    known = bind_refusals.BindRefusals()
    mine = builders.candidate("p")
    theirs = dataclasses.replace(mine, namespace="other")

    assert [known.pod_edited(mine, at) for at in (0.0, 1.0, 2.0)] == [False, True, True]
    assert not known.pod_edited(theirs, 5.0)
    assert not known.pod_edited(mine, 100.0)


@timeless.scenario
async def test_pods_that_are_gone_before_they_are_bound_keep_no_card_from_others() -> None:
    """Each would have the card for a while, one after another: of such a namespace a dry run comes first."""
    stage = Stage(cards=1)
    for name in (f"short-{at}" for at in range(40)):
        stage.writer.when_bound(name, Reply(ports.Unknown("modified", open=False, version="1"), takes=0.3))
        stage.writer.when_looked_at(name, Reply(ports.Gone()))
        stage.wait(name, priority=5)

    await stage.place_later("good", 0.01)

    assert timeless.clock()() < 2.0
