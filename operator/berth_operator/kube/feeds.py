"""Informers to ledger: every event that feeds decisions comes through here.

Each sink reads one kind through `translate` and tells the ledger (or the watchdog) in
the core's words. Nothing is awaited on the way.
"""

import asyncio
import dataclasses
import functools
import logging
import time
from collections.abc import Collection, Iterable
from typing import Any, Final, Protocol

from berth_crds import logs, names, vocabulary, wire
from berth_crds.client import api, errors, informer, lease, resources, watch
from berth_operator.engine import bound_pod_memory, drift, ports, waiting_pod_memory
from berth_operator.engine.hold_states import State
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import foreign_gpupods, kopf_lag, policy_sink
from berth_operator.scheduling import allocation_recovery
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import device_size, devices, gpupods, long_pods, nodes, pods, raw

log = logging.getLogger(__name__)

READ_AGAIN_SECONDS: Final = 0.1  # Between two waiting pods that were not kept.
LOOK_FOR_ROOM_SECONDS: Final = 1.0
# Finished pods hold nothing, and leave the watch as a delete the moment they finish.
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class Onlooker(Protocol):
    """Who wants to know what pods show that wait, beside the ledger."""

    def saw(self, pod: raw.Pod) -> None:
        """See a waiting pod."""

    def done(self, uid: str) -> None:
        """Record that a pod waits no more."""


class PodSink:
    """Pods: who waits and who holds."""

    def __init__(
        self,
        ledger: Ledger,
        status_writer: Onlooker,
        logger: logging.Logger = log,
        schedulers: Collection[str] = pods.ANSWERING,
    ) -> None:
        self._ledger = ledger
        self._status_writer = status_writer
        self._schedulers = schedulers
        self._logger = logger
        self._faulty: dict[str, str] = {}
        self.budget = waiting_pod_memory.WaitingPodMemory()
        self._allowance = bound_pod_memory.BoundPodMemory()

    def upserted(self, thing: raw.Pod) -> None:
        """Apply a pod's new state."""
        match pods.view(pods.adopted(thing, self._schedulers)):
            case pods.Waiting(candidate, gated, weight):
                candidate = self.budget.admit(candidate, weight)
                self._status_writer.saw(thing)
                self._ledger.pod_waiting(candidate, gated=gated, version=thing.metadata.resource_version)
            case pods.Bound() as bound:
                self._bound(bound, thing.metadata.namespace)
            case pods.Over(uid):
                self._over(uid)

    def _bound(self, pod: pods.Bound, namespace: str) -> None:
        hold, teaches, nameless, where = pod.hold, pod.teaches, pod.nameless, pod.unadmitted
        self.budget.release(hold.uid)
        self._status_writer.done(hold.uid)
        if not self._allowance.charge(hold.uid, namespace, pod.weight):
            # What is known to be there is charged whatever is said of it now.
            new = self._ledger.state(hold.uid) is State.FREE or hold.uid in self._ledger.unadmitted_pods
            nameless = bound_pod_memory.trimmed(nameless, admitted=where is None or not new)
            if where is not None and new:
                hold, teaches, where = bound_pod_memory.bare_hold(hold), None, facts.NOWHERE
        self._ledger.pod_bound(hold, teaches, nameless=nameless, requirements=where)
        # A pod has no device of a node that cannot have given it one.
        if pod.fault and (held := self._ledger.inventory.hold(hold.uid)) and held.devices:
            self._report(hold.uid, hold.title, pod.fault)

    def deleted(self, meta: wire.Meta) -> None:
        """Record that a pod is gone."""
        self._over(meta.uid)

    def odd(self, thing: watch.Unreadable) -> None:
        """Fail closed on a pod that cannot be read: what it held it still holds, else all of its node."""
        uid = thing.metadata.uid
        hold = pods.remains(thing)
        known = self._ledger.state(uid) is State.CONFIRMED and uid not in self._ledger.unadmitted_pods
        self._allowance.release(uid)
        if hold is not None and not known:
            self.budget.release(uid)
            self._status_writer.done(uid)
            self._report(uid, hold.title, thing.detail)
            self._ledger.pod_bound(hold, nameless=allocation_recovery.Nameless())

    odd_gone = deleted

    def _over(self, uid: str) -> None:
        self.budget.release(uid)
        self._allowance.release(uid)
        self._faulty.pop(uid, None)
        self._status_writer.done(uid)
        self._ledger.pod_over(uid)

    def _report(self, uid: str, title: str, fault: str) -> None:
        if fault and self._faulty.get(uid) != fault:
            self._logger.warning("%s withholds cards of its node: %s", title, fault, extra=logs.pod(title))
            self._faulty[uid] = fault


