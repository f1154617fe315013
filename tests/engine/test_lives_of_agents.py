"""Whatever order agents, pods, kubelets, evictions and leaders come and go in, no card is promised twice.

The world here is small: some nodes with two cards, pods that want one, agents that renew or do not, one
leader after the other. What is true is kept beside the ledger, and compared with it after each step.
"""

import dataclasses
import logging

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from berth_crds.vocabulary import Recovery
from berth_operator.engine.evictions import NODES_PER_DRAINED, EvictionPlan
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.watchdog import Watchdog
from berth_operator.scheduling import cycle, decisions, queued_pods
from berth_operator.scheduling.decisions import EvictionCause, Reason
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.policy import Policy
from support import builders, clock

NODES = tuple(f"n{at}" for at in range(6))
CARDS = 2
POLICIES = tuple(
    dataclasses.replace(Policy(), evict_after_seconds=after, evict_sick=sick, drain_cordoned=sick)
    for after in (None, 0.0, 100.0)
    for sick in (False, True)
)
NODE = st.sampled_from(NODES)
FEW = st.sets(NODE, min_size=1, max_size=2)
QUIET = logging.getLogger("nobody")
QUIET.disabled = True
QUARANTINE = "its kubelet rejected 3 pods in a row"


class Lives(stateful.RuleBasedStateMachine):
    """A cluster in which everything dies and comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = clock.Clock()
        self.alive = set(NODES)
        self.troubles: dict[str, Reason | None] = dict.fromkeys(NODES)  # Of the first card of each node.
        self.quarantined: set[str] = set()
        self.running: dict[str, Hold] = {}  # Pods that are on a node, those that are ending included.
        self.waiting: dict[str, int] = {}
        self.ending: set[str] = set()
        self.policy = POLICIES[-1]
        self.budget = ["evicted"] * len(NODES)  # What the next evictions are answered.
        self.made = 0
        self.lead()
        self.ask(8)
        self.decide(lands=True)

    # ------------------------------------------------------------ leaders

    @stateful.rule()
    def lead(self) -> None:
        """Another leader starts, and knows what the API says."""
        self.ledger = Ledger(self.clock)
        self.ledger.policy_seen(self.policy)
        self.watchdog = Watchdog(self.ledger, clock=self.clock, logger=QUIET)
        self.plan, self.planned_for = EvictionPlan(), self.policy
        self.changes = self.ledger.changes.reader()
        for name in NODES:
            self.ledger.node_seen(builders.node(name))
            self.publish(name)
            self.watchdog.device_seen(name, found_silent=name not in self.alive)
            self.watchdog.lease_seen(name, "as found")
        self.ledger.all_devices_read()
        for hold in self.running.values():
            self.ledger.pod_bound(hold)
        for name in self.waiting:
            self.ledger.pod_waiting(builders.candidate(name, 1), gated=False)
        self.quarantined.clear()  # What another leader has found is forgotten.

    def publish(self, name: str) -> None:
        """Have the agent of a node publish its cards."""
        trouble = self.troubles[name]
        cards = [builders.card(at, at=name) for at in range(CARDS)]
        sick = Recovery.RESET if trouble is Reason.UNHEALTHY else None
        cards[0] = dataclasses.replace(cards[0], trouble=trouble, recovery=sick)
        self.ledger.device_seen(builders.device(name, cards))

    @stateful.rule(policy=st.sampled_from(POLICIES))
    def decree(self, policy: Policy) -> None:
        """The policy changes."""
        self.policy = policy
        self.ledger.policy_seen(policy)

    # ------------------------------------------------------------ agents, cards and kubelets

    @stateful.rule(names=FEW, seconds=st.sampled_from([0, 70, 200]))
    def die(self, names: set[str], seconds: int) -> None:
        """Few agents die, and mostly for long."""
        self.alive -= names
        self.pass_time(seconds)

    @stateful.rule(seconds=st.sampled_from([0, 70, 200]))
    def all_die(self, seconds: int) -> None:
        """All agents die, or nobody hears them."""
        self.alive.clear()
        self.pass_time(seconds)

    @stateful.rule(names=st.one_of(FEW, st.just(set(NODES))), seconds=st.sampled_from([0, 70]))
    def come_back(self, names: set[str], seconds: int) -> None:
        """Few agents come back, or all of them."""
        self.alive |= names
        self.pass_time(seconds)

    @stateful.rule(seconds=st.sampled_from([10, 30, 70]))
    def pass_time(self, seconds: int) -> None:
        """Time passes, and who is alive renews each ten seconds."""
        for _ in range(seconds // 10):
            self.clock.advance(10)
            for name in sorted(self.alive):
                self.watchdog.lease_seen(name, f"{self.clock()}")
            self.watchdog.judge()
            self.update()
            self.send(self.budget)

    @stateful.rule(name=NODE, trouble=st.sampled_from([None, Reason.UNHEALTHY, Reason.CARD_CORDONED]))
    def fall_sick(self, name: str, trouble: Reason | None) -> None:
        """A card falls sick or well, or people cordon it; of a dead agent nobody hears so."""
        if name in self.alive:
            self.troubles[name] = trouble
            self.publish(name)

    @stateful.rule(name=NODE)
    def reject(self, name: str) -> None:
        """A kubelet rejects again and again, or is given another chance."""
        self.quarantined ^= {name}
        self.ledger.node_quarantined(name, QUARANTINE if name in self.quarantined else "")

    # ------------------------------------------------------------ pods

    @stateful.rule(count=st.integers(1, 5))
    def ask(self, count: int) -> None:
        """Pods ask for a card each."""
        for _ in range(count):
            self.made += 1
            name = f"p{self.made}"
            self.waiting[name] = 1
            self.ledger.pod_waiting(builders.candidate(name, 1), gated=False)

    @stateful.rule(lands=st.booleans())
    def decide(self, lands: bool) -> None:  # noqa: FBT001
        """The leader decides; its binds land, or are refused."""
        self.ledger.backlog.cluster_event(decisions.ClusterEvent)
        binds, ledger = list[decisions.Bind](), self.ledger
        self.assumed = list[queued_pods.Candidate]()
        for one in cycle.schedule(ledger.search, ledger.backlog, self.clock(), ledger.policy):
            match one:
                case decisions.Bind():
                    self.check(one)
                    binds.append(one)
                    self.assumed.append(ledger.assume(one))
                case decisions.Wait():
                    ledger.backlog.requeue(one.uid, now=self.clock(), awaited=one.awaited)
                case _:
                    raise AssertionError(one)
        for candidate, one in zip(self.assumed, binds, strict=True):
            if lands:
                del self.waiting[candidate.name]
                self.running[candidate.uid] = hold = cycle.hold_for(candidate, one.placement)
                ledger.pod_bound(hold)
            else:
                ledger.forget(one.uid)

    def check(self, one: decisions.Bind) -> None:
        """I6: no device is sick, cordoned, behind a silent agent or rejecting kubelet; I1: none is held."""
        node = one.placement.node
        uuids = {share.uuid for grant in one.placement.grants for share in grant.shares}
        info = self.ledger.inventory.node(node)
        assert info is not None and not info.silent
        assert node not in self.quarantined
        assert not (self.troubles[node] and builders.uuid(node, 0) in uuids)
        promised = [candidate.uid for candidate in self.assumed]
        holds = [*self.running.values(), *filter(None, map(self.ledger.inventory.hold, promised))]
        held = {share.uuid for hold in holds for share in hold.shares}
        assert not held & uuids, "a card is promised twice"

    @stateful.rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """A pod ends by itself, or comes to the end that an eviction began."""
        if self.running:
            uid = data.draw(st.sampled_from(sorted(self.running)))
            hold = self.running.pop(uid)
            self.ending.discard(uid)
            self.ledger.pod_over(uid)
            info = self.ledger.inventory.node(hold.node)
            assert info is not None and uid not in info.holds, "I5"
            assert not any(share.uuid in info.used for share in hold.shares), "I5"

    # ------------------------------------------------------------ evictions

    def update(self) -> None:
        """Have the plan learn how everything is."""
        changed = self.changes.read()
        names = NODES if changed is None or self.policy is not self.planned_for else tuple(changed)
        self.planned_for = self.policy
        self.plan.update(self.ledger.inventory, names, self.ledger.policy, self.clock())

    @stateful.rule(answers=st.lists(st.sampled_from(["evicted", "forbidden"]), max_size=6))
    def limit(self, answers: list[str]) -> None:
        """Budgets forbid some evictions from now on, or all."""
        self.budget = answers

    def send(self, answers: list[str]) -> None:
        """Have evictions be sent as long as there are answers to them."""
        drained: set[str] = set()
        for answer in answers:
            one = self.plan.next(self.clock(), suspects=self.ledger.suspects)
            if one is None:
                return
            assert not self.ledger.suspects, "never in a mass silence"
            assert one.uid in self.running, "only a pod that holds cards"
            self.justify(one.node, one.cause)
            if one.cause is not EvictionCause.CARD_CORDONED:
                drained.add(one.node)
                assert len(drained) <= max(1, len(NODES) // NODES_PER_DRAINED), "the breaker"
            if answer == "forbidden":
                self.plan.retry(one.uid, self.clock() + 10)
            else:
                self.plan.asked(one.uid)
                self.ending.add(one.uid)

    def justify(self, node: str, cause: EvictionCause) -> None:
        """Check that a pod is evicted for what is so, and what the policy says."""
        info = self.ledger.inventory.node(node)
        assert info is not None
        match cause:
            case EvictionCause.AGENT_SILENT:
                assert info.silent and not info.unknown
                assert self.policy.evict_after_seconds is not None
            case EvictionCause.CARD_SICK:
                assert self.policy.evict_sick and self.troubles[node] is Reason.UNHEALTHY
            case EvictionCause.CARD_CORDONED:
                assert self.policy.drain_cordoned and self.troubles[node] is Reason.CARD_CORDONED

    # ------------------------------------------------------------ what holds always

    @stateful.invariant()
    def holds_are_true(self) -> None:
        """The ledger charges what runs, ending or not, and nothing else."""
        inventory = self.ledger.inventory
        charged = {uid: hold.shares for info in inventory.each() for uid, hold in info.holds.items()}
        assert charged == {uid: hold.shares for uid, hold in self.running.items()}
        uuids = [share.uuid for shares in charged.values() for share in shares]
        assert len(uuids) == len(set(uuids)), "I1"


TestLives = Lives.TestCase
TestLives.settings = hypothesis.settings(
    max_examples=80,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
