"""Strategies say how good a node is, each by itself, and which card a share should come from."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import (
    decisions,
    questions,
    queued_pods,
    search,
    strategies,
    workload,
)
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy, Weights
from berth_operator.scheduling.search import Search
from berth_operator.scheduling.strategies import score_inputs
from support import builders, worlds

ALIKE = Weights()
TENTH = requests.Gpus(1, core=10, ratio=10)
CARD = requests.cards(1)
SAMPLE = workload.Sample(1000, 0, ((100, 1),))
EVERY = pytest.mark.parametrize("strategy", list(Strategy))


def ranking(
    inventory: Inventory,
    pod: queued_pods.Candidate,
    strategy: Strategy,
    rows: Iterable[int] | None = None,
) -> score_inputs.Ranking:
    """Ask a strategy about these rows."""
    asked = np.array(list(range(inventory.size) if rows is None else rows), dtype=np.int64)
    question = questions.ask(pod.request, pod.demand)
    query = Query(inventory, asked, question)
    return strategies.STRATEGIES[strategy](search.score_input_of(query, Weights()))


def place(
    inventory: Inventory,
    strategy: Strategy,
    ask: requests.Ask | None,
    *,
    cpu: int = 0,
    weights: Weights = ALIKE,
) -> tuple[str, list[int]]:
    """Name the node and the cards that a pod gets."""
    request = builders.request(ask) if ask is not None else requests.NO_DEVICES
    policy = Policy(strategy, weights)
    found = Search(inventory).place(request, builders.demand(cpu), policy=policy)
    assert found is not None
    return found.node, [share.minor for share in worlds.given(found)]


def part(name: str, at: str = "n1", minor: int = 0, *, percent: int = 50) -> Hold:
    """Give a pod that has a part of a card."""
    share = builders.share(minor, at=at, core=percent, memory=builders.MEMORY * percent // 100)
    return dataclasses.replace(builders.hold(name, at), shares=(share,))


def busy(name: str, at: str, cpu: int) -> Hold:
    """Give a pod that has nothing but cpu."""
    return builders.hold(name, at, amounts=(("cpu", cpu),))


# ---------------------------------------------------------------- all of them


@EVERY
def test_every_strategy_of_the_contract_is_served(strategy: Strategy) -> None:
    """What a policy may name, the core knows."""
    assert strategy in strategies.STRATEGIES


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates(), strategy=st.sampled_from(list(Strategy)))
def test_scores_are_within_bounds(
    world: worlds.World, pod: queued_pods.Candidate, strategy: Strategy
) -> None:
    """Whatever there is and whatever is asked, each node gets a number from 0 to 100."""
    found = ranking(world.paint(), pod, strategy)

    assert np.isfinite(found.score).all()
    assert ((found.score >= 0) & (found.score <= score_inputs.BEST)).all()


@worlds.PROPERTY
@hypothesis.given(world=worlds.worlds(), pod=worlds.candidates(), strategy=st.sampled_from(list(Strategy)))
def test_each_node_is_judged_by_itself(
    world: worlds.World, pod: queued_pods.Candidate, strategy: Strategy
) -> None:
    """A node's score and card are the same whichever other nodes are asked beside it."""
    inventory = world.paint()

    together = ranking(inventory, pod, strategy)

    for at in range(inventory.size):
        alone = ranking(inventory, pod, strategy, [at])
        assert alone.score[0] == together.score[at]
        assert (alone.slot is None) is (together.slot is None)
        if alone.slot is not None and together.slot is not None:
            assert alone.slot[0] == together.slot[at]


@EVERY
def test_overbooked_node_is_merely_full(strategy: Strategy) -> None:
    """A node that others filled beyond its size still has a score."""
    absurd = builders.hold("a", "n1", (0, 1), amounts=(("cpu", 2**60), ("memory", 2**80)))
    twice = builders.hold("b", "n1", (0, 1))
    inventory = builders.inventory(*builders.nodes(2), absurd, twice)

    found = ranking(inventory, builders.candidate(), strategy)

    assert np.isfinite(found.score).all()
    assert ((found.score >= 0) & (found.score <= score_inputs.BEST)).all()


# ---------------------------------------------------------------- how full a node is


@pytest.mark.parametrize(
    ("strategy", "node", "minor"),
    [
        pytest.param(Strategy.BINPACK, "n2", 1, id="binpack fills the fullest node and card"),
        pytest.param(Strategy.SPREAD, "n1", 0, id="spread takes the emptiest node and card"),
        pytest.param(Strategy.WEIGHTED, "n1", 0, id="weighted takes most of what is free"),
        pytest.param(Strategy.FRAGMENTATION, "n2", 1, id="fragmentation breaks no further card"),
    ],
)
def test_share(strategy: Strategy, node: str, minor: int) -> None:
    """A share goes where the strategy says, down to the card."""
    inventory = builders.inventory(*builders.nodes(2, cards=2), part("a", "n2", 1))

    found = place(inventory, strategy, TENTH)

    assert found == (node, [minor])


