"""The operator's own ledger, fed from manifests instead of from watches, under a clock that is set by hand.

What `kube.feeds` does with events is done here with objects. The one difference is how
the life of agents is told: no time passes between two manifests, so a Lease that is there
is a sign of life, unless it is older than the newest one by more than the grace period.
Where no Leases are given, all agents count as alive but those of which the operator
itself had written that they are not.
"""

import dataclasses
import datetime as dt

from berth_crds import names, vocabulary, wire
from berth_crds.client import lease
from berth_crds.vocabulary import Strategy
from berth_operator.engine import ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import allocation_recovery, cycle, decisions
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from berth_operator.simulation import defaults, manifests, moments
from berth_operator.translate import devices, gpupods, nodes, policies, raw


class Cluster:
    """A cluster on paper, and the time there."""

    def __init__(self, strategy: Strategy | None = None, *, clock: ports.Clock = lambda: 0.0) -> None:
        self.now = 0.0
        self.clock = clock  # Of the real world, for what must not take too long.
        self.ledger = Ledger(lambda: self.now, day=lambda: self.now)
        self.pending: dict[str, raw.Pod] = {}  # By uid: the pods that wait, as they were read.
        self._strategy = strategy
        self._renewals: dict[str, dt.datetime | None] = {}
        self._condemned: dict[str, bool] = {}
        self._judged = True
        self._take_rules(policies.BUILT_IN)

    @property
    def search(self) -> Search:
        """Who finds places on it."""
        return self.ledger.search

    @property
    def inventory(self) -> Inventory:
        """What decisions are made on."""
        return self.ledger.inventory

    def decide(self) -> list[decisions.Decision]:
        """Decide for the pods whose turn it is."""
        self._judge()
        return cycle.decide(self.ledger.search, self.ledger.backlog, self.now, self.ledger.policy)

    # ------------------------------------------------------------ objects

    def apply(self, thing: manifests.Thing) -> None:
        """Apply an object that is not a pod."""
        match thing.kind:
            case "Node":
                self._take_node(defaults.node(thing))
            case "Device":
                self.ledger.device_seen(devices.device(thing.value), devices.record(thing.value.status))
                self._condemned[thing.name] = condemned(thing.value)
            case "GpuPod":
                self._take_names(thing)
            case "Lease" if thing.namespace == names.NODES_NAMESPACE:
                self._renewals[thing.name] = renewal(thing.value)
            case "PlacementPolicy" if thing.name == names.DEFAULT_POLICY:
                policy = policies.rules(thing.value)
                assert isinstance(policy, Policy), "read when it was parsed"  # noqa: S101
                self._take_rules(policy)
        self._judged = False

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Record that an object that is not a pod is gone."""
        match kind:
            case "Node":
                self.ledger.node_gone(name)
            case "Device":
                self._condemned.pop(name, None)
                self.ledger.device_gone(name)
            case "GpuPod":
                self.ledger.gpupod_gone(f"{namespace}/{name}")
            case "Lease" if namespace == names.NODES_NAMESPACE:
                self._renewals.pop(name, None)
            case "PlacementPolicy" if name == names.DEFAULT_POLICY:
                self._take_rules(policies.BUILT_IN)
        self._judged = False

    def _take_node(self, thing: raw.Node) -> None:
        if nodes.excess(thing):
            self.ledger.node_gone(thing.metadata.name)
        else:
            self.ledger.node_seen(nodes.node(thing))

    def _take_names(self, thing: manifests.Thing) -> None:
        named = gpupods.named(thing.value)
        if isinstance(named, allocation_recovery.Named):
            # Written by hand it need not say its namespace.
            self.ledger.gpupod_seen(dataclasses.replace(named, title=thing.title))
        else:
            self.ledger.gpupod_gone(thing.title)

    def _take_rules(self, policy: Policy) -> None:
        if self._strategy is not None:
            policy = dataclasses.replace(policy, strategy=self._strategy)
        self.ledger.policy_seen(policy)

    # ------------------------------------------------------------ the life of agents

    def _judge(self) -> None:
        """Record in the ledger which agents are silent, if anything changed that bears on it."""
        if self._judged:
            return
        self._judged = True
        known = [moment for moment in self._renewals.values() if moment is not None]
        grace = dt.timedelta(seconds=self.ledger.policy.grace_seconds)
        oldest = max(known) - grace if known else None
        for node, dead in self._condemned.items():
            self.ledger.agent_silent(node, silent=dead or self._agent_silent(node, oldest))

    def _agent_silent(self, node: str, oldest: dt.datetime | None) -> bool:
        if not self._renewals:
            return False
        moment = self._renewals.get(node)
        return node not in self._renewals or (moment is not None and oldest is not None and moment < oldest)


def renewal(thing: lease.Lease) -> dt.datetime | None:
    """Read when a Lease was renewed; None where it does not say so."""
    return moments.read(thing.spec.renew_time or "")


def condemned(thing: wire.Device) -> bool:
    """Return whether the Device says that its agent was found silent."""
    return any(
        one.type == vocabulary.DeviceCondition.READY
        and one.status == vocabulary.Truth.FALSE
        and one.reason != vocabulary.ReadyReason.SOURCE_FAILED
        for one in thing.status.conditions
    )
