"""A volume that exists is marked as meant for a claim before the claim's pod is bound."""

from typing import Final

from berth_operator.engine import ports
from engine.claim_server import LOST
from engine.volume_world import LATE, LOCAL, World, once
from support import timeless
from support import volumes as make

ON_N2: Final = make.volume("disk", storage_class=make.LOCAL, host="n2")
OF_LOCAL: Final = make.claim(storage_class=make.LOCAL)


@timeless.scenario
async def test_a_local_volume_is_marked_before_the_pod_is_bound() -> None:
    """Kubernetes binds claim and volume, and then the pod goes to the node of the volume."""
    world = World(OF_LOCAL, ON_N2, LOCAL)
    world.wait()

    await world.engine.advance(lambda: world.server.volumes["disk"].claim)
    await world.engine.advance(timeless.clock()() + 1)
    assert world.binds == []
    world.server.bind_reserved()
    await world.engine.run(until=world.engine.placed)

    assert (world.binds, world.server.writes) == (["n2"], ["disk for data"])


@timeless.scenario
async def test_a_volume_that_another_claim_got_first_is_left_to_it() -> None:
    """The write names what was read; the pod is decided anew, and finds another volume or none."""
    world = World(OF_LOCAL, ON_N2, LOCAL)
    taken = once(LOST)

    def taken_by_another() -> ports.Unknown | None:
        if (answer := taken()) is not None:
            world.server.put(make.volume("disk", storage_class=make.LOCAL, host="n2", claimed="other"))
        return answer

    world.server.before_write = taken_by_another
    world.wait()
    await world.engine.advance(5.0)

    assert (world.binds, world.server.writes, world.free("n2")) == ([], [], 1)
    assert world.engine.status_writer.of("p")[-1].startswith(
        "0/2 nodes are available: 2 have no available persistent volume for claim data"
    )


@timeless.scenario
async def test_the_next_leader_finds_a_volume_that_is_meant_for_the_claim() -> None:
    """A process that ended just after it had marked the volume has lost nothing."""
    first = World(OF_LOCAL, ON_N2, LOCAL)
    first.wait()
    await first.engine.advance(lambda: first.server.volumes["disk"].claim)
    await first.engine.stop()

    second = World(LOCAL, leader=first)
    second.wait()
    await second.engine.advance(lambda: second.free("n2") == 0)
    await second.engine.advance(1.0)
    second.server.bind_reserved()
    await second.engine.run(until=second.engine.placed)

    assert (second.binds, second.server.writes) == (["n2"], [])


@timeless.scenario
async def test_two_claims_of_a_pod_get_both_their_volumes() -> None:
    """One that exists and one that is made, both for one node."""
    world = World(OF_LOCAL, ON_N2, LOCAL, make.claim("made"), LATE)
    world.wait("data", "made")

    assert await world.until_selected("made") == "n2"
    world.server.bind_reserved()
    await world.engine.advance(5.0)
    assert world.binds == []
    world.server.provision("made")
    await world.engine.run(until=world.engine.placed)

    assert (world.binds, sorted(world.server.writes)) == (["n2"], ["disk for data", "made on n2"])
