"""ConfigMaps, an informer of them in front of a stub server, and a sink that records what it receives."""

import contextlib
from asyncio import Event
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

from berth_crds import wire
from berth_crds.client import api, informer, resources, watch
from support import stub, timeless
from testbed import waiting

T = TypeVar("T")
CONFIG_MAPS = resources.Resource("", "v1", "configmaps", "ConfigMap")
PATH = CONFIG_MAPS.path(namespace="ml")
GONE = stub.event("ERROR", stub.failure(410, "too old resource version: 10 (40)", reason="Expired"))


class ConfigMap(wire.Struct, frozen=True):
    """The plainest kind there is: a name and some words."""

    metadata: wire.Meta
    data: Mapping[str, str] = {}


def config_map(name: str, version: str, *, uid: str = "", **data: Any) -> dict[str, Any]:
    """Return an object, whose uid is made of its name unless one is given."""
    meta = {"name": name, "namespace": "ml", "uid": uid or f"uid-{name}", "resourceVersion": version}
    return {"metadata": meta, "data": data}


def listed(codec: watch.Codec[T], body: bytes) -> list[T | watch.Undecodable]:
    """Return the objects of a page."""
    _, items = watch.decode_list(body, PATH)
    return list(map(codec.decode_object, items))


async def list_all(
    session: api.Api, path: str, codec: watch.Codec[T], *, selectors: Mapping[str, str], size: int
) -> watch.Collection[T]:
    """Read a whole collection, in pages of so many objects."""
    pages = [page async for page in watch.list_pages(session, path, codec, selectors=selectors, size=size)]
    return watch.Collection(pages[-1].version, [one for page in pages for one in page.items])


def open_watch(*events: stub.Thing) -> stub.Answer:
    """Answer with a stream of these events that stays open."""
    return stub.watch(*events, until=Event())


class RecordingSink:
    """The calls of an informer in order, and the objects that there are by them.

    It is strict. An object that is deleted must be known, and one that comes back under the same
    name with another uid must have been deleted before: that is what a ledger relies on.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []  # What, the name, the uid.
        self.objects: dict[str, ConfigMap] = {}

    def upserted(self, thing: ConfigMap) -> None:
        """Record an object."""
        meta = thing.metadata
        known = self.objects.get(meta.name)
        assert known is None or known.metadata.uid == meta.uid, (
            f"{meta.name} has another uid without a delete"
        )
        self.calls.append(("upserted", meta.name, meta.uid))
        self.objects[meta.name] = thing

    def deleted(self, meta: wire.Meta) -> None:
        """Record a delete."""
        known = self.objects.pop(meta.name, None)
        assert known is not None, f"{meta.name} was never upserted, or deleted twice"
        assert known.metadata.uid == meta.uid, f"another {meta.name} was deleted"
        self.calls.append(("deleted", meta.name, meta.uid))

    def names(self, call: str) -> list[str]:
        """Return the names of the objects of these calls, in order."""
        return [name for what, name, _ in self.calls if what == call]

    def versions(self) -> dict[str, tuple[str, str]]:
        """Return uid and revision of all that is there."""
        metas = {name: thing.metadata for name, thing in self.objects.items()}
        return {name: (meta.uid, meta.resource_version) for name, meta in metas.items()}


def of_config_maps(session: api.Api, sink: RecordingSink, namespace: str) -> informer.Informer[ConfigMap]:
    """Return an informer of a namespace's ConfigMaps but the certificate of the cluster."""
    scope = resources.Scope(namespace=namespace, fields="metadata.name!=kube-root-ca.crt")
    return informer.Informer(session, CONFIG_MAPS, ConfigMap, sink, scope=scope)


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait until something holds."""

    async def holds() -> bool:
        return bool(condition())

    await waiting.eventually(holds, what=what)


class InformerSetup:
    """A stub server, an informer that follows it, and the sink of the informer."""

    def __init__(self, server: stub.Stub, session: api.Api) -> None:
        self.server = server
        self.session = session
        self.use(RecordingSink())

    def use(self, sink: RecordingSink) -> None:
        """Replace the informer by a new one with this sink."""
        self.sink = sink
        self.informer = of_config_maps(self.session, sink, "ml")

    def script(self, lists: Sequence[stub.Answer], watches: Sequence[stub.Answer] = ()) -> None:
        """Set the answers to lists and watches; the last list is repeated, further watches stay silent."""
        answers = {"": stub.in_turn(lists), "true": stub.in_turn([*watches, open_watch()])}
        self.server.on("GET", PATH, stub.by_query("watch", answers))

    @property
    def watched_from(self) -> list[str]:
        """The revisions from which watches were opened."""
        return [request.query["resourceVersion"] for request in self.server.asked(watch="true")]

    @property
    def lists(self) -> int:
        """How many other requests there were."""
        return len(self.server.requests) - len(self.watched_from)

    @contextlib.asynccontextmanager
    async def synced(self) -> AsyncIterator[None]:
        """Run the informer beside the block, which begins after the first list."""
        async with timeless.beside(self.informer.run()):
            await self.informer.wait_synced()
            yield

    async def follow_until(self, condition: Callable[[], object], what: str) -> None:
        """Run the informer until something holds."""
        async with timeless.beside(self.informer.run()):
            await until(condition, what)
