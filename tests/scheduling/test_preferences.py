"""Preferences: which of the nodes that fit a pod would rather have, and how that is weighed."""

import dataclasses
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import node_table, queued_pods, signatures
from berth_operator.scheduling.constraints.constraint import DependsOn
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.nodes.facts import (
    Image,
    LabelExpression,
    PreferredTerm,
    Taint,
    Term,
    Toleration,
)
from berth_operator.scheduling.policy import Policy, PreferenceWeights
from berth_operator.scheduling.preferences import node_affinity, registry
from berth_operator.scheduling.preferences.preference import Preference, of_the_most
from berth_operator.scheduling.search import Search
from scheduling import second_opinion
from scheduling.placements import THOROUGH, place
from scheduling.preferring import chosen, pod, weighing
from support import builders, random_clusters

GIB = 1 << 30
SOFT = Taint("slow", "", "PreferNoSchedule")
HALF = requests.Gpus(1, core=50, ratio=50)


def prefers(weight: int, key: str, operator: str, *values: str) -> PreferredTerm:
    """Return a preferred term of one expression about a label."""
    return PreferredTerm(weight, Term((LabelExpression(key, operator, values),)))


def named(weight: int, name: str) -> PreferredTerm:
    """Return a preferred term about the name of a node."""
    return PreferredTerm(weight, Term(fields=(LabelExpression("metadata.name", "In", (name,)),)))


def tolerating(*tolerations: Toleration, cards: int = 0) -> queued_pods.PodInfo:
    """Return a pod with these tolerations."""
    return pod(cards, node_selection=facts.NodeSelection(tolerations=tolerations))


# ---------------------------------------------------------------- node affinity

ZONES = builders.inventory(
    builders.node("n1", labels={"zone": "a", "size": "1"}),
    builders.node("n2", labels={"zone": "b", "size": "5", "disk": "ssd"}),
    builders.node("n3", labels={"zone": "c", "size": "9", "disk": "hdd"}),
)
IN_A, IN_B, IN_C = (prefers(50, "zone", "In", zone) for zone in "abc")


@pytest.mark.parametrize(
    ("preferred", "node"),
    [
        pytest.param((), "n1", id="nothing is preferred"),
        pytest.param((IN_B,), "n2", id="the node that meets the term"),
        pytest.param((prefers(1, "zone", "In", "c"),), "n3", id="however small its weight"),
        pytest.param((prefers(50, "zone", "In", "b", "c"),), "n2", id="of two that meet it the first"),
        pytest.param((IN_B, prefers(51, "zone", "In", "c")), "n3", id="the term with more weight"),
        pytest.param(
            (prefers(60, "zone", "In", "b"), IN_C, prefers(20, "disk", "In", "hdd")),
            "n3",
            id="the weights of all terms that a node meets together",
        ),
        pytest.param((prefers(1, "zone", "NotIn", "a", "b"),), "n3", id="NotIn"),
        pytest.param((prefers(1, "disk", "Exists"),), "n2", id="Exists"),
        pytest.param((prefers(1, "disk", "DoesNotExist"),), "n1", id="DoesNotExist"),
        pytest.param((prefers(1, "size", "Gt", "5"),), "n3", id="Gt"),
        pytest.param((prefers(9, "disk", "Exists"), prefers(1, "size", "Lt", "9")), "n2", id="Lt"),
        pytest.param((named(1, "n3"),), "n3", id="the name of a node"),
        pytest.param((PreferredTerm(100, Term()), IN_C), "n3", id="an empty term is met by no node"),
        pytest.param((prefers(100, "zone", "In", "d"),), "n1", id="a term that no node meets"),
    ],
)
def test_preferred_node_affinity(preferred: tuple[PreferredTerm, ...], node: str) -> None:
    """The node that meets most terms by their weights comes first, and names decide between equal ones."""
    assert chosen(ZONES, pod(preferred=preferred)) == node


