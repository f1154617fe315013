"""The ledger: each event takes a pod's hold from one state to the next, or is refused and changes nothing."""

from collections.abc import Callable

import pytest

from berth_operator.engine.hold_states import IllegalStep, State
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import cycle, decisions
from berth_operator.scheduling.decisions import ClusterEvent
from berth_operator.translate import raw
from support import builders, clock, inventories, ledgers

POD = builders.pod_info()
PLACED = decisions.Bind("uid-p", decisions.Placement("n1", (decisions.Grant("c0", (builders.share(0),)),)))
HELD = cycle.hold_for(POD, PLACED.placement)
ELSEWHERE = builders.hold("p", shares=(3,), amounts=HELD.amounts)


def free(ledger: Ledger, at: str = "n1") -> int:
    """Count the free cards of a node."""
    return inventories.free_cards(ledger.inventory, at)


# ---------------------------------------------------------------- the table

BEFORE: dict[State, list[Callable[[Ledger], object]]] = {
    State.FREE: [lambda ledger: ledger.pod_waiting(POD, gated=False)],
    State.ASSUMED: [
        lambda ledger: ledger.pod_waiting(POD, gated=False),
        lambda ledger: ledger.assume(PLACED),
    ],
    State.CONFIRMED: [lambda ledger: ledger.pod_bound(HELD)],
}
EVENTS: dict[str, Callable[[Ledger], object]] = {
    "assume": lambda ledger: ledger.assume(PLACED),
    "forget": lambda ledger: ledger.forget("uid-p"),
    "seen bound": lambda ledger: ledger.pod_bound(HELD),
    "seen bound otherwise": lambda ledger: ledger.pod_bound(ELSEWHERE),
    "seen waiting": lambda ledger: ledger.pod_waiting(POD, gated=False),
    "seen gated": lambda ledger: ledger.pod_waiting(POD, gated=True),
    "over": lambda ledger: ledger.pod_over("uid-p"),
}
# What a state becomes by an event: the next state, whether the pod waits, and how many cards it holds.
TABLE: dict[tuple[State, str], tuple[State, bool, int] | None] = {
    (State.FREE, "assume"): (State.ASSUMED, False, 1),
    (State.FREE, "forget"): None,
    (State.FREE, "seen bound"): (State.CONFIRMED, False, 1),
    (State.FREE, "seen bound otherwise"): (State.CONFIRMED, False, 1),
    (State.FREE, "seen waiting"): (State.FREE, True, 0),
    (State.FREE, "seen gated"): (State.FREE, False, 0),
    (State.FREE, "over"): (State.FREE, False, 0),
    (State.ASSUMED, "assume"): None,
    (State.ASSUMED, "forget"): (State.FREE, True, 0),
    (State.ASSUMED, "seen bound"): (State.CONFIRMED, False, 1),
    (State.ASSUMED, "seen bound otherwise"): (State.CONFIRMED, False, 1),
    (State.ASSUMED, "seen waiting"): (State.ASSUMED, False, 1),
    (State.ASSUMED, "seen gated"): (State.ASSUMED, False, 1),
    (State.ASSUMED, "over"): (State.FREE, False, 0),
    (State.CONFIRMED, "assume"): None,
    (State.CONFIRMED, "forget"): None,
    (State.CONFIRMED, "seen bound"): (State.CONFIRMED, False, 1),
    (State.CONFIRMED, "seen bound otherwise"): (State.CONFIRMED, False, 1),
    (State.CONFIRMED, "seen waiting"): (State.FREE, True, 0),
    (State.CONFIRMED, "seen gated"): (State.FREE, False, 0),
    (State.CONFIRMED, "over"): (State.FREE, False, 0),
}


CASES = [(state, event) for state in State for event in EVENTS]


@pytest.mark.parametrize(
    ("state", "event"), CASES, ids=[f"{state.value}, then {event}" for state, event in CASES]
)
def test_table(state: State, event: str) -> None:
    """Each state goes by each event where the table says; what is not foreseen raises and changes nothing."""
    ledger = ledgers.with_nodes()
    for step in BEFORE[state]:
        step(ledger)
    before = ledgers.contents(ledger)
    expected = TABLE[state, event]

    if expected is None:
        with pytest.raises(IllegalStep, match=f"cannot {event} the hold of uid-p: it is {state.value}"):
            EVENTS[event](ledger)
        assert ledgers.contents(ledger) == before
    else:
        EVENTS[event](ledger)
        held = ledger.inventory.hold("uid-p")
        assert (ledger.state("uid-p"), "uid-p" in ledger.backlog, len(held.shares) if held else 0) == expected
        assert free(ledger) == 4 - expected[2]


# ---------------------------------------------------------------- assume and forget


def test_assuming_who_does_not_wait_is_refused() -> None:
    """A decision about a pod that left meanwhile cannot be assumed, and charges nothing."""
    ledger = ledgers.with_nodes()
    before = ledgers.contents(ledger)

    with pytest.raises(IllegalStep, match="uid-p does not wait"):
        ledger.assume(PLACED)

    assert ledgers.contents(ledger) == before


def test_forgotten_pod_waits_out_a_pause() -> None:
    """A pod whose bind was refused is tried again, after a pause that grows with each attempt."""
    now = clock.Clock(0.0)
    ledger = ledgers.with_nodes(now=now)
    ledgers.add_waiting(ledger)

    pauses = []
    for _ in range(3):
        ledgers.assume(ledger, now=now())
        ledger.forget("uid-p")
        pauses.append(round((ledger.backlog.next_due() or 0.0) - now(), 3))
        now.advance(pauses[-1])

    assert pauses == [0.1, 0.2, 0.4]


