"""The ledger: each event takes a pod's hold from one state to the next, or is refused and changes nothing."""

import dataclasses
from collections.abc import Callable

import pytest

from berth_crds import names
from berth_operator.engine.hold_states import TRANSITIONS, IllegalStep, State, Step
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import cycle, decisions
from berth_operator.scheduling.decisions import ClusterEvent, Reason
from support import builders, clock, inventories, ledgers

POD = builders.candidate()
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


def in_state(state: State) -> Ledger:
    """Give a ledger in which the pod's hold stands so."""
    ledger = ledgers.with_nodes()
    for step in BEFORE[state]:
        step(ledger)
    return ledger


@pytest.mark.parametrize(
    ("state", "event"), TABLE, ids=[f"{state.value}, then {event}" for state, event in TABLE]
)
def test_table(state: State, event: str) -> None:
    """Each state goes by each event where the table says; what is not foreseen raises and changes nothing."""
    ledger = in_state(state)
    before = ledgers.contents(ledger)
    expected = TABLE[state, event]

    if expected is None:
        with pytest.raises(IllegalStep):
            EVENTS[event](ledger)
        assert ledgers.contents(ledger) == before
    else:
        EVENTS[event](ledger)
        held = ledger.inventory.hold("uid-p")
        assert (ledger.state("uid-p"), "uid-p" in ledger.backlog, len(held.shares) if held else 0) == expected
        assert free(ledger) == 4 - expected[2]


def test_table_is_complete() -> None:
    """No pair of state and event was left out of the table."""
    assert set(TABLE) == {(state, event) for state in State for event in EVENTS}


@pytest.mark.parametrize("step", list(Step))
@pytest.mark.parametrize("state", list(State))
def test_steps_are_those_of_the_drawing(state: State, step: Step) -> None:
    """A step that the drawing does not show is refused by name, and the state stays."""
    ledger = in_state(state)
    after = TRANSITIONS.get((state, step))

    if after is None:
        with pytest.raises(IllegalStep, match=f"cannot {step.value} the hold of uid-p: it is {state.value}"):
            ledger._step("uid-p", step)
        assert ledger.state("uid-p") is state
    else:
        ledger._step("uid-p", step)
        assert ledger.state("uid-p") is after


# ---------------------------------------------------------------- assume and forget


def test_assumed_cards_are_given_to_nobody_else() -> None:
    """From the moment a bind is decided its cards are taken, long before the server answers (I1)."""
    ledger = ledgers.with_nodes(cards=1)
    ledgers.add_waiting(ledger, "a")
    ledgers.add_waiting(ledger, "b")

    ledgers.assume(ledger, "a")
    (answer,) = ledgers.decide(ledger)

    assert isinstance(answer, decisions.Wait)
    assert answer.counts[0].reason is Reason.FULL


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

    dues = []
    for _ in range(3):
        now.now = ledger.backlog.next_due() or 0.0
        (bind,) = cycle.decide(ledger.search, ledger.backlog, now(), ledger.policy)
        assert isinstance(bind, decisions.Bind)
        ledger.assume(bind)
        ledger.forget("uid-p")
        dues.append(round((ledger.backlog.next_due() or 0.0) - now(), 3))

    assert dues == [0.1, 0.2, 0.4]
    assert ledger.wake.is_set()


def test_forgotten_cards_wake_who_waits_for_them() -> None:
    """Cards that come back because a bind failed are news for the others."""
    ledger = ledgers.with_nodes(cards=1)
    ledgers.add_waiting(ledger, "a")
    ledgers.assume(ledger, "a")
    ledgers.add_waiting(ledger, "b")
    ledgers.put_off(ledger, "b", ClusterEvent.CAPACITY_FREED)

    ledger.forget("uid-a")

    assert "b" in ledgers.ready_names(ledger)


# ---------------------------------------------------------------- races between the watch and the answer


def test_confirmation_of_what_was_assumed_is_no_news() -> None:
    """A bind that the watch shows just as it was assumed frees nothing, so it wakes nobody."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(ledger, builders.pod("p", gpus=2))
    bind = ledgers.assume(ledger)
    ledgers.add_waiting(ledger, "b", cards=9)
    ledgers.put_off(ledger, "b", ClusterEvent.CAPACITY_FREED)
    before = ledgers.contents(ledger)["inventory"]

    ledgers.pod_seen(
        ledger, builders.pod("p", gpus=2, nodeName="n1", annotations=builders.answered(bind.placement))
    )

    assert ledger.state("uid-p") is State.CONFIRMED
    assert ledgers.contents(ledger)["inventory"] == before
    assert ledgers.ready_names(ledger) == []


def test_edit_while_assumed_counts_when_the_bind_fails() -> None:
    """A pod that was edited while its bind was under way waits with its new request afterwards."""
    ledger = ledgers.with_nodes()
    ledgers.add_waiting(ledger)
    ledgers.assume(ledger)
    edited = builders.candidate(cards=2)

    ledger.pod_waiting(edited, gated=False)
    during = ledger.inventory.hold("uid-p")
    ledger.forget("uid-p")

    assert during == HELD
    assert ledger.backlog.get("uid-p") == edited


def test_moment_of_first_sight_outlives_a_failed_bind() -> None:
    """Since when a pod asks is told until it is placed; an edit asks anew."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(now=now)
    ledgers.add_waiting(ledger)
    first = ledger.waiting_since("uid-p")
    ledgers.assume(ledger)
    now.advance(5)
    ledger.forget("uid-p")
    ledgers.add_waiting(ledger)
    after_failure = ledger.waiting_since("uid-p")
    ledgers.add_waiting(ledger, cards=2)

    assert after_failure == first
    assert ledger.waiting_since("uid-p") == now.now