def test_many_nodes_are_asked_as_few_are() -> None:
    """Whether the terms are evaluated for each node or for whole columns of labels."""
    terms = (prefers(30, "zone", "In", "b"), prefers(20, "size", "Gt", "10"), named(15, "n11"))
    nodes = [builders.node(f"n{at}", labels={"zone": "ab"[at % 2], "size": str(at)}) for at in range(10, 40)]
    inventory = builders.inventory(*nodes)
    asking = pod(preferred=terms)
    signature = signatures.of(asking.request, asking.demand)

    together = node_affinity.raw_scores(Query.for_all_nodes(inventory, signature))
    rows = (slice(row, row + 1) for row in range(inventory.size))
    alone = [node_affinity.raw_scores(Query(inventory, row, signature))[0] for row in rows]

    assert together.tolist() == alone
    assert together[:3].tolist() == [0, 30 + 20 + 15, 20]


# ---------------------------------------------------------------- taints


@pytest.mark.parametrize(
    ("tolerations", "node"),
    [
        pytest.param((), "n3", id="fewest such taints"),
        pytest.param((Toleration("slow", "Exists"),), "n2", id="those that are tolerated do not count"),
        pytest.param((Toleration("slow", "Exists", effect="PreferNoSchedule"),), "n2", id="by their effect"),
        pytest.param((Toleration("slow", "Exists", effect="NoSchedule"),), "n3", id="not by another effect"),
        pytest.param((Toleration("old", "Equal", "yes"),), "n3", id="nor by another value"),
        pytest.param((Toleration(operator="Exists"),), "n1", id="all of them"),
    ],
)
def test_soft_taints(tolerations: tuple[Toleration, ...], node: str) -> None:
    """The node with the fewest PreferNoSchedule taints that the pod does not tolerate comes first."""
    old = Taint("old", "no", "PreferNoSchedule")
    inventory = builders.inventory(
        builders.node("n1", taints=(SOFT, Taint("slow", "yes", "PreferNoSchedule"), old)),
        builders.node("n2", taints=(SOFT, Taint("slow", "yes", "PreferNoSchedule"))),
        builders.node("n3", taints=(old,)),
    )

    assert chosen(inventory, tolerating(*tolerations)) == node


# ---------------------------------------------------------------- balance

USED_CPU = builders.hold("cpu", "n1", amounts=((facts.CPU, 4000), (facts.PODS, 1)))


def test_balance_of_cpu_and_memory() -> None:
    """A node whose cpu is half used and whose memory is free is taken last, where balance counts."""
    inventory = builders.inventory(builders.node("n1"), builders.node("n2"), USED_CPU)
    asking = pod(cpu=1000, extra={facts.MEMORY: 8 * GIB})

    assert chosen(inventory, asking) == "n1"  # The strategy fills the node first that is used already.
    assert chosen(inventory, asking, weighing(unstated=1)) == "n2"
    assert chosen(inventory, asking, weighing(unstated=1, balance=0)) == "n1"


def test_balance_counts_beside_what_is_stated() -> None:
    """Between nodes that are equally good otherwise; a pod that states nothing does not have it reckoned."""
    inventory = builders.inventory(builders.node("n1"), builders.node("n2", taints=(SOFT,)))
    search, asking = Search(inventory), pod(cpu=1000, extra={facts.MEMORY: 8 * GIB})

    def remembered() -> tuple[str, ...]:
        chosen(inventory, asking, search=search)
        [cached] = search._cached
        return cached.preferences

    assert remembered() == ("taints", "balance")
    inventory.put_node(builders.node("n2"))
    assert remembered() == ()


def test_balance_is_not_for_pods_with_cards() -> None:
    """Their node's cpu and memory are the strategy's alone."""
    inventory = builders.inventory(*builders.nodes(2), USED_CPU)
    asking = pod(1, cpu=1000, extra={facts.MEMORY: 8 * GIB})

    assert chosen(inventory, asking, weighing(unstated=1)) == chosen(inventory, asking) == "n1"


# ---------------------------------------------------------------- how it is weighed