@pytest.mark.parametrize(
    ("strategy", "node"),
    [
        pytest.param(Strategy.BINPACK, "n3", id="binpack: the fullest"),
        pytest.param(Strategy.SPREAD, "n1", id="spread: the emptiest"),
        pytest.param(Strategy.WEIGHTED, "n1", id="weighted: the one with most to give"),
        pytest.param(Strategy.FRAGMENTATION, "n3", id="fragmentation: the one with the fewest whole cards"),
    ],
)
def test_whole_card(strategy: Strategy, node: str) -> None:
    """A whole card comes from where the strategy says."""
    held = builders.hold("a", "n3", (0, 1)), builders.hold("b", "n2", (0,))
    inventory = builders.inventory(*builders.nodes(3), *held)

    found, _ = place(inventory, strategy, CARD)

    assert found == node


@pytest.mark.parametrize(
    ("strategy", "node"),
    [
        pytest.param(Strategy.BINPACK, "n2", id="binpack"),
        pytest.param(Strategy.SPREAD, "n2", id="spread"),
        pytest.param(Strategy.WEIGHTED, "n2", id="weighted"),
    ],
)
def test_pod_without_cards(strategy: Strategy, node: str) -> None:
    """Free cards outweigh any amount of cpu."""
    inventory = builders.inventory(
        *builders.nodes(2), builders.hold("a", "n2", (0, 1)), busy("b", "n1", 6000)
    )

    found, _ = place(inventory, strategy, None, cpu=1000)

    assert found == node


@pytest.mark.parametrize(
    ("strategy", "node"),
    [
        pytest.param(Strategy.BINPACK, "n2", id="binpack fills the busy one"),
        pytest.param(Strategy.SPREAD, "n1", id="spread takes the idle one"),
    ],
)
def test_cpu_decides_between_nodes_without_cards(strategy: Strategy, node: str) -> None:
    """Where there is no card, the share of cpu that is left decides, not its amount."""
    large, small = builders.node("n1", cpu=64000), builders.node("n2", cpu=4000)
    inventory = builders.inventory(large, small, busy("a", "n1", 8000), busy("b", "n2", 2000))

    found, _ = place(inventory, strategy, None, cpu=100)

    assert found == node


@pytest.mark.parametrize(
    ("held", "node"),
    [
        pytest.param(range(0), "n2", id="the larger one while it is free"),
        pytest.param(range(7), "n1", id="the smaller one once the larger is full"),
    ],
)
def test_weighted_looks_at_hardware_and_at_what_is_left_of_it(held: Iterable[int], node: str) -> None:
    """Large hardware is preferred, but what is left of it counts twice."""
    known = builders.node("n1"), builders.device("n1", 4), builders.node("n2"), builders.device("n2", 8)
    inventory = builders.inventory(*known, builders.hold("a", "n2", held))

    found, _ = place(inventory, Strategy.WEIGHTED, CARD)

    assert found == node


