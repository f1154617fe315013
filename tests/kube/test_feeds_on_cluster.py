"""The ledger ends right: whatever happens to the wire or the server, it equals one that was made afresh."""

import asyncio
import contextlib
import json
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from berth_crds.client import api, informer, resources, watch
from berth_operator.engine import rate_limiter
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import events, feeds, pod_status
from kube import churn
from kube.conftest import Wired
from support import builders, clock, inventories, manifests, pods
from testbed import cluster as clusters
from testbed import waiting


class Follower:
    """A ledger, and the feeds that keep it."""

    def __init__(self, session: api.Api) -> None:
        self.ledger = Ledger(time.monotonic)
        watchdog = Watchdog(self.ledger, clock=time.monotonic)
        wall = clock.Clock().wall
        status_writer = pod_status.PodStatusWriter(
            session,
            events.EventRecorder(session, rate_limiter.unlimited(), wall=wall, instance="test"),
            rate_limiter.unlimited(),
            wall=wall,
        )
        self.feeds = feeds.Feeds(session, self.ledger, watchdog, status_writer)

    def told(self) -> dict[str, Any]:
        """Return all that the ledger knows."""
        entries = self.ledger.backlog._entries.values()
        return {
            "inventory": inventories.contents(self.ledger.inventory),
            "leftovers": inventories.leftovers(self.ledger.inventory),
            "waiting": {entry.candidate.uid: entry.candidate for entry in entries},
            "states": dict(self.ledger._states),
            "rules": self.ledger.policy,
        }


@contextlib.asynccontextmanager
async def following(session: api.Api) -> AsyncIterator[Follower]:
    """Follow the cluster beside the block; nothing may have ended by itself."""
    follower = Follower(session)
    task = asyncio.create_task(follower.feeds.run())
    try:
        await asyncio.wait_for(follower.feeds.wait_synced(), 20)
        yield follower
        assert not task.done(), "the feeds ended by themselves"
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
async def life(admin: api.Api, namespace: str, request: pytest.FixtureRequest) -> AsyncIterator[churn.Churn]:
    """Lend a cluster in which something happens, another thing in each test and the same in each run."""
    chance = random.Random(request.node.name)
    word = secrets.token_hex(2)
    nodes = [f"churn-{word}-{at}" for at in range(4)]
    lent = churn.Churn(admin, pods.PodClient(admin, namespace), chance, nodes)
    try:
        await lent.begin()
        yield lent
    finally:
        await lent.end()


async def ends_right(follower: Follower, admin: api.Api) -> None:
    """Wait until a ledger equals one that is made afresh from what the API has now.

    That one follows as well: the cluster is not still, for its garbage collector deletes the
    pods of nodes that are long gone.
    """
    async with following(admin) as fresh:

        async def equal() -> bool:
            return follower.told() == fresh.told()

        with contextlib.suppress(waiting.TimedOut):
            await waiting.eventually(equal, what="the ledger to be right", seconds=20)
        assert follower.told() == fresh.told()


# ---------------------------------------------------------------- troubles

Trouble = Callable[[Wired, clusters.Cluster, Callable[[], Awaitable[None]]], Awaitable[None]]


