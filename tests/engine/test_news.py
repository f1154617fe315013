"""News of nodes, cards, agents and rules wakes whoever it could help, and nobody else."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest

from berth_crds.vocabulary import Strategy
from berth_operator.engine import node_summaries, watchdog
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import comparisons, queues, uuid_ownership, uuid_records
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.policy import Policy
from support import builders, ledgers, timeless, volumes

HELD = builders.hold("p", shares=(0,))
SPREAD = Policy(strategy=Strategy.SPREAD)


Step = Callable[[Ledger], object]


def falls_silent_and_speaks(ledger: Ledger) -> None:
    """Have an agent be away for a while."""
    for silent in (True, False):
        ledger.agent_silent("n1", silent=silent)


def shows_cards(ledger: Ledger) -> None:
    """Have a node that had none publish cards."""
    ledger.device_seen(builders.device("n9"))
    ledger.agent_silent("n9", silent=False)


def smaller(at: str) -> device_facts.Device:
    """Return the usual cards of a node, each with a byte less."""
    memory = builders.MEMORY - 1
    return builders.device(at, [builders.card(minor, at=at, memory=memory) for minor in range(4)])


def publishing(node: str, *owners: str) -> device_facts.Device:
    """Return the Device of a node that publishes the first cards of these nodes."""
    return builders.device(node, [builders.card(0, at=owner) for owner in owners])


def summed(ledger: Ledger, node: str) -> node_summaries.NodeSummary:
    """Sum up a node that has a Device."""
    (found,) = node_summaries.summarize(ledger.inventory, {node})
    return found


# What happens, which change that is, if any, and for how many cards a pod waits.
EVENTS: dict[str, tuple[Callable[[Ledger], object], ClusterEvent | None, int]] = {
    "a new node": (lambda ledger: ledger.node_seen(builders.node("n10")), ClusterEvent.NODE_CHANGED, 0),
    "a changed node": (
        lambda ledger: ledger.node_seen(builders.node(cpu=9000)),
        ClusterEvent.NODE_CHANGED,
        1,
    ),
    "new cards": (shows_cards, ClusterEvent.DEVICE_CHANGED, 1),
    "changed cards": (
        lambda ledger: ledger.device_seen(builders.device(cards=5)),
        ClusterEvent.DEVICE_CHANGED,
        5,
    ),
    "an agent that speaks again": (falls_silent_and_speaks, ClusterEvent.DEVICE_CHANGED, 4),
    "another policy": (lambda ledger: ledger.policy_seen(SPREAD), ClusterEvent.POLICY_CHANGED, 9),
    "the same node": (lambda ledger: ledger.node_seen(builders.node()), None, 1),
    "the same cards": (lambda ledger: ledger.device_seen(builders.device()), None, 1),
    "an agent that goes on speaking": (lambda ledger: ledger.agent_silent("n1", silent=False), None, 1),
    "an agent of no node": (lambda ledger: ledger.agent_silent("n8", silent=False), None, 1),
    "an agent that falls silent": (lambda ledger: ledger.agent_silent("n1", silent=True), None, 1),
    "the same policy": (lambda ledger: ledger.policy_seen(Policy()), None, 1),
    "a node that goes": (lambda ledger: ledger.node_gone("n1"), None, 1),
    "cards that go": (lambda ledger: ledger.device_gone("n1"), None, 1),
    "the end of a pod that had nothing": (lambda ledger: ledger.pod_over("uid-x"), None, 1),
    "a node that offers less": (lambda ledger: ledger.node_seen(builders.node(cpu=1)), None, 1),
    "cards that have become smaller": (lambda ledger: ledger.device_seen(smaller("n1")), None, 1),
}


@pytest.mark.parametrize(("happen", "change", "cards"), EVENTS.values(), ids=EVENTS.keys())
@pytest.mark.parametrize("wanted", list(ClusterEvent))
def test_a_change_wakes_the_pods_that_wait_for_it(
    happen: Step, change: ClusterEvent | None, cards: int, wanted: ClusterEvent
) -> None:
    """A change wakes exactly the pods that it could help; what helps no pod costs no round."""
    ledger = ledgers.with_nodes()
    ledger.node_seen(builders.node("n9"))
    ledgers.add_sleeping(ledger, "p", wanted, cards=cards)
    ledger.wake.clear()

    happen(ledger)

    assert ledgers.ready_names(ledger) == (["p"] if wanted is change else [])
    assert ledger.wake.is_set() is (change is not None)


# What happens, and how many cards a pod asks for whom it cannot help; it has room for all else.
OF_NO_USE: dict[str, tuple[Step, int]] = {
    "a free card, where two are asked for": (lambda ledger: ledger.pod_over("uid-h0"), 2),
    "the end of a pod without cards": (lambda ledger: ledger.pod_over("uid-bare"), 1),
    "cards that have grown, too few of them": (
        lambda ledger: ledger.device_seen(builders.device("n1", 4)),
        2,
    ),
    "a new node without cards": (lambda ledger: ledger.node_seen(builders.node("n9")), 1),
    "a card of a node that is not there": (lambda ledger: ledger.device_seen(builders.device("n9")), 5),
}


@pytest.mark.parametrize(("happen", "cards"), OF_NO_USE.values(), ids=OF_NO_USE.keys())
def test_who_could_not_use_what_is_offered_sleeps_on(happen: Step, cards: int) -> None:
    """A node that has become better wakes only those whom it might take."""
    ledger = ledgers.with_nodes(cards=0)
    ledger.device_seen(smaller("n1"))
    for minor in range(4):
        ledger.pod_bound(builders.hold(f"h{minor}", shares=(minor,)))
    ledger.pod_bound(builders.hold("bare", amounts=(("cpu", 100),)))
    ledgers.add_sleeping(ledger, "waits", *ClusterEvent, cards=cards)

    happen(ledger)

    assert ledgers.ready_names(ledger) == []


def test_who_is_not_helped_by_one_change_waits_for_any() -> None:
    """What kept a pod from a node is gone, and something else does: only that change helps now."""
    ledger = ledgers.with_nodes(cards=1)
    ledger.pod_bound(builders.hold("holder", shares=(0,)))
    ledger.node_seen(builders.node("n2"))
    ledgers.add_sleeping(ledger, "p", ClusterEvent.NODE_CHANGED)

    ledger.node_seen(builders.node("n2", cpu=9000))
    before = ledgers.ready_names(ledger)
    ledger.device_seen(builders.device("n2", 1))
    ledger.agent_silent("n2", silent=False)

    assert (before, ledgers.ready_names(ledger)) == ([], ["p"])


def test_of_many_events_the_first_are_judged_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two rounds so many kinds are held against what has changed; then all are woken."""
    monkeypatch.setattr(comparisons, "MOST", 3)
    ledger, found = ledgers.with_nodes(cards=1), []
    ledgers.add_sleeping(ledger, "p", *ClusterEvent, cards=9)

    for at in range(4):
        ledger.pod_bound(builders.hold(f"h{at}", shares=(0,)))
        ledger.pod_over(f"uid-h{at}")
        found.append("uid-p" in queues.uids(ledger.backlog._woken))

    assert found == [False, False, False, True]


