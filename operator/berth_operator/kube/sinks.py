"""From what is watched to the ledger: one sink for each kind that decisions depend on.

Each translates its kind through `translate` and updates the ledger or the watchdog. Nothing is awaited.
"""

import functools
import logging
from collections.abc import Callable, Collection
from typing import Any, Protocol

from berth_crds import logs, wire
from berth_crds.client import lease, store, watch
from berth_crds.vocabulary import DeviceType
from berth_operator.engine import paced_calls, pod_memory
from berth_operator.engine.hold_states import State
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import gpupod_store, kopf_lag, raised_amounts, rejected_pods
from berth_operator.scheduling import allocation_recovery, holds
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import (
    device_cache,
    devices,
    gpupods,
    measured_load,
    nodes,
    pods,
    raw,
)

log = logging.getLogger(__name__)


class PodObserver(Protocol):
    """What observes waiting pods beside the ledger."""

    def pod_waiting(self, pod: raw.Pod) -> None:
        """Observe the present state of a waiting pod."""

    def pod_left(self, uid: str) -> None:
        """Forget a pod that does not wait any more."""


class FaultLog:
    """Logs what is wrong with objects: of each once, until it has another fault or none."""

    def __init__(self, logger: logging.Logger, message: str, extra: Callable[[str], dict[str, Any]]) -> None:
        """Log this message, with the name of the object and its fault."""
        self._logger = logger
        self._message = message
        self._extra = extra
        self._faults: dict[str, str] = {}

    def record(self, key: str, fault: str, name: str = "") -> None:
        """Record the fault of an object; without a fault, forget what was wrong with it."""
        if not fault:
            self._faults.pop(key, None)
        elif self._faults.get(key) != fault:
            self._logger.warning(self._message, name or key, fault, extra=self._extra(name or key))
            self._faults[key] = fault


class FailClosedSink:
    """A sink for which an object that cannot be decoded is as good as deleted."""

    def deleted(self, meta: wire.Meta) -> None:
        """Record that an object is gone."""

    def undecodable(self, thing: watch.Undecodable) -> None:
        """Fail closed: what cannot be decoded does not count."""
        self.deleted(thing.metadata)

    def undecodable_deleted(self, meta: wire.Meta) -> None:
        """Record that an object is gone that could not be decoded."""
        self.deleted(meta)