def half_used(**labels: str) -> Inventory:
    """Return two nodes of which the first has a card that is half used, and the second these labels."""
    first = builders.node("n1", labels={"zone": "a"})
    used = builders.hold("old", "n1", (builders.share(core=50, memory=builders.MEMORY // 2),))
    second = builders.node("n2", labels=labels)
    return builders.inventory(first, second, builders.device("n1"), builders.device("n2"), used)


@pytest.mark.parametrize(
    ("policy", "node"),
    [
        pytest.param(weighing(), "n2", id="fragmentation, which loses nothing on either"),
        pytest.param(weighing(node_affinity=0), "n1", id="a preference without weight"),
        pytest.param(weighing(Strategy.BINPACK), "n1", id="binpack, which has the first voice"),
        pytest.param(weighing(Strategy.BINPACK, node_affinity=12), "n1", id="by more than the preference"),
        pytest.param(weighing(Strategy.BINPACK, node_affinity=13), "n2", id="a preference that outweighs it"),
        pytest.param(weighing(Strategy.BINPACK, strategy=10), "n2", id="a strategy of less weight"),
        pytest.param(weighing(Strategy.BINPACK, strategy=0), "n2", id="a strategy that does not count"),
        pytest.param(weighing(Strategy.SPREAD), "n2", id="spread, which says the same"),
    ],
)
def test_a_preference_counts_by_its_weight(policy: Policy, node: str) -> None:
    """A weight is so many points of the strategy: half a card of four is 12.5 points of binpack."""
    inventory = half_used(zone="b")

    assert chosen(inventory, pod(HALF, preferred=(IN_B,)), policy) == node


@pytest.mark.parametrize(
    ("best", "excluded", "node"),
    [
        pytest.param({}, (), "n3", id="the best node fits"),
        pytest.param({"unschedulable": True}, (), "n2", id="the best node fits no pod"),
        pytest.param({"cpu": 0}, (), "n2", id="the best node is full"),
        pytest.param({}, ("n3",), "n1", id="the best node fits and is kept for another pod"),
    ],
)
def test_the_best_node_that_passes_the_filters_has_all_points(
    best: dict[str, Any], excluded: tuple[str, ...], node: str
) -> None:
    """Of 13 points the node in zone c has all, or half if one in zone b passes; n1 leads by 12.5."""
    inventory = half_used(zone="c")
    inventory.put_node(builders.node("n3", labels={"zone": "b"}, **best))
    inventory.put_device(builders.device("n3"))
    inventory.set_agent_not_ready("n3", False)
    asking = pod(HALF, preferred=(prefers(100, "zone", "In", "b"), prefers(50, "zone", "In", "c")))
    policy = weighing(Strategy.BINPACK, node_affinity=13)

    found = Search(inventory).place(asking.request, asking.demand, policy=policy, excluded=excluded)

    assert found is not None
    assert found.node == node


def test_no_card_is_lost_for_a_preference_by_default() -> None:
    """By fragmentation a whole card costs three points, most of one more than the two of a preference."""
    nodes = (
        builders.node("n1", labels={"zone": "a"}, cpu=64_000),
        builders.node("n2", labels={"zone": "b"}, cpu=8000),
    )
    inventory = builders.inventory(*nodes, builders.device("n1", 8), builders.device("n2", 8))
    asking = pod(1, cpu=8000, preferred=(IN_B,))

    assert chosen(inventory, asking) == "n1"
    assert chosen(inventory, asking, weighing(node_affinity=3)) == "n2"


def test_without_devices_a_preference_counts_first() -> None:
    """Even for a node with unused cards, which is otherwise left to pods that ask for them."""
    inventory = builders.inventory(
        builders.node("n1"), builders.node("n2", labels={"zone": "b"}), builders.device("n2")
    )

    assert chosen(inventory, pod()) == "n1"
    for strategy in Strategy:
        assert chosen(inventory, pod(preferred=(IN_B,)), weighing(strategy)) == "n2"


def test_images_decide_between_equally_good_nodes_alone() -> None:
    """They are not stated: no card is put elsewhere for them unless the policy says so."""
    inventory = half_used()
    inventory.put_node(builders.node("n2", images=(Image(("app:1",), 3 * GIB),)))

    assert chosen(inventory, pod(HALF, images=("app:1",))) == "n1"
    assert chosen(inventory, pod(HALF, images=("app:1",)), weighing(unstated=1)) == "n2"
    assert chosen(inventory, pod(HALF, images=("app:1",)), weighing(unstated=1, images=0)) == "n1"
    inventory.release("uid-old")
    assert chosen(inventory, pod(HALF, images=("app:1",))) == "n2"
    inventory.charge(builders.hold("whole", "n1", (0,)))
    assert chosen(inventory, pod(1, images=("app:1",))) == "n1"


# ---------------------------------------------------------------- what is remembered


def test_what_a_node_says_anew_counts_at_once() -> None:
    """A label, a soft taint, an image, a further node: the same search sees each change."""
    inventory = builders.inventory(builders.node("n1"), builders.node("n2"), builders.node("n3"))
    search, asking = (
        Search(inventory),
        pod(preferred=(IN_B, prefers(20, "zone", "In", "c")), images=("app:1",)),
    )

    def after(*nodes: facts.Node) -> str | None:
        for node in nodes:
            inventory.put_node(node)
        return chosen(inventory, asking, search=search)

    assert after() == "n1"
    assert after(builders.node("n3", labels={"zone": "c"})) == "n3"
    assert after(builders.node("n2", labels={"zone": "b"})) == "n2"
    # 2 x 100 points for the zone against 2 x 40, and 3 x 100 for having no such taint.
    assert after(builders.node("n2", labels={"zone": "b"}, taints=(SOFT,))) == "n3"
    assert after(builders.node("n2", labels={"zone": "b"})) == "n2"
    assert after(builders.node("n4", labels={"zone": "b"}, images=(Image(("app:1",), 9 * GIB),))) == "n4"
    inventory.drop_node("n4")
    assert after() == "n2"


def test_a_pod_that_prefers_nothing_is_asked_as_ever() -> None:
    """Nothing is kept for it, and no figure is made."""
    inventory = builders.inventory(*builders.nodes(2))
    search = Search(inventory)

    chosen(inventory, pod(1, images=("app:1",)), search=search)

    [cached] = search._cached
    assert (cached.preferences, cached.raw_scores, cached.feasible) == ((), {}, None)


def test_a_preference_may_depend_on_other_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures are asked anew for each choice, and normalised over all nodes that pass the filters."""

    def crowd(query: Query) -> node_table.Scores:
        infos = [info for info in query.inventory.infos if info]
        return np.array([float(len(info.holds)) for info in infos])[query.rows]

    further = Preference(
        name="node_affinity",
        applies_to=lambda *_: True,
        raw_scores=crowd,
        normalised=of_the_most,
        depends_on=DependsOn.CLUSTER,
    )
    monkeypatch.setattr(registry, "_REMEMBERED", (further,))
    monkeypatch.setattr(registry, "BY_NAME", {**registry.BY_NAME, further.name: further})
    inventory = builders.inventory(*(builders.node(f"n{at}") for at in range(1, 4)))
    search = Search(inventory)

    found = []
    for number, node in enumerate(["n3", "n2", "n2"]):
        inventory.charge(builders.hold(str(number), node, amounts=((facts.PODS, 1),)))
        found.append(chosen(inventory, pod(), search=search))

    assert found == ["n3", "n2", "n2"]


def without_preferences(asking: queued_pods.PodInfo) -> queued_pods.PodInfo:
    """Return the same pod without what it prefers."""
    demand = dataclasses.replace(asking.demand, preferred=(), images=())
    return dataclasses.replace(asking, demand=demand)


@THOROUGH
@hypothesis.given(
    cluster=random_clusters.clusters(),
    asking=random_clusters.pod_infos(),
    weights=st.builds(PreferenceWeights, *[st.sampled_from([0, 1, 100])] * 7),
)
def test_a_preference_neither_forbids_nor_allows_a_node(
    cluster: random_clusters.ClusterState, asking: queued_pods.PodInfo, weights: PreferenceWeights
) -> None:
    """A pod gets a node exactly if it would without its preferences, and then one that it could get alone."""
    plain = place(cluster.inventory(), without_preferences(asking))

    found = place(cluster.inventory(), asking, Policy(preferences=weights))

    assert (found is None) == (plain is None)
    if found is not None:
        assert found.node in second_opinion.able(cluster, without_preferences(asking))
