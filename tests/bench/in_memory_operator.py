"""Delivering pods to a real ledger and a real loop, and taking the time of each: the ground of `make fuzz`.

A thousand nodes of several models stand in memory, and some whose links no hardware has.
A pod arrives as JSON, as from a watch; a bind is carried out at once and comes back by
the watch, too. What keeps the loop is measured pod by pod in time of this thread, so that
what else runs on the machine counts for little; that is also the clock of the loop, and
time passes between rounds only.
"""

import asyncio
import collections
import dataclasses
import functools
import gc
import time
import zlib
from typing import Final

import msgspec

from bench import placement_rules, pod_generator
from berth_crds import wire
from berth_crds.client import watch
from berth_operator.engine import bind_sender, decision_reporter, loop, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.http_api import views
from berth_operator.kube import sinks
from berth_operator.scheduling import cycle, decisions, queued_pods
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from berth_operator.translate import devices as translated
from berth_operator.translate import raw
from support import builders, irregular_topologies, topologies, writers

MOST_WAITING: Final = 300
MOST_BOUND: Final = 300
PODS_THERE: Final = 2000  # Without cards; they stay.
STEP_SECONDS: Final = 0.05  # That pass between two rounds.


@dataclasses.dataclass(slots=True)
class Spent:
    """How long one pod kept the loop; `asked` is what it takes to explain it to whoever asks by HTTP."""

    translated: float = 0.0
    decided: float = 0.0
    explained: float = 0.0
    asked: float = 0.0

    @property
    def total(self) -> float:
        """What happens to it by itself, or on demand, whichever takes longer."""
        return max(self.translated + self.decided + self.explained, self.asked)


