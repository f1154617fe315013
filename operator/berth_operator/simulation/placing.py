"""Placing the pods of a scenario once: where each goes, and why the others are not placed.

1. Nodes, Devices and policies are applied.  2. Bound pods are charged.  3. The others are
placed by priority, then in the order given, each on the inventory that those before it
left.  Time stands still: a pod that does not fit is not tried again.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import ClassVar, Final

import msgspec

from berth_crds import names, text
from berth_operator.scheduling import decisions, holds, queued_pods, wording
from berth_operator.simulation import manifests, pod_explanations, usage
from berth_operator.simulation.cluster import Cluster
from berth_operator.simulation.scenario import Scenario
from berth_operator.translate import bind_annotations, pods, raw

GATED: Final = "Gated"
FOREIGN: Final = "NotOurs"
LEAVING: Final = "Deleting"
TERM: Final = "simulation/0"  # In the annotations of binds, where the operator writes the term of its leader.

Adopt = Callable[[raw.Pod], raw.Pod]  # Returns a pod of another scheduler as Berth's, if it is to be placed.


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """The pod has its node and devices."""

    word: ClassVar[str] = "placed"
    title: str
    placement: decisions.Placement


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped:
    """The pod was not tried, with a reason and a sentence."""

    word: ClassVar[str] = "not tried"
    title: str
    reason: str
    message: str


Outcome = Placed | pod_explanations.PodExplanation | Skipped


def place(
    scenario: Scenario,
    cluster: Cluster,
    *,
    adopt: Adopt = pods.adopt,
    detailed_nodes: int = pod_explanations.NEAREST_ONLY,
) -> tuple[list[Outcome], usage.Usage, list[str]]:
    """Place all pods that are not bound.

    Return the outcome of each, the usage before, and notes on the pods that were bound. If there
    are at most `detailed_nodes` nodes, pods that do not fit are explained by every card.
    """
    apply_objects(scenario, cluster)
    skipped: list[Outcome] = []
    notes: list[str] = []
    for number, (manifest, pod) in enumerate(scenario.pods()):
        outcome = add_pod(cluster, manifest, adopt(pod), order=f"{number:09}", notes=notes)
        if outcome is not None:
            skipped.append(outcome)
    before = usage.of_all(cluster.inventory)
    return (
        [*_decided(cluster, pod_explanations.Explainer(cluster, detailed_nodes=detailed_nodes)), *skipped],
        before,
        notes,
    )


def apply_objects(scenario: Scenario, cluster: Cluster) -> None:
    """Apply all that is not a pod."""
    for manifest in scenario.manifests.values():
        if manifest.kind != "Pod":
            cluster.apply(manifest)


def add_pod(
    cluster: Cluster, manifest: manifests.Manifest, pod: raw.Pod, *, order: str, notes: list[str]
) -> Skipped | None:
    """Charge a bound pod, or queue a waiting one; `order` decides among equal priorities."""
    match pods.classify(pod):
        case pods.BoundPod(hold, fault, sample, nameless, node_selection):
            cluster.ledger.pod_bound(hold, sample, nameless=nameless, requirements=node_selection)
            if cluster.ledger.unadmitted_pods.is_excluded(hold.uid):
                notes.append(
                    f"{manifest.file}: Pod {manifest.title} does not count on {hold.node}: "
                    "it has not started, and the node cannot take it"
                )
            elif fault:
                fault = _disbelieved(cluster, hold) or fault
                notes.append(f"{manifest.file}: Pod {manifest.title} {_effect(cluster, hold)}: {fault}")
            if missing := ", ".join(_missing_devices(cluster, hold)):
                notes.append(
                    f"{manifest.file}: Pod {manifest.title}: its allocation names {missing}, "
                    f"which the Device {hold.node} does not have"
                )
        case pods.WaitingPod(pod_info, gated):
            cluster.pending[pod_info.uid] = pod
            cluster.ledger.pod_waiting(dataclasses.replace(pod_info, created=order), gated=gated)
            if gated:
                gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates or ())
                return Skipped(manifest.title, GATED, f"it waits for its scheduling gates: {gates}")
        case pods.IgnoredPod():
            return _ignored(manifest, pod)
    return None


def _effect(cluster: Cluster, hold: holds.Hold) -> str:
    """Return what counts as held by a pod whose allocation has a fault."""
    held = cluster.inventory.hold(hold.uid) or hold
    types = [wording.noun(kind, 2) for kind in sorted(held.withheld_types)]
    if not hold.shares and held.shares and not held.withheld and not types:
        recorded = cluster.ledger.unreadable_pods.record_scheduler(hold.uid) is not None
        return f"holds on {hold.node} what its {'scheduler has written' if recorded else 'GpuPod names'}"
    cards = [] if types and not (held.withheld or held.marked) else ["cards"]
    return f"withholds {wording.listed([*cards, *types])} of {hold.node}"


def _disbelieved(cluster: Cluster, hold: holds.Hold) -> str:
    """Return that the record of its scheduler is not believed; empty if it is, or if there is none."""
    scheduler = cluster.ledger.unreadable_pods.disbelieved(hold.uid)
    if scheduler is None:
        return ""
    where = f"spec.podRecordsFrom of the policy does not name its scheduler, {text.quoted(scheduler)}"
    return f"its record of devices does not count: {where}"


def _missing_devices(cluster: Cluster, hold: holds.Hold) -> list[str]:
    """Return the devices in a pod's allocation that its node does not have, if the Device is known."""
    if (info := cluster.inventory.node(hold.node)) is None or info.device is None:
        return []
    known = {
        uuid
        for one in (*info.device.cards, *info.device.others)
        for uuid in (one.uuid, *(instance.uuid for instance in one.instances))
    }
    return [share.uuid for share in hold.shares if share.uuid not in known]


