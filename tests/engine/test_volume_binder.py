"""The claims of a pod get their volumes before it is bound, whatever happens in between."""

import dataclasses
from typing import Final

import pytest

from berth_operator.engine import ports, volume_binder
from berth_operator.engine.hold_states import State
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.volumes import facts
from engine.claim_server import LOST
from engine.volume_world import HOST, LATE, World, once
from support import builders, timeless
from support import volumes as make


@timeless.scenario
async def test_a_pod_is_bound_once_its_volume_is_made() -> None:
    """The node is selected, the card is held meanwhile, and the bind comes when both sides are bound."""
    world = World(make.claim(), LATE)
    world.wait()

    assert await world.until_selected() == "n1"
    await world.engine.advance(5.0)
    assert (world.binds, world.free()) == ([], 0)
    assert world.engine.status_writer.of("p") == [
        "Not bound yet: the volume of claim data is being made for node n1"
    ]
    world.server.provision()
    await world.engine.run(until=world.engine.placed)

    assert (world.binds, world.server.writes) == (["n1"], ["data on n1"])
    assert world.engine.ledger.assumed_pods.awaiting_volumes == set()


@timeless.scenario
async def test_a_pod_whose_claims_are_bound_is_bound_at_once() -> None:
    """Nothing is read of them, and nothing written."""
    world = World(make.claim(volume="v"), make.volume(claimed="data", host="n2"), LATE)
    world.wait()

    await world.engine.run(until=world.engine.placed)

    assert (world.binds, world.server.reads, world.server.writes) == (["n2"], [], [])


@timeless.scenario
async def test_of_many_claims_only_the_one_that_changes_is_read_again() -> None:
    """The others are read now and then, in case the watch is late."""
    names = [f"data-{at}" for at in range(5)]
    world = World(*(make.claim(name=name) for name in names), LATE)
    world.wait(*names)
    for name in names:
        await world.until_selected(name)
    await world.engine.advance(1.0)
    world.server.reads.clear()

    world.server.change("data-3", owner="somebody")
    await world.engine.advance(2.0)
    at_once = list(world.server.reads)
    await world.engine.advance(2.0 + volume_binder.READ_SECONDS)

    assert at_once == ["data-3"]
    assert {*world.server.reads} == {*names}


@timeless.scenario
async def test_half_bound_is_not_bound() -> None:
    """A claim that names its volume is not complete before Kubernetes says so."""
    world = World(make.claim(), LATE)
    world.wait()
    await world.until_selected()
    world.server.put(facts.Volume(name="v", claim=("ml", "data"), claim_uid="uid-data"))

    world.server.change(volume="v")
    await world.engine.advance(20.0)
    assert world.binds == []
    world.server.change(is_bound=True)
    await world.engine.run(until=world.engine.placed)

    assert world.binds == ["n1"]


@timeless.scenario
async def test_other_pods_are_bound_meanwhile() -> None:
    """A pod that waits for its volume holds nothing up, nor does it count as a bind under way."""
    world = World(make.claim(), LATE, cards=2)
    world.wait()
    await world.until_selected()

    world.engine.wait("other")
    await world.engine.advance(5.0)

    assert [call.name for call in world.engine.writer.binds] == ["other"]
    assert not world.engine.loop.binder.busy


# ---------------------------------------------------------------- what may go wrong with a write


LOSSES: Final = {
    "the write did not arrive": ("before_write", ["data on n1"]),
    "the write arrived, and its answer did not": ("after_write", ["data on n1"]),
}


@pytest.mark.parametrize(("when", "writes"), LOSSES.values(), ids=LOSSES.keys())
@timeless.scenario
async def test_after_an_answer_that_is_lost_the_claim_is_read_again(when: str, writes: list[str]) -> None:
    """It is written once, whatever became of the first attempt."""
    world = World(make.claim(), LATE)
    setattr(world.server, when, once(LOST))
    world.wait()

    assert await world.until_selected() == "n1"
    world.server.provision()
    await world.engine.run(until=world.engine.placed)

    assert world.server.writes == writes


