"""A ledger with the sinks that feed it, without a cluster."""

import json
from typing import Any, Final

import msgspec

from berth_crds import wire
from berth_crds.client import lease, watch
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.kube import auditor, policy_sink, sinks
from berth_operator.translate import raw
from support import builders, clock, inventories, manifests

NODE: Final = "n1"


class Sinks:
    """A ledger and all sinks that feed it."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.time = clock.Clock()
        self.ledger = ledger or Ledger(self.time)
        self.watchdog = Watchdog(self.ledger, clock=self.time)
        self.pods = sinks.PodSink(self.ledger, auditor.NullObserver())
        self.gpupods = sinks.GpuPodSink(self.ledger)
        self.nodes = sinks.NodeSink(self.ledger)
        self.devices = sinks.DeviceSink(self.ledger, self.watchdog)
        self.leases = sinks.LeaseSink(self.watchdog)
        self.policies = policy_sink.PolicySink(self.ledger)

    @property
    def free(self) -> int:
        """The number of free cards of the node."""
        return inventories.free_cards(self.ledger.inventory, NODE)

    @property
    def held(self) -> tuple[int, list[str]]:
        """How many cards the pod withholds, and those that it holds by name."""
        hold = self.ledger.inventory.hold("u-1")
        assert hold is not None
        return hold.withheld, [share.uuid for share in hold.shares]


def with_node() -> Sinks:
    """Return sinks of a ledger that knows a node with four cards, whose agent reports."""
    sinks = Sinks()
    feed(sinks.nodes, raw.Node(wire.Meta(NODE)))
    feed(sinks.devices, read(manifests.device(NODE), wire.Device))
    feed(sinks.leases, renewed("now"))
    return sinks


def feed(sink: Any, *things: Any) -> None:
    """Feed objects as the informer does: those that it can decode or not, and metadata of what is gone."""
    for thing in things:
        match thing:
            case watch.Undecodable():
                sink.undecodable(thing)
            case wire.Meta():
                sink.deleted(thing)
            case _:
                sink.upserted(thing)


def read(body: Any, kind: Any) -> Any:
    """Read an object as the informer does."""
    return watch.Codec(kind).decode_object(msgspec.Raw(json.dumps(body).encode()))


def renewed(moment: str) -> lease.Lease:
    """Return the Lease of the node's agent."""
    return lease.Lease(wire.Meta(NODE), lease.LeaseSpec(renew_time=moment))


def pod(**changes: Any) -> raw.Pod | watch.Undecodable:
    """Return the pod ml/p as the informer reads it, bound to the node and running unless told otherwise."""
    spec: dict[str, Any] = {"nodeName": NODE} | changes.pop("spec", {})
    meta = {"uid": "u-1", "resourceVersion": "5"} | changes.pop("metadata", {})
    made = manifests.pod("p", namespace="ml", meta=meta, phase="Running", **spec)
    found: raw.Pod | watch.Undecodable = read(made | changes, raw.Pod)
    return found


def allocated(*minors: int) -> dict[str, Any]:
    """Return metadata with an allocation of these cards."""
    return {"annotations": manifests.allocated(NODE, *minors)}


def named(minor: int) -> tuple[int, list[str]]:
    """Return what a pod holds that holds a card by name."""
    return 0, [builders.uuid(NODE, minor)]
