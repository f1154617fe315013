"""The ledger: the state that events feed. Which pods wait, what pods hold, what the nodes have.

Each pod's hold goes from free to assumed, confirmed and free again, as `hold_states` defines it. The state
is derivable: a ledger that is rebuilt from the pods, nodes, Devices and GpuPods of the API is the same.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable

from berth_operator.engine import (
    assumed_pods,
    change_log,
    current_holds,
    given_otherwise,
    hold_states,
    late_objects,
    paced_calls,
    paced_offers,
    pod_changes,
    pod_revisions,
    ports,
    unadmitted_pods,
    unreadable_pods,
    volume_events,
)
from berth_operator.engine.hold_states import IllegalStep, State, Step
from berth_operator.scheduling import (
    allocation_recovery,
    card_loads,
    cycle,
    decisions,
    holds,
    node_offers,
    queued_pods,
    uuid_records,
    workload,
)
from berth_operator.scheduling.backlog import Backlog
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.devices.device_facts import Device
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search


class Ledger:
    """All that the operator knows of the cluster, kept up to date by events."""

    def __init__(
        self, clock: ports.Clock, logger: logging.Logger = unreadable_pods.log, *, day: ports.Clock = float
    ) -> None:
        self.inventory = Inventory(clock, day)
        self.search = Search(self.inventory)
        self.loads = card_loads.CardLoads(self.inventory)
        self.backlog = Backlog()
        self.policy = Policy()
        self.wake = asyncio.Event()
        self.paced_calls = paced = paced_calls.PacedCalls(clock)
        self.volumes = volume_events.VolumeEvents(self.inventory.volumes, self.backlog, self.wake, paced)
        self.changes = change_log.ChangeLog()
        self.pod_changes = pod_changes.PodChanges(self.inventory, self.backlog, self.wake, paced)
        self._clock = clock
        self._states: dict[str, State] = {}
        self.assumed_pods = assumed_pods.AssumedPods(clock)
        self.gated: dict[str, queued_pods.PodInfo] = {}  # Pods with scheduling gates.
        self.revisions = pod_revisions.PodRevisions()  # Of pods that wait or whose bind is under way.
        self.waiting_since: dict[str, float] = {}  # With their present requests, by uid.
        self.unreadable_pods = unreadable_pods.UnreadablePods(logger)  # Whose own record cannot be read.
        self.given_otherwise = given_otherwise.GivenOtherwise(logger)
        self.late_gpupods = late_objects.LateObjects()  # By title.
        self.late_pods = late_objects.LateObjects()  # By uid.
        self.suspects = 0  # Agents whose silence proves nothing, as most are silent.
        self.offers = paced_offers.PacedOffers(self.backlog, self._offer_judge, paced)
        self.unadmitted_pods = unadmitted_pods.UnadmittedPods(self.inventory.ports)

    def __repr__(self) -> str:
        known = f"{len(self._states) - len(self.assumed_pods)} confirmed, {len(self.assumed_pods)} assumed"
        return f"<Ledger: {self.inventory!r}, {self.backlog!r}, {known}>"

    def state(self, uid: str) -> State:
        """Return the state of a pod's hold."""
        return self._states.get(uid, State.FREE)

    def unbound(self, uid: str) -> tuple[queued_pods.PodInfo, int] | None:
        """Return a pod that waits or whose bind is under way, and how often it was tried before."""
        if (assumed := self.assumed_pods.get(uid)) is not None:
            return assumed.pod_info, assumed.attempts
        pod_info = self.backlog.get(uid)
        return (pod_info, self.backlog.attempts(uid)) if pod_info is not None else None

    # ------------------------------------------------------------ the life of a hold

    def assume(self, decision: decisions.Bind) -> queued_pods.PodInfo:
        """Charge a placement before its Binding is sent."""
        self._step(decision.uid, Step.ASSUME)
        attempts = self.backlog.attempts(decision.uid)
        if (pod_info := self.backlog.pod_placed(decision.uid)) is None:
            del self._states[decision.uid]
            raise IllegalStep(f"{decision.uid} does not wait")
        self.assumed_pods.add(pod_info, attempts, decision.placement)
        self._charge(cycle.hold_for(pod_info, decision.placement), assume_volumes=True)
        return pod_info

    def forget(self, uid: str, *, refused: bool = True) -> None:
        """Undo an assumed hold: the pod surely is not bound by it, and waits again.

        A pod whose bind was refused goes into backoff; one whose bind was not processed is next.
        """
        self._step(uid, Step.FORGET)
        one = self.assumed_pods.pop(uid)
        self._release(uid)
        if refused:
            self.backlog.put_back_refused(one.pod_info, attempts=one.attempts, now=self._clock())
        else:
            self.backlog.put_back_unjudged(one.pod_info, attempts=one.attempts)
        self.wake.set()

    def _node_changed(self, node: str, *, devices_alone: bool = False) -> None:
        """Record that a node has changed: binds to it that were decided before are stale."""
        self.changes.record(node)
        if (info := self.inventory.node(node)) is not None:
            self.assumed_pods.mark_stale(info.holds, devices_alone=devices_alone)

    def _step(self, uid: str, step: Step) -> None:
        self._states[uid] = hold_states.after(self.state(uid), step, uid)
        if self._states[uid] is State.FREE:
            del self._states[uid]

    def _charge(self, hold: holds.Hold, *, assume_volumes: bool = False) -> None:
        self.inventory.charge(hold, assume_volumes=assume_volumes)
        self.changes.record(hold.node)
        self.devices_changed(self.inventory.take_affected())
        self.pod_changes.pod_changed(None, hold)

    def _release(self, uid: str) -> holds.Hold:
        held = self.inventory.hold(uid)
        before = node_offers.left(self.inventory, held.node) if held and not held.devices else None
        hold = self.inventory.release(uid)
        self.changes.record(hold.node)
        self.devices_changed(self.inventory.take_affected())
        if hold.devices or hold.amounts:
            self._offer(hold.node, ClusterEvent.CAPACITY_FREED, before)
        self.pod_changes.pod_changed(hold, None)
        return hold

    def _offer(self, node: str, change: ClusterEvent, before: node_offers.Left | None = None) -> None:
        """Wake the pods that may fit on a changed node; with `before` only its resources have changed."""
        self.offers.offer(node, change, before)
        self.wake.set()

    def _offer_judge(self, node: str, before: node_offers.Left | None) -> paced_offers.Able:
        return node_offers.judge(self.inventory, node, before, policy=self.policy)

    # ------------------------------------------------------------ events of pods

    def pod_waiting(self, pod_info: queued_pods.PodInfo, *, gated: bool, version: str = "") -> None:
        """Record that a pod waits; while its bind is under way only its request is compared."""
        uid = pod_info.uid
        if self.state(uid) is State.CONFIRMED:
            # A pod never loses its node, so the cluster must have been restored from a backup.
            self.pod_over(uid)
        self.revisions[uid] = pod_revisions.Revision.of(version)
        teaches = None if gated else workload.sample(pod_info.request, pod_info.demand)
        self.inventory.workload.see(uid, teaches)
        if self.state(uid) is State.ASSUMED:
            self.assumed_pods.update_request(pod_info)
            return
        if gated:
            self._forget_waiting(uid)
            self.gated[uid] = pod_info
        else:
            self.gated.pop(uid, None)
            if self.backlog.get(uid) != pod_info:
                self.waiting_since[uid] = self._clock()
            self.backlog.push(pod_info)
            self.wake.set()

    def _forget_waiting(self, uid: str) -> None:
        self.backlog.remove(uid)
        self.gated.pop(uid, None)
        self.waiting_since.pop(uid, None)

    def pod_bound(
        self,
        hold: holds.Hold,
        sample: workload.Sample | None = None,
        *,
        nameless: allocation_recovery.UnreadableAllocation | None = None,
        requirements: facts.NodeSelection | None = None,
    ) -> None:
        """Record a pod on a node and what it holds; `sample` is its request, for the workload model.

        `nameless` is given if its own record cannot be read, so that a GpuPod may name its devices;
        `requirements` as long as its kubelet may refuse it because the node does not meet them.
        """
        uid, known = hold.uid, self.inventory.hold(hold.uid)
        self.inventory.workload.see(uid, sample)
        certain = self.state(uid) is State.CONFIRMED and uid not in self.unadmitted_pods
        # Its own record has named these devices; what a GpuPod names may change.
        keeps = known is not None and bool(known.shares) and self._is_readable(uid)
        if known is not None and keeps:
            # A pod keeps the cards that it was bound with, even if its record is edited.
            hold = hold.with_devices_of(known)
            requirements = None
        elif nameless is not None:
            self.unreadable_pods.add(hold, nameless)
        else:
            self.unreadable_pods.remove(uid)
            self.unreadable_pods.remove_gpupods_of(uid)
        hold = self.given_otherwise.marked(hold) if nameless is None or keeps else hold
        if requirements is not None:
            self.unadmitted_pods.add(hold, requirements, known)
        elif self.unadmitted_pods.remove(uid):
            self.changes.record(hold.node)  # What it asks for counts from now on for what the node lists.
        if requirements is not None or nameless is not None:
            (hold,) = self._current_holds(hold.node, [hold])
        self._confirm(hold, known)
        before, after = known if certain else None, hold if requirements is None else None
        for node in self.unadmitted_pods.nodes_concerned(before, after):
            self._recharge_unadmitted(node)

    def _confirm(self, hold: holds.Hold, known: holds.Hold | None) -> None:
        """Charge what a pod on a node holds, in place of what was charged of it before."""
        if known is not None and known == hold:
            if self.inventory.refresh(hold):
                self.pod_changes.pod_changed(known, hold)
            if self.state(hold.uid) is State.CONFIRMED:
                return
        self._step(hold.uid, Step.CONFIRM)
        self.revisions.remove(hold.uid)
        self._forget_waiting(hold.uid)
        self.assumed_pods.pop(hold.uid, None)
        if known == hold:
            return
        if known is not None:
            self._release(hold.uid)
        self._charge(hold)
        if not self.unadmitted_pods.is_excluded(hold.uid):
            self._node_changed(hold.node)

    def _is_readable(self, uid: str) -> bool:
        return self.state(uid) is State.CONFIRMED and uid not in self.unreadable_pods

    def pod_over(self, uid: str) -> None:
        """Forget a pod that is deleted or finished, and release what it holds."""
        self.inventory.workload.forget(uid)
        self.unreadable_pods.remove(uid)
        self.given_otherwise.pod_over(uid)
        certain = not self.unadmitted_pods.remove(uid)
        self.revisions.remove(uid)
        self._forget_waiting(uid)
        if self.state(uid) is not State.FREE:
            self._step(uid, Step.RELEASE)
            self.assumed_pods.pop(uid, None)
            node = self._release(uid).node
            if certain:
                self._recharge_unadmitted(node)

    # ------------------------------------------------------------ events of GpuPods

    def gpupod_seen(self, named: allocation_recovery.NamedDevices) -> None:
        """Record a new or changed GpuPod, which counts if its pod's own record cannot be read."""
        known, needed = self.unreadable_pods, not self._is_readable(named.uid)
        self._recharge(known.gpupod_seen(named) if needed else known.gpupod_gone(named.title))
        self._remark(self.given_otherwise.gpupod_seen(named))

    def gpupod_gone(self, title: str) -> None:
        """Forget a GpuPod that is deleted, or cannot be read any more."""
        self._recharge(self.unreadable_pods.gpupod_gone(title))
        self._remark(self.given_otherwise.gpupod_gone(title))

    def _remark(self, uids: Iterable[str]) -> None:
        """Charge what pods hold whose kubelet gave them other cards than promised, if that has changed."""
        for uid in uids:
            known = self.inventory.hold(uid)
            if known is not None and self._is_readable(uid):
                self._charge_instead(known.node, [known], [self.given_otherwise.marked(known)])

    def _recharge(self, uids: Iterable[str]) -> None:
        """Charge what unreadable and unadmitted pods hold now, as far as that has changed."""
        for node, known in current_holds.by_node(self.inventory, uids).items():
            self._charge_instead(node, known, self._current_holds(node, known))

    def _charge_instead(self, node: str, known: Iterable[holds.Hold], current: Iterable[holds.Hold]) -> None:
        """Charge what pods of a node hold now in place of what they held: one change, however many pods."""
        changed = [(one, hold) for one, hold in zip(known, current, strict=True) if hold != one]
        if not changed or (info := self.inventory.node(node)) is None:
            return
        self.inventory.charge_instead(info, [hold for _, hold in changed])
        self.devices_changed(self.inventory.take_affected())
        if any(one.devices or one.amounts for one, _ in changed):
            # In turn, for an agent can have this happen again and again.
            self.offers.offer_in_turn(node, ClusterEvent.CAPACITY_FREED)
            self.wake.set()
        for one, hold in changed:
            self.pod_changes.pod_charged_otherwise(one, hold)
        self._node_changed(node)

    def _recharge_node(self, name: str, served: Collection[str] | None = None) -> None:
        """Charge the unadmitted pods of a node, and the unreadable ones unless the same is `served` still."""
        if (info := self.inventory.node(name)) is not None and (served is None or info.plugged != served):
            self._recharge(current_holds.concerned(info, self.unadmitted_pods, self.unreadable_pods))
        self._recharge_unadmitted(name)

    def _recharge_unadmitted(self, name: str) -> None:
        """Charge those unadmitted pods of a node that could be admitted, and only those, now or soon."""
        pods = self.unadmitted_pods
        self.paced_calls.call(
            paced_calls.charges_of_unadmitted(name),
            lambda: self._recharge(pods.changed_uids(name, self.inventory.node(name), self.assumed_pods)),
            pause=0.0,
        )

    def _current_holds(self, node: str, known: Iterable[holds.Hold]) -> list[holds.Hold]:
        """Return what bound pods of a node are charged, given its present state."""
        pods = self.unadmitted_pods, self.unreadable_pods
        return current_holds.of_node(self.inventory.node(node), known, *pods, self.assumed_pods)

    # ------------------------------------------------------------ events of nodes

    def node_seen(self, node: facts.Node) -> None:
        """Record a new or changed node."""
        if (info := self.inventory.node(node.name)) is None or info.node != node:
            better = node_offers.better_node(before := info.node if info is not None else None, node)
            served = info.plugged if info is not None else None
            self.inventory.put_node(node)
            self._node_changed(node.name)
            self.pod_changes.node_changed(before, node)
            if better:
                self._offer(node.name, ClusterEvent.NODE_CHANGED)
            self._recharge_node(node.name, served)

    def node_gone(self, name: str) -> None:
        """Forget a node."""
        before = self.inventory.drop_node(name)
        self._node_changed(name)
        self.pod_changes.node_changed(before, None)
        self._recharge_node(name)

    def device_seen(self, device: Device, record: uuid_records.Record = uuid_records.NOTHING) -> None:
        """Record a new or changed Device; its recorded uuids count until all Devices were read."""
        info = self.inventory.node(device.node)
        changed = info is None or info.published != device
        if changed or not self.inventory.uuid_ownership.ordered:
            served = current_holds.plugged_as_before(info, device)
            affected = self.inventory.put_device(device, record)
            self.devices_changed(affected if changed else affected - {device.node})
            self._recharge_node(device.node, served)

    def device_gone(self, node: str) -> None:
        """Forget a Device and its cards."""
        self.devices_changed(self.inventory.drop_device(node))
        self._recharge_node(node)

    def devices_changed(self, affected: Collection[str]) -> None:
        """Act on changed cards of some nodes; nodes whose own cards are the same are only recorded."""
        self.changes.record_all(affected)
        for name, before in self.inventory.take_changed().items():
            self._node_changed(name, devices_alone=True)
            self.loads.write(name)
            info = self.inventory.node(name)
            if info is not None and node_offers.better_cards(before, info.cards):
                self._offer(name, ClusterEvent.DEVICE_CHANGED)

    def all_devices_read(self) -> None:
        """Record that all Devices have been read once: uuids published from now on come later."""
        self.inventory.uuid_ownership.ordered = True

    def agent_silent(self, node: str, *, silent: bool, unknown: bool = False) -> None:
        """Record that an agent is silent, or not any more, and whether its silence is not to be reported."""
        info = self.inventory.node(node)
        if info is None or (info.agent_not_ready, info.unknown) == (silent, unknown):
            return
        was_silent, info.unknown = info.agent_not_ready, unknown
        self.inventory.set_agent_not_ready(node, silent)
        self._node_changed(node, devices_alone=True)
        if was_silent and not silent:
            self._offer(node, ClusterEvent.DEVICE_CHANGED)

    def node_quarantined(self, node: str, why: str, namespace: str = "") -> None:
        """Record why a node gets no pods with devices, or none of a namespace; empty when that is over."""
        if self.inventory.set_quarantine(node, why, namespace):
            self._node_changed(node, devices_alone=True)
            if namespace or not why:
                self._offer(node, ClusterEvent.DEVICE_CHANGED)

    def policy_seen(self, policy: Policy) -> None:
        """Record the policy in force."""
        if policy != self.policy:
            otherwise = self.inventory.set_policy(policy) or policy.oversale != self.policy.oversale
            # What two sources measured is never mixed.
            freed = policy.prometheus != self.policy.prometheus and self.loads.forget_all()
            self.policy = policy
            self._recharge(self.unreadable_pods.believe(policy.pod_records_from))
            self.backlog.set_label_limit(policy.label_priority)
            some = [ClusterEvent.POLICY_CHANGED, *([ClusterEvent.LOAD_CHANGED] if freed else [])]
            self.backlog.cluster_event(ClusterEvent if otherwise else some)
            self.wake.set()
