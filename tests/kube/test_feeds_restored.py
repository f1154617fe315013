"""After a restore of the server's data nothing is decided before everything has been read anew."""

import asyncio
import time
from typing import Any, Final

from aiohttp import web

from berth_crds import names
from berth_crds.client import api, resources
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import auditor, feeds
from support import builders, manifests, stub, timeless

NODE: Final = "n1"
NODES: Final = resources.NODES.path()
PODS: Final = resources.PODS.path()
FOLLOWED: Final = (
    NODES,
    resources.DEVICES.path(),
    resources.LEASES.path(namespace=names.NODES_NAMESPACE),
    resources.POLICIES.path(),
    resources.GPU_PODS.path(),
    PODS,
)


class Server:
    """A server of which a test says what it has, and at which revision."""

    def __init__(self, server: stub.Stub) -> None:
        self.version = 100
        self.items: dict[str, list[dict[str, Any]]] = {path: [] for path in FOLLOWED}
        self.gate = asyncio.Event()
        self.gate.set()
        for path in FOLLOWED:
            server.on("GET", path, self._answer(path))

    def _answer(self, path: str) -> stub.Answer:
        silent = stub.watch(until=asyncio.Event())

        async def answer(request: web.Request) -> web.StreamResponse:
            if request.query.get("watch"):
                return await silent(request)
            await self.gate.wait()
            return await stub.page(*self.items[path], version=str(self.version))(request)

        return answer


def holder(version: str) -> dict[str, Any]:
    """Make a pod that holds the card."""
    made = manifests.pod("holder", nodeName=NODE)
    meta = {"namespace": "ml", "name": "holder", "uid": "u-1", "resourceVersion": version}
    return made | {
        "metadata": meta | {"annotations": manifests.allocated(NODE, 0)},
        "status": {"phase": "Running"},
    }


async def test_a_pod_that_came_back_holds_its_card_before_anything_is_decided() -> None:
    """Who waits to be sure waits for all lists, begun after the restore was found out."""
    ledger = Ledger(time.monotonic)
    watchdog = Watchdog(ledger, clock=time.monotonic)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        cluster = Server(server)
        following = feeds.Feeds(session, ledger, watchdog, auditor.NullObserver())
        async with timeless.beside(following.run()):
            await asyncio.wait_for(following.wait_synced(), 5)
            await asyncio.wait_for(following.wait_relisted(), 1)
            cluster.gate.clear()
            cluster.version, cluster.items[PODS] = 50, [holder("40")]

            session.history.restored("a test says so")
            sure = asyncio.create_task(following.wait_relisted())
            await asyncio.sleep(0.1)
            early = sure.done()
            cluster.gate.set()
            await asyncio.wait_for(sure, 5)

            held = ledger.inventory.hold("u-1")

    assert not early
    assert held is not None
    assert [share.uuid for share in held.shares] == [builders.uuid(NODE, 0)]


async def test_one_informer_that_finds_it_out_is_enough() -> None:
    """Its list is of a lower revision; all others list anew as well, and until then nothing is sure."""
    ledger = Ledger(time.monotonic)
    watchdog = Watchdog(ledger, clock=time.monotonic)
    async with stub.Stub() as server, api.Api(server.link, agent="test") as session:
        cluster = Server(server)
        following = feeds.Feeds(session, ledger, watchdog, auditor.NullObserver())
        nodes, *_, pods_ = following._informers
        async with timeless.beside(following.run()):
            await asyncio.wait_for(following.wait_synced(), 5)
            before = pods_.lists
            cluster.version, cluster.items[PODS] = 50, [holder("40")]

            await asyncio.wait_for(nodes.refresh(), 5)
            await asyncio.wait_for(following.wait_relisted(), 5)

    assert session.history.restores == 1
    assert pods_.lists > before
    assert ledger.inventory.hold("u-1") is not None
