"""Ledgers that follow a cluster through their feeds, with their audit; and a cluster in memory to follow."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from typing import Any, Final

from aiohttp import web

from berth_crds import names
from berth_crds.client import api, resources
from berth_operator.engine import drift
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import auditor, feeds, sinks
from support import manifests, stub, timeless

NODE: Final = "n1"


class Auditor(auditor.Auditor):
    """An audit, after each comparison of which something may happen."""

    after_comparison: Callable[[], None] | None = None

    async def _compare(self) -> tuple[drift.Difference, ...]:
        found = await super()._compare()
        if self.after_comparison is not None:
            self.after_comparison()
        return found


class Follower:
    """A ledger, the feeds that keep it up to date, its audit, and how much each audit reported."""

    def __init__(
        self,
        session: api.Api,
        observer: sinks.PodObserver | None = None,
        options: feeds.Options = feeds.DEFAULTS,
    ) -> None:
        self.ledger = Ledger(time.monotonic)
        self.watchdog = Watchdog(self.ledger, clock=time.monotonic)
        observer = observer or auditor.NullObserver()
        self.feeds = feeds.Feeds(session, self.ledger, self.watchdog, observer, options)
        self.reports: list[int] = []
        self.auditor = Auditor(
            session,
            self.ledger,
            options,
            report=self.reports.append,
            resync=self.resync,
            revisions=self.revisions_of,
        )

    async def resync(self, ghosts: Iterable[str]) -> None:
        """Mend what an audit found."""
        await self.feeds.resync(ghosts)

    def revisions_of(self, sources: Collection[drift.Source]) -> drift.Revisions:
        """Return the revisions that the ledger has seen."""
        return self.feeds.revisions_of(sources)

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow the cluster beside the block, which begins when all has been read."""
        async with timeless.beside(self.feeds.run()):
            await asyncio.wait_for(self.feeds.wait_synced(), 20)
            yield


class Cluster:
    """A server that has one node of one card, and whatever pods it is given; its watches are silent."""

    def __init__(self, server: stub.Stub) -> None:
        self.version = 10
        self.readable = asyncio.Event()
        self.readable.set()
        self.pods: list[dict[str, Any]] = []
        self.gpupods: list[dict[str, Any]] = []
        self.devices: list[dict[str, Any]] = [manifests.device(NODE, 1)]
        room = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        node = {"metadata": {"name": NODE, "resourceVersion": "1"}, "status": {"allocatable": room}}
        objects: dict[str, list[Any]] = {
            resources.NODES.path(): [node],
            resources.DEVICES.path(): self.devices,
            resources.LEASES.path(namespace=names.NODES_NAMESPACE): [manifests.lease(NODE, "now")],
            resources.NAMESPACES.path(): [],
            resources.POLICIES.path(): [],
            resources.GPU_PODS.path(): self.gpupods,
            resources.PODS.path(): self.pods,
        }
        for path, items in objects.items():
            server.on("GET", path, self._answer(items))

    def _answer(self, items: list[Any]) -> stub.Answer:
        silent = stub.watch(until=asyncio.Event())

        async def answer(request: web.Request) -> web.StreamResponse:
            if request.query.get("watch"):
                return await silent(request)
            await self.readable.wait()
            self.version += 1
            return await stub.page(*items, version=str(self.version))(request)

        return answer


def pod(name: str, uid: str, version: str = "4", **fields: Any) -> dict[str, Any]:
    """Return a pod of the namespace ml as the server shows it."""
    return manifests.pod(name, namespace="ml", meta={"uid": uid, "resourceVersion": version}, **fields)


def holder(version: str, **changes: Any) -> dict[str, Any]:
    """Return a running pod that holds the card."""
    annotations = manifests.allocated(NODE, 0)
    return pod("holder", "u-1", version, annotations=annotations, phase="Running", nodeName=NODE) | changes