class PodSink:
    """Pods: those that wait and those that hold devices.

    Edits of pods on nodes that take long to be read are paced: whoever edits them all the time would have
    others wait.
    """

    def __init__(
        self,
        ledger: Ledger,
        observer: PodObserver,
        logger: logging.Logger = log,
        schedulers: Collection[str] = pods.DEFAULT_SCHEDULERS,
    ) -> None:
        self._ledger = ledger
        self._observer = observer
        self._schedulers = schedulers
        self._faults = FaultLog(logger, "%s withholds devices of its node: %s", logs.pod)
        self._restored = False  # Until a list has been read whole after a restore.
        self.admissions = rejected_pods.Admissions()
        self.budget = pod_memory.WaitingPodMemory()
        self._allowance = pod_memory.BoundPodMemory()
        self._long = set[str]()  # The uids of pods on nodes that took long to be read.

    def upserted(self, thing: raw.Pod) -> None:
        """Apply a pod's new state, now or soon."""
        uid, namespace = thing.metadata.uid, thing.metadata.namespace
        if uid not in self._long:
            self._read(thing)
        elif not self._may_be_late(thing):
            self._forget_late(uid)
            self._read(thing)
        else:
            self._ledger.late_pods.remove(uid)
            place = store.key_of(thing.metadata)
            self._ledger.paced_calls.call(
                paced_calls.pod(uid),
                lambda: self._read(thing),
                account=paced_calls.long_pods(namespace),
                pause=0.0,
                later=functools.partial(self._ledger.late_pods.add, namespace, uid, place),
            )

    def _may_be_late(self, pod: raw.Pod) -> bool:
        """Whether a pod that is on a node has only been edited: it keeps its cards, and what it takes.

        A pod that waits is bound as what it was read as, and in that revision, so that is never late.
        """
        uid, hold = pod.metadata.uid, self._ledger.inventory.hold(pod.metadata.uid)
        is_certain = self._ledger.state(uid) is State.CONFIRMED and not self._restored
        if hold is None or not is_certain or pod.status.phase in pods.FINISHED:
            return False
        if pod.status.is_admitted and uid in self._ledger.unadmitted_pods:
            return False
        known = self._ledger.unadmitted_pods.full_hold(hold)
        return (known.node, known.amounts) == (pod.spec.node_name, pods.amounts_of_bound(pod))

    def _read(self, thing: raw.Pod) -> None:
        found = pods.classify(pods.adopt(thing, self._schedulers))
        is_long = isinstance(found, pods.BoundPod) and found.byte_size >= pod_memory.LONG_BYTES
        (self._long.add if is_long else self._long.discard)(thing.metadata.uid)
        match found:
            case pods.WaitingPod(pod_info, gated, weight):
                pod_info = self.budget.admit(pod_info, weight)
                self._observer.pod_waiting(thing)
                self._ledger.pod_waiting(pod_info, gated=gated, version=thing.metadata.resource_version)
            case pods.BoundPod() as bound:
                self.admissions.pod_seen(thing)
                self._bound(bound)
            case pods.IgnoredPod(uid):
                self._over(uid)

    def _bound(self, pod: pods.BoundPod) -> None:
        hold, teaches, nameless, node_selection = pod.hold, pod.sample, pod.nameless, pod.unadmitted_selection
        self.budget.release(hold.uid)
        self._observer.pod_left(hold.uid)
        if not self._allowance.charge(hold.uid, hold.namespace, pod.byte_size):
            # A pod that is known already stays charged, whatever its weight is now.
            new = self._ledger.state(hold.uid) is State.FREE or hold.uid in self._ledger.unadmitted_pods
            hold, nameless = pod_memory.trimmed(hold, nameless, admitted=node_selection is None or not new)
            if node_selection is not None and new:
                hold, teaches, node_selection = pod_memory.bare_hold(hold), None, facts.NOWHERE
        self._forget_if_bound_anew(hold)
        self._ledger.pod_bound(hold, teaches, nameless=nameless, requirements=node_selection)
        # A pod has no device of a node that cannot have given it one.
        if pod.fault and (held := self._ledger.inventory.hold(hold.uid)) and held.devices:
            self._faults.record(hold.uid, pod.fault, hold.title)

    def _forget_if_bound_anew(self, hold: holds.Hold) -> None:
        """Forget what a pod held before a restore: no pod changes its node, nor its cards otherwise."""
        known = self._ledger.inventory.hold(hold.uid)
        if known is None or self._ledger.state(hold.uid) is not State.CONFIRMED:
            return
        if known.node != hold.node or (self._restored and known.shares != hold.shares):
            self._ledger.pod_over(hold.uid)

    def deleted(self, meta: wire.Meta) -> None:
        """Record that a pod is gone."""
        self._over(meta.uid)

    def undecodable(self, thing: watch.Undecodable) -> None:
        """Fail closed on a pod that cannot be decoded: it keeps what it held, or withholds its whole node."""
        uid = thing.metadata.uid
        hold = pods.unreadable_hold(thing)
        known = self._ledger.state(uid) is State.CONFIRMED and uid not in self._ledger.unadmitted_pods
        self._allowance.release(uid)
        self._forget_late(uid)
        if hold is not None and not known:
            self.budget.release(uid)
            self._observer.pod_left(uid)
            self._faults.record(uid, thing.detail, hold.title)
            self._ledger.pod_bound(hold, nameless=allocation_recovery.UnreadableAllocation())

    undecodable_deleted = deleted

    def restored(self) -> None:
        """Believe records as they are now: etcd was restored, so a pod may have been bound anew."""
        self._restored = True

    def listed(self, _version: str) -> None:
        """Hold on to the records again: since etcd was restored, all have been read once."""
        self._restored = False

    def _over(self, uid: str) -> None:
        self.admissions.pod_gone(uid)
        self.budget.release(uid)
        self._allowance.release(uid)
        self._long.discard(uid)
        self._forget_late(uid)
        self._faults.record(uid, "")
        self._observer.pod_left(uid)
        self._ledger.pod_over(uid)

    def _forget_late(self, uid: str) -> None:
        """Read no earlier state of a pod any more."""
        self._ledger.paced_calls.forget(paced_calls.pod(uid))
        self._ledger.late_pods.remove(uid)


class GpuPodSink(FailClosedSink):
    """GpuPods: they name the devices of pods whose own allocation cannot be read.

    They also tell which cards a kubelet gave a pod in place of those that it was promised.

    Those that come too fast for their agent's part of the time are read again later (`late_objects`).
    """

    def __init__(self, ledger: Ledger, logger: logging.Logger = log) -> None:
        self._ledger = ledger
        self._faults = FaultLog(logger, "GpuPod %s names nothing: %s", logs.pod)
        self.newest = kopf_lag.Newest()
        self.store = gpupod_store.GpuPodStore()  # Kopf fills it, but may miss a delete.

    def upserted(self, thing: wire.GpuPod) -> None:
        """Apply what an agent wrote, now or soon."""
        title, node = gpupods.title(thing.metadata), thing.spec.node
        self.newest.put(title, thing.metadata.uid)
        self._ledger.late_gpupods.remove(title)
        self._ledger.paced_calls.call(
            paced_calls.gpupod(title),
            lambda: self._read(title, thing),
            account=paced_calls.agent(node),
            pause=0.0,
            later=functools.partial(self._ledger.late_gpupods.add, node, title, store.key_of(thing.metadata)),
        )

    def _read(self, title: str, thing: wire.GpuPod) -> None:
        named = gpupods.read(thing)
        if isinstance(named, allocation_recovery.NamedDevices):
            self._faults.record(title, "")
            self._ledger.gpupod_seen(named)
        else:
            self._faults.record(title, named)
            self._ledger.gpupod_gone(title)

    def deleted(self, meta: wire.Meta) -> None:
        """Record that a GpuPod is gone."""
        title = gpupods.title(meta)
        self._ledger.paced_calls.forget(paced_calls.gpupod(title))
        self._ledger.late_gpupods.remove(title)
        self.newest.drop(title)
        self.store.drop_uid(title, meta.uid)
        self._faults.record(title, "")
        self._ledger.gpupod_gone(title)


