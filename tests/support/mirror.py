"""A sink that remembers: what an informer has told, and what the world must look like by that.

It is strict. An object that is told deleted must be known, and one that comes back under
the same name with another uid must have been told deleted before: that is what a ledger
relies on.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Generic, TypeVar

from berth_crds import wire
from berth_crds.client import api, informer, resources, store

B = TypeVar("B", bound=store.HasMetadata)

CONFIG_MAPS = resources.Resource("", "v1", "configmaps", "ConfigMap")


class ConfigMap(wire.Struct, frozen=True):
    """The plainest kind there is: a name and some words."""

    metadata: wire.Meta
    data: Mapping[str, str] = {}


class Mirror(Generic[B]):
    """What was told, in order, and what is there by that."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []  # What, the name, the uid.
        self.things: dict[str, B] = {}

    def upserted(self, thing: B) -> None:
        """Take an object."""
        meta = thing.metadata
        known = self.things.get(meta.name)
        assert known is None or known.metadata.uid == meta.uid, f"{meta.name} changed its uid unsaid"
        self.told.append(("upserted", meta.name, meta.uid))
        self.things[meta.name] = thing

    def deleted(self, meta: wire.Meta) -> None:
        """Take a delete."""
        known = self.things.pop(meta.name, None)
        assert known is not None, f"{meta.name} was never told, or deleted twice"
        assert known.metadata.uid == meta.uid, f"another {meta.name} was deleted"
        self.told.append(("deleted", meta.name, meta.uid))

    def names(self, what: str) -> list[str]:
        """Name the objects that were told so, in order."""
        return [name for told, name, _ in self.told if told == what]

    def versions(self) -> dict[str, tuple[str, str]]:
        """Give uid and revision of all that is there."""
        return {
            name: (thing.metadata.uid, thing.metadata.resource_version) for name, thing in self.things.items()
        }


@contextlib.asynccontextmanager
async def following(informer_: informer.Informer[Any]) -> AsyncIterator[asyncio.Task[None]]:
    """Run an informer beside the block; it must not have ended by itself."""
    task = asyncio.create_task(informer_.run())
    try:
        yield task
        if task.done():
            task.result()
            raise AssertionError("the informer ended by itself")
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def config_maps(session: api.Api, mirror: Mirror[ConfigMap], namespace: str) -> informer.Informer[ConfigMap]:
    """Make an informer of a namespace's ConfigMaps, the cluster's own certificate left aside."""
    scope = informer.Scope(namespace=namespace, fields="metadata.name!=kube-root-ca.crt")
    return informer.Informer(session, CONFIG_MAPS, ConfigMap, mirror, scope=scope)
