"""The measured load of cards: a policy that weighs it avoids loaded nodes and cards, and no other does."""

from typing import Any, Final

import pytest

from berth_crds.card_load import CardLoad
from berth_crds.vocabulary import Scope, Strategy
from berth_operator.scheduling import card_loads, queued_pods
from berth_operator.scheduling.devices import node_topology, requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy, Weights
from berth_operator.scheduling.search import Search
from scheduling.placements import HALF, minors
from support import builders, topologies

BUSY: Final = CardLoad(utilization=95, encoder=90, decoder=90, power=95, free_memory=builders.MEMORY // 20)
IDLE: Final = CardLoad(0, 0, 0, 5, builders.MEMORY)
POINTS: Final = ("utilization", "encoder", "decoder", "power", "free_memory")
BY_POINT: Final = pytest.mark.parametrize("point", POINTS)


def weighing(**weights: int) -> Policy:
    """Return a policy that weighs these points."""
    return Policy(strategy=Strategy.WEIGHTED, weights=Weights(**weights))


LOAD: Final = weighing(utilization=100)


def measured(inventory: Inventory, **nodes: dict[int, CardLoad]) -> card_loads.CardLoads:
    """Have load be measured on some nodes at the time 0."""
    loads = card_loads.CardLoads(inventory)
    for node, found in nodes.items():
        loads.report(node, found, 0.0)
    return loads


def chosen(
    inventory: Inventory, cards: Any = 1, policy: Policy = LOAD, **grouping: Any
) -> tuple[str, list[int] | None]:
    """Return the node and the minors that a pod would get."""
    pod = builders.pod_info(request=builders.request(cards, **grouping))
    found = Search(inventory).place(pod.request, pod.demand, policy=policy)
    assert found is not None
    return found.node, minors(found)


# ---------------------------------------------------------------- nodes and cards


@BY_POINT
@pytest.mark.parametrize("cards", [pytest.param(1, id="a card"), pytest.param(HALF, id="half a card")])
def test_a_loaded_node_is_avoided_by_each_point(point: str, cards: Any) -> None:
    """Only where the policy gives it a weight: without, the first of equal nodes is taken."""
    inventory = builders.inventory(*builders.nodes(2, 1))
    measured(inventory, n1={0: BUSY}, n2={0: IDLE})

    assert chosen(inventory, cards, weighing(**{point: 100}))[0] == "n2"
    assert chosen(inventory, cards, weighing())[0] == "n1"
    others = dict.fromkeys(POINTS, 0) | {"cards": 50, "card_memory": 50}
    assert chosen(inventory, cards, weighing(**others))[0] == "n1"


@BY_POINT
@pytest.mark.parametrize(
    ("cards", "found"),
    [
        pytest.param(1, [2], id="a card"),
        pytest.param(HALF, [2], id="half a card"),
        pytest.param(2, [2, 3], id="two cards"),
        pytest.param(3, [1, 2, 3], id="so many that one of the loaded ones is needed"),
        pytest.param(requests.Gpus(2, core=50, ratio=50), [2, 3], id="halves of two cards, by the search"),
    ],
)
def test_loaded_cards_of_a_node_are_avoided(point: str, cards: Any, found: list[int]) -> None:
    """As far as others would do; the least loaded of them comes first."""
    inventory = builders.inventory(*builders.nodes(1))
    half = CardLoad(60, 60, 60, 60, builders.MEMORY // 3)
    measured(inventory, n1={0: BUSY, 1: half, 2: IDLE, 3: IDLE})

    assert chosen(inventory, cards, weighing(**{point: 100})) == ("n1", found)


@pytest.mark.parametrize("strategy", [one for one in Strategy if one is not Strategy.WEIGHTED])
def test_other_strategies_do_not_read_loads(strategy: Strategy) -> None:
    """Whatever the policy's weights are; and a pod may choose one of them."""
    inventory = builders.inventory(*builders.nodes(2))
    measured(inventory, n1={0: BUSY}, n2=dict.fromkeys(range(4), IDLE))
    before = builders.inventory(*builders.nodes(2))

    policy = Policy(strategy=strategy, weights=LOAD.weights)
    assert chosen(inventory, HALF, policy) == chosen(before, HALF, policy)
    own = requests.Grouping(strategy=strategy)
    assert chosen(inventory, HALF, grouping=own) == chosen(before, HALF, policy)


def test_a_node_is_judged_by_the_cards_that_the_pod_would_get() -> None:
    """One loaded card of four keeps no pod away from the other three."""
    inventory = builders.inventory(*builders.nodes(2))
    measured(inventory, n1={0: BUSY, 1: IDLE, 2: IDLE, 3: IDLE}, n2=dict.fromkeys(range(4), CardLoad(20)))

    assert chosen(inventory, 1) == ("n1", [1])
    assert chosen(inventory, 4)[0] == "n2"


def test_a_scope_that_the_pod_requires_comes_before_the_load() -> None:
    """Of cards in one NUMA node one is loaded, and they are given rather than idle ones of two."""
    device = topologies.device("n1", "8xA100-SXM4-80GB")
    inventory = builders.inventory(builders.node(), device)
    halves = device.topology.scope(Scope.NUMA)
    first, second = (list(node_topology.slots(half)) for half in halves)
    idle = [first[0], second[0]]
    measured(inventory, n1={minor: IDLE if minor in idle else BUSY for minor in range(8)})

    grouping = requests.Grouping(scope=Scope.NUMA)

    assert chosen(inventory, 2) == ("n1", idle)
    assert chosen(inventory, 2, grouping=grouping)[1] != idle


def test_shared_cards_that_are_loaded_are_avoided() -> None:
    """Among the nodes with replicas and among their cards."""
    cards = [[builders.card(minor, at=at, replicas=4) for minor in range(2)] for at in ("n1", "n2")]
    nodes = [builders.node("n1"), builders.node("n2")]
    devices = [builders.device(at, found) for at, found in zip(("n1", "n2"), cards, strict=True)]
    inventory = builders.inventory(*nodes, *devices)
    measured(inventory, n1=dict.fromkeys(range(2), BUSY), n2={0: BUSY, 1: IDLE})

    assert chosen(inventory, requests.Replicas(1)) == ("n2", [1])


# ---------------------------------------------------------------- absent, stale, promised


def test_where_nothing_is_measured_the_promises_decide() -> None:
    """A card of which half is promised counts as half loaded."""
    half = builders.hold("a", "n1", [builders.share(0, core=50, memory=builders.MEMORY // 2)])
    inventory = builders.inventory(*builders.nodes(2, 1), half)

    assert chosen(inventory, HALF)[0] == "n2"

    measured(inventory, n2={0: CardLoad(utilization=60)})
    assert chosen(inventory, HALF)[0] == "n1"


def test_a_load_that_is_not_reported_again_does_not_count() -> None:
    """Once it is too old; what is reported again counts on, also if it is the same."""
    inventory = builders.inventory(*builders.nodes(2, 1))
    loads = measured(inventory, n1={0: BUSY}, n2={0: IDLE})
    assert loads.confirm("n1", 10.0)

    loads.expire(5.0)
    assert chosen(inventory)[0] == "n2"
    assert not loads.confirm("n2", 10.0), "it has to be reported anew"
    loads.expire(15.0)

    assert (chosen(inventory)[0], len(loads)) == ("n1", 0)


def test_a_card_that_the_device_does_not_have_is_dropped() -> None:
    """And a load counts for the card that has the minor now, also if the Device comes after it."""
    inventory = Inventory()
    loads = measured(inventory, n1={1: BUSY, 7: BUSY}, n9={0: BUSY})
    inventory.put_node(builders.node())
    inventory.put_device(builders.device("n1", [builders.card(0), builders.card(1), builders.card(2)]))
    inventory.set_agent_not_ready("n1", not_ready=False)

    assert not loads.write("n1")
    assert inventory.table.utilization[0].tolist()[:4] == [-1, 95, -1, -1]
    inventory.put_device(builders.device("n1", [builders.card(1)]))
    assert inventory.table.utilization[0].tolist()[:2] == [-1, -1]
    loads.write("n1")
    assert inventory.table.utilization[0].tolist()[:2] == [95, -1]


# ---------------------------------------------------------------- what it costs


def scored(search: Search, pod: queued_pods.PodInfo, policy: Policy, monkeypatch: Any) -> int:
    """Return how many nodes are scored for another pod like this."""
    rows: list[int] = []
    score = search._score_rows

    def count(cached: Any, those: Any) -> None:
        rows.append(search.inventory.table.row_count(those))
        score(cached, those)

    with monkeypatch.context() as patch:
        patch.setattr(search, "_score_rows", count)
        search.place(pod.request, pod.demand, policy=policy)
    return sum(rows)


@pytest.mark.parametrize(
    ("policy", "load", "rescored"),
    [
        pytest.param(LOAD, BUSY, 1, id="a new load where it counts"),
        pytest.param(LOAD, IDLE, 0, id="the same load"),
        pytest.param(weighing(), BUSY, 0, id="a policy that does not weigh it"),
        pytest.param(Policy(weights=LOAD.weights), BUSY, 0, id="a strategy that does not read it"),
    ],
)
def test_only_what_reads_a_load_is_scored_again(
    policy: Policy, load: CardLoad, rescored: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of it only the nodes whose load has changed."""
    inventory = builders.inventory(*builders.nodes(8))
    loads = measured(inventory, n3={0: IDLE})
    search, pod = Search(inventory), builders.pod_info()
    assert scored(search, pod, policy, monkeypatch) == inventory.size

    loads.report("n3", {0: load}, 10.0)

    assert scored(search, pod, policy, monkeypatch) == rescored


# ---------------------------------------------------------------- hardware


@pytest.mark.parametrize(
    ("weights", "node"),
    [
        pytest.param({"cards": 100}, "n1", id="many cards"),
        pytest.param({"card_memory": 100}, "n2", id="large cards"),
    ],
)
def test_points_of_hardware(weights: dict[str, int], node: str) -> None:
    """A node with more cards, or one with larger ones."""
    large = [builders.card(minor, at="n2", memory=2 * builders.MEMORY) for minor in range(2)]
    inventory = builders.inventory(
        builders.node("n1"), builders.node("n2"), builders.device("n1", 4), builders.device("n2", large)
    )

    assert chosen(inventory, 1, weighing(**weights))[0] == node
