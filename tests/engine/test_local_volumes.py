"""A volume that exists is marked as meant for a claim before the claim's pod is bound."""

import dataclasses
from typing import Final

import pytest

from berth_operator.engine import ports
from engine.claim_server import LOST
from engine.volume_world import LATE, LOCAL, World, once
from support import builders, timeless
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
async def test_pods_that_share_a_claim_share_its_volume() -> None:
    """Whichever comes first marks the volume; no node is selected for a claim whose volume exists."""
    world = World(OF_LOCAL, ON_N2, LOCAL, cards=3)
    for name in ("p", "q", "r"):
        world.wait(name=name)

    await world.engine.advance(lambda: world.server.volumes["disk"].claim)
    await world.engine.advance(timeless.clock()() + 1)
    world.server.bind_reserved()
    await world.engine.advance(lambda: len(world.binds) == 3)

    assert (world.binds, world.server.writes) == (["n2"] * 3, ["disk for data"])


@timeless.scenario
async def test_a_pod_outlives_the_one_that_brought_the_volume_along() -> None:
    """It is decided anew, and marks the volume itself."""
    world = World(OF_LOCAL, ON_N2, LOCAL, cards=2)
    world.server.before_write = lambda: LOST
    for name in ("p", "q"):
        world.wait(name=name)
    await world.engine.advance(2.0)

    world.engine.ledger.pod_over("uid-p")
    world.server.before_write = lambda: None
    await world.engine.advance(lambda: world.server.volumes["disk"].claim)
    world.server.bind_reserved()
    await world.engine.advance(lambda: bool(world.binds))

    assert (world.binds, world.server.writes) == (["n2"], ["disk for data"])


@pytest.mark.parametrize("node", ["n1", "n2"])
@timeless.scenario
async def test_a_node_selected_for_a_claim_whose_class_makes_no_volumes_means_nothing(node: str) -> None:
    """Somebody has written it, and no provisioner takes it away again."""
    world = World(dataclasses.replace(OF_LOCAL, selected_node=node), ON_N2, LOCAL)
    world.wait()

    await world.engine.advance(lambda: world.server.volumes["disk"].claim)
    world.server.bind_reserved()
    await world.engine.run(until=world.engine.placed)

    assert (world.binds, world.server.writes) == (["n2"], ["disk for data"])


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


@pytest.mark.parametrize(
    ("objects", "writes", "selected"),
    [
        pytest.param((OF_LOCAL, ON_N2, LOCAL), ["disk for data"], "", id="a volume that is there"),
        pytest.param((make.claim(), LATE), ["data on n2"], "n2", id="a volume that is made"),
    ],
)
@timeless.scenario
async def test_a_pod_that_was_put_on_a_node_by_hand_pins_no_claim(
    objects: tuple[make.Object, ...], writes: list[str], selected: str
) -> None:
    """Nobody makes a volume for it; the next pod gets its volume where that is possible."""
    world = World(*objects)
    ledger = world.engine.ledger
    ledger.pod_bound(builders.hold("by-hand", "n1", claims=make.using("data").demand.claims))
    ledger.pod_bound(builders.hold("holder", "n1", [0]))
    world.wait()

    await world.engine.advance(lambda: world.server.writes)

    assert (world.server.writes, world.server.claim().selected_node) == (writes, selected)
