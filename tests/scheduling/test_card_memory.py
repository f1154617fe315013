"""A pod may require so much free memory on all cards of its node together."""

from typing import Any, Final

import pytest

from berth_crds.card_load import CardLoad
from berth_operator.scheduling import card_loads, explain, queued_pods
from berth_operator.scheduling.decisions import ClusterEvent, Wait
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES, place
from support import builders, ledgers

GIB: Final = builders.GIB
MEMORY: Final = builders.MEMORY


def requiring(memory: int, cards: Any = 1) -> queued_pods.PodInfo:
    """Return a pod that requires so much free memory of a node."""
    grouping = requests.Grouping(memory_together=memory)
    return builders.pod_info(request=builders.request(cards, grouping=grouping))


def node_of(inventory: Inventory, memory: int, cards: Any = 1) -> str | None:
    """Return where a pod that requires this is placed."""
    found = place(inventory, requiring(memory, cards))
    return found.node if found is not None else None


def measured(inventory: Inventory, **nodes: int) -> card_loads.CardLoads:
    """Have so much be measured free on the first card of some nodes."""
    loads = card_loads.CardLoads(inventory)
    for node, free in nodes.items():
        loads.report(node, {0: CardLoad(free_memory=free)}, 0.0)
    return loads


def test_what_is_free_is_summed_over_the_cards() -> None:
    """Of cards that others hold only what is left of them, and exactly so much is enough."""
    half = builders.hold("a", "n1", [builders.share(0, core=50, memory=MEMORY // 2)])
    inventory = builders.inventory(*builders.nodes(2, 2), half)
    left = 2 * MEMORY - MEMORY // 2

    assert node_of(inventory, left) == "n1"
    assert node_of(inventory, left + 1) == "n2"
    assert node_of(inventory, 2 * MEMORY) == "n2"
    assert node_of(inventory, 2 * MEMORY + 1) is None


def test_what_is_measured_counts_while_it_is_fresh_and_never_for_more_than_is_left() -> None:
    """Memory that others use is not free; what is promised is not free though nobody uses it yet."""
    inventory = builders.inventory(*builders.nodes(2, 2), builders.hold("a", "n2", (1,)))
    loads = measured(inventory, n1=GIB, n2=MEMORY)

    assert node_of(inventory, MEMORY + GIB) == "n1"
    assert node_of(inventory, MEMORY + GIB + 1) is None

    loads.expire(1.0)
    assert node_of(inventory, MEMORY + GIB + 1) == "n1"


@pytest.mark.parametrize(
    ("card", "ask", "held", "left"),
    [
        pytest.param({"replicas": 4}, requests.Replicas(1), 0, MEMORY, id="replicas"),
        pytest.param({"replicas": 4}, requests.Replicas(1), 1, MEMORY * 3 // 4, id="replicas, one in use"),
        pytest.param(
            {"mig": True, "instances": builders.instances("n1", 0, 3)},
            requests.Instances(builders.PROFILE, 1),
            0,
            30 * GIB,
            id="MIG instances",
        ),
    ],
)
def test_cards_that_are_given_out_in_pieces_count_with_what_is_left(
    card: dict[str, Any], ask: requests.Ask, held: int, left: int
) -> None:
    """Of replicas the part of the card, of instances their own memory."""
    inventory = builders.inventory(builders.node(), builders.device("n1", [builders.card(0, **card)]))
    for number in range(held):
        share = builders.share(0, core=25, memory=MEMORY // 4)
        inventory.charge(builders.hold(f"h{number}", "n1", [share]))

    assert node_of(inventory, left, ask) == "n1"
    assert node_of(inventory, left + 1, ask) is None


def test_why_not_and_what_would_help_is_said_in_figures() -> None:
    """The node that lacks least is the measure, and the end of a pod that holds memory is proposed."""
    inventory = builders.inventory(*builders.nodes(2, 2), *(builders.hold("a", at, (1,)) for at in ["n1"]))
    measured(inventory, n2=GIB)
    pod = requiring(2 * MEMORY)

    found = explain.explain(Search(inventory), pod, policy=RULES)

    sizes = f"{2 * MEMORY // GIB} GiB"
    assert explain.sentence(found, pod).startswith(
        f"0/2 nodes are available: 2 have less than {sizes} of memory free on all cards together."
    )
    assert "would fit if ml/a on n1 terminated" in [explain.would_fit(one) for one in found.advice]
    assert (
        f"would fit on 1 node if it required {MEMORY // GIB + 1} GiB instead of {sizes} of free memory "
        "on all cards of a node" in [explain.would_fit(one) for one in found.advice]
    )


def test_memory_that_others_use_is_not_freed_by_the_end_of_a_pod() -> None:
    """What no pod holds is not proposed to be given up by one."""
    held = builders.hold("a", "n1", [builders.share(1, core=10, memory=GIB)])
    inventory = builders.inventory(*builders.nodes(1, 2), held)
    measured(inventory, n1=GIB)
    pod = requiring(2 * MEMORY)

    found = explain.explain(Search(inventory), pod, policy=RULES)

    assert not [one for one in map(explain.would_fit, found.advice) if "terminated" in one]


def test_a_node_whose_cards_are_smaller_never_fits() -> None:
    """However little of them is used."""
    pod = requiring(3 * MEMORY)
    inventory = builders.inventory(*builders.nodes(1, 2))

    found = explain.explain(Search(inventory), pod, policy=RULES)

    assert [one for one in map(explain.would_fit, found.advice) if "terminated" in one] == []


def test_the_end_of_a_pod_lets_another_in() -> None:
    """And so does memory that is measured free again; other pods are not woken by that."""
    ledger = ledgers.with_nodes(1, 2)
    ledger.loads.report("n1", {0: CardLoad(free_memory=GIB)}, 0.0)
    ledger.pod_waiting(requiring(2 * MEMORY), gated=False)
    (wait,) = ledgers.decide(ledger, 0.0)
    assert isinstance(wait, Wait)
    ledgers.requeue(ledger, "p", *(wait.awaited or ()))
    ledgers.add_sleeping(ledger, "other", ClusterEvent.CAPACITY_FREED, cards=9)

    assert ledger.loads.report("n1", {0: CardLoad(free_memory=MEMORY)}, 1.0)
    ledger.backlog.cluster_event((ClusterEvent.LOAD_CHANGED,))

    assert [type(one).__name__ for one in ledgers.decide(ledger)] == ["Bind"]
