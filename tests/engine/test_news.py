"""News of nodes, cards, agents and rules wakes whoever it could help, and nobody else."""

from collections.abc import Callable

import pytest

from berth_crds.vocabulary import Strategy
from berth_operator.engine import node_summaries
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import backlog, uuid_records
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.policy import Policy
from support import builders, ledgers

HELD = builders.hold("p", shares=(0,))
SPREAD = Policy(strategy=Strategy.SPREAD)


def falls_silent_and_speaks(ledger: Ledger) -> None:
    """Have an agent be away for a while."""
    ledger.agent_silent("n1", silent=True)
    ledger.agent_silent("n1", silent=False)


def comes_and_ends(ledger: Ledger) -> None:
    """Have a pod come and be gone."""
    ledger.pod_bound(HELD)
    ledger.pod_over("uid-p")


def shows_cards(ledger: Ledger) -> None:
    """Have a node that had none publish cards."""
    ledger.device_seen(builders.device("n9"))
    ledger.agent_silent("n9", silent=False)


def smaller(at: str) -> devices.Device:
    """Return the usual cards of a node, each with a byte less."""
    memory = builders.MEMORY - 1
    return builders.device(at, [builders.card(minor, at=at, memory=memory) for minor in range(4)])


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
    happen: Callable[[Ledger], object], change: ClusterEvent | None, cards: int, wanted: ClusterEvent
) -> None:
    """A change wakes exactly the pods that it could help; what helps no pod costs no round."""
    ledger = ledgers.with_nodes()
    ledger.node_seen(builders.node("n9"))
    ledgers.add_waiting(ledger, cards=cards)
    ledgers.put_off(ledger, "p", wanted)
    ledger.wake.clear()

    happen(ledger)

    assert ledgers.ready_names(ledger) == (["p"] if wanted is change else [])
    assert ledger.wake.is_set() is (change is not None)


# What happens, and how many cards a pod asks for whom it cannot help; it has room for all else.
OF_NO_USE: dict[str, tuple[Callable[[Ledger], object], int]] = {
    "a free card, where two are asked for": (lambda ledger: ledger.pod_over("uid-p"), 2),
    "the end of a pod without cards": (lambda ledger: ledger.pod_over("uid-bare"), 1),
    "cards that have grown, too few of them": (
        lambda ledger: ledger.device_seen(builders.device("n1", 4)),
        2,
    ),
    "a new node without cards": (lambda ledger: ledger.node_seen(builders.node("n9")), 1),
    "a card of a node that is not there": (lambda ledger: ledger.device_seen(builders.device("n9")), 5),
}


@pytest.mark.parametrize(("happen", "cards"), OF_NO_USE.values(), ids=OF_NO_USE.keys())
def test_who_could_not_use_what_is_offered_sleeps_on(happen: Callable[[Ledger], object], cards: int) -> None:
    """A node that has become better wakes only those whom it might take."""
    ledger = ledgers.with_nodes(cards=0)
    ledger.device_seen(smaller("n1"))
    for minor in range(4):
        ledger.pod_bound(builders.hold("p" if not minor else f"h{minor}", shares=(minor,)))
    ledger.pod_bound(builders.hold("bare", amounts=(("cpu", 100),)))
    ledgers.add_waiting(ledger, "waits", cards=cards)
    ledgers.put_off(ledger, "waits", *ClusterEvent)

    happen(ledger)

    assert ledgers.ready_names(ledger) == []


def test_who_is_not_helped_by_one_change_waits_for_any() -> None:
    """What kept a pod from a node is gone, and something else does: only that change helps now."""
    ledger = ledgers.with_nodes(cards=1)
    ledger.pod_bound(builders.hold("holder", shares=(0,)))
    ledger.node_seen(builders.node("n2"))
    ledgers.add_waiting(ledger)
    ledgers.put_off(ledger, "p", ClusterEvent.NODE_CHANGED)

    ledger.node_seen(builders.node("n2", cpu=9000))
    before = ledgers.ready_names(ledger)
    ledger.device_seen(builders.device("n2", 1))
    ledger.agent_silent("n2", silent=False)

    assert (before, ledgers.ready_names(ledger)) == ([], ["p"])


def test_of_many_events_the_first_are_judged_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two rounds so many kinds are held against what has changed; then all are woken."""
    monkeypatch.setattr(backlog, "MOST_JUDGED", 3)
    ledger = ledgers.with_nodes(cards=1)
    ledgers.add_waiting(ledger, cards=9)
    ledgers.put_off(ledger, "p", *ClusterEvent)
    found = []

    for at in range(4):
        ledger.pod_bound(builders.hold(f"h{at}", shares=(0,)))
        ledger.pod_over(f"uid-h{at}")
        found.append("uid-p" in ledger.backlog._woken)

    assert found == [False, False, False, True]


def test_cards_that_stay_with_their_node_wake_nobody() -> None:
    """Whatever another node's Device names: only a node whose cards count otherwise is offered anew."""
    ledger = ledgers.with_nodes(3, cards=1)
    ledger.all_devices_read()
    ledger.agent_silent("n3", silent=True)
    ledgers.add_waiting(ledger)
    ledgers.put_off(ledger, "p", *ClusterEvent)
    reader = ledgers.reader(ledger)
    named = [builders.card(0, at=name) for name in ("n3", "n1", "n2")]

    for cards in (named, named[:1], named):
        ledger.device_seen(builders.device("n3", cards))

    assert ledgers.ready_names(ledger) == []
    assert reader.read() == {"n1", "n2", "n3"}, "others claim their cards, which is to be shown"


