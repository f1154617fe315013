"""News of nodes, cards, agents and rules wakes whoever it could help, and nobody else."""

from collections.abc import Callable

import pytest

from berth_crds.vocabulary import Strategy
from berth_operator.engine import summaries
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import backlog, uuid_records
from berth_operator.scheduling.decisions import Help
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.policy import Policy
from engine import books
from support import builders

HELD = builders.hold("p", minors=(0,))
SPREAD = Policy(strategy=Strategy.SPREAD)


def falls_silent_and_speaks(book: Ledger) -> None:
    """Have an agent be away for a while."""
    book.agent_silent("n1", silent=True)
    book.agent_silent("n1", silent=False)


def comes_and_ends(book: Ledger) -> None:
    """Have a pod be there, and then be gone; only its end counts."""
    book.pod_bound(HELD)
    book.touched.clear()
    book.pod_over("uid-p")


def shows_cards(book: Ledger) -> None:
    """Have a node that had none publish cards."""
    book.device_seen(builders.device("n9"))
    book.agent_silent("n9", silent=False)


# What happens, what that is, and for how many cards a pod waits that it helps.
NEWS: dict[str, tuple[Callable[[Ledger], object], Help, int]] = {
    "a new node": (lambda book: book.node_seen(builders.node("n10")), Help.NODE_CHANGED, 0),
    "a changed node": (lambda book: book.node_seen(builders.node(cpu=9000)), Help.NODE_CHANGED, 1),
    "new cards": (shows_cards, Help.DEVICE_CHANGED, 1),
    "changed cards": (lambda book: book.device_seen(builders.device(cards=5)), Help.DEVICE_CHANGED, 5),
    "an agent that speaks again": (falls_silent_and_speaks, Help.DEVICE_CHANGED, 4),
    "another policy": (lambda book: book.policy_seen(SPREAD), Help.POLICY_CHANGED, 9),
}


@pytest.mark.parametrize(("happen", "change", "cards"), NEWS.values(), ids=NEWS.keys())
@pytest.mark.parametrize("wanted", list(Help))
def test_news_wake_who_waits_for_them(
    happen: Callable[[Ledger], object], change: Help, cards: int, wanted: Help
) -> None:
    """A change wakes exactly the pods that it could help."""
    book = books.of()
    book.node_seen(builders.node("n9"))
    books.wait(book, cards=cards)
    books.asleep(book, "p", wanted)
    book.wake.clear()

    happen(book)

    assert books.awake(book) == (["p"] if wanted is change else [])
    assert book.wake.is_set()


def smaller(at: str) -> devices.Device:
    """Return the usual cards of a node, each with a byte less."""
    memory = builders.MEMORY - 1
    return builders.device(at, [builders.card(minor, at=at, memory=memory) for minor in range(4)])


NO_NEWS: dict[str, Callable[[Ledger], object]] = {
    "the same node": lambda book: book.node_seen(builders.node()),
    "the same cards": lambda book: book.device_seen(builders.device()),
    "an agent that goes on speaking": lambda book: book.agent_silent("n1", silent=False),
    "an agent of nobody": lambda book: book.agent_silent("n9", silent=False),
    "an agent that falls silent": lambda book: book.agent_silent("n1", silent=True),
    "the same policy": lambda book: book.policy_seen(Policy()),
    "a node that goes": lambda book: book.node_gone("n1"),
    "cards that go": lambda book: book.device_gone("n1"),
    "the end of a pod that had nothing": lambda book: book.pod_over("uid-x"),
    "a node that offers less": lambda book: book.node_seen(builders.node(cpu=1)),
    "cards that have become smaller": lambda book: book.device_seen(smaller("n1")),
}


@pytest.mark.parametrize("happen", NO_NEWS.values(), ids=NO_NEWS.keys())
def test_no_news_wakes_nobody(happen: Callable[[Ledger], object]) -> None:
    """What helps nobody costs no round."""
    book = books.of()
    books.wait(book)
    books.asleep(book, "p", *Help)
    book.wake.clear()

    happen(book)

    assert books.awake(book) == []
    assert not book.wake.is_set()


