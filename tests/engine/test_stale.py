"""What was decided on changes before the bind had its turn: it is not sent then, but decided anew."""

from collections.abc import Callable

import pytest

from berth_operator.engine import bind_sender, ports
from berth_operator.engine.hold_states import State
from berth_operator.scheduling.decisions import Reason
from engine.stages import Stage
from support import builders, inventories, timeless
from support.hands import Reply

Change = Callable[[Stage], None]

OF_THE_NODE: dict[str, Change] = {
    "the node changes": lambda stage: stage.ledger.node_seen(builders.node("n1", pods=0)),
    "the node goes": lambda stage: stage.ledger.node_gone("n1"),
}
OF_ITS_CARDS: dict[str, Change] = {
    "a card is ill": lambda stage: stage.ledger.device_seen(
        builders.device("n1", cards=[builders.card(trouble=Reason.UNHEALTHY)])
    ),
    "the Device goes": lambda stage: stage.ledger.device_gone("n1"),
    "the agent is silent": lambda stage: stage.ledger.agent_silent("n1", silent=True),
    "somebody else has its card": lambda stage: stage.ledger.pod_bound(builders.hold("rival", "n1", [0])),
    "somebody has cards that nobody can name": lambda stage: stage.ledger.pod_bound(
        builders.hold("rival", "n1", withheld=1)
    ),
}


OF_BOTH: dict[str, Change] = OF_THE_NODE | OF_ITS_CARDS


async def changed_before_its_turn(change: Change, *, nodes: int = 1, cards: int = 4, asks: int = 1) -> Stage:
    """Have the bind of a pod wait because the server asks for that, and something change meanwhile."""
    stage = Stage(nodes=nodes, cards=cards)
    stage.ledger.all_devices_read()
    stage.loop.binder.back_off(ports.Throttled("busy", 5.0))
    stage.wait(cards=asks)
    async with timeless.beside(stage.loop.run()):
        stage.loop.round()
        assert stage.ledger.assumed_pods["uid-p"].placement.node == "n1"
        await timeless.at(1.0)
        change(stage)
        await timeless.at(10.0)
    return stage


def named_by_another(stage: Stage) -> None:
    """Have another node name the card that the pod is to get."""
    stage.ledger.device_seen(builders.device("n2", cards=[builders.card(0, at="n1")]))
    assert stage.ledger.assumed_pods.is_current("uid-p")


@pytest.mark.parametrize("change", OF_BOTH.values(), ids=OF_BOTH.keys())
@timeless.scenario
async def test_a_bind_whose_turn_comes_too_late_is_decided_anew(change: Change) -> None:
    """While a server rests, what was decided may become wrong: it is not sent then (I6), nor does it cost."""
    stage = await changed_before_its_turn(change, nodes=2, cards=1)

    assert stage.status_writer.of("p") == ["placed on n2"]
    assert [round(one.moment, 1) for one in stage.writer.binds] == [5.0], "tried anew at once"


@timeless.scenario
async def test_a_pod_that_asks_for_something_else_before_its_turn_is_decided_anew() -> None:
    """Nothing is bound to what it asked for before."""
    stage = await changed_before_its_turn(lambda stage: stage.wait(cards=3))

    assert len(stage.writer.placements["p"].grants[0].shares) == 3
    assert inventories.free_cards(stage.ledger.inventory) == 1


@timeless.scenario
async def test_a_bind_stands_when_another_node_names_its_card() -> None:
    """The card stays with the node that was first, so what was decided is sent as it is."""
    stage = await changed_before_its_turn(named_by_another, nodes=2, cards=1)

    assert stage.status_writer.of("p") == ["placed on n1"]


@pytest.mark.parametrize("change", OF_ITS_CARDS.values(), ids=OF_ITS_CARDS.keys())
@timeless.scenario
async def test_what_befalls_cards_is_nothing_to_a_pod_without(change: Change) -> None:
    """It has its place whatever the agent says; only other pods on its node may take that from it."""
    stage = await changed_before_its_turn(change, cards=1, asks=0)

    assert stage.status_writer.of("p") == ["placed on n1"]