def test_who_was_woken_for_a_change_is_not_looked_for_at_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many, all are woken once; whoever sleeps from then on is woken by the next such change."""
    monkeypatch.setattr(comparisons, "MOST", 1)
    ledger, found = ledgers.with_nodes(cards=1), []
    for cards, name in enumerate("ab", start=1):
        ledgers.add_sleeping(ledger, name, ClusterEvent.CAPACITY_FREED, cards=cards)

    for _ in range(2):
        for at in range(9):
            ledger.offers.offer(f"n{at}", ClusterEvent.CAPACITY_FREED)
        found.append(sorted(queues.uids(ledger.backlog._woken)))
        ledgers.requeue(ledger, "a", ClusterEvent.CAPACITY_FREED)

    assert found == [["uid-a", "uid-b"]] * 2


def test_of_the_claims_of_a_pod_that_ends_those_count_that_somebody_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have had a thousand: only that one is paced, and its pod woken."""
    ledger = ledgers.with_nodes()
    claims = volumes.using(*(f"claim-{at}" for at in range(9))).demand.claims
    ledger.pod_bound(builders.hold("h", claims=claims))
    ledger.pod_waiting(volumes.using("claim-3"), gated=False)
    ledgers.requeue(ledger, "p", ClusterEvent.VOLUME_CHANGED)
    paced = list[object]()
    monkeypatch.setattr(ledger.backlog, "volumes_changed", paced.append)

    ledger.pod_over("uid-h")

    assert paced == [{(builders.NAMESPACE, "claim-3")}]


