"""News of nodes, cards, agents and rules wakes whoever it could help, and nobody else."""

from collections.abc import Callable

import pytest

from berth_crds.vocabulary import Strategy
from berth_operator.engine import ledger, summaries
from berth_operator.scheduling import policy
from berth_operator.scheduling.decisions import Help
from engine import books
from support import builders

HELD = builders.hold("p", minors=(0,))
SPREAD = policy.Policy(strategy=Strategy.SPREAD)


def falls_silent_and_speaks(book: ledger.Ledger) -> None:
    """Have an agent be away for a while."""
    book.agent_silent("n1", silent=True)
    book.agent_silent("n1", silent=False)


def comes_and_ends(book: ledger.Ledger) -> None:
    """Have a pod be there, and then be gone; only its end counts."""
    book.pod_bound(HELD)
    book.touched.clear()
    book.pod_over("uid-p")


NEWS: dict[str, tuple[Callable[[ledger.Ledger], object], Help]] = {
    "a new node": (lambda book: book.node_seen(builders.node("n9")), Help.NODE_CHANGED),
    "a changed node": (lambda book: book.node_seen(builders.node(cpu=1)), Help.NODE_CHANGED),
    "new cards": (lambda book: book.device_seen(builders.device("n9")), Help.DEVICE_CHANGED),
    "changed cards": (lambda book: book.device_seen(builders.device(cards=5)), Help.DEVICE_CHANGED),
    "an agent that speaks again": (falls_silent_and_speaks, Help.DEVICE_CHANGED),
    "another policy": (lambda book: book.policy_seen(SPREAD), Help.POLICY_CHANGED),
}


@pytest.mark.parametrize(("happen", "change"), NEWS.values(), ids=NEWS.keys())
@pytest.mark.parametrize("wanted", list(Help))
def test_news_wake_who_waits_for_them(
    happen: Callable[[ledger.Ledger], object], change: Help, wanted: Help
) -> None:
    """A change wakes exactly the pods that it could help."""
    book = books.of()
    books.wait(book)
    books.asleep(book, "p", wanted)
    book.wake.clear()

    happen(book)

    assert books.awake(book) == (["p"] if wanted is change else [])
    assert book.wake.is_set()


NO_NEWS: dict[str, Callable[[ledger.Ledger], object]] = {
    "the same node": lambda book: book.node_seen(builders.node()),
    "the same cards": lambda book: book.device_seen(builders.device()),
    "an agent that goes on speaking": lambda book: book.agent_silent("n1", silent=False),
    "an agent of nobody": lambda book: book.agent_silent("n9", silent=False),
    "an agent that falls silent": lambda book: book.agent_silent("n1", silent=True),
    "the same policy": lambda book: book.policy_seen(policy.Policy()),
    "a node that goes": lambda book: book.node_gone("n1"),
    "cards that go": lambda book: book.device_gone("n1"),
    "the end of a pod that had nothing": lambda book: book.pod_over("uid-x"),
}


@pytest.mark.parametrize("happen", NO_NEWS.values(), ids=NO_NEWS.keys())
def test_no_news_wakes_nobody(happen: Callable[[ledger.Ledger], object]) -> None:
    """What helps nobody costs no round."""
    book = books.of()
    books.wait(book)
    books.asleep(book, "p", *Help)
    book.wake.clear()

    happen(book)

    assert books.awake(book) == []
    assert not book.wake.is_set()


TOUCHING: dict[str, Callable[[ledger.Ledger], object]] = {
    "a pod is bound": lambda book: book.pod_bound(HELD),
    "a pod ends": comes_and_ends,
    "cards change": lambda book: book.device_seen(builders.device(cards=2)),
    "an agent falls silent": lambda book: book.agent_silent("n1", silent=True),
}


@pytest.mark.parametrize("happen", TOUCHING.values(), ids=TOUCHING.keys())
def test_nodes_to_sum_up_are_remembered(happen: Callable[[ledger.Ledger], object]) -> None:
    """A node whose summary may have changed is noted, and no other."""
    book = books.of(2)
    book.touched.clear()

    happen(book)

    assert book.touched == {"n1"}


def test_a_uuid_that_another_publishes_is_news_of_both() -> None:
    """Both are summed up anew, and whoever waits for cards looks again when one of them lets go."""
    book = books.of(2, cards=1)
    book.devices_known()
    book.touched.clear()

    book.device_seen(builders.device("n2", [builders.card(0, at="n1")]))
    quarrel = set(book.touched)
    books.wait(book)
    books.asleep(book, "p", Help.DEVICE_CHANGED)
    book.device_gone("n1")

    assert quarrel == {"n1", "n2"}
    assert books.awake(book) == ["p"]


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

    book.device_seen(builders.device("n1"), [builders.uuid("n1", 0)])

    assert book.touched == set()
    assert book.picture.claims.keeper(builders.uuid("n1", 0)) == "n1"


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