@pytest.mark.parametrize("written", [False, True], ids=["just before the write", "just after it"])
@timeless.scenario
async def test_the_next_leader_goes_on_where_a_process_ended(*, written: bool) -> None:
    """It decides for the node that is selected, even if another one is better by now, and writes no other."""
    first = World(make.claim(), LATE)
    first.wait()
    if written:
        await first.until_selected()
    else:
        first.server.before_write = lambda: LOST
        await first.engine.advance(1.0)
    await first.engine.stop()

    second = World(LATE, leader=first)
    second.engine.wait("other")  # It comes first, and takes the card of n1 if it can.
    second.wait()
    await second.engine.advance(5.0)

    if written:
        # n1 is full by now: the pod waits for it, as a volume is being made there.
        assert (second.server.writes, second.binds) == ([], ["n1"])
        second.engine.ledger.pod_over("uid-other")
        await second.engine.advance(lambda: second.free() == 0)
        second.server.provision()
        await second.engine.run(until=second.engine.placed)
        assert second.binds == ["n1", "n1"]
    else:
        assert second.server.writes == ["data on n2"]


@timeless.scenario
async def test_a_late_write_of_a_former_leader_is_found_and_followed() -> None:
    """A node that somebody else has selected is the one to which the pod goes."""
    world = World(make.claim(), LATE)
    late = once(LOST)

    def selected_by_another() -> ports.Unknown | None:
        if (answer := late()) is not None:
            world.server.change(selected_node="n2")
        return answer

    world.server.before_write = selected_by_another
    world.wait()
    await world.engine.advance(lambda: world.free("n2") == 0)
    world.server.provision()
    await world.engine.run(until=world.engine.placed)

    assert (world.binds, world.server.writes) == (["n2"], [])
    assert world.free("n1") == 1


@timeless.scenario
async def test_a_write_that_is_refused_releases_the_card_and_is_told() -> None:
    """As a bind that is refused: the pod backs off, and comes after all others."""
    world = World(make.claim(), LATE)
    world.server.before_write = lambda: ports.Refused("403 Forbidden: no")
    world.wait()

    await world.engine.advance(lambda: world.engine.status_writer.of("p"))

    assert world.engine.status_writer.of("p") == ["Not bound to n1: 403 Forbidden: no"]
    assert (world.engine.state(), world.free()) == (State.FREE, 1)


# ---------------------------------------------------------------- what provisioners do


@timeless.scenario
async def test_a_provisioner_that_says_no_releases_the_card_and_another_node_is_tried() -> None:
    """It takes the node off the claim; the node is passed over for a time, and others are not."""
    world = World(make.claim(), LATE)
    world.wait()
    assert await world.until_selected() == "n1"

    world.server.change(selected_node="")
    await world.engine.advance(lambda: world.server.claim().selected_node == "n2")

    assert (world.free("n1"), world.free("n2")) == (1, 0)
    assert "Not bound to n1: the provisioner could make no volume for claim data there" in (
        world.engine.status_writer.of("p")
    )
    world.server.change(selected_node="")
    await world.engine.advance(lambda: world.free("n2") == 1)
    await world.engine.advance(timeless.clock()() + 1)
    assert "2 are passed over for a time" in world.engine.status_writer.of("p")[-1]
    await world.engine.advance(lambda: world.server.claim().selected_node)
    assert timeless.clock()() >= volume_binder.PASSED_OVER_SECONDS
    assert world.server.writes == ["data on n1", "data on n2", "data on n1"]


@timeless.scenario
async def test_a_volume_that_does_not_come_is_waited_for_so_long_and_again_later() -> None:
    """The card goes to others meanwhile; the node stays selected, and the pod goes on there."""
    world = World(make.claim(), LATE, nodes=1)
    world.wait()
    await world.until_selected()

    await world.engine.advance(volume_binder.LONGEST_SECONDS - 1)
    assert world.free() == 0
    await world.engine.advance(volume_binder.LONGEST_SECONDS + 1)
    assert world.free() == 1
    await world.engine.advance(volume_binder.LONGEST_SECONDS + volume_binder.PASSED_OVER_SECONDS + 2)
    assert world.free() == 0
    world.server.provision()
    await world.engine.run(until=world.engine.placed)

    assert world.server.writes == ["data on n1"]
    assert "Not bound to n1: the volume of claim data was not there within 300 s" in (
        world.engine.status_writer.of("p")
    )


