"""Strategies rank nodes: by their cards first, then by their cpu."""

import pytest

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import inventory, policy
from berth_operator.scheduling.devices import allocator
from support import builders


def order(picture: inventory.Inventory, strategy: Strategy) -> list[str]:
    """Name the nodes from the best to the worst."""
    scores = policy.STRATEGIES[strategy](picture)
    names = [row.name for row in picture.rows if row is not None]
    return [name for _, name in sorted(zip(scores.tolist(), names, strict=True))]


@pytest.mark.parametrize(
    ("strategy", "best_first"),
    [
        pytest.param(Strategy.BINPACK, ["n3", "n2", "n1"], id="binpack fills what is started"),
        pytest.param(Strategy.SPREAD, ["n1", "n2", "n3"], id="spread takes what is empty"),
    ],
)
def test_cards_rank_first(strategy: Strategy, best_first: list[str]) -> None:
    """Free cards outweigh any amount of cpu."""
    idle_but_small = builders.hold("a", "n3", (0, 1))
    busy_but_whole = builders.hold("b", "n1", amounts=(("cpu", 8000),))
    started = builders.hold("c", "n2", (0,))
    picture = builders.picture(*builders.nodes(3), idle_but_small, busy_but_whole, started)

    found = order(picture, strategy)

    assert found == best_first


@pytest.mark.parametrize(
    ("strategy", "best_first"),
    [
        pytest.param(Strategy.BINPACK, ["n2", "n1"], id="binpack fills the busy one"),
        pytest.param(Strategy.SPREAD, ["n1", "n2"], id="spread takes the idle one"),
    ],
)
def test_cpu_decides_between_equals(strategy: Strategy, best_first: list[str]) -> None:
    """With as many free cards, the share of cpu that is left decides, not its amount."""
    large, small = builders.node("n1", cpu=64000), builders.node("n2", cpu=4000)
    halves = (
        builders.hold("a", "n1", amounts=(("cpu", 8000),)),
        builders.hold("b", "n2", amounts=(("cpu", 2000),)),
    )
    picture = builders.picture(large, small, *halves)

    found = order(picture, strategy)

    assert found == best_first


@pytest.mark.parametrize("strategy", list(Strategy))
def test_equals_go_by_name(strategy: Strategy) -> None:
    """Between equal nodes the name decides, whichever came first."""
    picture = builders.picture(*reversed(builders.nodes(3)))

    placement = allocator.place(
        picture, builders.request(1), builders.demand(), rules=policy.Policy(strategy=strategy)
    )

    assert placement is not None
    assert placement.node == "n1"


def test_withheld_cards_are_not_free() -> None:
    """A card that somebody surely has makes its node fuller, even if nobody can name it."""
    picture = builders.picture(*builders.nodes(2), builders.hold("a", "n2", withheld=1))

    found = order(picture, Strategy.BINPACK)

    assert found == ["n2", "n1"]


def test_overbooked_node_is_merely_full() -> None:
    """A node that others filled beyond its size still has a rank."""
    absurd = builders.hold("a", "n1", amounts=(("cpu", 2**60),))
    picture = builders.picture(*builders.nodes(2), absurd)

    found = order(picture, Strategy.BINPACK)

    assert found == ["n1", "n2"]


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_of_the_contract_is_served(strategy: Strategy) -> None:
    """What a policy may name, the core knows."""
    assert strategy in policy.STRATEGIES