# What happens, and how many cards a pod asks for whom it cannot help; it has room for all else.
OF_NO_USE: dict[str, tuple[Callable[[Ledger], object], int]] = {
    "a free card, where two are asked for": (lambda book: book.pod_over("uid-p"), 2),
    "the end of a pod without cards": (lambda book: book.pod_over("uid-bare"), 1),
    "cards that have grown, too few of them": (lambda book: book.device_seen(builders.device("n1", 4)), 2),
    "a new node without cards": (lambda book: book.node_seen(builders.node("n9")), 1),
    "a card of a node that is not there": (lambda book: book.device_seen(builders.device("n9")), 5),
}


@pytest.mark.parametrize(("happen", "cards"), OF_NO_USE.values(), ids=OF_NO_USE.keys())
def test_who_could_not_use_what_is_offered_sleeps_on(happen: Callable[[Ledger], object], cards: int) -> None:
    """A node that has become better wakes only those whom it might take."""
    book = books.of(cards=0)
    book.device_seen(smaller("n1"))
    for minor in range(4):
        book.pod_bound(builders.hold("p" if not minor else f"h{minor}", minors=(minor,)))
    book.pod_bound(builders.hold("bare", amounts=(("cpu", 100),)))
    books.wait(book, "waits", cards=cards)
    books.asleep(book, "waits", *Help)

    happen(book)

    assert books.awake(book) == []


def test_who_is_not_helped_by_one_change_waits_for_any() -> None:
    """What kept a pod from a node is gone, and something else does: only that change helps now."""
    book = books.of(cards=1)
    book.pod_bound(builders.hold("holder", minors=(0,)))
    book.node_seen(builders.node("n2"))
    books.wait(book)
    books.asleep(book, "p", Help.NODE_CHANGED)

    book.node_seen(builders.node("n2", cpu=9000))
    before = books.awake(book)
    book.device_seen(builders.device("n2", 1))
    book.agent_silent("n2", silent=False)

    assert (before, books.awake(book)) == ([], ["p"])


def test_of_many_events_the_first_are_judged_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two rounds so many kinds are held against what has changed; then all are woken."""
    monkeypatch.setattr(backlog, "MOST_JUDGED", 3)
    book = books.of(cards=1)
    books.wait(book, cards=9)
    books.asleep(book, "p", *Help)
    found = []

    for at in range(4):
        book.pod_bound(builders.hold(f"h{at}", minors=(0,)))
        book.pod_over(f"uid-h{at}")
        found.append("uid-p" in book.waiting._woken)

    assert found == [False, False, False, True]


def test_cards_that_stay_with_their_node_wake_nobody() -> None:
    """Whatever another node's Device names: only a node whose cards count otherwise is offered anew."""
    book = books.of(3, cards=1)
    book.devices_known()
    book.agent_silent("n3", silent=True)
    books.wait(book)
    books.asleep(book, "p", *Help)
    named = [builders.card(0, at=name) for name in ("n3", "n1", "n2")]

    for cards in (named, named[:1], named):
        book.device_seen(builders.device("n3", cards))

    assert books.awake(book) == []
    assert book.touched >= {"n1", "n2", "n3"}, "others claim their cards, which is to be shown"