class Clock:
    """Time of this thread, and what is made to pass between rounds."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return time.thread_time() + self.ahead


class PodStatusWriter:
    """Remembers what each waiting pod shows."""

    def __init__(self) -> None:
        self._shown: dict[str, str] = {}
        self.answers: collections.Counter[str] = collections.Counter()

    def pod_waiting(self, pod: raw.Pod) -> None:
        """See a waiting pod."""

    def pod_left(self, uid: str) -> None:
        """Forget a pod that waits no more."""
        self._shown.pop(uid, None)

    def bound(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        """Report that a pod has its node."""

    def unschedulable(
        self, pod_info: queued_pods.PodInfo, message: str, *, fault: decisions.Reason | None = None
    ) -> None:
        """Report why a pod waits."""
        self.answers[str(fault or "waits")] += 1
        self._shown[pod_info.uid] = message

    def shown_message(self, uid: str) -> str:
        """Return what a pod shows."""
        return self._shown.get(uid, "")

    def not_bound(self, pod_info: queued_pods.PodInfo, message: str) -> None:
        """Report that a bind was not carried out."""
        raise AssertionError(f"{pod_info.title}: {message}")


class Writer(writers.Lead):
    """Binds everything at once, and remembers what was bound where."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, decisions.Placement]] = []

    async def bind(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> ports.Answer:
        """Send a Binding."""
        self.bound.append((pod_info.uid, placement))
        return ports.Bound()

    async def dry_run(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> ports.Answer:
        """Ask about a Binding."""
        raise AssertionError(f"{pod_info.title} needs no dry run on {placement.node}")

    async def read_pod(self, pod_info: queued_pods.PodInfo) -> ports.ReadResult:
        """Read a pod, or void its binds."""
        raise AssertionError(f"{pod_info.title} needs no look")

    void = read_pod


# ---------------------------------------------------------------- the cluster


def furnish(ledger: Ledger, count: int) -> None:
    """Add nodes of several models with eight cards each: most plain, some cut, shared, or with NICs."""
    for at in range(count):
        name = f"node-{at:05}"
        _add_node(ledger, name, at)
        model = pod_generator.MODELS[at % len(pod_generator.MODELS)]
        ledger.device_seen(_varied(topologies.device(name, f"8x{model}"), at))
        ledger.agent_silent(name, silent=False)


def _add_node(ledger: Ledger, name: str, at: int) -> None:
    labels = {"kubernetes.io/hostname": name, "zone": placement_rules.ZONES[at % 3], "rack": str(at // 20)}
    taints = (facts.Taint("gpu", "", "NoSchedule"),) if at % 7 == 0 else ()
    given = ((facts.CPU, 192_000), (facts.MEMORY, 2 << 40), (facts.PODS, 256))
    ledger.node_seen(facts.Node(name, labels, taints, allocatable=given))


def _varied(device: device_facts.Device, at: int) -> device_facts.Device:
    match at % 20:
        case 3:
            cards = tuple(_cut(card, at) for card in device.cards)
        case 4:
            cards = tuple(dataclasses.replace(card, replicas=7) for card in device.cards)
        case _:
            cards = device.cards
    roots = sorted({card.root for card in device.cards if card.root})
    nics = tuple(_nic(at, minor, roots) for minor in range(4)) if at % 4 == 1 else ()
    return dataclasses.replace(device, cards=cards, others=nics)


def odd_node(at: int) -> str:
    """Name a node whose links no hardware has; each has as many cards as a Device may list."""
    return f"odd-{at:02}"


def _cut(card: PhysicalDevice, at: int) -> PhysicalDevice:
    found = builders.instances(f"{at}", card.minor, 3) + builders.instances(
        f"b{at}", card.minor, 2, "2g.20gb"
    )
    return dataclasses.replace(card, mig=True, instances=found)


def _nic(at: int, minor: int, roots: list[str]) -> PhysicalDevice:
    functions = tuple(
        device_facts.Function(f"{at}:{minor}.{number}", number, (("type", "general"),)) for number in range(8)
    )
    root = roots[minor % len(roots)] if roots else None
    labels = (("fabric", "ab"[minor % 2]),)
    return PhysicalDevice(
        f"rdma-{at}-{minor}", minor, root=root, type="rdma", labels=labels, functions=functions
    )


def caches() -> "list[functools._lru_cache_wrapper[object]]":
    """Return the caches of all functions of Berth, frozen ones included, of which Python lists none."""
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    every = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
    if was_frozen:
        gc.freeze()
    return [one for one in every if one.__module__.startswith("berth_")]


# ---------------------------------------------------------------- the operator


class InMemoryOperator:
    """A ledger, a loop over it, and pods that come and go."""

    def __init__(self, nodes: int) -> None:
        self.clock = Clock()
        self.ledger = Ledger(self.clock)
        self.ledger.paced_calls.cpu_clock = time.thread_time
        self.status_writer, self.writer = PodStatusWriter(), Writer()
        self.sink = sinks.PodSink(self.ledger, self.status_writer)
        self.loop = loop.Loop(
            self.ledger,
            self.writer,
            decision_reporter.DecisionReporter(
                self.ledger, self.status_writer, clock=self.clock, cpu_clock=self.clock
            ),
            clock=self.clock,
            bind_limits=bind_sender.Limits(),
            records=writers.discarded_records(),
        )
        self.spent: collections.defaultdict[str, Spent] = collections.defaultdict(Spent)
        self.waiting: dict[str, bytes] = {}  # As they came, packed.
        self.held: collections.deque[str] = collections.deque()
        self._codec = watch.Codec(raw.Pod)
        self._numbers = 0
        self._caches = caches()
        furnish(self.ledger, nodes)
        for at, sort in enumerate(irregular_topologies.SORTS):
            _add_node(self.ledger, odd_node(at), at)
            self.publish(pod_generator.Board(at, sort))
            self.ledger.agent_silent(odd_node(at), silent=False)
        for body in placement_rules.bound_pods(PODS_THERE, nodes):
            self._hear(msgspec.json.encode(body))
        self._measure()

    def _measure(self) -> None:
        """Measure the time of decisions and of sentences, pod by pod."""
        self._decide, say = cycle.place_or_count_reasons, self.loop.reporter.reasons.message

        def said(pod_info: queued_pods.PodInfo, decision: decisions.Wait | decisions.Reject) -> str:
            started = time.thread_time()
            sentence = say(pod_info, decision)
            self.spent[pod_info.uid].explained += time.thread_time() - started
            return sentence

        cycle.place_or_count_reasons = self._decided
        self.loop.reporter.reasons.message = said  # type: ignore[method-assign]

    def _decided(
        self,
        search: Search,
        pod_info: queued_pods.PodInfo,
        policy: Policy,
        unschedulable: cycle.UnschedulableSignatures,
        effort: Effort,
        left_out: cycle.NodeNames = cycle.NO_NODES,
    ) -> decisions.Decision:
        started = time.thread_time()
        answer = self._decide(search, pod_info, policy, unschedulable, effort, left_out)
        self.spent[pod_info.uid].decided += time.thread_time() - started
        return answer

    def publish(self, topology: pod_generator.Board) -> float:
        """Have the agent of an odd node publish other links, and give the seconds that takes."""
        made = irregular_topologies.published(
            odd_node(topology.at), irregular_topologies.SORTS[topology.sort](), salt=topology.salt
        )
        started = time.thread_time()
        self.ledger.device_seen(translated.read(made))
        return time.thread_time() - started

    def close(self) -> None:
        """Leave no measuring behind."""
        cycle.place_or_count_reasons = self._decide

    # ------------------------------------------------------------ pods

    def deliver(self, made: pod_generator.Pod, name: str = "") -> str:
        """Have the watch show a new pod, and give its uid."""
        self._numbers += 1
        uid = f"uid-{self._numbers}"
        meta = {"name": name or f"p{self._numbers}", "namespace": "fuzz", "uid": uid}
        stamped = {"creationTimestamp": f"2026-01-01T00:00:00.{self._numbers:09}Z"}
        body = {**made, "metadata": {**made["metadata"], **meta, **stamped}, "status": {"phase": "Pending"}}
        self._show(uid, msgspec.json.encode(body))
        return uid

    def _show(self, uid: str, body: bytes) -> None:
        started = time.thread_time()
        self._hear(body)
        self.spent[uid].translated += time.thread_time() - started
        self.waiting[uid] = zlib.compress(body, 1)

    def _hear(self, body: bytes) -> None:
        thing = self._codec.decode_object(msgspec.Raw(body))
        # Where a pod runs that cannot be read, all cards are withheld that nothing names.
        assert not isinstance(thing, watch.Undecodable), f"{thing} was read of {body[:2000]!r}"
        self.sink.upserted(thing)

    def end(self, uid: str) -> None:
        """Have the watch show that a pod is gone."""
        self.waiting.pop(uid, None)
        self.sink.deleted(wire.Meta(uid=uid))
        self.spent.pop(uid, None)

    async def round(self) -> float:
        """Make a round, have its binds confirmed by the watch, and give the seconds of the round itself."""
        self.clock.ahead += STEP_SECONDS
        started = time.thread_time()
        self.loop.round()
        seconds = time.thread_time() - started
        while self.loop.binder.busy:  # noqa: ASYNC110  it is nobody's event
            await asyncio.sleep(0)
        for uid, placement in self.writer.bound:
            self._confirm(uid, placement)
        self.writer.bound.clear()
        return seconds

    def _confirm(self, uid: str, placement: decisions.Placement) -> None:
        body = msgspec.json.decode(zlib.decompress(self.waiting[uid]))
        body["metadata"]["annotations"] = body["metadata"]["annotations"] | builders.answered(placement)
        body["spec"]["nodeName"] = placement.node
        self._show(uid, msgspec.json.encode(body))
        del self.waiting[uid]
        self.status_writer.answers["bound"] += 1
        self.held.append(uid)

    def ask(self, uid: str) -> None:
        """Have somebody ask why a pod waits, if it does."""
        pod_info = self.ledger.backlog.get(uid)
        if pod_info is not None:
            started = time.thread_time()
            told = views.explanation(self.ledger, pod_info, self.clock)
            self.spent[uid].asked = time.thread_time() - started
            views.explanation_fields(told, pod_info)  # In a thread of its own.

    def tidy(self) -> None:
        """Have old pods go."""
        while len(self.waiting) > MOST_WAITING:
            self.end(next(iter(self.waiting)))
        while len(self.held) > MOST_BOUND:
            self.end(self.held.popleft())

    def forget(self) -> None:
        """Forget all that was worked out for earlier pods, as after a start."""
        self.ledger.search = Search(self.ledger.inventory)
        for one in self._caches:
            one.cache_clear()
