"""The ledger ends right: whatever happens to the wire or the server, it equals one that was made afresh."""

import asyncio
import contextlib
import json
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from berth_crds import names
from berth_crds.client import api, connection, errors, list_backoff, resources, watch
from berth_operator.engine import paced_calls
from berth_operator.kube import feeds
from berth_operator.scheduling import holds
from kube import churn, eventually, servers
from kube.conftest import Wired
from kube.following import Follower
from support import builders, inventories, ledgers, manifests, pods, thorough
from testbed import cluster as clusters
from testbed import waiting


@pytest.fixture(autouse=True)
def recovers_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notice a silent connection soon, and do not wait long before another attempt."""
    monkeypatch.setattr(watch, "IDLE_SECONDS", 1.0)
    monkeypatch.setattr(list_backoff, "BACKOFF_SECONDS", (0.05, 0.1, 0.2))


def contents(follower: Follower) -> dict[str, Any]:
    """Return all that the ledger knows."""
    leftovers = inventories.leftovers(follower.ledger.inventory)
    return ledgers.contents(follower.ledger) | {"leftovers": leftovers}


@contextlib.asynccontextmanager
async def following(session: api.Api) -> AsyncIterator[Follower]:
    """Follow the cluster beside the block, with a writer of statuses."""
    follower = Follower(session, servers.StatusWriter(session))
    async with follower.following():
        yield follower


@pytest.fixture
async def life(pod_client: pods.PodClient, request: pytest.FixtureRequest) -> AsyncIterator[churn.Churn]:
    """Lend a cluster in which something happens, another thing in each test and the same in each run."""
    word = secrets.token_hex(2)
    nodes = [f"churn-{word}-{number}" for number in range(4)]
    lent = churn.Churn(pod_client.admin, pod_client, random.Random(request.node.name), nodes)
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
        with contextlib.suppress(waiting.TimedOut):
            await eventually.holds(
                lambda: contents(follower) == contents(fresh), "the ledger to be right", seconds=20
            )
        assert contents(follower) == contents(fresh)


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


async def relisted(wired: Wired, _: clusters.Cluster, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """No connection for a while, and then everything is listed again, as after a restore."""
    wired.wire.refuse()
    wired.wire.cut()
    await meanwhile()
    wired.session.history.restored("for this test")
    await wired.wire.accept()


async def partition(wired: Wired, _: clusters.Cluster, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Silence, until it is noticed."""
    before = wired.wire.connections
    wired.wire.hold()
    await meanwhile()
    await eventually.holds(
        lambda: wired.wire.connections >= before + 6, "the silence to be noticed", seconds=20
    )
    wired.wire.resume()


