"""Placing the pods of a scenario once: who goes where, and why the others do not.

1. Nodes, Devices and rules are taken.  2. Bound pods are charged.  3. The others are
placed by priority, then in the order given, each on the picture that those before it
left.  Time stands still: whoever does not fit now is asked no second time.
"""

import dataclasses
from collections.abc import Iterator
from typing import Final, assert_never

import msgspec

from berth_crds import names
from berth_operator.scheduling import backlog, decisions
from berth_operator.simulation import cluster, manifests, scenario, whys
from berth_operator.translate import pods, raw

GATED: Final = "Gated"
FOREIGN: Final = "NotOurs"
LEAVING: Final = "Deleting"


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """The pod got its node and devices."""

    candidate: backlog.Candidate
    placement: decisions.Placement

    @property
    def title(self) -> str:
        """Name the pod."""
        return self.candidate.title


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """The pod did not fit, or its request cannot be served."""

    candidate: backlog.Candidate
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


def place(
    given: scenario.Scenario, paper: cluster.Cluster, *, every: bool = False
) -> tuple[list[Outcome], list[str]]:
    """Place all pods that are not bound; return what became of each, and notes on those that are."""
    set_up(given, paper)
    asides: list[Outcome] = []
    notes: list[str] = []
    for at, (thing, pod) in enumerate(given.pods()):
        aside = take(paper, thing, ours(pod) if every else pod, order=f"{at:09}", notes=notes)
        if aside is not None:
            asides.append(aside)
    return [*_decided(paper), *asides], notes


def set_up(given: scenario.Scenario, paper: cluster.Cluster) -> None:
    """Take all that is not a pod."""
    for thing in given.things.values():
        if thing.kind != "Pod":
            paper.apply(thing)


def ours(pod: raw.Pod) -> raw.Pod:
    """Give a pod that asks for another scheduler to us."""
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, scheduler_name=names.SCHEDULER_NAME)
    )


def take(
    paper: cluster.Cluster, thing: manifests.Thing, pod: raw.Pod, *, order: str, notes: list[str]
) -> Aside | None:
    """Charge a bound pod, or let a waiting one wait; `order` decides among equal priorities."""
    match pods.view(pod):
        case pods.Bound(hold, fault):
            paper.book.pod_bound(hold)
            if fault:
                notes.append(f"{thing.file}: Pod {thing.title} withholds cards of {hold.node}: {fault}")
        case pods.Waiting(candidate, gated):
            if gated:
                gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates or ())
                return Aside(thing.title, GATED, f"it waits for its scheduling gates: {gates}")
            paper.book.pod_waiting(dataclasses.replace(candidate, created=order), gated=False)
        case pods.Over():
            return _left_alone(thing, pod)
    return None


def _left_alone(thing: manifests.Thing, pod: raw.Pod) -> Aside | None:
    """Say why a pod that is neither bound nor finished is not ours to place."""
    if pod.status.phase in pods.FINISHED:
        return None
    if pod.spec.scheduler_name != names.SCHEDULER_NAME:
        named = pod.spec.scheduler_name or "default-scheduler"
        return Aside(thing.title, FOREIGN, f"its schedulerName is {named}, not {names.SCHEDULER_NAME}")
    return Aside(thing.title, LEAVING, "it is being deleted")


def _decided(paper: cluster.Cluster) -> Iterator[Outcome]:
    """Decide until everybody was asked."""
    while answers := paper.decide():
        for answer in answers:
            yield carry_out(paper, answer)


def carry_out(paper: cluster.Cluster, answer: decisions.Decision) -> Placed | Refused:
    """Do what was decided, as the engine would, and explain at once what was not to be."""
    match answer:
        case decisions.Bind():
            candidate = paper.book.assume(answer)
            hold = paper.picture.hold(answer.uid)
            assert hold is not None, "assumed just now"  # noqa: S101
            paper.book.pod_bound(hold)
            return Placed(candidate, answer.placement)
        case decisions.Wait() | decisions.Reject():
            waiting = paper.book.waiting.get(answer.uid)
            assert waiting is not None, "asked just now"  # noqa: S101
            why = whys.explain(paper, waiting, answer)
            wants = answer.wants if isinstance(answer, decisions.Wait) else frozenset()
            paper.book.waiting.put_off(answer.uid, now=paper.now, wants=wants)
            return Refused(waiting, why)
        case _:
            assert_never(answer)
