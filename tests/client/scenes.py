"""A stub server, an informer that follows it, and what the informer has told: where informers are tried."""

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
    """Make an object; its uid is its name's unless told otherwise."""
    meta = {"name": name, "namespace": "ml", "uid": uid or f"uid-{name}", "resourceVersion": version}
    return {"metadata": meta, "data": data}


class Scene:
    """A stub server, an informer that follows it, and what the informer has told."""

    def __init__(self, server: stub.Stub, session: api.Api) -> None:
        self.server = server
        self.session = session
        self.mirror: mirror.Mirror[mirror.ConfigMap] = mirror.Mirror()
        self.informer = mirror.config_maps(session, self.mirror, "ml")

    def script(self, lists: list[stub.Answer], watches: list[stub.Answer] | None = None) -> None:
        """Say what lists and watches are answered; a watch without script stays silent."""
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
        """Name the revisions from which watches went on."""
        return [one.query["resourceVersion"] for one in self.server.asked(watch="true")]

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something holds."""

        async def holds() -> bool:
            return bool(condition())

        await waiting.eventually(holds, what=what, seconds=5)
