"""All informers of the operator: what decisions depend on is watched here, and goes to its sink."""

import asyncio
import dataclasses
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Final

from berth_crds import names, wire
from berth_crds.client import api, errors, informer, lease, resources, store
from berth_operator.engine import drift, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import (
    kopf_lag,
    namespace_sink,
    policy_sink,
    sinks,
    volume_feeds,
)
from berth_operator.translate import long_pods, pods, raw

log = logging.getLogger(__name__)

READ_AGAIN_SECONDS: Final = 0.1  # Between two objects that were not kept when they came.
CHECK_SECONDS: Final = 1.0  # Between two looks where there is none.
NAMESPACES_SECONDS: Final = 2.0
AGENTS: Final = resources.Scope(namespace=names.NODES_NAMESPACE)
# Finished pods hold nothing, and leave the watch as a delete the moment they finish.
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """The scheduler names that Berth answers to, the clock and the logger."""

    schedulers: Collection[str] = pods.DEFAULT_SCHEDULERS
    clock: ports.Clock = time.monotonic
    logger: logging.Logger = log


DEFAULTS: Final = Options()


class Feeds:
    """All informers of the operator."""

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        watchdog: Watchdog,
        observer: sinks.PodObserver,
        options: Options = DEFAULTS,
    ) -> None:
        logger = options.logger
        self._ledger = ledger
        self._lists_before: tuple[int, ...] = ()  # Of each informer at a restore, until all have relisted.
        self._history = session.history
        self._history.join(self)
        self._gpupods = sinks.GpuPodSink(ledger, logger)
        self.gpupods = self._gpupods.store
        self._devices = sinks.DeviceSink(ledger, watchdog, logger)
        self._pods = sinks.PodSink(ledger, observer, logger, options.schedulers)
        self.admissions = self._pods.admissions
        new = functools.partial(informer.Informer, session, clock=options.clock)
        self._volumes = volume_feeds.VolumeFeeds(session, ledger, clock=options.clock)
        self._namespaces = new(resources.NAMESPACES, raw.Namespace, namespace_sink.NamespaceSink(ledger))
        # Pods last: no decision sees one without its node, namespace or GpuPod.
        self._informers: tuple[informer.Informer[Any], ...] = (
            new(resources.NODES, raw.Node, sinks.NodeSink(ledger, logger)),
            new(resources.DEVICES, raw.Device, self._devices),
            new(resources.LEASES, lease.Lease, sinks.LeaseSink(watchdog, logger), scope=AGENTS),
            self._namespaces,
            new(resources.POLICIES, wire.PlacementPolicy, policy_sink.PolicySink(ledger, logger)),
            new(resources.GPU_PODS, wire.GpuPod, self._gpupods),
            new(resources.PODS, long_pods.Pod, self._pods, scope=resources.Scope(fields=UNFINISHED)),
        )

    async def run(self) -> None:
        """Run all informers, for ever."""
        async with asyncio.TaskGroup() as group:
            for one in self._informers:
                group.create_task(one.run())
            group.create_task(self._read_again(self._informers[-1], self._pods.budget.next_unkept))
            group.create_task(self._read_again(self._informers[-1], self._ledger.late_pods.next))
            group.create_task(self._read_again(self._informers[-2], self._ledger.late_gpupods.next))
            group.create_task(self._volumes.run())

    async def _read_again(
        self, followed: informer.Informer[Any], next_key: Callable[[], store.Key | None]
    ) -> None:
        """Read one after another those objects again that were not kept when they came; for ever.

        These are waiting pods that the memory budget did not admit, late pods and late GpuPods.
        """
        while True:
            key = next_key()
            try:
                if key is not None:
                    await followed.resync_object(key)
            except errors.ClientError as error:
                log.debug("%s is read again later: %s", "/".join(key or ()), error)
                key = None
            await asyncio.sleep(CHECK_SECONDS if key is None else READ_AGAIN_SECONDS)

    async def wait_synced(self) -> None:
        """Wait until everything has been read once."""
        for one in self._informers:
            await one.wait_synced()
        self._ledger.all_devices_read()

    def expect_catch_up(self) -> None:
        """Prepare to catch up: we may lead in a second."""
        for one in self._essential():
            one.expect_catch_up()

    async def catch_up(self) -> None:
        """Wait until everything that was committed before this call is in the ledger."""
        essential = (one.catch_up() for one in self._essential())
        await asyncio.gather(*essential, _briefly(self._namespaces.catch_up()))

    def _essential(self) -> list[informer.Informer[Any]]:
        """Return the informers to wait for; for the labels of namespaces nobody waits longer than a moment.

        No card depends on them, and a rollback may have taken away the right to list them.
        """
        return [one for one in self._informers if one is not self._namespaces]

    async def wait_pods(self, version: str) -> None:
        """Wait until all changes of pods up to a revision are in the ledger."""
        if version:
            await self._informers[-1].reach(version)

    async def resync(self, ghosts: Iterable[str] = ()) -> None:
        """List everything anew, feed also unchanged objects, and forget the ghosts that do not exist.

        They are looked up after the lists: a pod that exists must not lose its cards to a stale read.
        """
        *others, pods_ = self._essential()
        await asyncio.gather(*(one.resync() for one in others), _briefly(self._namespaces.resync()))
        await pods_.resync()
        for uid in pods_.missing(ghosts):
            self._ledger.pod_over(uid)

    # ------------------------------------------------------------ after a restore

    def relist(self) -> None:
        """Record a restore: each informer relists by itself, and until then its objects may be outdated."""
        self._lists_before = tuple(one.lists for one in self._informers)

    async def wait_relisted(self) -> None:
        """Wait until all informers have relisted since the last restore."""
        while wanted := self._lists_before:
            for one, lists in zip(self._informers, wanted, strict=True):
                listed = one.wait_listed(lists)
                await (listed if one is not self._namespaces else _briefly(listed))
            if self._lists_before == wanted:
                self._lists_before = ()

    def revisions_of(self, sources: Collection[drift.Source]) -> dict[drift.Source, str]:
        """Return the revisions in which these objects were read last; missing ones are left out."""
        nodes_, devices_, *_, gpupods_, pods_ = self._informers
        kinds = {drift.NODE: nodes_, drift.DEVICE: devices_, drift.GPU_POD: gpupods_, drift.POD: pods_}
        return {
            (kind, name): revision
            for kind, one in kinds.items()
            for name, revision in one.revisions({name for what, name in sources if what == kind}).items()
        }

    async def read(self) -> None:
        """List everything once, without a watch."""
        for one in self._informers:
            await one.read()

    def uid_of_device(self, name: str) -> str:
        """Return the uid of a Device; empty where there is none."""
        return self._devices.uids.get(name, "")

    def revisions(self) -> kopf_lag.Revisions | None:
        """Return what Kopf should have delivered; None where no watch is open."""
        _, devices_, *_, policies_, gpupods_, _ = self._informers
        if not (devices_.live and policies_.live and gpupods_.live):
            return None
        return kopf_lag.Revisions(
            {
                names.DEVICES: devices_.revisions(),
                names.POLICIES: policies_.revisions(),
                names.GPU_PODS: self._gpupods.newest.copy(),
            },
            self._history.restores,
        )

    @property
    def synced(self) -> bool:
        """Whether everything has been read once."""
        return all(one.synced for one in self._informers)


async def _briefly(namespaces: Awaitable[None]) -> None:
    """Wait for the labels of namespaces, but only a moment."""
    try:
        async with asyncio.timeout(NAMESPACES_SECONDS):
            await namespaces
    except TimeoutError:
        log.warning("the labels of namespaces cannot be read anew; those that are known are used")