@pytest.mark.parametrize("bare", [True, False], ids=["a node without cards", "a node whose agent is silent"])
@timeless.scenario
async def test_a_pod_that_asks_for_no_device_needs_no_agent(*, bare: bool) -> None:
    """Nodes without cards, and those whose agent is silent, take pods that want none."""
    stage = Stage(nodes=1)
    if bare:
        stage.ledger.device_gone("n1")
    stage.ledger.agent_silent("n1", silent=True)
    stage.wait(cards=0)

    await stage.run(until=lambda: stage.status_writer.of("p"))

    assert stage.status_writer.of("p") == ["placed on n1"]
    assert len(stage.writer.binds) == 1


@timeless.scenario
async def test_what_is_sent_already_is_not_taken_back() -> None:
    """A bind under way may arrive whatever changes: its cards stay with its pod, and it is sent again."""
    stage = Stage(nodes=2, cards=1)
    stage.writer.when_looked_at("p", Reply(ports.Unbound()))
    stage.crowd(["p"], Reply(ports.Unknown("lost"), takes=1.0), Reply())

    async with timeless.beside(stage.loop.run()):
        await timeless.at(0.5)
        stage.ledger.agent_silent("n1", silent=True)
        await timeless.until(lambda: stage.status_writer.of("p"))
        await stage.loop.binder.drain()

    assert (len(stage.writer.binds), stage.writer.placements["p"].node) == (2, "n1")
    assert stage.state() is State.ASSUMED


@timeless.scenario
async def test_a_pod_that_is_gone_before_its_turn_is_not_bound() -> None:
    """Nothing is sent for a pod whose end was seen while its bind stood in line."""
    stage = await changed_before_its_turn(lambda stage: stage.ledger.pod_over("uid-p"))

    assert stage.writer.binds == []
    assert inventories.free_cards(stage.ledger.inventory) == 4


@timeless.scenario
async def test_what_is_not_sent_costs_no_turn() -> None:
    """However slowly binds may go and however often a node changes, they go at that pace."""
    stage = Stage(limits=bind_sender.Limits(binds_per_second=0.5))
    for at in range(4):
        stage.wait(f"p{at}")

    async with timeless.beside(stage.loop.run()):
        for count in range(10):
            await timeless.at(count * 0.8)
            stage.ledger.pod_bound(builders.hold(f"other-{count}", "n1"))
        await stage.loop.binder.drain()

    assert [round(one.moment, 1) for one in stage.writer.binds] == [0.0, 2.0, 4.0, 6.0]


@timeless.scenario
async def test_who_was_bound_by_somebody_else_before_its_turn_is_not_called_stale() -> None:
    """Nothing is sent for it, and it keeps what it has."""
    stage = await changed_before_its_turn(
        lambda stage: stage.ledger.pod_bound(builders.hold("p", "n2", [0])), nodes=2
    )

    assert (stage.writer.binds, stage.status_writer.of("p")) == ([], [])
    assert stage.state() is State.CONFIRMED


@timeless.scenario
async def test_a_lost_bind_to_cards_that_are_given_out_no_more_is_not_sent_again() -> None:
    """What speaks against a placement counts for each copy of its bind."""
    stage = Stage(nodes=2, cards=1)
    ledger = stage.ledger
    sick = builders.device("n1", [builders.card(trouble=Reason.UNHEALTHY)])
    lost = Reply(ports.Unknown("lost", version="7"), 4.0, lambda: ledger.device_seen(sick))
    stage.writer.when_looked_at("p", Reply(ports.Unbound(version="7")))
    stage.crowd(["p"], lost, Reply())

    await stage.run(until=lambda: stage.status_writer.of("p"))

    assert stage.status_writer.of("p") == ["placed on n2"]
    assert len(stage.writer.voided) == 1