def test_who_was_woken_for_a_change_is_not_looked_for_at_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond so many, all are woken once; whoever sleeps from then on is woken by the next such change."""
    monkeypatch.setattr(backlog, "MOST_JUDGED", 1)
    book, found = books.of(cards=1), []
    for name in ("a", "b"):
        books.wait(book, name, cards=1 + (name == "b"))
        books.asleep(book, name, Help.CAPACITY_FREED)

    for _ in range(2):
        for at in range(9):
            book.waiting.offered(f"n{at}", Help.CAPACITY_FREED, lambda _: False)
        found.append(sorted(book.waiting._woken))
        books.asleep(book, "a", Help.CAPACITY_FREED)

    assert found == [["uid-a", "uid-b"]] * 2


TOUCHING: dict[str, Callable[[Ledger], object]] = {
    "a pod is bound": lambda book: book.pod_bound(HELD),
    "a pod ends": comes_and_ends,
    "cards change": lambda book: book.device_seen(builders.device(cards=2)),
    "an agent falls silent": lambda book: book.agent_silent("n1", silent=True),
}


@pytest.mark.parametrize("happen", TOUCHING.values(), ids=TOUCHING.keys())
def test_nodes_to_sum_up_are_remembered(happen: Callable[[Ledger], object]) -> None:
    """A node whose summary may have changed is noted, and no other."""
    book = books.of(2)
    book.touched.clear()

    happen(book)

    assert book.touched == {"n1"}


def test_a_uuid_that_another_publishes_is_news_of_both() -> None:
    """Both are summed up anew, and who waits looks again once the card is surely the other's."""
    book = books.of(2, cards=1)
    book.devices_known()
    book.touched.clear()

    book.device_seen(builders.device("n2", [builders.card(0, at="n1")]))
    quarrel = set(book.touched)
    books.wait(book)
    books.asleep(book, "p", Help.DEVICE_CHANGED)
    book.device_gone("n1")
    left = books.awake(book)
    book.device_seen(builders.device("n2", []))
    book.device_seen(builders.device("n2", [builders.card(0, at="n1")]))

    assert quarrel == {"n1", "n2"}
    assert (left, books.awake(book)) == ([], ["p"])


def test_a_card_that_turns_up_elsewhere_stays_with_the_pod_that_holds_it() -> None:
    """Its new node is told so, and whoever waits for it looks again when the pod has ended."""
    book = books.of(2, cards=1)
    book.devices_known()
    book.pod_bound(builders.hold("holder", "n1", (0,)))

    book.device_seen(builders.device("n1", []))
    book.device_seen(builders.device("n2", [builders.card(0, at="n1")]))
    row = book.picture.row("n2")
    assert row is not None
    told = summaries.summary(row, book.picture.claims)
    books.wait(book)
    books.asleep(book, "p", Help.DEVICE_CHANGED)
    book.touched.clear()
    book.pod_over("uid-holder")

    assert told is not None
    assert (told.free, "1 uuid held by pods on n1" in told.reason) == (0, True)
    assert book.touched == {"n1", "n2"}
    assert books.awake(book) == ["p"]


def test_cards_of_a_node_that_is_gone_are_not_given_out_elsewhere() -> None:
    """The node that published them too says why, and to the API that it has them not surely."""
    book = books.of(2, cards=1)
    book.devices_known()
    book.device_seen(builders.device("n2", [builders.card(0, at="n1")]))

    book.device_gone("n1")
    row = book.picture.row("n2")
    assert row is not None
    told = summaries.summary(row, book.picture.claims)

    assert told is not None
    assert (told.free, told.claims, told.disputed) == (0, (), (builders.uuid("n1", 0),))
    assert "1 uuid published by another node first, which is gone" in told.reason


def test_a_record_of_whose_cards_they_are_is_no_news_to_its_own_node() -> None:
    """The operator's own write comes back to it: that must not have the node summed up again."""
    book = books.of(1)
    book.touched.clear()

    book.device_seen(builders.device("n1"), uuid_records.Record([builders.uuid("n1", 0)]))

    assert book.touched == set()
    assert book.picture.claims.keeper(builders.uuid("n1", 0)) == "n1"


def test_a_node_that_is_cordoned_or_no_more_is_summed_up_again() -> None:
    """Its Device tells that, and no Device of another node is written."""
    book = books.of(2)
    for unschedulable in (True, False):
        book.touched.clear()
        book.node_seen(builders.node("n1", unschedulable=unschedulable))
        assert book.touched == {"n1"}

    book.touched.clear()
    book.node_seen(builders.node("n1"))
    assert book.touched == set()


def test_device_that_is_gone_needs_no_summary() -> None:
    """There is nothing left to sum up of cards that are gone."""
    book = books.of()

    book.device_gone("n1")

    assert book.touched == set()


def test_ledger_tells_its_state() -> None:
    """A person at a debugger reads how much is known and how it stands."""
    book = books.of(2)
    books.wait(book, "a")
    books.assume(book, "a")
    book.pod_bound(builders.hold("b"))

    assert repr(book) == (
        "<Ledger: <Inventory: 2 nodes, 2 holds>, "
        "<Backlog: 0 pods, 0 of them waiting for a change>, 1 confirmed, 1 assumed>"
    )