@pytest.mark.parametrize(
    ("strategy", "weights", "node"),
    [
        pytest.param(Strategy.BINPACK, Weights(1, 0), "n1", id="the node whose compute is used"),
        pytest.param(Strategy.BINPACK, Weights(0, 1), "n2", id="the node whose memory is used"),
        pytest.param(Strategy.SPREAD, Weights(1, 0), "n2", id="away from used compute"),
        pytest.param(Strategy.WEIGHTED, Weights(0, 1), "n1", id="to the memory that is left"),
    ],
)
def test_policy_says_what_counts(strategy: Strategy, weights: Weights, node: str) -> None:
    """Compute and memory count as much as the policy says; with weight 0 one is not looked at."""
    by_core = dataclasses.replace(part("a", "n1"), shares=(builders.share(0, at="n1", core=60, memory=1),))
    by_memory = builders.share(0, at="n2", core=1, memory=builders.MEMORY * 6 // 10)
    held = by_core, dataclasses.replace(part("b", "n2"), shares=(by_memory,))
    inventory = builders.inventory(*builders.nodes(2, cards=1), *held)

    found, _ = place(inventory, strategy, TENTH, weights=weights)

    assert found == node


@EVERY
@pytest.mark.parametrize("kind", ["plain", "instances", "replicas"])
def test_pod_without_cards_leaves_cards_alone(strategy: Strategy, kind: str) -> None:
    """A node without any card comes first, also where the others' cards are cut or shared."""
    kinds = {
        "plain": builders.card(0),
        "instances": builders.card(0, mig=True, instances=builders.instances("n1", 0, 7)),
        "replicas": builders.card(0, replicas=4),
    }
    served = builders.device("n1", [kinds[kind]])
    inventory = builders.inventory(builders.node("n1"), served, builders.node("n2"), busy("b", "n2", 6000))

    found, _ = place(inventory, strategy, None, cpu=1000)

    assert found == "n2"


@pytest.mark.parametrize("ask", [requests.Instances(builders.PROFILE, 1), requests.Replicas(1)], ids=str)
@pytest.mark.parametrize(
    ("strategy", "node"),
    [
        pytest.param(Strategy.BINPACK, "n2", id="binpack: the started one"),
        pytest.param(Strategy.FRAGMENTATION, "n2", id="fragmentation: the started one"),
        pytest.param(Strategy.SPREAD, "n1", id="spread: the other one"),
    ],
)
def test_pieces_of_cut_cards(strategy: Strategy, node: str, ask: requests.Ask) -> None:
    """MIG instances and replicas, too, come from where the strategy says."""
    known: list[Any] = []
    for at in ("n1", "n2"):
        cut = builders.card(0, at=at, mig=True, instances=builders.instances(at, 0, 7))
        known += [builders.node(at), builders.device(at, [cut, builders.card(1, at=at, replicas=4)])]
    taken = decisions.Share(builders.instances("n2", 0, 7)[0].uuid, 0, 100, 1, profile=builders.PROFILE)
    quarter = builders.share(1, at="n2", core=25, memory=builders.MEMORY // 4)
    held = dataclasses.replace(builders.hold("a", "n2"), shares=(taken, quarter))

    found, _ = place(builders.inventory(*known, held), strategy, ask)

    assert found == node


# ---------------------------------------------------------------- fragmentation


def fragmented(*known: Hold, ask: requests.Ask | None, cpu: int = 0) -> str:
    """Name the node that fragmentation prefers of two with four cards and eight cpus each."""
    found, _ = place(builders.inventory(*builders.nodes(2), *known), Strategy.FRAGMENTATION, ask, cpu=cpu)
    return found


def test_work_on_cpus_leaves_cards_their_cpu() -> None:
    """A pod without cards goes where no free card needs the cpu that it takes."""
    assert fragmented(builders.hold("a", "n2", (0, 1, 2, 3)), ask=None, cpu=4000) == "n2"


def test_stranded_cards_are_used_first() -> None:
    """A pod that needs little cpu takes a card that the cpu left on its node would not feed anyway."""
    assert fragmented(busy("a", "n2", 6000), ask=CARD, cpu=10) == "n2"


def test_cards_are_not_stranded() -> None:
    """A pod that needs much cpu goes where no other free card is left behind without any."""
    assert fragmented(builders.hold("a", "n2", (0, 1, 2)), ask=CARD, cpu=6000) == "n2"


def test_share_takes_the_rest_that_is_worth_least() -> None:
    """Of two started cards the share goes to the one where it fits closest, on whichever node."""
    known = part("a", "n1", 0, percent=50), part("b", "n2", 3, percent=80)
    inventory = builders.inventory(*builders.nodes(2), *known)

    found = place(inventory, Strategy.FRAGMENTATION, requests.Gpus(1, core=20, ratio=20))

    assert found == ("n2", [3])


def test_lesson_changes_the_choice() -> None:
    """Where halves are what pods ask, a fifth is not cut off a half if a smaller rest will do."""
    started = part("a", minor=0, percent=50), part("b", minor=1, percent=70)
    inventory = builders.inventory(*builders.nodes(1), *started)
    for at in range(100):
        inventory.workload.see(f"h{at}", dataclasses.replace(SAMPLE, sizes=((50, 1),)))

    found = place(inventory, Strategy.FRAGMENTATION, requests.Gpus(1, core=20, ratio=20))

    assert found == ("n1", [1])


def test_card_in_surplus_goes_first() -> None:
    """Of nodes that lose equally much space, the one whose model nobody else would ask for gives it."""
    asked = ("h200",)
    cards = [builders.card(minor, at="n1", model="H200") for minor in range(4)]
    inventory = builders.inventory(
        builders.node("n1"), builders.device("n1", cards), builders.node("n2"), builders.device("n2")
    )
    for at in range(100):
        inventory.workload.see(f"s{at}", dataclasses.replace(SAMPLE, models=asked))

    found, _ = place(inventory, Strategy.FRAGMENTATION, CARD)

    assert inventory.demand_model().surplus != ()
    assert found == "n2"
