"""Replaying a trace: pods arrive and end in simulated time.

Time jumps to the next event: a line of the trace, the end of a pod, or the time at which the backlog
lets a waiting pod try again, by its own rules. At each such time all changes are applied to the
ledger first, and then the pods are decided on. A refusal is reported once for as long as it stays
the same, as the operator does.
"""

import collections
import dataclasses
import heapq
import itertools
import math
from collections.abc import Container, Iterable, Iterator
from typing import Final, assert_never

from berth_operator.scheduling import decisions
from berth_operator.simulation import defaults, manifests, placing, pod_explanations, traces, usage
from berth_operator.simulation.cluster import Cluster
from berth_operator.simulation.input_errors import InputError
from berth_operator.simulation.scenario import Scenario
from berth_operator.translate import pods

NEVER: Final = math.inf


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectEvent:
    """A change of an object, apart from decisions, in a word."""

    word: str
    kind: str
    title: str


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayEvent:
    """One event of the output, and its time."""

    time: float
    event: placing.Outcome | ObjectEvent


@dataclasses.dataclass(slots=True)
class Summary:
    """What became of all pods in the end, and the usage over time."""

    end: float = 0.0
    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    waits: list[float] = dataclasses.field(default_factory=list)
    meter: usage.UsageMeter = dataclasses.field(default_factory=usage.UsageMeter)


@dataclasses.dataclass(slots=True)
class _Pod:
    """A pod of the replay: its arrival, how long it is to run, and the refusal last reported."""

    uid: str
    arrived: float
    order: str
    duration: float | None
    last_refusal: tuple[object, ...] = ()
    state: str = ""


ARRIVED: Final = "came"
PLACED: Final = "placed"
WAITING: Final = "waiting"
REFUSED: Final = "refused"
SKIPPED: Final = "aside"
FINISHED: Final = "finished"
DELETED: Final = "deleted"
COUNTED: Final = (ARRIVED, PLACED, FINISHED, DELETED, WAITING, REFUSED, SKIPPED)