@timeless.scenario
async def test_a_pod_that_is_decided_anew_all_the_time_is_not_waited_for_any_longer() -> None:
    """What happens to its node meanwhile does not have the wait begin again."""
    world = World(make.claim(), LATE, nodes=1)
    world.wait()
    await world.until_selected()

    for at in range(1, 31):
        await world.engine.advance(10.0 * at)
        world.engine.ledger.node_seen(builders.node("n1", labels={HOST: "n1", "change": str(at)}))
    await world.engine.advance(volume_binder.LONGEST_SECONDS + 2)

    assert world.free() == 1
    assert "Not bound to n1: the volume of claim data was not there within 300 s" in (
        world.engine.status_writer.of("p")
    )


@timeless.scenario
async def test_a_volume_that_the_node_cannot_reach_is_not_bound_to_it() -> None:
    """The pod goes where its volume is."""
    world = World(make.claim(), LATE)
    world.wait()
    assert await world.until_selected() == "n1"

    world.server.provision(affinity=make.volume(host="n2").affinity)
    await world.engine.run(until=world.engine.placed)

    assert world.binds == ["n2"]


# ---------------------------------------------------------------- what happens to the pod and its claims


@timeless.scenario
async def test_a_claim_that_is_deleted_meanwhile_releases_the_card() -> None:
    """And the pod says what is missing."""
    world = World(make.claim(), LATE)
    world.wait()
    await world.until_selected()

    world.server.drop()
    await world.engine.advance(lambda: world.free() == 1)
    await world.engine.advance(timeless.clock()() + 1)

    assert world.engine.status_writer.of("p")[-1] == (
        '0/2 nodes are available: persistentvolumeclaim "data" not found'
    )


@timeless.scenario
async def test_a_pod_that_is_deleted_meanwhile_is_forgotten() -> None:
    """Nothing is bound, told or kept."""
    world = World(make.claim(), LATE)
    world.wait()
    await world.until_selected()

    world.engine.ledger.pod_over("uid-p")
    world.server.provision()
    await world.engine.advance(30.0)

    assert (world.binds, world.free(), world.engine.status_writer.reports) == ([], 1, [])
    assert world.engine.loop.binder._volume_binder._tasks == {}
    assert world.engine.ledger.volumes._waiting == {}


@timeless.scenario
async def test_a_node_that_changes_meanwhile_has_the_pod_decided_anew() -> None:
    """The claim keeps it to the same node as long as it fits there; nothing is written twice."""
    world = World(make.claim(), LATE)
    world.wait()
    await world.until_selected()

    world.engine.ledger.node_seen(builders.node("n1", labels={HOST: "n1", "new": "label"}))
    await world.engine.advance(20.0)
    assert (world.free(), world.server.writes) == (0, ["data on n1"])
    world.server.provision()
    await world.engine.run(until=world.engine.placed)

    assert world.binds == ["n1"]


@timeless.scenario
async def test_a_watch_that_is_silent_costs_seconds_only() -> None:
    """Claims are read again from time to time, so that no pod depends on what the watch shows."""
    world = World(make.claim(), LATE)
    world.wait()
    await world.until_selected()

    world.server.watched = False
    world.server.provision()
    await world.engine.run(until=world.engine.placed)

    assert timeless.clock()() < 2 * volume_binder.READ_SECONDS


@timeless.scenario
async def test_a_pod_that_waits_for_its_volume_is_no_bind_that_is_overdue() -> None:
    """What is followed for minutes is no bug."""
    world = World(make.claim(), LATE)
    world.wait()
    await world.until_selected()

    await world.engine.advance(200.0)
    assert world.engine.ledger.assumed_pods.overdue() == ()
    world.server.provision()
    await world.engine.run(until=world.engine.placed)

    assert world.engine.ledger.assumed_pods.overdue() == ()


@timeless.scenario
async def test_many_claims_of_one_namespace_keep_no_other_waiting() -> None:
    """The calls have turns by namespace: the last to come is served after those that are under way."""
    crowd = [make.claim(f"c{at}") for at in range(300)]
    other = dataclasses.replace(make.claim("other"), namespace="ops")
    world = World(*crowd, other, LATE, nodes=50, cards=8)
    for at in range(300):
        world.wait(f"c{at}", name=f"p{at}")
    await world.until_selected("c0")
    made = make.using("other", name="late")
    demand = dataclasses.replace(made.demand, claims=(nodes.PodClaim("ops", "other"),))
    late = dataclasses.replace(made, namespace="ops", demand=demand)

    world.engine.ledger.pod_waiting(late, gated=False)
    await world.engine.advance(lambda: world.server.claims["ops", "other"].selected_node)

    assert len(world.server.writes) < 100
