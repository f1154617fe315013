"""Informers of claims, PersistentVolumes and what describes storage.

They stand apart from the other informers: only pods with claims need them. Where they cannot be read, for
example because the operator's role is that of an older version, all other pods are placed as ever, and pods
with claims wait and say so.
"""

import asyncio
import functools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from berth_crds import wire
from berth_crds.client import api, informer, resources, store, watch
from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling.volumes import index
from berth_operator.translate import raw_volumes, volumes

T = TypeVar("T", bound=store.HasMetadata)


class Sink(Generic[T]):
    """Passes on what is new or changed, and what is gone; what cannot be decoded counts as gone."""

    def __init__(self, put: Callable[[T], None], drop: Callable[[wire.Meta], None]) -> None:
        self._put, self._drop = put, drop

    def upserted(self, thing: T) -> None:
        """Record an object's new state."""
        self._put(thing)

    def deleted(self, meta: wire.Meta) -> None:
        """Record that an object is gone."""
        self._drop(meta)

    def undecodable(self, thing: watch.Undecodable) -> None:
        """Fail closed: a pod that depends on it waits."""
        self._drop(thing.metadata)

    def undecodable_deleted(self, meta: wire.Meta) -> None:
        """Record that an object is gone that could not be decoded."""
        self._drop(meta)


class VolumeFeeds:
    """All informers that volumes need."""

    def __init__(self, session: api.Api, ledger: Ledger, *, clock: ports.Clock) -> None:
        known = self._known = ledger.inventory.volumes
        new = functools.partial(informer.Informer, session, clock=clock)
        self._informers: tuple[informer.Informer[Any], ...] = (
            new(resources.STORAGE_CLASSES, raw_volumes.StorageClass, _classes(known)),
            new(resources.CSI_DRIVERS, raw_volumes.CsiDriver, _drivers(known)),
            new(resources.CSI_NODES, raw_volumes.CsiNode, _nodes(known)),
            new(resources.CAPACITIES, raw_volumes.Capacity, _capacities(known)),
            new(resources.VOLUMES, raw_volumes.Volume, _volumes(known)),
            new(resources.CLAIMS, raw_volumes.Claim, _claims(known)),
        )

    async def run(self) -> None:
        """Run all informers, for ever."""
        async with asyncio.TaskGroup() as group:
            for one in self._informers:
                group.create_task(one.run())
            group.create_task(self._announce())

    async def _announce(self) -> None:
        """Let pods with claims be placed once everything has been read."""
        for one in self._informers:
            await one.wait_synced()
        self._known.all_read()


def _classes(known: index.Volumes) -> Sink[raw_volumes.StorageClass]:
    return Sink(
        lambda one: known.put_class(volumes.read_class(one)), lambda meta: known.drop_class(meta.name)
    )


def _drivers(known: index.Volumes) -> Sink[raw_volumes.CsiDriver]:
    return Sink(
        lambda one: known.put_driver(one.metadata.name, tracks_capacity=bool(one.spec.storage_capacity)),
        lambda meta: known.put_driver(meta.name, tracks_capacity=False),
    )


def _nodes(known: index.Volumes) -> Sink[raw_volumes.CsiNode]:
    return Sink(
        lambda one: known.put_limits(one.metadata.name, volumes.read_limits(one)),
        lambda meta: known.put_limits(meta.name, {}),
    )


def _capacities(known: index.Volumes) -> Sink[raw_volumes.Capacity]:
    return Sink(
        lambda one: known.put_capacity(volumes.read_capacity(one)),
        lambda meta: known.drop_capacity((meta.namespace, meta.name)),
    )


def _volumes(known: index.Volumes) -> Sink[raw_volumes.Volume]:
    return Sink(
        lambda one: known.put_volume(volumes.read_volume(one)), lambda meta: known.drop_volume(meta.name)
    )


def _claims(known: index.Volumes) -> Sink[raw_volumes.Claim]:
    return Sink(
        lambda one: known.put_claim(volumes.read_claim(one)),
        lambda meta: known.drop_claim((meta.namespace, meta.name)),
    )
