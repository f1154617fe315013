"""Which pods are to be evicted, by state and policy, when, and when none is."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest

from berth_crds.vocabulary import Recovery
from berth_operator.engine.evictions import EvictionPlan
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import holds
from berth_operator.scheduling.decisions import EvictionCause, Reason
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.policy import Policy
from support import builders, clock

AFTER_A_MINUTE = dataclasses.replace(Policy(), evict_after_seconds=60.0)
EVICT_SICK = dataclasses.replace(Policy(), evict_sick=True)
DRAIN_CORDONED = dataclasses.replace(Policy(), drain_cordoned=True)
EVERYTHING = dataclasses.replace(AFTER_A_MINUTE, evict_sick=True, drain_cordoned=True)


class Planned:
    """Nodes with two cards of which a pod holds the first each, and the plan of evictions."""

    def __init__(self, policy: Policy, *, nodes: int = 10) -> None:
        self.clock = clock.Clock()
        self.ledger = Ledger(self.clock)
        self.ledger.policy_seen(policy)
        self.names = [f"n{at:03}" for at in range(nodes)]
        for name in self.names:
            self.ledger.node_seen(builders.node(name))
            self.publish(name)
            self.hears(name)
            self.ledger.pod_bound(builders.hold(f"of-{name}", name, [0]))
        self.start()

    def start(self) -> None:
        """Start to plan, as an operator that has just been started does."""
        self.plan = EvictionPlan()
        self.changes = self.ledger.changes.reader()
        self.update()

    def publish(self, name: str, **first: Any) -> None:
        """Have the agent of a node publish its cards, the first of them with these properties."""
        cards = [builders.card(0, at=name, **first), builders.card(1, at=name)]
        self.ledger.device_seen(builders.device(name, cards))

    def hears(self, *names: str) -> None:
        """Have the agents of nodes be ready."""
        for name in names:
            self.ledger.agent_silent(name, silent=False)

    def misses(self, *names: str, unknown: bool = False) -> None:
        """Have the agents of nodes be silent, or unknown."""
        for name in names:
            self.ledger.agent_silent(name, silent=True, unknown=unknown)

    def update(self) -> None:
        """Have the plan learn how everything is."""
        changed = self.changes.read()
        names = set(self.ledger.inventory.index) if changed is None else changed
        self.plan.update(self.ledger.inventory, names, self.ledger.policy, self.clock())

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)
        self.update()

    def evicted(self) -> list[tuple[str, EvictionCause]]:
        """Ask for all evictions that may be sent now, and return whose and why."""
        self.update()
        found = []
        while (one := self.plan.next(self.clock(), suspects=self.ledger.suspects)) is not None:
            self.plan.asked(one.uid)
            found.append((one.title.removeprefix("ml/of-"), one.cause))
        return found


def because(cause: EvictionCause, *names: str) -> list[tuple[str, EvictionCause]]:
    """Return these nodes with the same cause each."""
    return [(name, cause) for name in names]


# ---------------------------------------------------------------- silent agents


def test_the_timeline_of_a_silence() -> None:
    """Pods go once the agent was silent for as long as the policy says, and are asked to once."""
    planned = Planned(AFTER_A_MINUTE)
    planned.misses("n003", unknown=True)
    planned.passes(1000)
    assert planned.evicted() == []

    planned.misses("n003")
    planned.passes(0)
    planned.passes(59)
    assert planned.evicted() == []
    planned.passes(1)
    assert planned.evicted() == because(EvictionCause.AGENT_SILENT, "n003")
    planned.passes(1000)
    assert planned.evicted() == []


def test_an_agent_that_reports_again_keeps_its_pods() -> None:
    """The next silence is counted from its own beginning."""
    planned = Planned(AFTER_A_MINUTE)
    planned.misses("n003")
    planned.passes(59)
    planned.hears("n003")
    planned.passes(1)
    planned.misses("n003")
    planned.passes(59)

    assert planned.evicted() == []


def test_by_default_no_pod_is_evicted() -> None:
    """However long the silence, whatever the card."""
    planned = Planned(Policy())
    planned.misses("n003")
    planned.publish("n004", trouble=Reason.UNHEALTHY, recovery=Recovery.REPLACE)
    planned.publish("n005", trouble=Reason.CARD_CORDONED)
    planned.passes(1e6)

    assert planned.evicted() == []


def test_no_pod_goes_before_its_agent_had_time_to_report() -> None:
    """However impatient the policy is: an operator that is started anew finds agents silent as they were."""
    planned = Planned(dataclasses.replace(AFTER_A_MINUTE, evict_after_seconds=0.0))
    planned.misses("n003")
    planned.start()
    planned.passes(39)
    assert planned.evicted() == []

    planned.passes(1)

    assert planned.evicted() == because(EvictionCause.AGENT_SILENT, "n003")


def test_an_operator_that_is_started_anew_counts_anew() -> None:
    """It cannot know for how long an agent was silent before, and is only later by that."""
    planned = Planned(AFTER_A_MINUTE)
    planned.misses("n003")
    planned.passes(59)

    planned.start()
    planned.passes(59)
    assert planned.evicted() == []
    planned.passes(1)
    assert planned.evicted() == because(EvictionCause.AGENT_SILENT, "n003")


def test_a_pod_that_holds_no_card_stays() -> None:
    """Its node's agent is no concern of it."""
    planned = Planned(AFTER_A_MINUTE)
    planned.ledger.pod_bound(builders.hold("plain", "n003", amounts=builders.amounts(1000)))
    planned.misses("n003")
    planned.passes(0)
    planned.passes(60)

    assert planned.evicted() == because(EvictionCause.AGENT_SILENT, "n003")