async def none(_: Wired, __: clusters.Cluster, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Nothing is wrong."""
    await meanwhile()


async def cuts(wired: Wired, _: clusters.Cluster, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Every connection breaks, again and again."""
    for _round in range(5):
        wired.wire.cut()
        await meanwhile()


async def away(wired: Wired, _: clusters.Cluster, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """No connection for a while; the server still knows what happened."""
    wired.wire.refuse()
    wired.wire.cut()
    await meanwhile()
    await wired.wire.accept()


async def forgotten(
    wired: Wired, cluster: clusters.Cluster, meanwhile: Callable[[], Awaitable[None]]
) -> None:
    """No connection for a while, and then the server has forgotten what happened."""
    wired.wire.refuse()
    wired.wire.cut()
    await meanwhile()
    await asyncio.to_thread(cluster.expire_history)
    await wired.wire.accept()


async def partition(wired: Wired, _: clusters.Cluster, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Silence, until it is noticed."""
    before = wired.wire.connections
    wired.wire.hold()
    await meanwhile()

    async def noticed() -> bool:
        return wired.wire.connections >= before + 6

    await waiting.eventually(noticed, what="the silence to be noticed", seconds=20)
    wired.wire.resume()


async def crash(wired: Wired, cluster: clusters.Cluster, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """The API server dies and comes back."""
    await meanwhile()
    cluster.crash_apiserver()
    await asyncio.to_thread(cluster.restart_apiserver)
    assert wired.wire.connections


async def test_it_tells_what_kopf_should_have_delivered(
    life: churn.Churn, wired: Wired, admin: api.Api
) -> None:
    """The revision of each Device and policy; nothing while the server is not heard."""
    async with following(wired.session) as follower:
        await life.steps(20)
        found = {one.plural: await revisions(admin, one) for one in (resources.DEVICES, resources.POLICIES)}

        async def told() -> bool:
            known = follower.feeds.revisions()
            return known is not None and known.known == found

        await waiting.eventually(told, what="the revisions to be told")
        wired.wire.refuse()
        wired.wire.cut()
        await waiting.eventually(
            lambda: asyncio.sleep(0, follower.feeds.revisions() is None), what="the silence to be told"
        )


async def revisions(admin: api.Api, resource: resources.Resource) -> dict[str, str]:
    """Read the revision of each object of a kind."""
    items = json.loads(await admin.send("GET", resource.path()))["items"]
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in items}


TROUBLES: list[Trouble] = [none, cuts, away, forgotten, partition, crash]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
async def test_the_ledger_ends_right(
    life: churn.Churn,
    wired: Wired,
    admin: api.Api,
    berth: clusters.Cluster,
    trouble: Trouble,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Objects made, changed, deleted and recreated before, during and after the trouble: the end is right."""
    monkeypatch.setattr(watch, "IDLE_SECONDS", 1.0)
    monkeypatch.setattr(informer, "BACKOFF_SECONDS", (0.05, 0.1, 0.2))
    async with following(wired.session) as follower:
        await life.steps(20)

        await trouble(wired, berth, lambda: life.steps(15))
        await life.steps(15)

        await ends_right(follower, admin)


@pytest.mark.slow
async def test_the_ledger_ends_right_after_everything(
    life: churn.Churn,
    wired: Wired,
    admin: api.Api,
    berth: clusters.Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One trouble after the other, in an order of chance, while the cluster lives on: the end is right."""
    monkeypatch.setattr(watch, "IDLE_SECONDS", 1.0)
    monkeypatch.setattr(informer, "BACKOFF_SECONDS", (0.05, 0.1, 0.2))
    async with following(wired.session) as follower:
        for trouble in life.chance.sample(TROUBLES, len(TROUBLES)):
            await trouble(wired, berth, lambda: life.steps(10))
            await life.steps(10)
            await asyncio.gather(follower.feeds.catch_up(), life.steps(10))

        await ends_right(follower, admin)


# ---------------------------------------------------------------- records that were lost


async def test_a_lost_record_is_named_by_the_gpupod(life: churn.Churn, wired: Wired, admin: api.Api) -> None:
    """Under the operator's own rights: held by name while the GpuPod is there, withheld before and after."""
    node = life.nodes[0]
    pod = await life.yard.create(manifests.pod("lost", 2))
    life.made.add("lost")
    await life.yard.bind("lost", node)
    async with following(wired.session) as follower:

        async def holds(*minors: int) -> None:
            async def so() -> bool:
                hold = follower.ledger.inventory.hold(pod.uid)
                found = [one.uuid for one in hold.shares] if hold else []
                return found == [builders.uuid(node, minor) for minor in minors]

            await waiting.eventually(so, what=f"the pod to hold {minors}", seconds=10)

        await holds()
        thing = manifests.gpupod("lost", pod.uid, node, 1, 3)
        await admin.create(resources.GPU_PODS, thing, namespace=life.yard.namespace)
        life.named.add("lost")
        await holds(1, 3)
        async with following(admin) as fresh:
            restarted = fresh.told()["inventory"][node]["holds"][pod.uid]
        assert restarted == follower.ledger.inventory.hold(pod.uid)
        await life.drop(resources.GPU_PODS, "lost")
        await holds()

        hold = follower.ledger.inventory.hold(pod.uid)
        assert hold is not None
        assert hold.withheld == 2
        await ends_right(follower, admin)


# ---------------------------------------------------------------- holds that are only assumed


async def assumed(follower: Follower, life: churn.Churn, name: str) -> None:
    """Have a pod's place assumed, as before a Binding is sent."""
    candidate = await life.yard.create(manifests.pod(name))
    life.made.add(name)

    async def known() -> bool:
        return candidate.uid in follower.ledger.backlog

    await waiting.eventually(known, what="the pod to wait", seconds=10)
    follower.ledger.assume(builders.bind(candidate.uid, life.nodes[0], 3))


async def test_an_assumed_place_is_confirmed_or_freed_after_a_gap(
    life: churn.Churn, wired: Wired, admin: api.Api, berth: clusters.Cluster
) -> None:
    """Of places assumed before the connection was lost, the bound stay, those of deleted pods are free."""
    async with following(wired.session) as follower:
        for name in ("bound", "deleted", "recreated"):
            await assumed(follower, life, name)

        async def meanwhile() -> None:
            await life.yard.bind("bound", life.nodes[0], manifests.allocated(life.nodes[0], 3))
            await life.yard.delete("deleted", "recreated")
            await life.yard.create(manifests.pod("recreated"))

        await forgotten(wired, berth, meanwhile)

        await ends_right(follower, admin)


async def test_a_picture_that_caught_up_is_complete(life: churn.Churn, wired: Wired, admin: api.Api) -> None:
    """The ledger then has all that was there when it was asked to, with no event awaited."""
    async with following(wired.session) as follower:
        wired.wire.hold(answers_only=True)
        await life.steps(30)
        wired.wire.cut()
        wired.wire.resume()

        await follower.feeds.catch_up()

        async with following(admin) as fresh:
            assert follower.told() == fresh.told()