# ---------------------------------------------------------------- which nodes are summed up anew


def is_cordoned(ledger: Ledger, *, unschedulable: bool = True) -> None:
    """Have a node be taken out of service, or put into it."""
    ledger.node_seen(builders.node("n1", unschedulable=unschedulable))


OWN: Final = uuid_records.Record([builders.uuid("n1", 0)])
# What happens, and the nodes whose summaries may have changed by the last of it.
TOUCHING: dict[str, tuple[list[Step], set[str]]] = {
    "a pod is bound": ([lambda ledger: ledger.pod_bound(HELD)], {"n1"}),
    "a pod ends": ([lambda ledger: ledger.pod_bound(HELD), lambda ledger: ledger.pod_over("uid-p")], {"n1"}),
    "cards change": ([lambda ledger: ledger.device_seen(builders.device(cards=2))], {"n1"}),
    "an agent falls silent": ([lambda ledger: ledger.agent_silent("n1", silent=True)], {"n1"}),
    "a node is cordoned": ([is_cordoned], {"n1"}),
    "a node is put into service": ([is_cordoned, partial(is_cordoned, unschedulable=False)], {"n1"}),
    "a node is in service": ([partial(is_cordoned, unschedulable=False)], set()),
    "a Device is gone": ([lambda ledger: ledger.device_gone("n1")], {"n1"}),
    "it is recorded whose its cards are": (
        [lambda ledger: ledger.device_seen(builders.device("n1"), OWN)],
        set(),
    ),
}


@pytest.mark.parametrize(("steps", "nodes"), TOUCHING.values(), ids=TOUCHING.keys())
def test_nodes_to_sum_up_are_remembered(steps: list[Step], nodes: set[str]) -> None:
    """A node whose summary may have changed is noted, and no other: the operator's own write is no news."""
    ledger = ledgers.with_nodes(2)
    reader = ledgers.reader(ledger)

    for step in steps:
        reader.read()
        step(ledger)

    assert reader.read() == nodes


def test_device_that_is_gone_needs_no_summary() -> None:
    """There is nothing left to sum up of cards that are gone."""
    ledger = ledgers.with_nodes()

    ledger.device_gone("n1")

    assert node_summaries.summarize(ledger.inventory, {"n1"}) == []


# ---------------------------------------------------------------- cards that several nodes publish


def read(nodes: int) -> Ledger:
    """Return a ledger of so many nodes with a card each, to which all Devices have been read."""
    ledger = ledgers.with_nodes(nodes, cards=1)
    ledger.all_devices_read()
    return ledger


def test_cards_that_stay_with_their_node_wake_nobody() -> None:
    """Whatever another node's Device names: only a node whose cards count otherwise is offered anew."""
    ledger = read(3)
    ledger.agent_silent("n3", silent=True)
    ledgers.add_sleeping(ledger, "p", *ClusterEvent)
    reader = ledgers.reader(ledger)

    for owners in (("n3", "n1", "n2"), ("n3",), ("n3", "n1", "n2")):
        ledger.device_seen(publishing("n3", *owners))

    assert ledgers.ready_names(ledger) == []
    assert reader.read() == {"n1", "n2", "n3"}, "others claim their cards, which is to be shown"


def test_a_uuid_that_another_publishes_is_news_of_both() -> None:
    """Both are summed up anew, and who waits looks again once the card is surely the other's."""
    ledger = read(2)
    reader = ledgers.reader(ledger)

    ledger.device_seen(publishing("n2", "n1"))
    quarrel = reader.read()
    ledgers.add_sleeping(ledger, "p", ClusterEvent.DEVICE_CHANGED)
    ledger.node_gone("n1")
    ledger.device_gone("n1")
    left = ledgers.ready_names(ledger)
    for owners in ((), ("n1",)):
        ledger.device_seen(publishing("n2", *owners))

    assert (quarrel, left, ledgers.ready_names(ledger)) == ({"n1", "n2"}, [], ["p"])


