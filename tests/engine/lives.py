"""A world in which agents, pods, kubelets, evictions and leaders come and go in any order.

It is small: some nodes with two cards, pods that want one, agents that renew or do not, one
leader after the other. What is true is kept beside the ledger, and compared with it after each step. Which
agents are ready or silent is worked out here anew (`Observed`): the ledger's own opinion would prove nothing.
"""

import dataclasses
import logging

from hypothesis import stateful
from hypothesis import strategies as st

from berth_crds.vocabulary import Recovery
from berth_operator.engine.evictions import NODES_PER_DRAINED, EvictionPlan
from berth_operator.engine.ledger import Ledger
from berth_operator.engine.rejections import MOST_IN_A_ROW, Quarantine, Rejections
from berth_operator.engine.watchdog import Watchdog
from berth_operator.scheduling import cycle, decisions, queued_pods
from berth_operator.scheduling.decisions import EvictionCause, Reason
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.policy import Policy
from engine.observed_agents import GRACE, LEAST_TOGETHER, NEVER, STEP, UNKNOWN, Observed
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


class Lives(stateful.RuleBasedStateMachine):
    """A cluster in which everything dies and comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = clock.Clock()
        self.alive = set(NODES)
        self.troubles: dict[str, Reason | None] = dict.fromkeys(NODES)  # Of the first card of each node.
        self.reported: set[str] = set()  # Nodes of which the Device says that the agent is silent.
        self.quarantined: set[str] = set()
        self.running: dict[str, Hold] = {}  # Pods that are on a node, those that are ending included.
        self.waiting: dict[str, int] = {}
        self.ending: set[str] = set()
        self.policy = POLICIES[-1]
        self.budget = ["evicted"] * len(NODES)  # What the next evictions are answered.
        self.made = 0
        self.revision = 0  # Of the API server.
        self.leases = dict.fromkeys(NODES, ("as made", ""))  # What each says, and its revision.
        for name in NODES:
            self.write_lease(name, "as made")
        self.observed = dict.fromkeys(NODES, Observed(self.clock(), 0))
        self.start_leader(None, judges=True)
        self.ask(8)
        self.decide(lands=True)

    # ------------------------------------------------------------ leaders

    @stateful.rule(noted=st.booleans(), judges=st.booleans())
    def lead(self, *, noted: bool = True, judges: bool = True) -> None:
        """Another leader starts, and knows what the API says; of the agents also what the last one knew.

        That may have been of a version that notes nothing. The new one may judge agents before it leads.
        """
        self.watchdog.judge()
        self.start_leader(self.watchdog.stale_revision() if noted else None, judges=judges)

    def start_leader(self, note: int | None, *, judges: bool) -> None:
        """Have another leader start that finds this note in the Lease."""
        self.ledger = Ledger(self.clock)
        self.ledger.policy_seen(self.policy)
        self.watchdog = Watchdog(self.ledger, clock=self.clock, logger=QUIET)
        self.plan, self.planned_for = EvictionPlan(), self.policy
        self.changes = self.ledger.changes.reader()
        for name in NODES:
            self.ledger.node_seen(builders.node(name))
            self.publish(name)
            self.watchdog.device_seen(name, found_silent=name in self.reported)
            self.watchdog.lease_seen(name, *self.leases[name])
        if judges:
            self.watchdog.judge()
        self.watchdog.inherit(note or 0)
        self.observed = {name: self.first_sight(name, noted=note is not None) for name in NODES}
        # Agents that ceased to be ready under this leader, or are not though it awaits them.
        self.ever_fallen = {
            name for name in set(NODES) - self.reported if self.observed[name].renewed == NEVER
        }
        self.ledger.all_devices_read()
        for hold in self.running.values():
            self.ledger.pod_bound(hold)
        for name in self.waiting:
            self.ledger.pod_waiting(builders.pod_info(name, 1), gated=False)
        self.most_silent_at = self.clock()  # When more agents were not ready than were, for the last time.
        self.quarantined.clear()  # What another leader has found is forgotten.
        self.rejections, self.rejected_in_a_row = Rejections(), dict.fromkeys(NODES, 0)

    def first_sight(self, name: str, *, noted: bool) -> Observed:
        """Return what a new leader knows of an agent.

        A Lease counts if the agent was not reported silent, and not known as not ready by the last leader.
        """
        now = self.clock()
        if name in self.reported:
            return Observed(NEVER, now)
        is_known_quiet = noted and not self.observed[name].ready(now)
        return Observed(NEVER if is_known_quiet else now, now + GRACE + UNKNOWN)

    def write_lease(self, name: str, renewal: str) -> None:
        """Have an agent write its Lease."""
        self.revision += 1
        self.leases[name] = renewal, f"{self.revision}"

    def publish(self, name: str) -> None:
        """Have the agent of a node publish its cards."""
        trouble = self.troubles[name]
        cards = [builders.card(at, at=name) for at in range(CARDS)]
        sick = Recovery.RESET if trouble is Reason.UNHEALTHY else None
        cards[0] = dataclasses.replace(cards[0], trouble=trouble, recovery=sick)
        self.ledger.device_seen(builders.device(name, cards))

    @stateful.rule()
    def restore(self) -> None:
        """The API shows an older state, also of the Leases: no agent is ready until it renews."""
        now = self.clock()
        for name, one in self.observed.items():
            if one.silent_from > now:
                self.ever_fallen.add(name)  # It is if it does not come back.
            one.renewed, one.silent_from = NEVER, min(one.silent_from, now + GRACE + UNKNOWN)
        self.watchdog.restored()
        self.revision //= 2  # It goes on from there.
        for name in NODES:
            self.write_lease(name, "as restored")
            self.watchdog.lease_seen(name, *self.leases[name])

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
        for _ in range(seconds // STEP):
            self.clock.advance(STEP)
            for name in sorted(self.alive):
                self.write_lease(name, f"{self.clock()}")
                self.watchdog.lease_seen(name, *self.leases[name])
                self.observed[name].renew(self.clock())
            self.watchdog.judge()
            self.note_most_silent()
            self.report()
            self.end_quarantines()
            self.update()
            self.send(self.budget)

    def note_most_silent(self) -> None:
        """Note the time while more agents are silent than are ready."""
        ready = sum(one.ready(self.clock()) for one in self.observed.values())
        if 2 * ready < len(NODES):
            self.most_silent_at = self.clock()

    @stateful.rule(name=NODE, trouble=st.sampled_from([None, Reason.UNHEALTHY, Reason.CARD_CORDONED]))
    def fall_sick(self, name: str, trouble: Reason | None) -> None:
        """A card falls sick or well, or people cordon it; of a dead agent nobody hears so."""
        if name in self.alive:
            self.troubles[name] = trouble
            self.publish(name)

    def report(self) -> None:
        """Write into each Device whether its agent is silent, where that is known."""
        for info in self.ledger.inventory.each():
            if not info.unknown:
                (self.reported.add if info.agent_not_ready else self.reported.discard)(info.name)

    @stateful.rule(name=NODE, count=st.integers(1, MOST_IN_A_ROW))
    def reject(self, name: str, count: int) -> None:
        """A kubelet rejects pods, which frees their cards; after some in a row it gets none for a time."""
        bound = [uid for uid, hold in self.running.items() if hold.node == name and uid not in self.ending]
        for uid in bound[:count]:
            self.release(uid)
            self.rejected_in_a_row[name] += 1
            self.rejections.rejected(name, builders.NAMESPACE, "no room", self.clock())
            if self.rejected_in_a_row[name] >= MOST_IN_A_ROW:
                assert self.rejections.quarantine(name)
            self.apply_quarantine(name)

    @stateful.rule(name=NODE)
    def admit(self, name: str) -> None:
        """A kubelet admits a pod, which ends a quarantine."""
        self.rejected_in_a_row[name] = 0
        self.rejections.admitted(name, builders.NAMESPACE)
        self.apply_quarantine(name)

    def end_quarantines(self) -> None:
        """End the quarantines whose time is over."""
        for name in self.rejections.end(self.clock()):
            self.apply_quarantine(name)

    def apply_quarantine(self, name: str) -> None:
        """Record whether a node is quarantined now."""
        quarantine = self.rejections.quarantine(name)
        (self.quarantined.add if quarantine else self.quarantined.discard)(name)
        self.ledger.node_quarantined(name, *(quarantine or Quarantine("")))

    # ------------------------------------------------------------ pods

    @stateful.rule(count=st.integers(1, 5))
    def ask(self, count: int) -> None:
        """Pods ask for a card each."""
        for _ in range(count):
            self.made += 1
            name = f"p{self.made}"
            self.waiting[name] = 1
            self.ledger.pod_waiting(builders.pod_info(name, 1), gated=False)

    @stateful.rule(lands=st.booleans())
    def decide(self, lands: bool) -> None:  # noqa: FBT001
        """The leader decides; its binds land, or are refused."""
        self.ledger.backlog.cluster_event(decisions.ClusterEvent)
        binds, ledger = list[decisions.Bind](), self.ledger
        self.assumed = list[queued_pods.PodInfo]()
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
        for pod_info, one in zip(self.assumed, binds, strict=True):
            if lands:
                del self.waiting[pod_info.name]
                self.running[pod_info.uid] = hold = cycle.hold_for(pod_info, one.placement)
                ledger.pod_bound(hold)
            else:
                ledger.forget(one.uid)

    def check(self, one: decisions.Bind) -> None:
        """I6: no device is sick, cordoned, behind a silent agent or rejecting kubelet; I1: none is held."""
        node = one.placement.node
        uuids = {share.uuid for grant in one.placement.grants for share in grant.shares}
        assert self.observed[node].ready(self.clock())
        assert node not in self.quarantined
        assert not (self.troubles[node] and builders.uuid(node, 0) in uuids)
        promised = [pod_info.uid for pod_info in self.assumed]
        holds = [*self.running.values(), *filter(None, map(self.ledger.inventory.hold, promised))]
        held = {share.uuid for hold in holds for share in hold.shares}
        assert not held & uuids, "a card is promised twice"

    @stateful.rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """A pod ends by itself, or comes to the end that an eviction began."""
        if self.running:
            uid = data.draw(st.sampled_from(sorted(self.running)))
            self.release(uid)

    def release(self, uid: str) -> None:
        """Have a pod be over, which frees its cards at once."""
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
        observed, now = self.observed[node], self.clock()
        match cause:
            case EvictionCause.AGENT_SILENT:
                assert self.policy.evict_after_seconds is not None
                assert not observed.ready(now)
                assert now - observed.silent_from >= max(GRACE, self.policy.evict_after_seconds)
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

    @stateful.invariant()
    def cards_are_open_where_agents_renew(self) -> None:
        """Just the agents that renewed in time are ready; those too few for a mass silence are reported.

        Too few they are only if no others are about to follow, of which nothing was heard since they fell.
        """
        now = self.clock()
        fallen = {name for name, one in self.observed.items() if not one.ready(now)}
        self.ever_fallen |= {name for name in fallen if self.observed[name].renewed > NEVER}
        for info in self.ledger.inventory.each():
            assert info.agent_not_ready is (info.name in fallen)
            if not info.agent_not_ready or now <= self.observed[info.name].silent_from:
                continue
            fell = self.observed[info.name].renewed + GRACE
            unheard = {name for name, one in self.observed.items() if one.renewed < fell + STEP}
            assert not info.unknown or len(self.ever_fallen | unheard) >= LEAST_TOGETHER

    @stateful.invariant()
    def most_that_fall_together_are_suspects(self) -> None:
        """Where more fell silent within a grace period than are ready, none of them is called silent."""
        now = self.clock()
        since = {
            name: one.renewed
            for name, one in self.observed.items()
            if not one.ready(now) and one.renewed > NEVER
        }
        last = max(since.values(), default=now)
        together = [name for name, renewed in since.items() if last - renewed <= GRACE]
        ready = [one for one in self.observed.values() if one.ready(now)]
        if len(together) >= LEAST_TOGETHER and len(together) > len(ready):
            assert self.ledger.suspects >= len(together)
            # Those that were reported had been silent for long when the last of the others fell.
            early = {name for name in together if self.observed[name].silent_from <= last + GRACE}
            assert self.reported & set(together) <= early

    @stateful.invariant()
    def suspicion_ends(self) -> None:
        """Once most have been ready for a grace period no silence is doubted any more."""
        self.note_most_silent()
        if self.clock() - self.most_silent_at > GRACE + STEP:
            assert self.ledger.suspects == 0