# ---------------------------------------------------------------- the circuit breaker


@pytest.mark.parametrize(("nodes", "most"), [(3, 1), (10, 2), (1000, 200)])
def test_more_than_a_fifth_of_the_nodes_is_too_many(nodes: int, most: int) -> None:
    """Then no pod goes; once it is fewer again, all of these do."""
    planned = Planned(AFTER_A_MINUTE, nodes=nodes)
    planned.misses(*planned.names[: most + 1])
    planned.passes(0)
    planned.passes(60)
    assert planned.evicted() == []
    assert planned.plan.breaker_open

    planned.hears(planned.names[0])

    assert planned.evicted() == because(EvictionCause.AGENT_SILENT, *planned.names[1 : most + 1])
    assert not planned.plan.breaker_open


def test_pods_that_do_not_end_count_until_they_are_gone() -> None:
    """A node that was drained in vain is one of the fifth still."""
    planned = Planned(AFTER_A_MINUTE)
    planned.misses("n000", "n001")
    planned.passes(0)
    planned.passes(60)
    assert len(planned.evicted()) == 2
    planned.misses("n002")
    planned.passes(0)
    planned.passes(60)
    assert planned.evicted() == []

    planned.ledger.pod_over("uid-of-n000")

    assert planned.evicted() == because(EvictionCause.AGENT_SILENT, "n002")


def test_silence_and_sickness_count_together() -> None:
    """Each alone would be few enough; what people cordoned is drained all the same."""
    planned = Planned(EVERYTHING)
    planned.misses("n000", "n001")
    planned.publish("n002", trouble=Reason.UNHEALTHY, recovery=Recovery.RESET)
    for name in ("n005", "n006", "n007"):
        planned.publish(name, trouble=Reason.CARD_CORDONED)
    planned.passes(0)
    planned.passes(60)

    assert planned.evicted() == because(EvictionCause.CARD_CORDONED, "n005", "n006", "n007")


def test_in_a_mass_silence_no_pod_goes() -> None:
    """Neither those of agents that were silent before, nor from cordoned cards: Berth may be deaf."""
    planned = Planned(EVERYTHING)
    planned.misses("n003")
    planned.publish("n004", trouble=Reason.CARD_CORDONED)
    planned.passes(0)
    planned.passes(60)
    planned.ledger.suspects = 6

    assert planned.evicted() == []
    planned.ledger.suspects = 0
    assert len(planned.evicted()) == 2


# ---------------------------------------------------------------- sick and cordoned cards

SICK = {"trouble": Reason.UNHEALTHY}


@pytest.mark.parametrize(
    ("recovery", "goes"),
    [
        (None, False),
        (Recovery.NONE, False),
        (Recovery.RESET, True),
        (Recovery.DRAIN, True),
        (Recovery.REBOOT, True),
        (Recovery.REPLACE, True),
    ],
    ids=["not known", "an application's error", "reset", "drain", "reboot", "lost"],
)
def test_what_a_card_needs_decides(recovery: Recovery | None, goes: bool) -> None:  # noqa: FBT001
    """Only the pods on that card go, and only where it takes more than patience to bring it back."""
    planned = Planned(EVICT_SICK)
    planned.ledger.pod_bound(builders.hold("beside", "n003", [1]))
    planned.publish("n003", **SICK, recovery=recovery)

    assert planned.evicted() == (because(EvictionCause.CARD_SICK, "n003") if goes else [])