def test_a_card_that_turns_up_elsewhere_stays_with_the_pod_that_holds_it() -> None:
    """Its new node is told so, and whoever waits for it looks again when the pod has ended."""
    ledger = read(2)
    ledger.pod_bound(builders.hold("holder", "n1", (0,)))
    ledger.node_gone("n1")
    ledger.device_seen(publishing("n1"))
    ledger.device_seen(publishing("n2", "n1"))
    summary = summed(ledger, "n2")
    ledgers.add_sleeping(ledger, "p", ClusterEvent.DEVICE_CHANGED)
    reader = ledgers.reader(ledger)

    ledger.pod_over("uid-holder")

    assert (summary.free, "1 UUID held by pods on n1" in summary.reason) == (0, True)
    assert (reader.read(), ledgers.ready_names(ledger)) == ({"n1", "n2"}, ["p"])


@timeless.scenario
async def test_a_clock_that_is_put_back_keeps_no_card_from_the_node_that_has_it() -> None:
    """What was recorded by a clock that was a year ahead is as good as long ago, after a restart as well."""
    now, year = timeless.clock(), 365 * 86400.0
    ahead = [year]
    ledger = Ledger(now, day=lambda: now() + ahead[0])
    for node in ("n1", "n2"):
        ledgers.join(ledger, builders.node(node), builders.device(node, 1))
    ledger.all_devices_read()
    ledger.device_seen(publishing("n1"))
    ledger.device_seen(publishing("n2", "n1"))
    ahead[0] = 0.0
    async with timeless.beside(watchdog.Watchdog(ledger, clock=now).run()):
        await asyncio.sleep(uuid_ownership.MOVING_SECONDS)

    assert [len(ledger.inventory.uuid_ownership.kept(node)) for node in ("n1", "n2")] == [0, 1]


@pytest.mark.parametrize("back", [False, True], ids=["and is gone", "and comes back"])
@timeless.scenario
async def test_a_card_that_its_node_loses_is_not_another_nodes_at_once(*, back: bool) -> None:
    """As long as it may come back, nobody is given it; then the node that has it may give it out."""
    now = timeless.clock()
    ledger = Ledger(now, day=now)
    for node in ("n1", "n2"):
        ledgers.join(ledger, builders.node(node), builders.device(node, 1))
    ledger.all_devices_read()
    ledger.device_seen(publishing("n1"))
    ledger.device_seen(publishing("n2", "n1"))
    async with timeless.beside(watchdog.Watchdog(ledger, clock=now).run()):
        await asyncio.sleep(uuid_ownership.MOVING_SECONDS / 2)
        waiting = summed(ledger, "n2")
        if back:
            ledger.device_seen(publishing("n1", "n1"))
        await asyncio.sleep(uuid_ownership.MOVING_SECONDS)

    assert (waiting.free, "1 UUID was first reported by another node" in waiting.reason) == (0, True)
    assert [len(ledger.inventory.uuid_ownership.kept(node)) for node in ("n1", "n2")] == [back, not back]


def test_cards_of_a_node_that_is_gone_are_not_given_out_elsewhere() -> None:
    """The node that published them too says why, and to the API that it has them not surely."""
    ledger = read(2)
    ledger.device_seen(publishing("n2", "n1"))

    ledger.device_gone("n1")

    summary = summed(ledger, "n2")
    assert (summary.free, summary.claims, summary.disputed) == (0, (), (builders.uuid("n1", 0),))
    assert "1 UUID was first reported by another node" in summary.reason


def test_ledger_tells_its_state() -> None:
    """A person at a debugger reads how much is known and how it stands."""
    ledger = ledgers.with_nodes(2)
    ledgers.add_waiting(ledger, "a")
    ledgers.assume(ledger, "a")
    ledger.pod_bound(builders.hold("b"))

    assert repr(ledger) == (
        "<Ledger: <Inventory: 2 nodes, 2 holds>, "
        "<Backlog: 0 pods, 0 of them waiting for a change>, 1 confirmed, 1 assumed>"
    )
