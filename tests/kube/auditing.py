"""What tests of the audit need: the audit, and a server that lists what it is told, with silent watches."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from aiohttp import web

from berth_crds import names
from berth_crds.client import api, resources
from berth_operator.engine.ledger import Ledger
from berth_operator.kube import auditor, feeds
from support import manifests, stub

NODE: Final = "n1"


def ignore(_: int) -> None:
    """Pass over how much an audit found."""


def audit_of(
    session: api.Api,
    ledger: Ledger,
    following: feeds.Feeds,
    *,
    report: Callable[[int], None] = ignore,
    resync: Callable[[Iterable[str]], Awaitable[None]] | None = None,
) -> auditor.Auditor:
    """Make the audit of a ledger; what it finds is mended by the feeds that the ledger follows."""
    return auditor.Auditor(
        session,
        ledger,
        clock=time.monotonic,
        report=report,
        resync=resync or following.resync,
        revisions=following.revisions_of,
    )


class Cluster:
    """A server that has one node of one card, and whatever pods it is told to have."""

    def __init__(self, server: stub.Stub) -> None:
        self.pods: list[dict[str, Any]] = []
        self.gpupods: list[dict[str, Any]] = []
        self.devices: list[dict[str, Any]] = [manifests.device(NODE, 1)]
        self._version = 10
        lease = {"metadata": {"name": NODE, "resourceVersion": "3"}, "spec": {"renewTime": "now"}}
        room = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        node = {"metadata": {"name": NODE, "resourceVersion": "1"}, "status": {"allocatable": room}}
        has: dict[str, list[Any]] = {
            resources.NODES.path(): [node],
            resources.DEVICES.path(): self.devices,
            resources.LEASES.path(namespace=names.NODES_NAMESPACE): [lease],
            resources.POLICIES.path(): [],
            resources.GPU_PODS.path(): self.gpupods,
            resources.PODS.path(): self.pods,
        }
        for path, items in has.items():
            server.on("GET", path, self._answer(items))

    def _answer(self, items: list[Any]) -> stub.Answer:
        silent = stub.watch(until=asyncio.Event())

        async def answer(request: web.Request) -> web.StreamResponse:
            if request.query.get("watch"):
                return await silent(request)
            self._version += 1
            return await stub.page(*items, version=str(self._version))(request)

        return answer
