"""After a restore of the server's data nothing is decided before everything has been read anew."""

import asyncio

from berth_crds.client import api
from kube import following
from support import builders, stub


async def test_a_pod_that_came_back_holds_its_card_before_anything_is_decided(
    server: stub.Stub, stub_session: api.Api
) -> None:
    """Who waits to be sure waits for all lists, begun after the restore was found out."""
    cluster, follower = following.Cluster(server), following.Follower(stub_session)
    async with follower.following():
        await asyncio.wait_for(follower.feeds.wait_relisted(), 5)
        cluster.readable.clear()
        cluster.pods.append(following.holder("40"))

        stub_session.history.restored("a test says so")
        relisted = asyncio.create_task(follower.feeds.wait_relisted())
        await asyncio.sleep(0.1)
        early = relisted.done()
        cluster.readable.set()
        await asyncio.wait_for(relisted, 5)

        hold = follower.ledger.inventory.hold("u-1")

    assert not early
    assert hold is not None
    assert [share.uuid for share in hold.shares] == [builders.uuid(following.NODE, 0)]


async def test_one_informer_that_finds_it_out_is_enough(server: stub.Stub, stub_session: api.Api) -> None:
    """Its list is of a lower revision; all others list anew as well, and until then nothing is sure."""
    cluster, follower = following.Cluster(server), following.Follower(stub_session)
    cluster.version = 100
    nodes, *_, pods = follower.feeds._informers
    async with follower.following():
        before = pods.lists
        cluster.version = 50
        cluster.pods.append(following.holder("40"))

        await asyncio.wait_for(nodes.refresh(), 5)
        await asyncio.wait_for(follower.feeds.wait_relisted(), 5)

    assert stub_session.history.restores == 1
    assert pods.lists > before
    assert follower.ledger.inventory.hold("u-1") is not None
