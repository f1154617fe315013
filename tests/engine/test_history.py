"""Whatever happens, in whatever order it is seen: the invariants hold, and the ledger is derivable.

A random history of a small cluster is played before the loop as it runs: pods come, change, are bound
by us or by others and end; nodes, cards, GpuPods and agents come and go; binds are under way for long,
they or their answers are lost and arrive later all the same, the server asks for rests, the watch lags
behind. After each step the ledger is compared with one that was made afresh.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from berth_crds import names, wire
from berth_operator.engine import bind_sender, decision_reporter, loop, paced_calls, ports
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import decisions, queued_pods
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.nodes import facts
from berth_operator.translate import pods
from engine import pod_server
from support import builders, ledgers, random_clusters, thorough, timeless, writers

NODES = ("n1", "n2")
MOST_PODS = 8
QUIET_ROUNDS = MOST_PODS  # Binds under way may be lost once more each, and pauses end within 10 s.
WISHES: tuple[dict[str, str], ...] = ({}, {names.MODEL: "T4"}, {names.MODEL: builders.MODEL})
AT = st.sampled_from(NODES)
MOSTLY = st.sampled_from([True, True, True, False])
RARELY = st.sampled_from([False, False, False, True])
CHANGES = ("node", "cards", "cards", "agent", "agent", "no node", "no cards")
FATES = ("taken", "taken", "taken", "taken, answer lost", "late", "crowded out", "refused")
ENDS = ("admitted", "admitted", "Running", "Running", "Succeeded", "Failed", "gone", "deleted")


def usual(at: str) -> st.SearchStrategy[device_facts.Device]:
    """Return mostly sound cards, and sometimes any."""
    return st.one_of(
        st.integers(1, 4).map(lambda count: builders.device(at, count)), random_clusters.devices(at)
    )


def shapes() -> st.SearchStrategy[dict[str, Any]]:
    """Return what a pod asks for."""
    init = st.lists(st.builds(builders.container, st.sampled_from(["i", "j"]), st.integers(1, 2)), max_size=1)
    gates = st.sampled_from([{}, {}, {}, pod_server.GATE])
    plain = st.fixed_dictionaries(
        {"gpus": st.sampled_from([1, 1, 1, 2, 3, 0, 0]), "priority": st.integers(0, 2)},
        optional={"initContainers": init, "nodeSelector": st.just({"zone": "a"})},
    )
    return st.builds(dict[str, Any].__or__, plain, gates)


class History(stateful.RuleBasedStateMachine):
    """Plays one history."""

    def __init__(self) -> None:
        super().__init__()
        self.time = asyncio.Runner(loop_factory=timeless.Loop)
        self.clock = self.time.get_loop().time
        self.ledger = Ledger(self.clock)
        self.server = pod_server.Server()
        self.binds = pod_server.PendingBinds(self.server, self.check)
        # Few at once, so that some wait for their turn while what they were decided on changes.
        few = bind_sender.Limits(binds_at_once=2)
        self.loop = loop.Loop(
            self.ledger,
            self.binds,
            decision_reporter.DecisionReporter(
                self.ledger, writers.PodStatusWriter(), clock=self.clock, cpu_clock=self.clock
            ),
            clock=self.clock,
            bind_limits=few,
            records=writers.discarded_records(),
        )
        self.running = self.time.get_loop().create_task(self.loop.run())
        self.world = random_clusters.ClusterState()
        self.gpupods: dict[str, wire.GpuPod] = {}
        self.ending = False

    def pick(self, data: st.DataObject, among: Iterable[str]) -> str:
        """Draw one of these."""
        return data.draw(st.sampled_from(sorted(among)))

    # ------------------------------------------------------------ nodes and cards

    @stateful.initialize(devices=st.tuples(*map(usual, NODES)), bare=st.sets(AT, max_size=1))
    def cluster_stands(self, devices: tuple[device_facts.Device, ...], bare: set[str]) -> None:
        """There are two nodes in service, perhaps one without cards."""
        for device in devices:
            self.node_changes(builders.node(device.node))
            if device.node not in bare:
                self.cards_change(device, alive=True)

    @stateful.rule(data=st.data(), at=AT, what=st.sampled_from(CHANGES))
    def cluster_changes(self, data: st.DataObject, at: str, what: str) -> None:
        """A node, its cards or its agent come, change or go."""
        match what:
            case "node":
                self.node_changes(data.draw(st.just(builders.node(at)) | random_clusters.nodes(at)))
            case "cards":
                self.cards_change(data.draw(usual(at)), alive=data.draw(MOSTLY))
            case "agent" if at in self.world.devices:
                self.agent(at, alive=data.draw(MOSTLY))
            case "no node":
                self.world.nodes.pop(at, None)
                self.ledger.node_gone(at)
            case "no cards":
                self.world.devices.pop(at, None)
                self.world.reporting.discard(at)
                self.ledger.device_gone(at)

    @stateful.rule(counts=st.tuples(*[st.integers(1, 3)] * len(NODES)))
    def cluster_recovers(self, counts: tuple[int, ...]) -> None:
        """Somebody puts all nodes in order, and what waits gets its place."""
        for at, count in zip(NODES, counts, strict=True):
            self.node_changes(builders.node(at))
            self.cards_change(builders.device(at, count), alive=True)
        self.time_passes(11.0)

    def node_changes(self, node: facts.Node) -> None:
        """A node is new or changed."""
        self.world.nodes[node.name] = node
        self.ledger.node_seen(node)

    def cards_change(self, device: device_facts.Device, *, alive: bool) -> None:
        """A Device is new or changed, and its agent is alive or not."""
        self.world.devices[device.node] = device
        self.ledger.device_seen(device)
        self.agent(device.node, alive=alive)

    def agent(self, at: str, *, alive: bool) -> None:
        """Judge an agent."""
        (self.world.reporting.add if alive else self.world.reporting.discard)(at)
        self.ledger.agent_silent(at, silent=not alive)

    # ------------------------------------------------------------ pods

    @stateful.rule(shapes=st.lists(shapes(), min_size=1, max_size=3), seen=MOSTLY)
    def pods_come(self, shapes: list[dict[str, Any]], seen: bool) -> None:  # noqa: FBT001  drawn by hypothesis
        """Pods are created; mostly the watch is fast."""
        for shape in shapes if len(self.server.pods) < MOST_PODS else ():
            name = f"p{len(self.server.news)}"
            self.server.create(name, **shape)
            if seen:
                self.server.deliver(name, self.ledger)
        self.a_moment_passes()

    @stateful.precondition(lambda self: self.server.having(node=False))
    @stateful.rule(data=st.data(), wish=st.sampled_from(WISHES), bind=RARELY, at=AT)
    def waiting_pod_changes(self, data: st.DataObject, wish: dict[str, str], bind: bool, at: str) -> None:  # noqa: FBT001  drawn by hypothesis
        """A gate is lifted, a waiting pod asks for another model, or somebody else binds it."""
        name = self.pick(data, self.server.having(node=False))
        if "schedulingGates" in self.server.pods[name]:
            self.server.ungate(name)
        elif bind:
            self.server.change(name, {"nodeName": at})
        else:
            self.server.change(name, {"annotations": wish})

    @stateful.precondition(lambda self: self.server.pods)
    @stateful.rule(data=st.data(), how=st.sampled_from(ENDS))
    def pod_goes_on(self, data: st.DataObject, how: str) -> None:
        """A kubelet brings a pod further, or takes it away, or somebody deletes it."""
        bound = self.server.having(node=True)
        match how:
            case "deleted":
                self.server.delete(self.pick(data, self.server.pods))
            case "gone" if bound:
                self.server.vanish(self.pick(data, bound))
            case _ if bound:
                fields = pod_server.ADMITTED if how == "admitted" else {"phase": how}
                self.server.go_on(self.pick(data, bound), fields)

    @stateful.precondition(lambda self: self.server.pending())
    @stateful.rule(data=st.data())
    def news_arrive(self, data: st.DataObject) -> None:
        """The watch tells the next news of a pod."""
        self.server.deliver(self.pick(data, self.server.pending()), self.ledger)

    @stateful.rule()
    def all_news_arrive(self) -> None:
        """The watch has caught up."""
        for name in self.server.pending():
            while self.server.news[name]:
                self.server.deliver(name, self.ledger)

    @stateful.precondition(lambda self: self.server.having(node=True))
    @stateful.rule(
        data=st.data(), at=AT, known=MOSTLY, minors=st.lists(st.integers(0, 4), unique=True, max_size=3)
    )
    def gpupod_comes(self, data: st.DataObject, at: str, known: bool, minors: list[int]) -> None:  # noqa: FBT001  drawn by hypothesis
        """An agent writes what a pod of its node holds; it may be of another node, or of another pod."""
        name = self.pick(data, self.server.having(node=True))
        node = self.server.node(name) if known else at
        uid = "" if data.draw(MOSTLY) else "uid-of-another"
        self.gpupods[name] = builders.gpupod(name, node, uid=uid, main=minors)
        ledgers.gpupod_seen(self.ledger, self.gpupods[name])

    @stateful.precondition(lambda self: self.gpupods)
    @stateful.rule(data=st.data())
    def gpupod_goes(self, data: st.DataObject) -> None:
        """A GpuPod is deleted, with its pod or before or after it."""
        name = self.pick(data, self.gpupods)
        del self.gpupods[name]
        self.ledger.gpupod_gone(f"{builders.NAMESPACE}/{name}")

    # ------------------------------------------------------------ decisions and binds

    @stateful.rule(seconds=st.sampled_from([0.0, 0.02, 0.02, 0.3, 5.0, 30.0]))
    def time_passes(self, seconds: float) -> None:
        """The loop has time to decide, to send, to wait and to look."""
        self.time.run(timeless.passing(seconds))
        assert self.ending or not self.running.done(), "the loop has ended"
        for name in self.server.gone:
            self.server.delivered[name] = None
        self.server.gone.clear()

    @stateful.rule()
    def a_moment_passes(self) -> None:
        """Rounds are more frequent than anything else."""
        self.time_passes(0.02)

    def check(self, pod_info: queued_pods.PodInfo, placement: decisions.Placement) -> None:
        """It is what the pod asks for now; every card is sound and there, and its agent is alive (I6)."""
        asked = self.ledger.unbound(pod_info.uid)
        assert asked is not None
        assert asked[0] == pod_info
        sound = set()
        device = self.world.devices.get(placement.node)
        if device is not None and not device.failed and placement.node in self.world.reporting:
            sound = {card.uuid for card in device.cards if card.trouble is None}
        assert placement.node in self.world.nodes
        assert {share.uuid for share in random_clusters.given(placement)} <= sound

    @stateful.precondition(lambda self: self.binds.under_way)
    @stateful.rule(data=st.data(), fate=st.sampled_from(FATES))
    def bind_goes_on(self, data: st.DataObject, fate: str) -> None:
        """The server takes a bind or refuses it, wants a rest, or it is lost on its way there or back."""
        name = self.pick(data, self.binds.under_way)
        pending = self.binds.under_way.pop(name)
        answer: ports.Answer
        match fate:
            case "taken":
                answer = self.server.learn(name, self.server.bind(name, pending.placement))
            case "taken, answer lost":
                self.server.bind(name, pending.placement)
                answer = pod_server.LOST
            case "late":
                self.binds.lost.append((name, pending.placement))
                answer = pod_server.LOST
            case "crowded out":
                answer = ports.Throttled("slow down", 3.0)
            case _:
                answer = ports.Refused("a webhook says no")
        pending.answer.set_result(answer)
        self.time_passes(0.0)

    @stateful.precondition(lambda self: self.binds.under_way)
    @stateful.rule()
    def binds_are_suspended(self) -> None:
        """All that is under way takes too long, and we are past waiting for it."""
        for name, pending in self.binds.under_way.items():
            self.binds.lost.append((name, pending.placement))
            pending.answer.set_result(pod_server.LOST)
        self.binds.under_way.clear()
        self.time_passes(4.0)

    @stateful.precondition(lambda self: self.binds.under_way)
    @stateful.rule()
    def binds_are_taken(self) -> None:
        """All that is under way arrives, and we hear of it."""
        for name, pending in list(self.binds.under_way.items()):
            pending.answer.set_result(self.server.learn(name, self.server.bind(name, pending.placement)))
        self.binds.under_way.clear()
        self.time_passes(0.0)

    @stateful.precondition(lambda self: self.binds.lost)
    @stateful.rule(data=st.data())
    def late_bind_arrives(self, data: st.DataObject) -> None:
        """A bind that we gave up waiting for reaches the server all the same."""
        bind = self.binds.lost.pop(data.draw(st.integers(0, len(self.binds.lost) - 1)))
        self.server.bind(*bind)

    # ------------------------------------------------------------ what always holds

    @stateful.invariant()
    def no_card_is_promised_twice(self) -> None:
        """At no revision do two pods of ours have the same card (I1)."""
        in_use = self.server.cards_in_use()
        assert len(set(in_use)) == len(in_use)

    @stateful.invariant()
    def who_was_admitted_is_charged(self) -> None:
        """Once a kubelet has said that it admitted a pod, all that it asked for is charged."""
        for name, pod in self.server.delivered.items():
            view = pods.classify(pod) if pod is not None and name not in self.server.gone else None
            if isinstance(view, pods.BoundPod) and view.unadmitted_selection is None:
                hold = self.ledger.inventory.hold(view.hold.uid)
                assert hold is not None and hold.amounts == view.hold.amounts

    @stateful.invariant()
    def nobody_waits_and_holds(self) -> None:
        """A pod waits or holds, never both."""
        assert not set(self.ledger.backlog._entries) & set(self.ledger._states)

    @stateful.invariant()
    def nobody_sleeps_who_could_go(self) -> None:
        """A pod that waits for a change has no place now: whatever gave it one woke it, or does so soon."""
        soon = self.ledger.paced_calls.is_delayed
        for entry in self.ledger.backlog._entries.values():
            pod = entry.pod_info
            if entry.awaited is not None and not pod.faults:
                place = self.ledger.search.place(pod.request, pod.demand, policy=self.ledger.policy)
                assert place is None or soon(paced_calls.improved_node(place.node)), f"{pod.title} sleeps"

    @stateful.invariant()
    def ledger_is_derivable(self) -> None:
        """Made afresh of what was seen last, and of the binds under way, it is the same (I8)."""
        pods_seen = [(name, pod) for name, pod in self.server.delivered.items() if pod is not None]
        fresh = self.afresh(pods_seen)
        for uid, one in self.ledger.assumed_pods.items():
            fresh.assume(decisions.Bind(uid, one.placement))
        assert ledgers.contents(self.ledger) == ledgers.contents(fresh)

    def afresh(self, pods_seen: list[tuple[str, Any]]) -> Ledger:
        """Make a ledger of the world and these pods, backwards."""
        fresh = Ledger(self.clock)
        for _, pod in reversed(pods_seen):
            ledgers.pod_seen(fresh, pod)
        for thing in self.gpupods.values():
            ledgers.gpupod_seen(fresh, thing)
        for at in reversed(NODES):
            if at in self.world.devices:
                fresh.device_seen(self.world.devices[at])
                fresh.agent_silent(at, silent=at not in self.world.reporting)
            if at in self.world.nodes:
                fresh.node_seen(self.world.nodes[at])
        return fresh

    def teardown(self) -> None:
        """When all is said and done, a restart changes nothing (I5, I8)."""
        try:
            self.all_is_said_and_done()
        finally:
            self.running.cancel()
            self.time.close()

    def whoever_fits_is_bound(self) -> None:
        """With nothing in their way for some time, no pod is left for which there is a place."""
        for _ in range(QUIET_ROUNDS):
            self.time_passes(11.0)
            self.binds_are_taken()
            self.all_news_arrive()
        for entry in self.ledger.backlog.in_order():
            pod = entry.pod_info
            place = self.ledger.search.place(pod.request, pod.demand, policy=self.ledger.policy)
            assert pod.faults or place is None, f"{pod.title} fits and waits"

    def all_is_said_and_done(self) -> None:
        """Every bind comes to its end, the watch catches up, and nothing more happens."""
        self.whoever_fits_is_bound()
        self.ending = self.running.cancel()
        for bind in self.binds.lost:
            self.server.bind(*bind)
        while self.loop.binder.busy:
            self.binds_are_taken()
            self.time.run(timeless.passing(1.0))
        self.all_news_arrive()
        fresh = self.afresh(list(self.server.objects().items()))
        assert ledgers.contents(self.ledger) == ledgers.contents(fresh)


TestHistory = History.TestCase
TestHistory.settings = hypothesis.settings(
    random_clusters.PROPERTY, max_examples=thorough.examples(150), stateful_step_count=60, print_blob=True
)
