"""Replaying a trace: pods come and go, and time passes between two events without being waited for.

Time jumps to whatever is next: an event of the trace, the end of a pod, or the moment at
which the backlog lets a waiting pod try again, by its own rules. At each such moment
everything that happens is told to the ledger first, and then the pods are looked at. A
refusal is told once for as long as it stays the same, as the operator does.
"""

import collections
import dataclasses
import heapq
import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from berth_operator.scheduling import decisions
from berth_operator.simulation import cluster, defaults, manifests, placing, scenario, traces, usage, whys
from berth_operator.simulation.mistakes import Mistake
from berth_operator.translate import pods

NEVER: Final = math.inf


@dataclasses.dataclass(frozen=True, slots=True)
class News:
    """What happened to an object apart from decisions, in a word."""

    word: str
    kind: str
    title: str


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What is to be told, and the time of it."""

    at: float
    what: placing.Outcome | News


@dataclasses.dataclass(slots=True)
class Tally:
    """What became of all pods in the end, and what was given out meanwhile."""

    end: float = 0.0
    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    waits: list[float] = dataclasses.field(default_factory=list)
    meter: usage.Meter = dataclasses.field(default_factory=usage.Meter)


@dataclasses.dataclass(slots=True)
class _Pod:
    """A pod that is there: since when, how long it is to run, and what was last said of it."""

    uid: str
    arrived: float
    order: str
    lasts: float | None
    said: tuple[object, ...] = ()
    state: str = ""


CAME: Final = "came"
PLACED: Final = "placed"
WAITING: Final = "waiting"
REFUSED: Final = "refused"
ASIDE: Final = "aside"
FINISHED: Final = "finished"
DELETED: Final = "deleted"
SUMMED: Final = (CAME, PLACED, FINISHED, DELETED, WAITING, REFUSED, ASIDE)


class Replay:
    """One run of a trace over a scenario."""

    def __init__(
        self,
        given: scenario.Scenario,
        paper: cluster.Cluster,
        *,
        adopt: placing.Adopt = pods.adopted,
        whole: int = whys.NONE,
    ) -> None:
        self.tally = Tally()
        self.notes: list[str] = []
        self._given = given
        self._paper = paper
        self._changes = paper.ledger.changes.reader()
        self._adopt = adopt
        self._explainer = whys.Explainer(paper, whole=whole)
        self._pods: dict[scenario.Key, _Pod] = {}
        self._keys: dict[str, scenario.Key] = {}  # By uid.
        self._ends: list[tuple[float, int, scenario.Key, _Pod]] = []
        self._lost: set[scenario.Key] = set()  # With their nodes, which their trace need not know.
        self._numbers = itertools.count()

    def run(self, events: Iterable[traces.Event]) -> Iterator[Told]:
        """Let everything happen, in order of time."""
        placing.set_up(self._given, self._paper)
        first = traces.Event(0.0, "", traces.Add(tuple(self._given.of("Pod"))))
        waiting = collections.deque([first, *events])
        while (moment := self._next(waiting)) < NEVER:
            self._pass_time(moment)
            yield from self._end_pods()
            while waiting and waiting[0].at <= moment:
                yield from self._happen(waiting.popleft())
            yield from self._decide()
        self._conclude()

    # ------------------------------------------------------------ time

    def _next(self, waiting: collections.deque[traces.Event]) -> float:
        event = waiting[0].at if waiting else NEVER
        end = self._ends[0][0] if self._ends else NEVER
        due = self._paper.ledger.backlog.next_due()
        return min(event, end, NEVER if due is None else due)

    def _pass_time(self, moment: float) -> None:
        meter = self.tally.meter
        meter.look(self._paper.inventory, self._changes.read())
        meter.pass_time(moment)
        self._paper.now = self.tally.end = moment

    def _conclude(self) -> None:
        self._pass_time(self.tally.end)
        states = collections.Counter(pod.state for pod in self._pods.values())
        for word in (WAITING, REFUSED, ASIDE):
            self.tally.counts[word] = states[word]

    def _told(self, what: placing.Outcome | News) -> Told:
        return Told(self._paper.now, what)

    # ------------------------------------------------------------ what happens

    def _end_pods(self) -> Iterator[Told]:
        """End the pods whose time is over."""
        while self._ends and self._ends[0][0] <= self._paper.now:
            _, _, key, pod = heapq.heappop(self._ends)
            if self._pods.get(key) is pod:
                yield from self._finish(key)

    def _happen(self, event: traces.Event) -> Iterator[Told]:
        match event.act:
            case traces.Add(things, lasts):
                for thing in things:
                    if thing.key in self._pods:
                        raise Mistake(f"{event.place}: Pod {thing.title} is there already")
                    yield from self._come(thing, lasts)
            case traces.Apply(things):
                for thing in things:
                    yield from self._apply(thing)
            case traces.Remove(kind, namespace, name):
                yield from self._go(event, (kind, namespace, name))
            case traces.Finish(key) | traces.Delete(key):
                yield from self._leave(event, key)
            case _:
                assert_never(event.act)

    def _go(self, event: traces.Event, key: scenario.Key) -> Iterator[Told]:
        if key in self._given.things:
            yield from self._remove(*key)
        elif key not in self._lost:
            raise Mistake(f"{event.place}: there is no {key[0]} {key[2]} at this time")

    def _leave(self, event: traces.Event, key: scenario.Key) -> Iterator[Told]:
        if key not in self._pods and key not in self._lost:
            raise Mistake(f"{event.place}: there is no Pod {'/'.join(key[1:])} at this time")
        if isinstance(event.act, traces.Finish):
            yield from self._finish(key)
        else:
            yield from self._delete(key, DELETED)

    def _come(self, thing: manifests.Thing, lasts: float | None) -> Iterator[Told]:
        given = defaults.pod(thing, self._given.classes())
        uid = given.metadata.uid
        if self._keys.setdefault(uid, thing.key) != thing.key:
            raise thing.mistake(f"it has the uid of Pod {'/'.join(self._keys[uid][1:])}")
        now = self._paper.now
        fresh = _Pod(uid, now, f"{now:020.6f} {next(self._numbers):09}", lasts)
        pod = self._pods.setdefault(thing.key, fresh)
        asked = self._adopt(given)
        aside = placing.take(self._paper, thing, asked, order=pod.order, notes=self.notes)
        self.tally.counts[CAME] += pod is fresh
        if aside is not None:
            pod.state = ASIDE
            yield self._told(aside)
        elif uid in self._paper.ledger.backlog:
            pod.state = WAITING
        elif self._paper.inventory.hold(uid) is not None:
            self._start(thing.key, pod)
        else:
            pod.state = FINISHED  # It was before it came.

    def _start(self, key: scenario.Key, pod: _Pod) -> None:
        pod.state = PLACED
        if pod.lasts is not None:
            heapq.heappush(self._ends, (self._paper.now + pod.lasts, next(self._numbers), key, pod))

    def _apply(self, thing: manifests.Thing) -> Iterator[Told]:
        if thing.kind == "Pod":
            yield from self._apply_pod(thing)
            return
        self._given.things[thing.key] = thing
        self._paper.apply(thing)
        yield self._told(News("applied", thing.kind, thing.title))

    def _apply_pod(self, thing: manifests.Thing) -> Iterator[Told]:
        """Record an edited pod while it waits; of one with a node no edit matters."""
        pod = self._pods.get(thing.key)
        if pod is None:
            yield from self._come(thing, None)
        elif pod.state in {WAITING, REFUSED, ASIDE}:
            pod.said = ()
            yield self._told(News("applied", thing.kind, thing.title))
            yield from self._come(thing, None)

    def _remove(self, kind: str, namespace: str, name: str) -> Iterator[Told]:
        del self._given.things[kind, namespace, name]
        yield self._told(News("removed", kind, name))
        if kind == "Node":
            info = self._paper.inventory.row(name)
            for uid in list(info.holds) if info is not None else ():
                self._lost.add(self._keys[uid])
                yield from self._delete(self._keys[uid], "deleted with its node")
            # The Device is owned by the Node.
            device = "Device", "", name
            if self._given.things.pop(device, None) is not None:
                self._lost.add(device)
            self._paper.remove(*device)
        self._paper.remove(kind, namespace, name)

    def _finish(self, key: scenario.Key) -> Iterator[Told]:
        pod = self._pods.get(key)
        if pod is not None and pod.state != FINISHED:
            pod.state = FINISHED
            self.tally.counts[FINISHED] += 1
            self._paper.ledger.pod_over(pod.uid)
            yield self._told(News(FINISHED, "Pod", "/".join(key[1:])))

    def _delete(self, key: scenario.Key, word: str) -> Iterator[Told]:
        pod = self._pods.pop(key, None)
        if pod is not None:
            del self._keys[pod.uid]
            self.tally.counts[DELETED] += 1
            self._paper.ledger.pod_over(pod.uid)
            yield self._told(News(word, "Pod", "/".join(key[1:])))

    # ------------------------------------------------------------ decisions

    def _decide(self) -> Iterator[Told]:
        """Decide until nobody is left whose turn it is."""
        while answers := self._paper.decide():
            for answer in answers:
                yield from self._carry_out(answer)

    def _carry_out(self, answer: decisions.Decision) -> Iterator[Told]:
        key = self._keys[answer.uid]
        pod = self._pods[key]
        match placing.carry_out(self._paper, answer):
            case placing.Placed() as placed:
                self.tally.counts[PLACED] += 1
                self.tally.waits.append(self._paper.now - pod.arrived)
                self._start(key, pod)
                yield self._told(placed)
            case placing.PutOff(candidate, refusal):
                pod.state = REFUSED if isinstance(refusal, decisions.Reject) else WAITING
                said = _news(refusal)
                if said != pod.said:
                    pod.said = said
                    yield self._told(placing.Refused(candidate, self._explainer.why(candidate, refusal)))


def _news(refusal: decisions.Wait | decisions.Reject) -> tuple[object, ...]:
    """Return what of a refusal is worth repeating again once it changes."""
    return refusal.refusals if isinstance(refusal, decisions.Reject) else refusal.counts