async def crash(wired: Wired, cluster: clusters.Cluster, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """The API server dies and comes back."""
    await meanwhile()
    cluster.crash_apiserver()
    await asyncio.to_thread(cluster.restart_apiserver)
    assert wired.wire.connections


TROUBLES: list[Trouble] = [none, cuts, away, relisted, partition]
OF_THE_SERVER: list[Trouble] = [forgotten, crash]  # It starts again, which takes seconds.


@pytest.mark.parametrize(
    "trouble", [*TROUBLES, *map(thorough.case, OF_THE_SERVER)], ids=lambda trouble: trouble.__name__
)
async def test_the_ledger_ends_right(
    life: churn.Churn, wired: Wired, admin: api.Api, berth: clusters.Cluster, trouble: Trouble
) -> None:
    """Objects made, changed, deleted and recreated before, during and after the trouble: the end is right."""
    async with following(wired.session) as follower:
        await life.steps(20)

        await trouble(wired, berth, lambda: life.steps(15))
        await life.steps(15)

        await ends_right(follower, admin)


@pytest.mark.slow
@pytest.mark.parametrize(
    "troubles",
    [
        pytest.param(TROUBLES, id="of the connection"),
        thorough.case([*TROUBLES, *OF_THE_SERVER], id="of the server, too"),
    ],
)
async def test_the_ledger_ends_right_after_everything(
    troubles: list[Trouble], life: churn.Churn, wired: Wired, admin: api.Api, berth: clusters.Cluster
) -> None:
    """One trouble after the other, in an order of chance, while the cluster lives on: the end is right.

    After a restore, an agent is ready once it was seen to renew its Lease; a fresh ledger believes
    each Lease that it finds. So all agents renew theirs before the two are compared: once to have
    one, and once to be seen.
    """
    async with following(wired.session) as follower:
        for trouble in life.chance.sample(troubles, len(troubles)):
            await trouble(wired, berth, lambda: life.steps(10))
            await life.steps(10)
            await asyncio.gather(follower.feeds.catch_up(), life.steps(10))

        for _renewal in range(2):
            await asyncio.gather(*map(life.renew, life.nodes))
            await follower.feeds.catch_up()
        await ends_right(follower, admin)


async def test_a_ledger_that_caught_up_is_complete(life: churn.Churn, wired: Wired, admin: api.Api) -> None:
    """It then has all that was there when it was asked to, with no event awaited."""
    async with following(wired.session) as follower:
        wired.wire.hold(answers_only=True)
        await life.steps(30)
        wired.wire.cut()
        wired.wire.resume()

        await follower.feeds.catch_up()

        async with following(admin) as fresh:
            assert contents(follower) == contents(fresh)


class WithoutNamespaces(api.Api):
    """A session whose account loses the right to list namespaces."""

    refused = False

    async def read(self, path: str, **rest: Any) -> bytes:
        """Read, unless it is refused."""
        if self.refused and path == resources.NAMESPACES.path():
            raise errors.Forbidden(403, "namespaces is forbidden")
        return await super().read(path, **rest)


async def read_again_after_a_restore(session: api.Api, all_feeds: feeds.Feeds) -> None:
    """Wait until everything is listed again, as after a restore of the server's data."""
    session.history.restored("for this test")
    await all_feeds.wait_relisted()


@pytest.mark.parametrize(
    "wait",
    [
        pytest.param(lambda _, all_feeds: all_feeds.catch_up(), id="a takeover"),
        pytest.param(lambda _, all_feeds: all_feeds.resync(), id="a repair"),
        pytest.param(read_again_after_a_restore, id="a restore"),
    ],
)
async def test_who_may_not_list_namespaces_any_more_carries_on_all_the_same(
    account: Path,
    life: churn.Churn,
    monkeypatch: pytest.MonkeyPatch,
    wait: Callable[[api.Api, feeds.Feeds], Awaitable[None]],
) -> None:
    """As an operator that leads while its roles are rolled back: it would never decide again."""
    monkeypatch.setattr(feeds, "NAMESPACES_SECONDS", 0.2)
    link = connection.load(account)
    async with WithoutNamespaces(link, agent="test") as session, following(session) as follower:
        session.refused = True
        await life.steps(10)

        await asyncio.wait_for(wait(session, follower.feeds), 15)

        assert follower.feeds.synced


# ---------------------------------------------------------------- what Kopf should have delivered


async def metadata(admin: api.Api, resource: resources.Resource) -> list[dict[str, str]]:
    """Read the metadata of each object of a kind."""
    return [item["metadata"] for item in json.loads(await admin.send("GET", resource.path()))["items"]]


async def test_it_knows_what_kopf_should_have_delivered(
    life: churn.Churn, wired: Wired, admin: api.Api
) -> None:
    """The revision of each Device and policy, the uid of each GpuPod; nothing while no server is heard."""
    async with following(wired.session) as follower:

        def known() -> object:
            found = follower.feeds.revisions()
            return found and found.known

        await life.steps(20)
        kinds = (resources.DEVICES, resources.POLICIES)
        found = {
            resource.plural: {one["name"]: one["resourceVersion"] for one in await metadata(admin, resource)}
            for resource in kinds
        }
        gpupods = await metadata(admin, resources.GPU_PODS)
        found[names.GPU_PODS] = {f"{one['namespace']}/{one['name']}": one["uid"] for one in gpupods}
        await eventually.holds(lambda: known() == found, "the revisions to be known")
        wired.wire.refuse()
        wired.wire.cut()
        await eventually.holds(lambda: known() is None, "the silence to be known")


# ---------------------------------------------------------------- records that were lost


async def test_a_lost_record_is_named_by_the_gpupod(life: churn.Churn, wired: Wired, admin: api.Api) -> None:
    """Under the operator's own rights: held by name while the GpuPod is there, withheld before and after."""
    node = life.nodes[0]
    pod = await life.client.create(manifests.pod("lost", 2))
    life.pods.add("lost")
    life.gpupods.add("lost")
    await life.client.bind("lost", node)
    async with following(wired.session) as follower:

        async def until_held(*minors: int, withheld: int = 0) -> None:
            expected = [builders.uuid(node, minor) for minor in minors], withheld

            def held() -> bool:
                hold = follower.ledger.inventory.hold(pod.uid)
                return hold is not None and ([share.uuid for share in hold.shares], hold.withheld) == expected

            await eventually.holds(held, f"the pod to hold {expected}", seconds=10)

        await until_held(withheld=holds.ALL_CARDS)
        gpupod = manifests.gpupod("lost", pod.uid, node, 1, 3)
        await admin.create(resources.GPU_PODS, gpupod, namespace=life.client.namespace)
        await until_held(1, 3)
        await ends_right(follower, admin)
        await life.drop(resources.GPU_PODS, "lost")
        await until_held(withheld=holds.ALL_CARDS)
        await ends_right(follower, admin)


async def test_what_came_too_fast_is_read_again(life: churn.Churn, wired: Wired, admin: api.Api) -> None:
    """Of a GpuPod and of an edit for which there was no time, only the names were kept."""
    node = life.nodes[0]
    pod = await life.client.create(manifests.pod("lost", 2, **manifests.LONG))
    life.pods.add("lost")
    life.gpupods.add("lost")
    await life.client.bind("lost", node)
    async with following(wired.session) as follower:
        ledger = follower.ledger
        await eventually.holds(lambda: ledger.inventory.hold(pod.uid), "the pod to be known")
        for account in (paced_calls.agent(node), paced_calls.long_pods(life.client.namespace)):
            ledger.paced_calls.charge(account, 3600.0)
        gpupod = manifests.gpupod("lost", pod.uid, node, 1, 3)
        await admin.create(resources.GPU_PODS, gpupod, namespace=life.client.namespace)
        await life.client.patch("lost", {"metadata": {"labels": {"edited": "late"}}})
        keys = paced_calls.gpupod(f"{pod.namespace}/lost"), paced_calls.pod(pod.uid)
        await eventually.holds(lambda: all(map(ledger.paced_calls.is_delayed, keys)), "both to come")

        def read() -> bool:
            hold = ledger.inventory.hold(pod.uid)
            return hold is not None and len(hold.shares) == 2 and dict(hold.labels).get("edited") == "late"

        assert not read()
        ledger.paced_calls._paid_until.clear()  # As when an hour is over.
        ledger.paced_calls.make_delayed()
        await eventually.holds(read, "both to be read", seconds=10)
        await ends_right(follower, admin)


# ---------------------------------------------------------------- holds that are only assumed


async def test_an_assumed_place_is_confirmed_or_freed_after_a_gap(
    life: churn.Churn, wired: Wired, admin: api.Api, berth: clusters.Cluster
) -> None:
    """Of places assumed before the connection was lost, the bound stay, those of deleted pods are free."""
    node = life.nodes[0]
    async with following(wired.session) as follower:
        for name in ("bound", "deleted", "recreated"):
            pod_info = await life.client.create(manifests.pod(name))
            life.pods.add(name)
            await follower.feeds.catch_up()
            follower.ledger.assume(builders.bind(pod_info.uid, node, 3))

        async def meanwhile() -> None:
            await life.client.bind("bound", node, manifests.allocated(node, 3))
            await life.client.delete("deleted", "recreated")
            await life.client.create(manifests.pod("recreated"))

        await forgotten(wired, berth, meanwhile)

        await ends_right(follower, admin)
