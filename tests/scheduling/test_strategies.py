"""Strategies say how good a node is, each by itself, and which card a share should come from."""

import dataclasses
from collections.abc import Iterable
from typing import Any, Final

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import (
    decisions,
    node_scores,
    queued_pods,
    signatures,
    workload,
)
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy, Weights
from berth_operator.scheduling.strategies import registry as strategies
from berth_operator.scheduling.strategies import score_inputs
from scheduling.placements import minors, place
from support import builders, random_clusters

BINPACK, SPREAD, WEIGHTED = Strategy.BINPACK, Strategy.SPREAD, Strategy.WEIGHTED
FRAGMENTATION: Final = Strategy.FRAGMENTATION
SAMPLE: Final = workload.Sample(1000, 0, ((100, 1),))
EVERY = pytest.mark.parametrize("strategy", list(Strategy))


# ---------------------------------------------------------------- all of them


def ranking(
    inventory: Inventory, pod: queued_pods.PodInfo, strategy: Strategy, rows: Iterable[int]
) -> score_inputs.Ranking:
    """Ask a strategy about these rows."""
    query = Query(inventory, np.array(list(rows), dtype=np.int64), signatures.of(pod.request, pod.demand))
    scorer = node_scores.scorer_of(query.signature, Policy())
    return strategies.STRATEGIES[strategy](scorer.score_input(query))


@random_clusters.PROPERTY
@hypothesis.given(
    cluster=random_clusters.clusters(),
    pod=random_clusters.pod_infos(),
    strategy=st.sampled_from(list(Strategy)),
)
def test_each_node_is_judged_by_itself(
    cluster: random_clusters.ClusterState, pod: queued_pods.PodInfo, strategy: Strategy
) -> None:
    """A node has a score from 0 to 100, and this and its card are the same whichever others are asked."""
    inventory = cluster.inventory()

    together = ranking(inventory, pod, strategy, range(inventory.size))
    alone = [ranking(inventory, pod, strategy, [at]) for at in range(inventory.size)]

    assert ((together.score >= 0) & (together.score <= score_inputs.BEST)).all()
    assert [one.score[0] for one in alone] == list(together.score)
    slots = [None] * inventory.size if together.slot is None else list(together.slot)
    assert [one.slot if one.slot is None else one.slot[0] for one in alone] == slots


@EVERY
def test_overbooked_node_is_merely_full(strategy: Strategy) -> None:
    """A node that others filled beyond its size still has a score."""
    absurd = builders.hold("a", "n1", (0, 1), amounts=(("cpu", 2**60), ("memory", 2**80)))
    twice = builders.hold("b", "n1", (0, 1))
    inventory = builders.inventory(*builders.nodes(2), absurd, twice)

    found = ranking(inventory, builders.pod_info(), strategy, range(2))

    assert ((found.score >= 0) & (found.score <= score_inputs.BEST)).all()


# ---------------------------------------------------------------- which node, and which of its cards