def _ignored(manifest: manifests.Manifest, pod: raw.Pod) -> Skipped | None:
    """Return why a pod that is neither bound nor finished is not placed by Berth."""
    if pod.status.phase in pods.FINISHED:
        return None
    if pod.spec.scheduler_name != names.SCHEDULER_NAME:
        scheduler = pod.spec.scheduler_name or "default-scheduler"
        return Skipped(
            manifest.title, FOREIGN, f"its schedulerName is {scheduler}, not {names.SCHEDULER_NAME}"
        )
    return Skipped(manifest.title, LEAVING, "it is being deleted")


def _decided(cluster: Cluster, explainer: pod_explanations.Explainer) -> Iterator[Outcome]:
    """Yield outcomes until every pod was tried."""
    while decided := cluster.decide():
        for decision in decided:
            if isinstance(decision, decisions.Bind):
                yield bind(cluster, decision)
            else:
                # At once, because the next pod may change the inventory.
                yield explainer.explain_pod(requeue(cluster, decision), decision)


def bind(cluster: Cluster, decision: decisions.Bind) -> Placed:
    """Bind a pod, as the engine would."""
    pod_info = cluster.ledger.assume(decision)
    _confirm(cluster, cluster.pending.pop(decision.uid), decision.placement)
    return Placed(pod_info.title, decision.placement)


def requeue(cluster: Cluster, decision: decisions.Wait | decisions.Reject) -> queued_pods.PodInfo:
    """Put off a pod that was not placed, as the engine would, and return it."""
    pod_info = cluster.ledger.backlog.get(decision.uid)
    assert pod_info is not None, "asked just now"  # noqa: S101
    undecided = decision.undecided if isinstance(decision, decisions.Wait) else frozenset()
    cluster.ledger.backlog.requeue(
        decision.uid, now=cluster.now, awaited=decision.awaited, undecided=undecided
    )
    return pod_info


def _confirm(cluster: Cluster, pod: raw.Pod, placement: decisions.Placement) -> None:
    """Add the bound pod to the ledger, as the watch would."""
    meta = msgspec.structs.replace(
        pod.metadata,
        annotations={**pod.metadata.annotations, **bind_annotations.of(placement, term=TERM)},
    )
    spec = msgspec.structs.replace(pod.spec, node_name=placement.node)
    seen = pods.classify(msgspec.structs.replace(pod, metadata=meta, spec=spec))
    assert isinstance(seen, pods.BoundPod), "it has a node"  # noqa: S101
    cluster.ledger.pod_bound(seen.hold, seen.sample)