def test_who_was_woken_for_a_change_is_not_looked_for_at_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many, all are woken once; whoever sleeps from then on is woken by the next such change."""
    monkeypatch.setattr(backlog, "MOST_JUDGED", 1)
    ledger, found = ledgers.with_nodes(cards=1), []
    for name in ("a", "b"):
        ledgers.add_waiting(ledger, name, cards=1 + (name == "b"))
        ledgers.put_off(ledger, name, ClusterEvent.CAPACITY_FREED)

    for _ in range(2):
        for at in range(9):
            ledger.backlog.node_changed(f"n{at}", ClusterEvent.CAPACITY_FREED, lambda _: False)
        found.append(sorted(ledger.backlog._woken))
        ledgers.put_off(ledger, "a", ClusterEvent.CAPACITY_FREED)

    assert found == [["uid-a", "uid-b"]] * 2


TOUCHING: dict[str, Callable[[Ledger], object]] = {
    "a pod is bound": lambda ledger: ledger.pod_bound(HELD),
    "a pod ends": comes_and_ends,
    "cards change": lambda ledger: ledger.device_seen(builders.device(cards=2)),
    "an agent falls silent": lambda ledger: ledger.agent_silent("n1", silent=True),
}


@pytest.mark.parametrize("happen", TOUCHING.values(), ids=TOUCHING.keys())
def test_nodes_to_sum_up_are_remembered(happen: Callable[[Ledger], object]) -> None:
    """A node whose summary may have changed is noted, and no other."""
    ledger = ledgers.with_nodes(2)
    reader = ledgers.reader(ledger)

    happen(ledger)

    assert reader.read() == {"n1"}


def test_a_uuid_that_another_publishes_is_news_of_both() -> None:
    """Both are summed up anew, and who waits looks again once the card is surely the other's."""
    ledger = ledgers.with_nodes(2, cards=1)
    ledger.all_devices_read()
    reader = ledgers.reader(ledger)

    ledger.device_seen(builders.device("n2", [builders.card(0, at="n1")]))
    quarrel = reader.read()
    ledgers.add_waiting(ledger)
    ledgers.put_off(ledger, "p", ClusterEvent.DEVICE_CHANGED)
    ledger.device_gone("n1")
    left = ledgers.ready_names(ledger)
    ledger.device_seen(builders.device("n2", []))
    ledger.device_seen(builders.device("n2", [builders.card(0, at="n1")]))

    assert quarrel == {"n1", "n2"}
    assert (left, ledgers.ready_names(ledger)) == ([], ["p"])


def test_a_card_that_turns_up_elsewhere_stays_with_the_pod_that_holds_it() -> None:
    """Its new node is told so, and whoever waits for it looks again when the pod has ended."""
    ledger = ledgers.with_nodes(2, cards=1)
    ledger.all_devices_read()
    ledger.pod_bound(builders.hold("holder", "n1", (0,)))

    ledger.device_seen(builders.device("n1", []))
    ledger.device_seen(builders.device("n2", [builders.card(0, at="n1")]))
    info = ledger.inventory.node("n2")
    assert info is not None
    told = node_summaries.summary(info, ledger.inventory.uuid_ownership)
    ledgers.add_waiting(ledger)
    ledgers.put_off(ledger, "p", ClusterEvent.DEVICE_CHANGED)
    reader = ledgers.reader(ledger)
    ledger.pod_over("uid-holder")

    assert told is not None
    assert (told.free, "1 uuid held by pods on n1" in told.reason) == (0, True)
    assert reader.read() == {"n1", "n2"}
    assert ledgers.ready_names(ledger) == ["p"]


def test_cards_of_a_node_that_is_gone_are_not_given_out_elsewhere() -> None:
    """The node that published them too says why, and to the API that it has them not surely."""
    ledger = ledgers.with_nodes(2, cards=1)
    ledger.all_devices_read()
    ledger.device_seen(builders.device("n2", [builders.card(0, at="n1")]))

    ledger.device_gone("n1")
    info = ledger.inventory.node("n2")
    assert info is not None
    told = node_summaries.summary(info, ledger.inventory.uuid_ownership)

    assert told is not None
    assert (told.free, told.claims, told.disputed) == (0, (), (builders.uuid("n1", 0),))
    assert "1 uuid published by another node first, which is gone" in told.reason


def test_a_record_of_whose_cards_they_are_is_no_news_to_its_own_node() -> None:
    """The operator's own write comes back to it: that must not have the node summed up again."""
    ledger = ledgers.with_nodes(1)
    reader = ledgers.reader(ledger)

    ledger.device_seen(builders.device("n1"), uuid_records.Record([builders.uuid("n1", 0)]))

    assert reader.read() == set()
    assert ledger.inventory.uuid_ownership.keeper(builders.uuid("n1", 0)) == "n1"


def test_a_node_that_is_cordoned_or_no_more_is_summed_up_again() -> None:
    """Its Device tells that, and no Device of another node is written."""
    ledger = ledgers.with_nodes(2)
    reader, found = ledgers.reader(ledger), []
    for unschedulable in (True, False, False):
        ledger.node_seen(builders.node("n1", unschedulable=unschedulable))
        found.append(reader.read())

    assert found == [{"n1"}, {"n1"}, set()]


def test_device_that_is_gone_needs_no_summary() -> None:
    """There is nothing left to sum up of cards that are gone."""
    ledger = ledgers.with_nodes()
    reader = ledgers.reader(ledger)

    ledger.device_gone("n1")
    changed = reader.read()

    assert changed == {"n1"}
    assert node_summaries.summarize(ledger.inventory, changed) == []


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