def test_bound_elsewhere_than_assumed() -> None:
    """What the watch says holds; what was assumed instead is free, and whoever waits for it is told."""
    ledger = ledgers.with_nodes(2)
    ledgers.add_waiting(ledger)
    ledgers.assume(ledger)
    ledgers.add_waiting(ledger, "b", cards=4)
    ledgers.put_off(ledger, "b", ClusterEvent.CAPACITY_FREED)

    ledger.pod_bound(dataclasses.replace(builders.hold("p", "n2", (2,)), amounts=HELD.amounts))

    assert (free(ledger, "n1"), free(ledger, "n2")) == (4, 3)
    assert ledger.state("uid-p") is State.CONFIRMED
    assert ledgers.ready_names(ledger) == ["b"]


def test_bound_by_somebody_else_without_a_record() -> None:
    """A pod that another scheduler bound withholds its cards from then on (I9)."""
    ledger = ledgers.with_nodes()
    ledger.node_seen(builders.node("n1", extra={names.NVIDIA_GPU: 4}))
    ledgers.pod_seen(ledger, builders.pod("p", gpus=3))

    ledgers.pod_seen(ledger, builders.pod("p", gpus=3, nodeName="n1", schedulerName="other"))

    assert "uid-p" not in ledger.backlog
    assert free(ledger) == 1


def test_record_that_becomes_readable_names_its_cards() -> None:
    """Cards that were withheld without a name are held by name once the record can be read."""
    ledger = ledgers.with_nodes()
    ledgers.pod_seen(
        ledger, builders.pod("p", gpus=2, nodeName="n1", annotations={"berth.dev/allocation": "{"})
    )

    ledgers.pod_seen(
        ledger, builders.pod("p", gpus=2, nodeName="n1", annotations=builders.record("n1", main=[1, 3]))
    )

    held = ledger.inventory.hold("uid-p")
    assert held is not None
    assert [share.minor for share in held.shares] == [1, 3]
    assert free(ledger) == 2


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(builders.pod("p", gpus=1, nodeName="n1", phase="Succeeded"), id="it succeeded"),
        pytest.param(builders.pod("p", gpus=1, nodeName="n1", phase="Failed"), id="it failed"),
        pytest.param(None, id="it is gone"),
    ],
)
def test_end_of_a_pod_frees_its_cards_at_once(end: object) -> None:
    """A finished or deleted pod holds nothing from the event on, and whoever waits is woken (I5)."""
    ledger = ledgers.with_nodes(cards=1)
    running = builders.pod("p", gpus=1, nodeName="n1", annotations=builders.record("n1", main=[0]))
    ledgers.pod_seen(ledger, running)
    ledgers.add_waiting(ledger, "b")
    ledgers.put_off(ledger, "b", ClusterEvent.CAPACITY_FREED)
    ledger.wake.clear()

    ledgers.pod_seen(ledger, end, "uid-p")  # type: ignore[arg-type]  # a pod or None, from the table

    assert free(ledger) == 1
    assert ledgers.ready_names(ledger) == ["b"]
    assert ledger.wake.is_set()


def test_gate_keeps_a_pod_from_being_tried() -> None:
    """A gated pod is known and does not wait; it does from the moment its gate is lifted."""
    ledger = ledgers.with_nodes()
    gated = builders.pod("p", schedulingGates=[{"name": "g"}])

    ledgers.pod_seen(ledger, gated)
    before = ledgers.ready_names(ledger), list(ledger.gated), ledger.waiting_since("uid-p")
    ledgers.pod_seen(ledger, builders.pod("p"))

    lifted = ledgers.ready_names(ledger), list(ledger.gated)
    ledgers.pod_seen(ledger, gated)
    ledgers.pod_seen(ledger, None, "uid-p")

    assert (before, lifted) == (([], ["uid-p"], None), (["p"], []))
    assert ledger.gated == {}


def test_an_edited_record_gives_no_card_away() -> None:
    """What a pod was bound with is what it holds, whatever its annotation says later."""
    # Given a pod that is bound to the first card
    ledger = ledgers.with_nodes(cards=2)
    ledgers.add_waiting(ledger)
    bind = ledgers.assume(ledger)
    hold = ledger.inventory.hold(bind.uid)
    assert hold is not None
    ledger.pod_bound(hold)

    # When its record is edited to name the second card
    (share,) = hold.shares
    ledger.pod_bound(dataclasses.replace(hold, shares=(dataclasses.replace(share, uuid="another"),)))

    # Then it still holds the first
    assert ledger.inventory.hold(bind.uid) == hold
