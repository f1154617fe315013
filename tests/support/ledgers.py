"""Ledgers with nodes, their contents as plain values, and what the informers do with them."""

import itertools
from collections.abc import Callable
from typing import Any

from berth_crds import wire
from berth_operator.engine import change_log, drift, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import allocation_recovery, cycle, decisions, queued_pods
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import gpupods, pods, raw
from support import builders, clock, inventories


def contents(ledger: Ledger) -> dict[str, Any]:
    """Return all that could be rebuilt from the API: without the backoff of pods."""
    return {
        "inventory": inventories.contents(ledger.inventory),
        "workload": inventories.workload(ledger.inventory),
        "waiting": {uid: entry.pod_info for uid, entry in ledger.backlog._entries.items()},
        "assumed": {uid: one.pod_info for uid, one in ledger.assumed_pods.items()},
        "states": dict(ledger._states),
        "unadmitted": {
            uid: (one.hold, one.node_selection, one.excluded)
            for uid, one in ledger.unadmitted_pods._pods.items()
        },
        "charged of these": {node: +charged for node, charged in ledger.unadmitted_pods._charged.items()},
        "policy": ledger.policy,
    }


def pod_seen(ledger: Ledger, pod: raw.Pod | None, uid: str = "") -> None:
    """Apply a pod's new state, or that it is gone, as the informer does."""
    match pods.classify(pod) if pod is not None else pods.IgnoredPod(uid):
        case pods.WaitingPod(pod_info, gated):
            version = pod.metadata.resource_version if pod is not None else ""
            ledger.pod_waiting(pod_info, gated=gated, version=version)
        case pods.BoundPod(hold, _, teaches, nameless, node_selection):
            ledger.pod_bound(hold, teaches, nameless=nameless, requirements=node_selection)
        case pods.IgnoredPod(over):
            ledger.pod_over(over)


def gpupod_seen(ledger: Ledger, gpupod: wire.GpuPod) -> None:
    """Apply a GpuPod's new state, as the informer does."""
    ledger.gpupod_seen(named(gpupod))


def named(gpupod: wire.GpuPod) -> allocation_recovery.NamedDevices:
    """Return what a GpuPod that can be read says."""
    found = gpupods.read(gpupod)
    assert isinstance(found, allocation_recovery.NamedDevices), found
    return found


def reader(ledger: Ledger) -> change_log.ChangeReader:
    """Return a reader of the nodes that change from now on."""
    found = ledger.changes.reader()
    found.read()
    return found


def in_turn(*steps: Callable[[], object], late: bool) -> None:
    """Do some things one after another, the last one first if `late`."""
    for step in reversed(steps) if late else steps:
        step()


def with_nodes(count: int = 1, cards: int = 4, *, now: ports.Clock | None = None) -> Ledger:
    """Return a ledger with nodes n1, n2, … with so many cards each; their agents report."""
    ledger = Ledger(now or clock.Clock())
    for name in (f"n{at}" for at in range(1, count + 1)):
        join(ledger, builders.node(name), builders.device(name, cards))
    return ledger


def join(ledger: Ledger, node: facts.Node, device: device_facts.Device, *, silent: bool = False) -> None:
    """Have a node join with its devices; its agent reports unless it is silent."""
    ledger.node_seen(node)
    ledger.device_seen(device)
    ledger.agent_silent(node.name, silent=silent)


def add_waiting(
    ledger: Ledger, name: str = "p", cards: int = 1, *, version: str = "", **fields: Any
) -> queued_pods.PodInfo:
    """Add a waiting pod and return its pod_info."""
    pod_info = builders.pod_info(name, cards, **fields)
    ledger.pod_waiting(pod_info, gated=False, version=version)
    return pod_info


def add_sleeping(
    ledger: Ledger, name: str = "p", *changes: decisions.ClusterEvent, cards: int = 1, **fields: Any
) -> None:
    """Add a pod that waits for these cluster events."""
    add_waiting(ledger, name, cards, **fields)
    requeue(ledger, name, *changes)


def holding(ledger: Ledger, uid: str = "uid-p") -> tuple[list[int], int]:
    """Return the minors that a pod holds, and how many cards it withholds."""
    hold = ledger.inventory.hold(uid)
    assert hold is not None
    return [share.minor for share in hold.shares], hold.withheld


def decide(ledger: Ledger, now: float = 1000.0) -> list[decisions.Decision]:
    """Return the decisions of one cycle without carrying them out."""
    return cycle.simulate(ledger.search, ledger.backlog, now, ledger.policy)


def assume(ledger: Ledger, name: str = "p", *, now: float = 1000.0) -> decisions.Bind:
    """Decide for a pod that fits, assume it and return its bind."""
    (bind,) = (answer for answer in decide(ledger, now) if answer.uid == f"uid-{name}")
    assert isinstance(bind, decisions.Bind)
    ledger.assume(bind)
    return bind


def requeue(ledger: Ledger, name: str = "p", *changes: decisions.ClusterEvent) -> None:
    """Let a waiting pod wait for these cluster events."""
    ledger.backlog.requeue(f"uid-{name}", now=0.0, awaited=frozenset(changes))


def ready_names(ledger: Ledger) -> list[str]:
    """Return the names of the waiting pods that would be tried if time allowed."""
    return [pod_info.name for pod_info in ledger.backlog.active(1e9)]


def held_cards(pod: raw.Pod) -> list[str]:
    """Return the uuids that a bound pod holds by name."""
    return [share.uuid for share in pods.read_bound(pod).hold.shares]


def differences(ledger: Ledger, fresh: Ledger) -> tuple[drift.Difference, ...]:
    """Return the differences between a ledger and one that was just rebuilt."""
    return tuple(itertools.chain.from_iterable(drift.portions(ledger, fresh, float)))