class Replay:
    """One run of a trace over a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        cluster: Cluster,
        *,
        adopt: placing.Adopt = pods.adopt,
        detailed_nodes: int = pod_explanations.NEAREST_ONLY,
    ) -> None:
        self.summary = Summary()
        self.notes: list[str] = []
        self._scenario = scenario
        self._cluster = cluster
        self._changes = cluster.ledger.changes.reader()
        self._adopt = adopt
        self._explainer = pod_explanations.Explainer(cluster, detailed_nodes=detailed_nodes)
        self._pods: dict[manifests.Key, _Pod] = {}
        self._keys: dict[str, manifests.Key] = {}  # By uid.
        self._ends: list[tuple[float, int, manifests.Key, _Pod]] = []
        self._gone: set[manifests.Key] = set()  # Deleted with their nodes; the trace may name them later.
        self._numbers = itertools.count()

    def run(self, events: Iterable[traces.Event]) -> Iterator[ReplayEvent]:
        """Run the trace, and yield what happens in order of time."""
        placing.apply_objects(self._scenario, self._cluster)
        waiting = collections.deque(
            [traces.Event(0.0, "", traces.Add(tuple(self._scenario.of("Pod")))), *events]
        )
        while (time := self._next_time(waiting)) < NEVER:
            self._pass_time(time)
            yield from self._end_pods()
            while waiting and waiting[0].time <= time:
                yield from self._apply_event(waiting.popleft())
            yield from self._decide()
        self._conclude()

    # ------------------------------------------------------------ time

    def _next_time(self, waiting: collections.deque[traces.Event]) -> float:
        event = waiting[0].time if waiting else NEVER
        end = self._ends[0][0] if self._ends else NEVER
        due = self._cluster.ledger.backlog.next_due()
        return min(event, end, NEVER if due is None else due)

    def _pass_time(self, time: float) -> None:
        meter = self.summary.meter
        meter.update(self._cluster.inventory, self._changes.read())
        meter.pass_time(time)
        self._cluster.now = self.summary.end = time

    def _conclude(self) -> None:
        self._pass_time(self.summary.end)
        states = collections.Counter(pod.state for pod in self._pods.values())
        for state in (WAITING, REFUSED, SKIPPED):
            self.summary.counts[state] = states[state]

    def _event(self, event: placing.Outcome | ObjectEvent) -> ReplayEvent:
        return ReplayEvent(self._cluster.now, event)

    # ------------------------------------------------------------ what happens

    def _end_pods(self) -> Iterator[ReplayEvent]:
        """End the pods whose time is over."""
        while self._ends and self._ends[0][0] <= self._cluster.now:
            _, _, key, pod = heapq.heappop(self._ends)
            if self._pods.get(key) is pod:
                yield from self._finish(key)

    def _apply_event(self, event: traces.Event) -> Iterator[ReplayEvent]:
        match event.action:
            case traces.Add(added, duration):
                for manifest in added:
                    if manifest.key in self._pods:
                        raise InputError(f"{event.place}: Pod {manifest.title} is there already")
                    yield from self._arrive(manifest, duration)
            case traces.Apply(applied):
                for manifest in applied:
                    apply = self._apply_pod if manifest.kind == "Pod" else self._apply_object
                    yield from apply(manifest)
            case traces.Remove(key):
                self._check_there(event, key, self._scenario.manifests, key[2])
                yield from self._remove(key)
            case traces.End(key, deleted):
                self._check_there(event, key, self._pods, "/".join(key[1:]))
                yield from self._delete(key, DELETED) if deleted else self._finish(key)
            case _:
                assert_never(event.action)

    def _check_there(
        self, event: traces.Event, key: manifests.Key, there: Container[manifests.Key], title: str
    ) -> None:
        """Refuse a line about an object that is not there and was not deleted with its node."""
        if key not in there and key not in self._gone:
            raise InputError(f"{event.place}: there is no {key[0]} {title} at this time")

    def _arrive(self, manifest: manifests.Manifest, duration: float | None) -> Iterator[ReplayEvent]:
        raw_pod = defaults.pod(manifest, self._scenario.classes())
        uid = raw_pod.metadata.uid
        if self._keys.setdefault(uid, manifest.key) != manifest.key:
            raise manifest.error(f"it has the uid of Pod {'/'.join(self._keys[uid][1:])}")
        now = self._cluster.now
        fresh = _Pod(uid, now, f"{now:020.6f} {next(self._numbers):09}", duration)
        pod = self._pods.setdefault(manifest.key, fresh)
        skipped = placing.add_pod(
            self._cluster, manifest, self._adopt(raw_pod), order=pod.order, notes=self.notes
        )
        self.summary.counts[ARRIVED] += pod is fresh
        if skipped is not None:
            pod.state = SKIPPED
            yield self._event(skipped)
        elif uid in self._cluster.ledger.backlog:
            pod.state = WAITING
        elif self._cluster.inventory.hold(uid) is not None:
            self._start(manifest.key, pod)
        else:
            pod.state = FINISHED  # It arrived with a final phase.

    def _start(self, key: manifests.Key, pod: _Pod) -> None:
        pod.state = PLACED
        if pod.duration is not None:
            heapq.heappush(self._ends, (self._cluster.now + pod.duration, next(self._numbers), key, pod))

    def _apply_object(self, manifest: manifests.Manifest) -> Iterator[ReplayEvent]:
        self._scenario.manifests[manifest.key] = manifest
        self._cluster.apply(manifest)
        yield self._event(ObjectEvent("applied", manifest.kind, manifest.title))

    def _apply_pod(self, manifest: manifests.Manifest) -> Iterator[ReplayEvent]:
        """Record an edited pod while it waits; an edit of a placed pod has no effect."""
        if (pod := self._pods.get(manifest.key)) is None:
            yield from self._arrive(manifest, None)
        elif pod.state in {WAITING, REFUSED, SKIPPED}:
            pod.last_refusal = ()
            yield self._event(ObjectEvent("applied", manifest.kind, manifest.title))
            yield from self._arrive(manifest, None)

    def _remove(self, key: manifests.Key) -> Iterator[ReplayEvent]:
        if self._scenario.manifests.pop(key, None) is None:
            return
        kind, _, name = key
        yield self._event(ObjectEvent("removed", kind, name))
        if kind == "Node":
            info = self._cluster.inventory.node(name)
            for uid in list(info.holds) if info is not None else ():
                self._gone.add(self._keys[uid])
                yield from self._delete(self._keys[uid], "deleted with its node")
            # The Device is owned by the Node.
            device = "Device", "", name
            if self._scenario.manifests.pop(device, None) is not None:
                self._gone.add(device)
            self._cluster.remove(*device)
        self._cluster.remove(*key)

    def _finish(self, key: manifests.Key) -> Iterator[ReplayEvent]:
        if (pod := self._pods.get(key)) is not None and pod.state != FINISHED:
            pod.state = FINISHED
            yield self._over(key, pod, FINISHED, FINISHED)

    def _delete(self, key: manifests.Key, word: str) -> Iterator[ReplayEvent]:
        if (pod := self._pods.pop(key, None)) is not None:
            del self._keys[pod.uid]
            yield self._over(key, pod, DELETED, word)

    def _over(self, key: manifests.Key, pod: _Pod, counted: str, word: str) -> ReplayEvent:
        self.summary.counts[counted] += 1
        self._cluster.ledger.pod_over(pod.uid)
        return self._event(ObjectEvent(word, "Pod", "/".join(key[1:])))

    # ------------------------------------------------------------ decisions

    def _decide(self) -> Iterator[ReplayEvent]:
        """Decide until no pod is left whose turn it is."""
        while decided := self._cluster.decide():
            for decision in decided:
                yield from self._carry_out(decision)

    def _carry_out(self, decision: decisions.Decision) -> Iterator[ReplayEvent]:
        key = self._keys[decision.uid]
        pod = self._pods[key]
        if isinstance(decision, decisions.Bind):
            placed = placing.bind(self._cluster, decision)
            self.summary.counts[PLACED] += 1
            self.summary.waits.append(self._cluster.now - pod.arrived)
            self._start(key, pod)
            yield self._event(placed)
            return
        pod_info = placing.requeue(self._cluster, decision)
        reported: tuple[object, ...]
        if isinstance(decision, decisions.Reject):
            pod.state, reported = REFUSED, decision.refusals
        else:
            pod.state, reported = WAITING, decision.counts
        if reported != pod.last_refusal:
            pod.last_refusal = reported
            yield self._event(self._explainer.explain_pod(pod_info, decision))
