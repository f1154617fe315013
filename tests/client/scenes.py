"""A stub server, an informer that follows it, and the sink of the informer."""

import asyncio
from collections.abc import Callable
from typing import Any

from berth_crds.client import api
from support import mirror, stub
from testbed import waiting

PATH = mirror.CONFIG_MAPS.path(namespace="ml")
FOR_EVER = asyncio.Event
GONE = stub.failure(410, "too old resource version: 10 (40)", reason="Expired")


def config_map(name: str, version: str, *, uid: str = "", **data: Any) -> dict[str, Any]:
    """Return an object, whose uid is made of its name unless one is given."""
    meta = {"name": name, "namespace": "ml", "uid": uid or f"uid-{name}", "resourceVersion": version}
    return {"metadata": meta, "data": data}


class Scene:
    """A stub server, an informer that follows it, and its sink."""

    def __init__(self, server: stub.Stub, session: api.Api) -> None:
        self.server = server
        self.session = session
        self.deliver_to(mirror.Mirror())

    def deliver_to(self, sink: mirror.Mirror[mirror.ConfigMap]) -> None:
        """Use a new informer with this sink."""
        self.mirror = sink
        self.informer = mirror.config_maps(self.session, sink, "ml")

    def script(self, lists: list[stub.Answer], watches: list[stub.Answer] | None = None) -> None:
        """Set the answers to lists and watches; a watch without an answer stays silent."""
        quiet = [stub.watch(until=FOR_EVER())] if watches is None else watches
        answers = {"": stub.in_turn(lists), "true": stub.in_turn(quiet)}
        self.server.on("GET", PATH, stub.by_query("watch", answers))

    @property
    def lists(self) -> int:
        """Count the lists that were asked for."""
        return len(self.server.requests) - self.watches

    @property
    def watches(self) -> int:
        """Count the watches that were asked for."""
        return len(self.server.asked(watch="true"))

    def resumed_from(self) -> list[str]:
        """Return the revisions from which watches were resumed."""
        return [one.query["resourceVersion"] for one in self.server.asked(watch="true")]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something holds."""

        async def holds() -> bool:
            return bool(condition())

        await waiting.eventually(holds, what=what, seconds=5)

    async def follow_until(self, condition: Callable[[], object], what: str) -> None:
        """Follow the collection until something holds."""
        async with mirror.following(self.informer):
            await self.until(condition, what)

    async def follow_until_synced(self) -> None:
        """Follow the collection until it has been read once."""
        async with mirror.following(self.informer):
            await self.informer.wait_synced()
