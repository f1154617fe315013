"""Whatever happens, in whatever order it is heard of: the invariants hold, and the ledger is derivable.

A random history of a small cluster is played: pods come, change, are bound by us or by
others and end; nodes, cards, GpuPods and agents come and go; binds are under way for long, their
answers are lost, the watch lags behind. After each step the ledger is compared with one
that was made afresh.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from berth_crds import names, wire
from berth_operator.engine import ledger, loop, ports
from berth_operator.scheduling import backlog, cycle, decisions
from berth_operator.scheduling.devices import facts as cards_
from berth_operator.scheduling.nodes import facts
from engine import books, servers
from support import builders, clock, hands, worlds

NODES = ("n1", "n2")
MOST_PODS = 8
WISHES: tuple[dict[str, str], ...] = ({}, {names.MODEL: "T4"}, {names.MODEL: builders.MODEL})
AT = st.sampled_from(NODES)
MOSTLY = st.sampled_from([True, True, True, False])
RARELY = st.sampled_from([False, False, False, True])
CHANGES = ("node", "cards", "cards", "agent", "agent", "no node", "no cards")
ENDS = ("Running", "Running", "Succeeded", "Failed", "gone", "deleted")


def usual(at: str) -> st.SearchStrategy[cards_.Device]:
    """Give mostly sound cards, and sometimes any."""
    return st.one_of(st.integers(1, 4).map(lambda count: builders.device(at, count)), worlds.devices(at))


def shapes() -> st.SearchStrategy[dict[str, Any]]:
    """Give what a pod asks for."""
    init = st.lists(st.builds(builders.container, st.sampled_from(["i", "j"]), st.integers(1, 2)), max_size=1)
    gates = st.sampled_from([{}, {}, {}, servers.GATE])
    plain = st.fixed_dictionaries(
        {"gpus": st.integers(0, 3), "priority": st.integers(0, 2)}, optional={"initContainers": init}
    )
    return st.builds(dict[str, Any].__or__, plain, gates)


@dataclasses.dataclass(slots=True)
class Flight:
    """A bind under way: decided, perhaps taken by the server, not yet concluded."""

    candidate: backlog.Candidate
    placement: decisions.Placement
    outcome: ports.Outcome | None = None


class History(stateful.RuleBasedStateMachine):
    """Plays one history."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = clock.Clock()
        self.book = ledger.Ledger(self.clock)
        self.teller = hands.Teller()
        self.loop = loop.Loop(self.book, hands.Writer(self.clock), self.teller, clock=self.clock)
        self.server = servers.Server()
        self.world = worlds.World()
        self.gpupods: dict[str, wire.GpuPod] = {}
        self.flights: dict[str, Flight] = {}
        self.landed: dict[str, decisions.Placement] = {}  # Answered, perhaps not yet shown by the watch.

    def pick(self, data: st.DataObject, among: Iterable[str]) -> str:
        """Draw one of these."""
        return data.draw(st.sampled_from(sorted(among)))

    # ------------------------------------------------------------ nodes and cards

    @stateful.initialize(devices=st.tuples(*map(usual, NODES)))
    def cluster_stands(self, devices: tuple[cards_.Device, ...]) -> None:
        """There are two nodes in service."""
        for device in devices:
            self.node_changes(builders.node(device.node))
            self.cards_change(device, heard=True)

    @stateful.rule(data=st.data(), at=AT, what=st.sampled_from(CHANGES))
    def cluster_changes(self, data: st.DataObject, at: str, what: str) -> None:
        """A node, its cards or its agent come, change or go."""
        match what:
            case "node":
                self.node_changes(data.draw(st.just(builders.node(at)) | worlds.nodes(at)))
            case "cards":
                self.cards_change(data.draw(usual(at)), heard=data.draw(MOSTLY))
            case "agent" if at in self.world.devices:
                self.agent(at, heard=data.draw(MOSTLY))
            case "no node":
                self.world.nodes.pop(at, None)
                self.book.node_gone(at)
            case "no cards":
                self.world.devices.pop(at, None)
                self.world.heard.discard(at)
                self.book.device_gone(at)

    def node_changes(self, node: facts.Node) -> None:
        """A node is new or changed."""
        self.world.nodes[node.name] = node
        self.book.node_seen(node)

    def cards_change(self, device: cards_.Device, *, heard: bool) -> None:
        """A Device is new or changed, and its agent was heard or not."""
        self.world.devices[device.node] = device
        self.book.device_seen(device)
        self.agent(device.node, heard=heard)

    def agent(self, at: str, *, heard: bool) -> None:
        """Judge an agent."""
        (self.world.heard.add if heard else self.world.heard.discard)(at)
        self.book.agent_silent(at, silent=not heard)

    # ------------------------------------------------------------ pods

    @stateful.rule(shapes=st.lists(shapes(), min_size=1, max_size=3), told=MOSTLY)
    def pods_come(self, shapes: list[dict[str, Any]], told: bool) -> None:  # noqa: FBT001  drawn by hypothesis
        """Pods are created; mostly the watch is fast."""
        for shape in shapes if len(self.server.pods) < MOST_PODS else ():
            name = f"p{len(self.server.news)}"
            self.server.create(name, **shape)
            if told:
                self.server.deliver(name, self.book)

    @stateful.precondition(lambda self: self.server.unbound())
    @stateful.rule(data=st.data(), wish=st.sampled_from(WISHES), bind=RARELY, at=AT)
    def waiting_pod_changes(self, data: st.DataObject, wish: dict[str, str], bind: bool, at: str) -> None:  # noqa: FBT001  drawn by hypothesis
        """A gate is lifted, a waiting pod asks for another model, or somebody else binds it."""
        name = self.pick(data, self.server.unbound())
        if "schedulingGates" in self.server.pods[name]:
            self.server.ungate(name)
        elif bind:
            self.server.bind_by_another(name, at)
        else:
            self.server.edit(name, wish)

    @stateful.precondition(lambda self: self.server.pods)
    @stateful.rule(data=st.data(), how=st.sampled_from(ENDS))
    def pod_goes_on(self, data: st.DataObject, how: str) -> None:
        """A kubelet brings a pod further, or takes it away, or somebody deletes it."""
        bound = self.server.bound()
        if how == "deleted":
            self.server.delete(self.pick(data, self.server.pods))
        elif bound and how == "gone":
            self.server.vanish(self.pick(data, bound))
        elif bound:
            self.server.finish(self.pick(data, bound), how)

    @stateful.precondition(lambda self: self.server.pending())
    @stateful.rule(data=st.data())
    def news_arrive(self, data: st.DataObject) -> None:
        """The watch tells the next news of a pod."""
        self.server.deliver(self.pick(data, self.server.pending()), self.book)

    @stateful.rule()
    def all_news_arrive(self) -> None:
        """The watch has caught up."""
        for name in self.server.pending():
            while self.server.news[name]:
                self.server.deliver(name, self.book)

    @stateful.precondition(lambda self: self.server.bound())
    @stateful.rule(
        data=st.data(), at=AT, known=MOSTLY, minors=st.lists(st.integers(0, 4), unique=True, max_size=3)
    )
    def gpupod_comes(self, data: st.DataObject, at: str, known: bool, minors: list[int]) -> None:  # noqa: FBT001  drawn by hypothesis
        """An agent writes what a pod of its node holds; it may be of another node, or of another pod."""
        name = self.pick(data, self.server.bound())
        node = self.server.node(name) if known else at
        uid = "" if data.draw(MOSTLY) else "uid-of-another"
        self.gpupods[name] = builders.gpupod(name, node, uid=uid, main=minors)
        books.named(self.book, self.gpupods[name])

    @stateful.precondition(lambda self: self.gpupods)
    @stateful.rule(data=st.data())
    def gpupod_goes(self, data: st.DataObject) -> None:
        """A GpuPod is deleted, with its pod or before or after it."""
        name = self.pick(data, self.gpupods)
        del self.gpupods[name]
        self.book.gpupod_gone(f"{builders.NAMESPACE}/{name}")

    # ------------------------------------------------------------ decisions and binds

    def flying(self, *, answered: bool) -> list[str]:
        """Name the binds under way that the server has, or has not, answered yet."""
        return [name for name, one in self.flights.items() if (one.outcome is not None) is answered]

    @stateful.rule(later=st.sampled_from([0.2, 20.0]))
    def round_is_made(self, later: float) -> None:
        """We decide, and start to act."""
        self.clock.advance(later)
        for answer in cycle.decide(self.book.places, self.book.waiting, self.clock(), self.book.rules):
            if isinstance(answer, decisions.Bind):
                self.check(answer.placement)
                candidate = self.book.assume(answer)
                self.flights[candidate.name] = Flight(candidate, answer.placement)
            else:
                self.loop._say(answer)

    @stateful.rule()
    def another_round_is_made(self) -> None:
        """Rounds are more frequent than anything else."""
        self.round_is_made(0.5)

    def check(self, placement: decisions.Placement) -> None:
        """Every card given is sound, there, free, and its agent is alive (I6)."""
        sound = set()
        device = self.world.devices.get(placement.node)
        if device is not None and not device.failed and placement.node in self.world.heard:
            sound = {card.uuid for card in device.cards if card.trouble is None}
        assert placement.node in self.world.nodes
        assert {share.uuid for share in worlds.given(placement)} <= sound

    @stateful.precondition(lambda self: self.flying(answered=False))
    @stateful.rule(data=st.data(), reaches=MOSTLY)
    def bind_is_answered(self, data: st.DataObject, reaches: bool) -> None:  # noqa: FBT001  drawn by hypothesis
        """The server takes a bind or refuses it, or something before the server says no."""
        name = self.pick(data, self.flying(answered=False))
        flight = self.flights[name]
        flight.outcome = self.server.bind(name, flight.placement) if reaches else ports.Refused("fenced")

    @stateful.precondition(lambda self: self.flying(answered=True))
    @stateful.rule(data=st.data(), heard=MOSTLY)
    def answer_arrives(self, data: st.DataObject, heard: bool) -> None:  # noqa: FBT001  drawn by hypothesis
        """We hear what became of a bind; or the answer is lost, and we look and send the same again."""
        name = self.pick(data, self.flying(answered=True))
        flight = self.flights[name]
        outcome = flight.outcome if heard else self.server.look(name)
        assert outcome is not None
        if isinstance(outcome, ports.Unbound):
            flight.outcome = None
            return
        del self.flights[name]
        self.loop._conclude(flight.candidate, flight.placement, outcome)
        if isinstance(outcome, ports.Gone):
            self.server.delivered[name] = None  # Known before the watch tells it.
        if self.book.state(flight.candidate.uid) is ledger.State.ASSUMED:
            self.landed[flight.candidate.uid] = flight.placement

    # ------------------------------------------------------------ what always holds

    @stateful.invariant()
    def no_card_is_promised_twice(self) -> None:
        """At no revision do two pods of ours have the same card (I1)."""
        in_use = self.server.cards_in_use()
        assert len(set(in_use)) == len(in_use)

    @stateful.invariant()
    def nobody_waits_and_holds(self) -> None:
        """A pod waits or holds, never both."""
        assert not set(self.book.waiting._entries) & set(self.book._states)

    @stateful.invariant()
    def nobody_sleeps_who_could_go(self) -> None:
        """A pod that waits for a change has no place now: whatever gave it one has woken it."""
        for entry in self.book.waiting._entries.values():
            pod = entry.candidate
            if entry.wants is not None and not pod.faults:
                place = self.book.places.place(pod.request, pod.demand, rules=self.book.rules)
                assert place is None, f"{pod.title} sleeps"

    @stateful.invariant()
    def ledger_is_derivable(self) -> None:
        """Made afresh of what was heard last, and of the binds under way, it is the same (I8)."""
        heard = [(name, pod) for name, pod in self.server.delivered.items() if pod is not None]
        fresh = self.afresh(heard)
        placements = self.landed | {one.candidate.uid: one.placement for one in self.flights.values()}
        for uid in self.book.assumed:
            fresh.assume(decisions.Bind(uid, placements[uid]))
        assert books.told(self.book) == books.told(fresh)

    def afresh(self, heard: list[tuple[str, Any]]) -> ledger.Ledger:
        """Make a ledger of the world and these pods, backwards."""
        fresh = ledger.Ledger(self.clock)
        for _, pod in reversed(heard):
            books.saw(fresh, pod)
        for thing in self.gpupods.values():
            books.named(fresh, thing)
        for at in reversed(NODES):
            if at in self.world.devices:
                fresh.device_seen(self.world.devices[at])
                fresh.agent_silent(at, silent=at not in self.world.heard)
            if at in self.world.nodes:
                fresh.node_seen(self.world.nodes[at])
        return fresh

    def teardown(self) -> None:
        """When all is said and done, a restart changes nothing (I5, I8)."""
        for name, flight in self.flights.items():
            outcome = flight.outcome or self.server.bind(name, flight.placement)
            self.loop._conclude(flight.candidate, flight.placement, outcome)
        self.all_news_arrive()
        fresh = self.afresh(list(self.server.objects().items()))
        assert books.told(self.book) == books.told(fresh)


TestHistory = History.TestCase
TestHistory.settings = hypothesis.settings(
    worlds.PROPERTY, max_examples=30, stateful_step_count=50, print_blob=True
)
