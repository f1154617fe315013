"""The operator's own ledger, fed from manifests instead of watches, with a clock that the caller sets.

This does with objects what `kube.feeds` does with events. The one difference is how silent agents
are found: no time passes between two manifests, so an agent with a Lease counts as alive, unless
the Lease is older than the newest one by more than the grace period. Without any Leases, all agents
count as alive except those that the operator itself had found silent. Likewise the load of cards that a
Lease tells counts unless the Lease is older than the newest one by more than that may be.
"""

import dataclasses
import datetime as dt

from berth_crds import names
from berth_crds.vocabulary import Strategy
from berth_operator.engine import node_capacity, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import allocation_recovery, card_loads, cycle, decisions
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy
from berth_operator.simulation import defaults, kinds, manifests, storage
from berth_operator.translate import devices, gpupods, measured_load, nodes, policies, raw


class Cluster:
    """A simulated cluster and its time."""

    def __init__(self, strategy: Strategy | None = None, *, clock: ports.Clock = lambda: 0.0) -> None:
        self.now = 0.0
        self.clock = clock  # Of what is computed: it limits explanations.
        self.ledger = Ledger(lambda: self.now, day=lambda: self.now)
        self.pending: dict[str, raw.Pod] = {}  # By uid: the pods that wait, as they were read.
        self._strategy = strategy
        self._renewals: dict[str, dt.datetime | None] = {}
        self._loads: dict[str, card_loads.Loads] = {}
        self._reported_silent: dict[str, bool] = {}
        self._agents_current = True
        self.inventory.volumes.all_read()
        self._set_policy(policies.DEFAULT)

    @property
    def inventory(self) -> Inventory:
        """The inventory that decisions are made on."""
        return self.ledger.inventory

    def decide(self) -> list[decisions.Decision]:
        """Return the decisions for the pods whose turn it is."""
        self._update_agents()
        self.ledger.paced_calls.make_all_delayed()
        return cycle.simulate(self.ledger.search, self.ledger.backlog, self.now, self.ledger.policy)

    # ------------------------------------------------------------ objects

    def apply(self, manifest: manifests.Manifest) -> None:
        """Apply an object that is not a pod."""
        match manifest.kind:
            case "Node":
                self._apply_node(defaults.node(manifest))
            case "Namespace":
                self.ledger.pod_changes.namespace_seen(manifest.name, manifest.value.metadata.labels)
            case "Device":
                self.ledger.device_seen(
                    devices.read(manifest.value), devices.read_record(manifest.value.status)
                )
                self._reported_silent[manifest.name] = devices.found_silent(manifest.value)
            case "GpuPod":
                self._apply_gpupod(manifest)
            case "Lease" if manifest.namespace == names.NODES_NAMESPACE:
                self._renewals[manifest.name] = kinds.time_of(manifest.value.spec.renew_time or "")
                measured = measured_load.read(measured_load.text_in(manifest.value))
                self._loads[manifest.name] = {} if isinstance(measured, str) else measured
            case "PlacementPolicy" if manifest.name == names.DEFAULT_POLICY:
                policy = policies.read(manifest.value)
                assert isinstance(policy, Policy), "read when it was parsed"  # noqa: S101
                self._set_policy(policy)
            case _:
                storage.apply(self.inventory.volumes, manifest)
        self._agents_current = False

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Record that an object that is not a pod is gone."""
        match kind:
            case "Node":
                self.ledger.node_gone(name)
            case "Namespace":
                self.ledger.pod_changes.namespace_seen(name, None)
            case "Device":
                self._reported_silent.pop(name, None)
                self.ledger.device_gone(name)
            case "GpuPod":
                self.ledger.gpupod_gone(f"{namespace}/{name}")
            case "Lease" if namespace == names.NODES_NAMESPACE:
                self._renewals.pop(name, None)
                self._loads.pop(name, None)
                self.ledger.loads.forget(name)
            case "PlacementPolicy" if name == names.DEFAULT_POLICY:
                self._set_policy(policies.DEFAULT)
            case _:
                storage.remove(self.inventory.volumes, kind, namespace, name)
        self._agents_current = False

    def _apply_node(self, node: raw.Node) -> None:
        if nodes.excess(node):
            self.ledger.node_gone(node.metadata.name)
        else:
            self.ledger.node_seen(nodes.read(node))

    def _apply_gpupod(self, manifest: manifests.Manifest) -> None:
        named = gpupods.read(manifest.value)
        if isinstance(named, allocation_recovery.NamedDevices):
            # A GpuPod that was written by hand may lack its namespace.
            self.ledger.gpupod_seen(dataclasses.replace(named, title=manifest.title))
        else:
            self.ledger.gpupod_gone(manifest.title)

    def _set_policy(self, policy: Policy) -> None:
        if self._strategy is not None:
            policy = dataclasses.replace(policy, strategy=self._strategy)
        self.ledger.policy_seen(policy)

    # ------------------------------------------------------------ silent agents

    def _update_agents(self) -> None:
        """Record in the ledger which agents are silent, if anything changed."""
        if self._agents_current:
            return
        self._agents_current = True
        if self.ledger.policy.oversale:
            self._list_oversold_core()
        known = [renewed for renewed in self._renewals.values() if renewed is not None]
        self._update_loads(max(known, default=None))
        grace = dt.timedelta(seconds=self.ledger.policy.grace_seconds)
        oldest = max(known) - grace if known else None
        for node, reported in self._reported_silent.items():
            renewed = self._renewals.get(node)
            missing = bool(self._renewals) and node not in self._renewals
            late = renewed is not None and oldest is not None and renewed < oldest
            self.ledger.agent_silent(node, silent=reported or missing or late)

    def _list_oversold_core(self) -> None:
        """Have nodes list as much core as the operator would write there, where they list any."""
        policy = self.ledger.policy
        for info in list(self.inventory.each()):
            wanted = node_capacity.of_node(info, policy.node_names, policy.oversale)
            if info.node is None or wanted is None:
                continue
            listed = tuple(
                (name, max(amount, wanted.get(name, 0)) if name in node_capacity.CORE_NAMES else amount)
                for name, amount in info.node.allocatable
            )
            self.ledger.node_seen(dataclasses.replace(info.node, allocatable=listed))

    def _update_loads(self, newest: dt.datetime | None) -> None:
        """Record in the ledger which loads of cards count; those of Prometheus are in no manifest."""
        if self.ledger.policy.prometheus is not None:
            return
        age = dt.timedelta(seconds=self.ledger.policy.load_seconds)
        for node, loads in self._loads.items():
            renewed = self._renewals.get(node)
            is_old = renewed is not None and newest is not None and renewed < newest - age
            self.ledger.loads.report(node, {} if is_old else loads, self.now)