@pytest.mark.parametrize(
    "hold",
    [
        builders.hold("p", "n003", [builders.share(0, at="n003", core=20)]),
        dataclasses.replace(
            builders.hold("p", "n003"),
            shares=(dataclasses.replace(builders.share(0), uuid="GPU-n003-0-mig"),),
        ),
        dataclasses.replace(builders.hold("p", "n003"), marked=frozenset({0})),
    ],
    ids=["a share", "a MIG instance", "a card that it may have"],
)
def test_whoever_holds_a_part_goes_too(hold: holds.Hold) -> None:
    """However the pod came to the card."""
    planned = Planned(EVICT_SICK)
    planned.ledger.pod_over("uid-of-n003")
    planned.ledger.pod_bound(hold)
    instance = device_facts.Instance("GPU-n003-0-mig", builders.PROFILE, builders.GIB)
    planned.publish("n003", **SICK, recovery=Recovery.RESET, instances=(instance,))

    assert planned.evicted() == because(EvictionCause.CARD_SICK, "ml/p")


def test_of_a_silent_node_the_last_verdicts_do_not_count() -> None:
    """Nobody knows any more how its cards are."""
    planned = Planned(EVICT_SICK)
    planned.publish("n003", **SICK, recovery=Recovery.RESET)
    planned.misses("n003", unknown=True)

    assert planned.evicted() == []


@pytest.mark.parametrize(
    ("policy", "goes"), [(Policy(), ()), (DRAIN_CORDONED, ("n003",))], ids=["stop", "drain"]
)
def test_a_cordon_stops_or_drains(policy: Policy, goes: Iterable[str]) -> None:
    """As the policy says."""
    planned = Planned(policy)
    planned.publish("n003", trouble=Reason.CARD_CORDONED)

    assert planned.evicted() == because(EvictionCause.CARD_CORDONED, *goes)


# ---------------------------------------------------------------- what became of an eviction


def test_a_refused_eviction_holds_up_no_other_and_comes_again() -> None:
    """Not before its moment."""
    planned = Planned(AFTER_A_MINUTE)
    planned.misses("n003", "n004")
    planned.passes(0)
    planned.passes(60)

    planned.plan.retry("uid-of-n003", planned.clock() + 10)

    assert planned.evicted() == because(EvictionCause.AGENT_SILENT, "n004")
    planned.passes(9)
    assert planned.evicted() == []
    planned.passes(1)
    assert planned.evicted() == because(EvictionCause.AGENT_SILENT, "n003")


def flap(planned: Planned, *, refused: bool) -> list[str]:
    """Have a card of n000 fall sick and recover again and again; return where pods are asked to go."""
    found = []
    for _ in range(4):
        planned.publish("n000", **SICK, recovery=Recovery.RESET)
        planned.update()
        if (one := planned.plan.next(planned.clock(), suspects=0)) is not None:
            found.append(one.node)
            if refused:
                planned.plan.retry(one.uid, planned.clock() + 10)
            else:
                planned.plan.asked(one.uid)
        planned.publish("n000")
        planned.passes(1)
    return found


def test_a_card_that_falls_sick_again_and_again_holds_nobody_else_up() -> None:
    """Nodes take turns, though a pod of its node is due anew each time."""
    planned = Planned(EVICT_SICK, nodes=20)
    for name in ("n003", "n004"):
        planned.publish(name, **SICK, recovery=Recovery.RESET)

    assert flap(planned, refused=False) == ["n000", "n003", "n004", "n000"]


def test_what_was_refused_is_not_sent_again_because_a_card_was_well_for_a_moment() -> None:
    """It is sent again when its time has come."""
    planned = Planned(EVICT_SICK)

    found = flap(planned, refused=True)
    planned.passes(10)

    assert [found, flap(planned, refused=True)] == [["n000"], ["n000"]]


def test_an_evicted_pod_keeps_its_card_until_it_is_gone() -> None:
    """Nobody else is given it before, whatever becomes of the agent meanwhile."""
    planned = Planned(AFTER_A_MINUTE)
    planned.misses("n003")
    planned.passes(0)
    planned.passes(60)
    assert planned.evicted()
    planned.hears("n003")

    inventory = planned.ledger.inventory
    held = inventory.hold("uid-of-n003")
    assert held is not None and [one.uuid for one in held.shares] == [builders.uuid("n003", 0)]

    planned.ledger.pod_over("uid-of-n003")
    assert inventory.hold("uid-of-n003") is None
