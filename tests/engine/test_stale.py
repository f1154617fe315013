"""What was decided on changes before the bind had its turn: it is not sent then, but decided anew."""

from collections.abc import Callable

import pytest

from berth_operator.engine import bind_sender, ports
from berth_operator.engine.hold_states import State
from berth_operator.scheduling.decisions import Reason
from engine.harness import Engine
from support import builders, inventories, timeless
from support.writers import Reply

Change = Callable[[Engine], None]

OF_ITS_CARDS: dict[str, Change] = {
    "a card is ill": lambda engine: engine.ledger.device_seen(
        builders.device("n1", cards=[builders.card(trouble=Reason.UNHEALTHY)])
    ),
    "the Device goes": lambda engine: engine.ledger.device_gone("n1"),
    "the agent is silent": lambda engine: engine.ledger.agent_silent("n1", silent=True),
}
OF_ALL: dict[str, Change] = OF_ITS_CARDS | {
    "the node changes": lambda engine: engine.ledger.node_seen(builders.node("n1", pods=0)),
    "the node goes": lambda engine: engine.ledger.node_gone("n1"),
    "somebody else has its card": lambda engine: engine.ledger.pod_bound(builders.hold("rival", "n1", [0])),
    "somebody has cards that nobody can name": lambda engine: engine.ledger.pod_bound(
        builders.hold("rival", "n1", withheld=1)
    ),
}


async def changed_before_its_turn(change: Change, *, nodes: int = 1, cards: int = 4, asks: int = 1) -> Engine:
    """Have the bind of a pod wait because the server asks for that, and something change meanwhile."""
    engine = Engine(nodes=nodes, cards=cards)
    engine.ledger.all_devices_read()
    engine.loop.binder._bind_sender.rate_limiter.back_off(5.0)
    engine.wait(cards=asks)
    engine.loop.round()
    assert engine.ledger.assumed_pods["uid-p"].placement.node == "n1"
    await engine.advance(1.0)
    change(engine)
    await engine.advance(10.0)
    return engine


@pytest.mark.parametrize("change", OF_ALL.values(), ids=OF_ALL.keys())
@timeless.scenario
async def test_a_bind_whose_turn_comes_too_late_is_decided_anew(change: Change) -> None:
    """While a server rests, what was decided may become wrong: it is not sent then (I6), nor does it cost."""
    engine = await changed_before_its_turn(change, nodes=2, cards=1)

    assert engine.status_writer.of("p") == ["placed on n2"]
    assert [round(call.moment, 1) for call in engine.writer.binds] == [5.0], "tried anew at once"


@timeless.scenario
async def test_a_pod_that_asks_for_something_else_before_its_turn_is_decided_anew() -> None:
    """Nothing is bound to what it asked for before."""
    engine = await changed_before_its_turn(lambda engine: engine.wait(cards=3))

    assert len(engine.writer.placements["p"].grants[0].shares) == 3
    assert inventories.free_cards(engine.ledger.inventory) == 1


def named_by_another(engine: Engine) -> None:
    """Have another node name the card that the pod is to get."""
    engine.ledger.device_seen(builders.device("n2", cards=[builders.card(0, at="n1")]))


# What happens that is nothing to a bind, and how many cards the pod asks for.
HARMLESS: dict[str, tuple[Change, int]] = {
    "another node names its card": (named_by_another, 1),
    **{f"{name}, and it asks for none": (change, 0) for name, change in OF_ITS_CARDS.items()},
}


@pytest.mark.parametrize(("change", "asks"), HARMLESS.values(), ids=HARMLESS.keys())
@timeless.scenario
async def test_a_bind_stands_when_nothing_changes_that_it_depends_on(change: Change, asks: int) -> None:
    """A card stays with the node that was first; whatever befalls cards is nothing to a pod without."""
    engine = await changed_before_its_turn(change, cards=1, asks=asks)

    assert engine.status_writer.of("p") == ["placed on n1"]
    assert engine.results() == {"bound": 1}


@pytest.mark.parametrize("bare", [True, False], ids=["a node without cards", "a node whose agent is silent"])
@timeless.scenario
async def test_a_pod_that_asks_for_no_device_needs_no_agent(*, bare: bool) -> None:
    """Nodes without cards, and those whose agent is silent, take pods that want none."""
    engine = Engine()
    if bare:
        engine.ledger.device_gone("n1")
    engine.ledger.agent_silent("n1", silent=True)
    engine.wait(cards=0)

    await engine.run(until=engine.placed)

    assert len(engine.writer.binds) == 1


# What the watch shows before the turn of a bind, how the hold stands then, and how many cards are free.
UNSENT: dict[str, tuple[Change, State, int]] = {
    "the pod is gone": (lambda engine: engine.ledger.pod_over("uid-p"), State.FREE, 4),
    "somebody else has bound it": (
        lambda engine: engine.ledger.pod_bound(builders.hold("p", "n1", [0, 1])),
        State.CONFIRMED,
        2,
    ),
}


@pytest.mark.parametrize(("change", "state", "free"), UNSENT.values(), ids=UNSENT.keys())
@timeless.scenario
async def test_nothing_is_sent_for_a_pod_that_does_not_wait_any_more(
    change: Change, state: State, free: int
) -> None:
    """It keeps what it has, and nothing is told of it."""
    engine = await changed_before_its_turn(change)

    assert (engine.writer.binds, engine.status_writer.reports) == ([], [])
    assert (engine.state(), inventories.free_cards(engine.ledger.inventory)) == (state, free)


@timeless.scenario
async def test_what_is_not_sent_costs_no_turn() -> None:
    """However slowly binds may go and however often a node changes, they go at that pace."""
    engine = Engine(limits=bind_sender.Limits(binds_per_second=0.5))
    engine.crowd(f"p{at}" for at in range(4))

    for count in range(10):
        await engine.advance(count * 0.8)
        engine.ledger.pod_bound(builders.hold(f"other-{count}", "n1"))

    assert [round(call.moment, 1) for call in engine.writer.binds] == [0.0, 2.0, 4.0, 6.0]


# The answer to a bind, which is lost, where the pod is placed in the end, and how often it is changed before.
LOST: dict[str, tuple[ports.Unknown, str, int]] = {
    "a copy may arrive": (ports.Unknown("lost"), "n1", 0),
    "copies can be made void": (ports.Unknown("lost", version="7"), "n2", 1),
}


@pytest.mark.parametrize(("answer", "node", "voided"), LOST.values(), ids=LOST.keys())
@timeless.scenario
async def test_a_bind_that_is_sent_is_not_taken_back_before_its_copies_are_void(
    answer: ports.Unknown, node: str, voided: int
) -> None:
    """Its cards stay with its pod, whatever changes; what speaks against a placement counts for each copy."""
    engine = Engine(nodes=2, cards=1)
    sick = builders.device("n1", [builders.card(trouble=Reason.UNHEALTHY)])
    engine.writer.when_looked_at("p", ports.Unbound(version="7"))
    engine.wait("p", Reply(answer, 4.0, lambda: engine.ledger.device_seen(sick)), ports.Bound())

    await engine.run(until=lambda: engine.status_writer.of("p"))

    assert engine.status_writer.of("p") == [f"placed on {node}"]
    assert (len(engine.writer.binds), len(engine.writer.voided)) == (2, voided)
    assert engine.state() is State.ASSUMED