def part(at: str, minor: int = 0, *, percent: int = 50) -> Hold:
    """Return a pod that has a part of a card."""
    share = builders.share(minor, at=at, core=percent, memory=builders.MEMORY * percent // 100)
    return builders.hold(f"part-{at}-{minor}", at, [share])


def busy(at: str, cpu: int) -> Hold:
    """Return a pod that has nothing but cpu."""
    return builders.hold("busy", at, amounts=(("cpu", cpu),))


def on_cpu(cpu: int) -> queued_pods.PodInfo:
    """Return a pod that asks for nothing but cpu."""
    return builders.pod_info(cards=0, demand=builders.demand(cpu))


def whole(cpu: int = 0) -> queued_pods.PodInfo:
    """Return a pod that asks for a card and cpu."""
    return builders.pod_info(demand=builders.demand(cpu))


def share_of(percent: int) -> queued_pods.PodInfo:
    """Return a pod that asks for a part of a card."""
    return builders.pod_info(cards=requests.Gpus(1, core=percent, ratio=percent))


def cut(at: str) -> list[Any]:
    """Return a node of which one card has MIG instances and another replicas."""
    instances = builders.card(0, at=at, mig=True, instances=builders.instances(at, 0, 7))
    return [builders.node(at), builders.device(at, [instances, builders.card(1, at=at, replicas=4)])]


def taught(inventory: Inventory, **sample: Any) -> Inventory:
    """Have an inventory know a hundred pods that ask so."""
    for at in range(100):
        inventory.workload.see(f"s{at}", dataclasses.replace(SAMPLE, **sample))
    return inventory


def thirsty(*, elsewhere: int) -> Inventory:
    """Return two nodes of a card, which needs 8 cpu; they have 12 and 24, and so much goes to other pods."""
    nodes = [one_card("n1"), one_card("n2")]
    inventory = builders.inventory(*(thing for node in nodes for thing in node))
    for name, cpu in (("n1", 12_000), ("n2", 24_000)):
        inventory.put_node(builders.node(name, cpu=cpu))
    inventory.workload.see("many", workload.Sample(200 * 8000, 0, ((100, 200),)))
    inventory.workload.see("elsewhere", workload.Sample(elsewhere, 0))
    inventory.refresh_supply()
    return inventory


def one_card(at: str, **fields: Any) -> list[Any]:
    """Return a node of one card."""
    return [builders.node(at), builders.device(at, [builders.card(0, at=at, **fields)])]


def used(at: str, core: int, memory: int) -> Hold:
    """Return a pod that uses so much compute and memory of a card."""
    return builders.hold(f"used-{at}", at, [builders.share(at=at, core=core, memory=memory)])


STARTED: Final = builders.inventory(*builders.nodes(2, cards=2), part("n2", 1))
FULLER: Final = builders.inventory(
    *builders.nodes(3), builders.hold("a", "n3", (0, 1)), builders.hold("b", "n2", (0,))
)
CARDS_OR_CPU: Final = builders.inventory(
    *builders.nodes(2), builders.hold("a", "n2", (0, 1)), busy("n1", 6000)
)
NO_CARDS: Final = builders.inventory(
    builders.node("n1", cpu=64000),
    builders.node("n2", cpu=4000),
    builders.hold("a", "n1", amounts=(("cpu", 8000),)),
    builders.hold("b", "n2", amounts=(("cpu", 2000),)),
)
SIZES: Final = builders.node("n1"), builders.device("n1", 4), builders.node("n2"), builders.device("n2", 8)
CORE_OR_MEMORY: Final = builders.inventory(
    *builders.nodes(2, cards=1), used("n1", 60, 1), used("n2", 1, builders.MEMORY * 6 // 10)
)


def two_models(at: str) -> list[Any]:
    """Return a node of four cards of a model and then two of another."""
    other = [builders.card(minor, at=at, model="T4") for minor in (4, 5)]
    return [
        builders.node(at),
        builders.device(at, [*(builders.card(one, at=at) for one in range(4)), *other]),
    ]


MODELS: Final = builders.inventory(
    *two_models("n1"), *two_models("n2"), builders.hold("a", "n1", [4]), builders.hold("b", "n2", range(4))
)
INSTANCE: Final = decisions.Share("MIG-n2-0-0", 0, 100, 1, profile=builders.PROFILE)
REPLICA: Final = builders.share(1, at="n2", core=25, memory=builders.MEMORY // 4)
PIECES: Final = builders.inventory(*cut("n1"), *cut("n2"), builders.hold("a", "n2", [INSTANCE, REPLICA]))
H200: Final = [builders.card(minor, model="H200") for minor in range(4)]
CASES: Final[dict[str, tuple[Inventory, queued_pods.PodInfo, Policy, tuple[str, list[int]]]]] = {
    **{
        f"a share, by {strategy}: {why}": (STARTED, share_of(10), Policy(strategy), (node, [minor]))
        for strategy, node, minor, why in (
            (BINPACK, "n2", 1, "the fullest node and card"),
            (SPREAD, "n1", 0, "the emptiest node and card"),
            (WEIGHTED, "n1", 0, "most of what is free"),
            (FRAGMENTATION, "n2", 1, "no further card is broken"),
        )
    },
    **{
        f"a whole card, by {strategy}: {why}": (FULLER, whole(), Policy(strategy), (node, [minor]))
        for strategy, node, minor, why in (
            (BINPACK, "n3", 2, "the fullest"),
            (SPREAD, "n1", 0, "the emptiest"),
            (WEIGHTED, "n1", 0, "the one with most to give"),
            (FRAGMENTATION, "n3", 2, "the one with the fewest whole cards"),
        )
    },
    **{
        f"for a pod without cards, by {strategy}, free cards outweigh any amount of cpu": (
            CARDS_OR_CPU,
            on_cpu(1000),
            Policy(strategy),
            ("n2", []),
        )
        for strategy in (BINPACK, SPREAD, WEIGHTED)
    },
    **{
        f"without cards the share of cpu decides, not its amount, by {strategy}": (
            NO_CARDS,
            on_cpu(100),
            Policy(strategy),
            (node, []),
        )
        for strategy, node in ((BINPACK, "n2"), (SPREAD, "n1"))
    },
    **{
        f"by {strategy} only cards of the model that is asked for count": (
            MODELS,
            builders.pod_info(models=["T4"]),
            Policy(strategy),
            (node, [minor]),
        )
        for strategy, node, minor in ((BINPACK, "n1", 5), (SPREAD, "n2", 4), (WEIGHTED, "n2", 4))
    },
    "weighted prefers large hardware": (
        builders.inventory(*SIZES),
        whole(),
        Policy(WEIGHTED),
        ("n2", [0]),
    ),
    "weighted counts twice what is left of it": (
        builders.inventory(*SIZES, builders.hold("a", "n2", range(7))),
        whole(),
        Policy(WEIGHTED),
        ("n1", [0]),
    ),
    **{
        f"{strategy} with these weights: {weights}": (
            CORE_OR_MEMORY,
            share_of(10),
            Policy(strategy, weights),
            (node, [0]),
        )
        for strategy, weights, node in (
            (BINPACK, Weights(1, 0), "n1"),
            (BINPACK, Weights(0, 1), "n2"),
            (SPREAD, Weights(1, 0), "n2"),
            (WEIGHTED, Weights(0, 1), "n1"),
        )
    },
    **{
        f"by {strategy} a pod without cards leaves {what} alone": (
            builders.inventory(*known, builders.node("n2"), busy("n2", 6000)),
            on_cpu(1000),
            Policy(strategy),
            ("n2", []),
        )
        for strategy in Strategy
        for what, known in (
            ("cards", one_card("n1")),
            ("cards that are cut", one_card("n1", mig=True, instances=builders.instances("n1", 0, 7))),
            ("cards that are shared", one_card("n1", replicas=4)),
        )
    },
    **{
        f"by {strategy} a piece comes from the card of {node}: {ask}": (
            PIECES,
            builders.pod_info(cards=ask),
            Policy(strategy),
            (node, [minor]),
        )
        for strategy, node in ((BINPACK, "n2"), (FRAGMENTATION, "n2"), (SPREAD, "n1"))
        for ask, minor in ((requests.Instances(builders.PROFILE, 1), 0), (requests.Replicas(1), 1))
    },
    "a pod without cards goes where no free card needs the cpu that it takes": (
        builders.inventory(*builders.nodes(2), builders.hold("a", "n2", range(4))),
        on_cpu(4000),
        Policy(FRAGMENTATION),
        ("n2", []),
    ),
    "a pod that needs little cpu takes a card that the cpu left on its node would not feed anyway": (
        builders.inventory(*builders.nodes(2), busy("n2", 6000)),
        whole(10),
        Policy(FRAGMENTATION),
        ("n2", [0]),
    ),
    "a pod that needs much cpu goes where no other free card is left behind without any": (
        builders.inventory(*builders.nodes(2), builders.hold("a", "n2", range(3))),
        whole(6000),
        Policy(FRAGMENTATION),
        ("n2", [3]),
    ),
    "of two started cards a share goes to the one where it fits closest, on whichever node": (
        builders.inventory(*builders.nodes(2), part("n1", 0, percent=50), part("n2", 3, percent=80)),
        share_of(20),
        Policy(FRAGMENTATION),
        ("n2", [3]),
    ),
    "where halves are what pods ask, a fifth is not cut off a half if a smaller rest will do": (
        taught(
            builders.inventory(*builders.nodes(1), part("n1", 0, percent=50), part("n1", 1, percent=70)),
            sizes=((50, 1),),
        ),
        share_of(20),
        Policy(FRAGMENTATION),
        ("n1", [1]),
    ),
    "of nodes that lose as much space, the one whose model nobody else would ask for gives it": (
        taught(
            builders.inventory(
                builders.node("n1"), builders.device("n1", H200), builders.node("n2"), builders.device("n2")
            ),
            models=("h200",),
        ),
        whole(),
        Policy(FRAGMENTATION),
        ("n2", [0]),
    ),
    "a pod without cards goes to the node that has just enough cpu": (
        thirsty(elsewhere=0),
        on_cpu(1000),
        Policy(FRAGMENTATION),
        ("n1", []),
    ),
    "where cpu runs out before the cards, to the node that has plenty": (
        thirsty(elsewhere=3_000_000),
        on_cpu(1000),
        Policy(FRAGMENTATION),
        ("n2", []),
    ),
}


@pytest.mark.parametrize(("inventory", "pod", "policy", "expected"), CASES.values(), ids=CASES)
def test_where_a_pod_goes(
    inventory: Inventory, pod: queued_pods.PodInfo, policy: Policy, expected: tuple[str, list[int]]
) -> None:
    """A pod goes where the strategy says, down to the card; weights say how much compute and memory count."""
    found = place(inventory, pod, policy)

    assert found is not None
    assert (found.node, minors(found)) == expected