class NodeSink(FailClosedSink):
    """Nodes: their resources, labels and taints; one that cannot be decoded takes no pod.

    An agent may label its Node, with a thousand labels many times in a second: that is paced as a Device is.
    """

    def __init__(self, ledger: Ledger, logger: logging.Logger = log) -> None:
        self._paced = ledger.paced_calls
        self._nodes = raised_amounts.RaisedAmounts(ledger)
        self._faults = FaultLog(logger, "node %s takes no pod: %s", logs.node)

    def upserted(self, thing: raw.Node) -> None:
        """Apply a node's new state; one beyond the limits of size takes no pod."""
        name = thing.metadata.name
        self._paced.call(
            paced_calls.node(name), lambda: self._read(thing), account=paced_calls.agent(name), pause=0.0
        )

    def _read(self, thing: raw.Node) -> None:
        fault = nodes.excess(thing)
        self._faults.record(thing.metadata.name, fault)
        if fault:
            self._nodes.node_gone(thing.metadata.name)
        else:
            self._nodes.node_seen(nodes.read(thing))

    def deleted(self, meta: wire.Meta) -> None:
        """Record that a node is gone."""
        self._paced.forget(paced_calls.node(meta.name))
        self._faults.record(meta.name, "")
        self._nodes.node_gone(meta.name)


class DeviceSink(FailClosedSink):
    """Devices: the cards, and whether their agent was silent before.

    No pod gets a card of a Device that cannot be decoded. One that changes all the time is read less often if
    that takes long (`paced_calls`): all pods would wait meanwhile.
    """

    def __init__(self, ledger: Ledger, watchdog: Watchdog, logger: logging.Logger = log) -> None:
        self._ledger = ledger
        self._watchdog = watchdog
        self._faults = FaultLog(logger, "Device %s gets no pod: it has %s", logs.node)
        self._cache = device_cache.DeviceCache()
        self.uids: dict[str, str] = {}  # Of the Devices, by name.

    def upserted(self, thing: wire.Device) -> None:
        """Record what an agent published; no pod gets a card of a Device beyond the limits of size."""
        name = thing.metadata.name
        self.uids[name] = thing.metadata.uid
        self._ledger.paced_calls.call(
            paced_calls.device(name), lambda: self._read(thing), account=paced_calls.agent(name), pause=0.0
        )

    def _read(self, thing: wire.Device) -> None:
        device, fault = self._cache.read(thing)
        self._faults.record(thing.metadata.name, fault)
        self._ledger.device_seen(device, devices.read_record(thing.status))
        self._watchdog.device_seen(thing.metadata.name, found_silent=devices.found_silent(thing))

    def counts_last(self, thing: wire.Device) -> bool:
        """Whether a Device is passed on after all others of a list.

        One that is known and publishes further uuids is: it must not come before a new one that owns them.
        """
        if thing.metadata.name not in self.uids:
            return False
        known = self._ledger.inventory.uuid_ownership.of(thing.metadata.name)
        gpus = (card for card in thing.spec.devices if card.type == DeviceType.GPU)
        return not known.issuperset(uuid for card in gpus for uuid in devices.uuids_of(card))

    def deleted(self, meta: wire.Meta) -> None:
        """Forget a Device that was deleted."""
        self.uids.pop(meta.name, None)
        self._ledger.paced_calls.forget(paced_calls.device(meta.name))
        self._cache.forget(meta.name)
        self._faults.record(meta.name, "")
        self._watchdog.device_gone(meta.name)
        self._ledger.device_gone(meta.name)


class LeaseSink:
    """Leases of the agents: their heartbeats, and the load of their cards."""

    def __init__(self, watchdog: Watchdog, logger: logging.Logger = log) -> None:
        self._watchdog = watchdog
        self._faults = FaultLog(logger, "the load of the cards of %s does not count: %s", logs.node)

    def restored(self) -> None:
        """Count no Lease of the next list as a heartbeat: after a restore, old Leases come back."""
        self._watchdog.restored()

    def upserted(self, thing: lease.Lease) -> None:
        """Record a renewal, and what was measured if that is new."""
        node, text = thing.metadata.name, measured_load.text_in(thing)
        loads = self._watchdog.loads
        version, renewal = thing.metadata.resource_version, thing.spec.renew_time or ""
        if self._watchdog.lease_seen(node, renewal, version) and not loads.is_known(node, text):
            measured = measured_load.read(text)
            self._faults.record(node, measured if isinstance(measured, str) else "")
            loads.report(node, text, {} if isinstance(measured, str) else measured)

    def deleted(self, meta: wire.Meta) -> None:
        """Record that a Lease is gone."""
        self._faults.record(meta.name, "")
        self._watchdog.lease_gone(meta.name)