class GpuPodSink:
    """GpuPods: who may speak for pods whose own record cannot be read."""

    def __init__(self, ledger: Ledger, logger: logging.Logger = log) -> None:
        self._ledger = ledger
        self._logger = logger
        self._faulty: dict[str, str] = {}
        self.known = foreign_gpupods.Known()

    def upserted(self, thing: wire.GpuPod) -> None:
        """Apply what an agent wrote; what becomes of the pod's phase and grants is no news to the ledger."""
        title = gpupods.title(thing.metadata)
        self.known.put(title, foreign_gpupods.record(thing))
        named = gpupods.named(thing)
        if isinstance(named, allocation_recovery.Named):
            self._faulty.pop(title, None)
            self._ledger.gpupod_seen(named)
        else:
            self._report(title, named)
            self._ledger.gpupod_gone(title)

    def _report(self, title: str, fault: str) -> None:
        if self._faulty.get(title) != fault:
            self._logger.warning("GpuPod %s names nothing: %s", title, fault, extra=logs.pod(title))
            self._faulty[title] = fault

    def deleted(self, meta: wire.Meta) -> None:
        """Record that a GpuPod is gone."""
        title = gpupods.title(meta)
        self.known.drop(title)
        self._faulty.pop(title, None)
        self._ledger.gpupod_gone(title)

    odd_gone = deleted

    def odd(self, thing: watch.Unreadable) -> None:
        """Fail closed: a GpuPod that cannot be read names nothing."""
        self.deleted(thing.metadata)


class NodeSink:
    """Nodes: what they can give and whom they take."""

    def __init__(self, ledger: Ledger, logger: logging.Logger = log) -> None:
        self._ledger = ledger
        self._logger = logger
        self._faulty: dict[str, str] = {}

    def upserted(self, thing: raw.Node) -> None:
        """Apply a node's new state; one that says too much takes no pod."""
        fault, name = nodes.excess(thing), thing.metadata.name
        if not fault:
            self._faulty.pop(name, None)
            self._ledger.node_seen(nodes.node(thing))
            return
        if self._faulty.get(name) != fault:
            self._logger.warning("node %s takes no pod: %s", name, fault, extra=logs.node(name))
            self._faulty[name] = fault
        self._ledger.node_gone(name)

    def deleted(self, meta: wire.Meta) -> None:
        """Record that a node is gone."""
        self._faulty.pop(meta.name, None)
        self._ledger.node_gone(meta.name)

    odd_gone = deleted

    def odd(self, thing: watch.Unreadable) -> None:
        """Fail closed: a node that cannot be read takes no pod."""
        self.deleted(thing.metadata)


class DeviceSink:
    """Devices: the cards, and whether their agent was found silent before."""

    def __init__(self, ledger: Ledger, watchdog: Watchdog, logger: logging.Logger = log) -> None:
        self._ledger = ledger
        self._watchdog = watchdog
        self._logger = logger
        self._faulty: dict[str, str] = {}
        self.uids: dict[str, str] = {}  # Of the Devices, by name.

    def upserted(self, thing: wire.Device) -> None:
        """Record what an agent published; no pod gets a card of a Device that says too much."""
        self.uids[thing.metadata.name] = thing.metadata.uid
        fault = device_size.too_large(thing) or device_size.of(thing.spec)
        self._report(thing.metadata.name, fault)
        self._ledger.device_seen(devices.device(thing, fault), devices.record(thing.status))
        self._watchdog.device_seen(thing.metadata.name, found_silent=condemned(thing))

    def _report(self, name: str, fault: str) -> None:
        if not fault:
            self._faulty.pop(name, None)
        elif self._faulty.get(name) != fault:
            self._logger.warning("Device %s gets no pod: it has %s", name, fault, extra=logs.node(name))
            self._faulty[name] = fault

    def deleted(self, meta: wire.Meta) -> None:
        """Forget a Device that was deleted."""
        self.uids.pop(meta.name, None)
        self._faulty.pop(meta.name, None)
        self._watchdog.device_gone(meta.name)
        self._ledger.device_gone(meta.name)

    odd_gone = deleted

    def odd(self, thing: watch.Unreadable) -> None:
        """Fail closed: cards of which the agent's word cannot be read get no pod."""
        self.deleted(thing.metadata)


class LeaseSink:
    """Leases of the agents: their signs of life."""

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog

    def restored(self) -> None:
        """Treat no Lease that is listed now as a sign of life: the one that stood there before came back."""
        self._watchdog.restored()

    def upserted(self, thing: lease.Lease) -> None:
        """Record a renewal."""
        self._watchdog.lease_seen(thing.metadata.name, thing.spec.renew_time or "")

    def deleted(self, meta: wire.Meta) -> None:
        """Record that a Lease is gone."""
        self._watchdog.lease_gone(meta.name)