def test_edit_while_assumed_counts_when_the_bind_fails() -> None:
    """A pod that was edited while its bind was under way waits with its new request afterwards."""
    ledger = ledgers.with_nodes()
    ledgers.add_waiting(ledger)
    ledgers.assume(ledger)

    edited = ledgers.add_waiting(ledger, cards=2)
    during = ledger.inventory.hold("uid-p")
    ledger.forget("uid-p")

    assert (during, ledger.backlog.get("uid-p")) == (HELD, edited)


def test_moment_of_first_sight_outlives_a_failed_bind() -> None:
    """Since when a pod asks is told until it is placed; an edit asks anew."""
    now = clock.Clock(0.0)
    ledger, since = ledgers.with_nodes(now=now), []
    ledgers.add_waiting(ledger)
    ledgers.assume(ledger)
    now.advance(5)
    ledger.forget("uid-p")
    for cards in (1, 2):
        ledgers.add_waiting(ledger, cards=cards)
        since.append(ledger.waiting_since.get("uid-p"))

    assert since == [0.0, 5.0]


# ---------------------------------------------------------------- races between the watch and the answer


def test_confirmation_of_what_was_assumed_is_no_news() -> None:
    """A bind that the watch shows just as it was assumed frees nothing, so it wakes nobody."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, builders.pod("p", gpus=2))
    bind = ledgers.assume(ledger)
    ledgers.add_sleeping(ledger, "b", ClusterEvent.CAPACITY_FREED, cards=9)
    before = ledgers.contents(ledger)["inventory"]

    record = builders.answered(bind.placement)
    ledgers.pod_seen(ledger, builders.pod("p", gpus=2, nodeName="n1", annotations=record))

    assert ledger.state("uid-p") is State.CONFIRMED
    assert ledgers.contents(ledger)["inventory"] == before
    assert ledgers.ready_names(ledger) == []


def test_what_is_known_of_a_pod_beside_its_cards_is_kept_up_to_date() -> None:
    """Labels, priority and start of a bound pod are those that the watch showed last, and are no news."""
    ledger = ledgers.with_nodes()
    pod = builders.pod("p", gpus=2, labels={"app": "a"}, priority=7)
    ledgers.pod_seen(ledger, pod)
    bind = ledgers.assume(ledger)
    assumed = ledger.inventory.hold("uid-p")
    ledgers.add_waiting(ledger, "b", cards=9)
    ledgers.requeue(ledger, "b", ClusterEvent.CAPACITY_FREED)

    answered = builders.answered(bind.placement)
    bound = builders.pod("p", gpus=2, labels={"app": "b"}, annotations=answered, priority=7, nodeName="n1")
    ledgers.pod_seen(ledger, builders.admitted(bound))

    hold = ledger.inventory.hold("uid-p")
    assert assumed is not None
    assert hold is not None
    assert (assumed.priority, assumed.labels, assumed.start) == (7, (("app", "a"),), "")
    assert (hold.priority, hold.labels, hold.start) == (7, (("app", "b"),), "2026-01-01T00:00:00Z")
    assert hold == assumed
    assert hold.namespace == builders.NAMESPACE
    assert ledgers.ready_names(ledger) == []


def seen(pod: raw.Pod | None) -> Callable[[Ledger], None]:
    """Have the watch show a pod, or that it is gone."""
    return lambda ledger: ledgers.pod_seen(ledger, pod, "uid-p")


FREEING: dict[str, Callable[[Ledger], None]] = {
    "its bind fails": lambda ledger: ledger.forget("uid-p"),
    "it was bound elsewhere": lambda ledger: ledger.pod_bound(builders.hold("p", "n2", (0,))),
    "it succeeded": seen(builders.pod("p", gpus=1, nodeName="n1", phase="Succeeded")),
    "it failed": seen(builders.pod("p", gpus=1, nodeName="n1", phase="Failed")),
    "it is gone": seen(None),
}


@pytest.mark.parametrize("happen", FREEING.values(), ids=FREEING.keys())
def test_cards_of_a_pod_are_free_at_once(happen: Callable[[Ledger], None]) -> None:
    """What it does not hold any more is given to others from the event on, and who waits is woken (I5)."""
    ledger = ledgers.with_nodes(cards=1)
    ledgers.add_waiting(ledger)
    ledgers.assume(ledger)
    ledgers.add_sleeping(ledger, "b", ClusterEvent.CAPACITY_FREED)
    ledger.wake.clear()

    happen(ledger)

    assert free(ledger) == 1
    assert "b" in ledgers.ready_names(ledger)
    assert ledger.wake.is_set()


def test_gate_keeps_a_pod_from_being_tried() -> None:
    """A gated pod is known and does not wait; it does from the moment its gate is lifted."""
    ledger, found = ledgers.with_nodes(), []
    gated = builders.pod("p", schedulingGates=[{"name": "g"}])

    for pod in (gated, builders.pod("p"), gated, None):
        ledgers.pod_seen(ledger, pod, "uid-p")
        waits = ledger.waiting_since.get("uid-p") is not None
        found.append((ledgers.ready_names(ledger), list(ledger.gated), waits))

    assert found == [([], ["uid-p"], False), (["p"], [], True), ([], ["uid-p"], False), ([], [], False)]
