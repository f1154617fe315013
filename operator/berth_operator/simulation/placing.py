"""Placing the pods of a scenario once: who goes where, and why the others do not.

1. Nodes, Devices and rules are taken.  2. Bound pods are charged.  3. The others are
placed by priority, then in the order given, each on the picture that those before it
left.  Time stands still: whoever does not fit now is asked no second time.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Final, assert_never

import msgspec

from berth_crds import names
from berth_operator.scheduling import decisions, holds, queued_pods
from berth_operator.simulation import cluster, manifests, records, scenario, usage, whys
from berth_operator.translate import pods, raw

GATED: Final = "Gated"
FOREIGN: Final = "NotOurs"
LEAVING: Final = "Deleting"

Adopt = Callable[[raw.Pod], raw.Pod]  # Makes a pod of another scheduler Berth's, if it is to be placed.


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """The pod got its node and devices."""

    candidate: queued_pods.Candidate
    placement: decisions.Placement

    @property
    def title(self) -> str:
        """Name the pod."""
        return self.candidate.title


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """The pod did not fit, or its request cannot be served."""

    candidate: queued_pods.Candidate
    why: whys.Why

    @property
    def title(self) -> str:
        """Name the pod."""
        return self.candidate.title


@dataclasses.dataclass(frozen=True, slots=True)
class Aside:
    """The pod was not tried: a word on why, and a sentence."""

    title: str
    word: str
    message: str


Outcome = Placed | Refused | Aside


@dataclasses.dataclass(frozen=True, slots=True)
class PutOff:
    """The pod was asked and has to wait; nobody has said why yet."""

    candidate: queued_pods.Candidate
    answer: decisions.Wait | decisions.Reject


def place(
    given: scenario.Scenario, paper: cluster.Cluster, *, adopt: Adopt = pods.adopted, whole: int = whys.NONE
) -> tuple[list[Outcome], usage.Usage, list[str]]:
    """Place all pods that are not bound.

    Return what became of each, what was in use before, and notes on the pods that were
    bound. Where there are at most `whole` nodes every card is looked at for those that do not fit.
    """
    set_up(given, paper)
    asides: list[Outcome] = []
    notes: list[str] = []
    for at, (thing, pod) in enumerate(given.pods()):
        aside = take(paper, thing, adopt(pod), order=f"{at:09}", notes=notes)
        if aside is not None:
            asides.append(aside)
    before = usage.of_all(paper.inventory)
    return [*_decided(paper, whys.Explainer(paper, whole=whole)), *asides], before, notes


def set_up(given: scenario.Scenario, paper: cluster.Cluster) -> None:
    """Apply all that is not a pod."""
    for thing in given.things.values():
        if thing.kind != "Pod":
            paper.apply(thing)


def take(
    paper: cluster.Cluster, thing: manifests.Thing, pod: raw.Pod, *, order: str, notes: list[str]
) -> Aside | None:
    """Charge a bound pod, or let a waiting one wait; `order` decides among equal priorities."""
    match pods.view(pod):
        case pods.Bound(hold, fault, teaches, nameless, where):
            paper.ledger.pod_bound(hold, teaches, nameless=nameless, requirements=where)
            if paper.ledger.unadmitted_pods.is_excluded(hold.uid):
                notes.append(
                    f"{thing.file}: Pod {thing.title} does not count on {hold.node}: "
                    "it has not started, and the node cannot take it"
                )
            elif fault:
                notes.append(f"{thing.file}: Pod {thing.title} {_meanwhile(paper, hold)}: {fault}")
            missing = ", ".join(_missing(paper, hold))
            if missing:
                notes.append(
                    f"{thing.file}: Pod {thing.title}: its allocation names {missing}, "
                    f"which the Device {hold.node} does not have"
                )
        case pods.Waiting(candidate, gated):
            paper.pending[candidate.uid] = pod
            paper.ledger.pod_waiting(dataclasses.replace(candidate, created=order), gated=gated)
            if gated:
                gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates or ())
                return Aside(thing.title, GATED, f"it waits for its scheduling gates: {gates}")
        case pods.Over():
            return _left_alone(thing, pod)
    return None


def _meanwhile(paper: cluster.Cluster, hold: holds.Hold) -> str:
    """Return what counts for a pod of whose record something is wrong."""
    held = paper.inventory.hold(hold.uid)
    if held is not None and not hold.shares and held.shares and not held.withheld:
        return f"holds on {hold.node} what its GpuPod names"
    return f"withholds cards of {hold.node}"


def _missing(paper: cluster.Cluster, hold: holds.Hold) -> list[str]:
    """Name the devices that a pod is said to hold and that are not there, if it is known what is there."""
    info = paper.inventory.row(hold.node)
    if info is None or info.device is None:
        return []
    there = {
        uuid
        for one in (*info.device.cards, *info.device.others)
        for uuid in (one.uuid, *(instance.uuid for instance in one.instances))
    }
    return [share.uuid for share in hold.shares if share.uuid not in there]


def _left_alone(thing: manifests.Thing, pod: raw.Pod) -> Aside | None:
    """Return why a pod that is neither bound nor finished is not ours to place."""
    if pod.status.phase in pods.FINISHED:
        return None
    if pod.spec.scheduler_name != names.SCHEDULER_NAME:
        named = pod.spec.scheduler_name or "default-scheduler"
        return Aside(thing.title, FOREIGN, f"its schedulerName is {named}, not {names.SCHEDULER_NAME}")
    return Aside(thing.title, LEAVING, "it is being deleted")


def _decided(paper: cluster.Cluster, explainer: whys.Explainer) -> Iterator[Outcome]:
    """Decide until everybody was asked."""
    while answers := paper.decide():
        for answer in answers:
            match carry_out(paper, answer):
                case Placed() as placed:
                    yield placed
                case PutOff(candidate, refusal):
                    # At once, for the next pod may change the picture.
                    yield Refused(candidate, explainer.why(candidate, refusal))


def carry_out(paper: cluster.Cluster, answer: decisions.Decision) -> Placed | PutOff:
    """Do what was decided, as the engine would."""
    match answer:
        case decisions.Bind():
            candidate = paper.ledger.assume(answer)
            _confirm(paper, paper.pending.pop(answer.uid), answer.placement)
            return Placed(candidate, answer.placement)
        case decisions.Wait() | decisions.Reject():
            waiting = paper.ledger.backlog.get(answer.uid)
            assert waiting is not None, "asked just now"  # noqa: S101
            paper.ledger.backlog.put_off(answer.uid, now=paper.now, wants=answer.wants)
            return PutOff(waiting, answer)
        case _:
            assert_never(answer)


def _confirm(paper: cluster.Cluster, pod: raw.Pod, placement: decisions.Placement) -> None:
    """Show the ledger the pod as the watch would, once it is bound."""
    answered = {**pod.metadata.annotations, **records.annotations(placement)}
    meta = msgspec.structs.replace(pod.metadata, annotations=answered)
    spec = msgspec.structs.replace(pod.spec, node_name=placement.node)
    seen = pods.view(msgspec.structs.replace(pod, metadata=meta, spec=spec))
    assert isinstance(seen, pods.Bound), "it has a node"  # noqa: S101
    paper.ledger.pod_bound(seen.hold, seen.teaches)