def condemned(thing: wire.Device) -> bool:
    """Return whether the Device says that its agent was found silent."""
    return any(
        one.type == vocabulary.DeviceCondition.READY
        and one.status == vocabulary.Truth.FALSE
        and one.reason != vocabulary.ReadyReason.SOURCE_FAILED
        for one in thing.status.conditions
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """Which pods are Berth's, and by which clock and into which log they are read."""

    schedulers: Collection[str] = pods.ANSWERING
    clock: ports.Clock = time.monotonic
    logger: logging.Logger = log


USUAL: Final = Options()


class Feeds:
    """All informers together."""

    def __init__(
        self,
        session: api.Api,
        ledger: Ledger,
        watchdog: Watchdog,
        status_writer: Onlooker,
        options: Options = USUAL,
    ) -> None:
        logger = options.logger
        self._ledger = ledger
        self._wanted: tuple[int, ...] = ()  # After a restore, how many lists each informer had read before.
        self._history = session.history
        self._history.join(self)
        self._gpupods = GpuPodSink(ledger, logger)
        self._devices = DeviceSink(ledger, watchdog, logger)
        self._pods = PodSink(ledger, status_writer, logger, options.schedulers)
        pods_scope = informer.Scope(fields=UNFINISHED)
        agents = informer.Scope(namespace=names.NODES_NAMESPACE)
        follow = functools.partial(informer.Informer, session, means=informer.Means(clock=options.clock))
        # Nodes and Devices before pods: a decision never sees a pod on a node it does not know.
        # GpuPods too: nor one whose cards somebody names, without that name.
        self._all: tuple[informer.Informer[Any], ...] = (
            follow(resources.NODES, raw.Node, NodeSink(ledger, logger)),
            follow(resources.DEVICES, raw.Device, self._devices),
            follow(resources.LEASES, lease.Lease, LeaseSink(watchdog), scope=agents),
            follow(resources.POLICIES, wire.PlacementPolicy, policy_sink.PolicySink(ledger, logger)),
            follow(resources.GPU_PODS, wire.GpuPod, self._gpupods),
            follow(resources.PODS, long_pods.Pod, self._pods, scope=pods_scope),
        )

    async def run(self) -> None:
        """Follow everything for ever."""
        async with asyncio.TaskGroup() as group:
            for one in self._all:
                group.create_task(one.run())
            group.create_task(self._read_again())

    async def _read_again(self) -> None:
        """Read pods again, for ever and one after another, that were not kept and now could be."""
        *_, pods_ = self._all
        while True:
            pod = self._pods.budget.next_unkept()
            try:
                if pod is not None:
                    await pods_.tell_again(pod)
            except errors.ClientError as error:
                log.debug("a pod is read again later: %s", error)
                pod = None
            await asyncio.sleep(LOOK_FOR_ROOM_SECONDS if pod is None else READ_AGAIN_SECONDS)

    async def wait_synced(self) -> None:
        """Wait until everything has been read once."""
        for one in self._all:
            await one.wait_synced()
        self._ledger.all_devices_read()

    async def catch_up(self) -> None:
        """Wait until all that was committed before this call is in the ledger."""
        await asyncio.gather(*(one.catch_up() for one in self._all))

    async def reach_pods(self, version: str) -> None:
        """Wait until everything that became of pods up to a revision is in the ledger."""
        if version:
            await self._all[-1].reach(version)

    async def mend(self, ghosts: Iterable[str] = ()) -> None:
        """Read everything anew, tell also what has not changed, and forget of these pods those that are gone.

        Only now: a pod that somebody may still have must not lose its cards to a mistaken look.
        """
        *others, pods_ = self._all
        await asyncio.gather(*(one.retell() for one in others))
        await pods_.retell()
        for uid in pods_.missing(ghosts):
            self._ledger.pod_over(uid)

    # ------------------------------------------------------------ after a restore

    def relist(self) -> None:
        """Record that nothing is sure until each informer, which relists by itself, has done so."""
        self._wanted = tuple(one.lists for one in self._all)

    async def wait_sure(self) -> None:
        """Wait until what is known is of the history that the server goes on with."""
        while wanted := self._wanted:
            for one, lists in zip(self._all, wanted, strict=True):
                await one.wait_listed(lists)
            if self._wanted == wanted:
                self._wanted = ()

    def revisions_of(self, sources: Collection[drift.Source]) -> dict[drift.Source, str]:
        """Return in which revisions these were told last; what is not there has none."""
        nodes_, devices_, *_, gpupods_, pods_ = self._all
        kinds = {drift.NODE: nodes_, drift.DEVICE: devices_, drift.GPU_POD: gpupods_, drift.POD: pods_}
        return {
            (kind, name): revision
            for kind, one in kinds.items()
            for name, revision in one.revisions({name for what, name in sources if what == kind}).items()
        }

    async def read(self) -> None:
        """Read everything once, without following it."""
        for one in self._all:
            await one.read()

    @property
    def gpupods(self) -> foreign_gpupods.Known:
        """All GpuPods that there are."""
        return self._gpupods.known

    def uid_of_device(self, name: str) -> str:
        """Return the uid of a Device; empty where there is none."""
        return self._devices.uids.get(name, "")

    def revisions(self) -> kopf_lag.Revisions | None:
        """Return what Kopf should have delivered; None where the server was not heard a moment ago."""
        _, devices_, _, policies_, *_ = self._all
        if not (devices_.live and policies_.live):
            return None
        known = {names.DEVICES: devices_.revisions(), names.POLICIES: policies_.revisions()}
        return kopf_lag.Revisions(known, self._history.restores)

    @property
    def synced(self) -> bool:
        """Whether everything has been read once."""
        return all(one.synced for one in self._all)
