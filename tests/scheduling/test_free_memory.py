"""A pod may require so much free memory on each of its cards."""

from typing import Any, Final

import pytest

from berth_crds.card_load import CardLoad
from berth_operator.scheduling import card_loads, decisions, explain, queued_pods
from berth_operator.scheduling.decisions import ClusterEvent, Wait
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES, place
from support import builders, ledgers

GIB: Final = builders.GIB
MEMORY: Final = builders.MEMORY
TENTH: Final = requests.Gpus(1, 10, GIB)


def requiring(memory: int, *cards: Any, **conditions: Any) -> queued_pods.PodInfo:
    """Return a pod that requires so much free memory of each card."""
    asked = requests.Conditions(free_memory_at_least=memory, **conditions)
    return builders.pod_info(request=builders.request(*(cards or (TENTH,)), conditions=asked))


def given(inventory: Inventory, pod: queued_pods.PodInfo) -> list[str]:
    """Return the devices that the pod gets."""
    found = place(inventory, pod)
    return sorted(one.uuid for grant in found.grants for one in grant.shares) if found else []


def measured(inventory: Inventory, **nodes: int) -> card_loads.CardLoads:
    """Have so much be measured free on the first card of some nodes."""
    loads = card_loads.CardLoads(inventory)
    for node, free in nodes.items():
        loads.report(node, {0: CardLoad(free_memory=free)}, 0.0)
    return loads


def half(node: str, minor: int, name: str = "a") -> Any:
    """Return a pod that half of a card is promised to."""
    return builders.hold(name, node, [builders.share(minor, at=node, core=50, memory=MEMORY // 2)])


def test_of_a_card_only_what_is_not_promised_is_free() -> None:
    """And exactly so much is enough."""
    inventory = builders.inventory(*builders.nodes(1, 2), half("n1", 0))

    assert given(inventory, requiring(MEMORY // 2)) == [builders.uuid("n1", 0)]
    assert given(inventory, requiring(MEMORY // 2 + 1)) == [builders.uuid("n1", 1)]
    assert given(inventory, requiring(MEMORY + 1)) == []


def test_what_is_measured_counts_while_it_is_fresh_and_never_for_more_than_is_left() -> None:
    """Memory that others use is not free; what is promised is not free though nobody uses it yet."""
    inventory = builders.inventory(*builders.nodes(1, 1), half("n1", 0))
    loads = measured(inventory, n1=GIB)

    assert given(inventory, requiring(GIB)) != []
    assert given(inventory, requiring(GIB + 1)) == []

    loads.report("n1", {0: CardLoad(free_memory=MEMORY)}, 0.0)
    assert given(inventory, requiring(MEMORY // 2)) != []
    assert given(inventory, requiring(MEMORY // 2 + 1)) == []

    loads.report("n1", {0: CardLoad(free_memory=GIB)}, 0.0)
    loads.expire(1.0)
    assert given(inventory, requiring(MEMORY // 2)) != []


def test_a_card_that_was_exchanged_is_not_known_by_the_measure_of_the_one_before() -> None:
    """Not even where the new one has its number."""
    inventory = builders.inventory(*builders.nodes(1, 1))
    loads = measured(inventory, n1=GIB)

    inventory.put_device(builders.device("n1", [builders.card(0, uuid="GPU-new")]))
    assert given(inventory, requiring(MEMORY)) == ["GPU-new"]

    loads.write("n1")
    assert given(inventory, requiring(MEMORY)) == []


CASES: dict[str, tuple[tuple[Any, ...], int]] = {
    "a whole card": ((1,), 1),
    "whole cards": ((2,), 2),
    "whole cards, one of which others use": ((3,), 0),
    "a share of one card": ((TENTH,), 1),
    "a share of each of several cards": ((requests.Gpus(2, 10, GIB),), 2),
    "shares of several containers": ((TENTH, TENTH), 1),
    "a card and a share": ((1, TENTH), 2),
    "two cards and a share": ((2, TENTH), 0),
}


@pytest.mark.parametrize(("asks", "count"), CASES.values(), ids=CASES.keys())
def test_each_card_that_a_pod_gets_has_enough_free(asks: tuple[Any, ...], count: int) -> None:
    """Whether a search is needed or not; shares of one pod may share a card, as ever."""
    inventory = builders.inventory(*builders.nodes(1, 3))
    measured(inventory, n1=GIB)

    found = given(inventory, requiring(MEMORY, *asks))

    assert len(set(found)) == count
    assert builders.uuid("n1", 0) not in found


@pytest.mark.parametrize(
    ("card", "ask", "share", "left"),
    [
        pytest.param(
            {"replicas": 4},
            requests.Replicas(1),
            builders.share(0, core=25, memory=MEMORY // 4),
            MEMORY * 3 // 4,
            id="replicas",
        ),
        pytest.param(
            {"mig": True, "instances": builders.instances("n1", 0, 3)},
            requests.Instances(builders.PROFILE, 1),
            decisions.Share("MIG-n1-0-0", 0, 100, 10 * GIB, profile=builders.PROFILE),
            20 * GIB,
            id="MIG instances",
        ),
    ],
)
def test_of_cards_that_are_given_out_in_pieces_those_count_that_nobody_has(
    card: dict[str, Any], ask: requests.Ask, share: decisions.Share, left: int
) -> None:
    """And of these no more than was measured."""
    inventory = builders.inventory(builders.node(), builders.device("n1", [builders.card(0, **card)]))
    inventory.charge(builders.hold("a", "n1", [share]))

    assert given(inventory, requiring(left, ask)) != []
    assert given(inventory, requiring(left + 1, ask)) == []

    measured(inventory, n1=left - 1)
    assert given(inventory, requiring(left, ask)) == []


def test_it_must_hold_for_the_same_card_as_all_else() -> None:
    """A card of the model beside a card with enough memory is not enough."""
    cards = [builders.card(0), builders.card(1, model="Tesla T4")]
    inventory = builders.inventory(builders.node(), builders.device("n1", cards), half("n1", 0))

    assert given(inventory, requiring(MEMORY, models=frozenset({builders.MODEL}))) == []
    assert given(inventory, requiring(MEMORY, models=frozenset({"t4"}))) == [builders.uuid("n1", 1)]


def test_nodes_that_are_alike_but_for_what_is_measured_answer_by_themselves() -> None:
    """Where a search is needed, its answer on one of them is not taken for the other."""
    shared = [builders.device(at, [builders.card(0, at=at, replicas=4)]) for at in ("n1", "n2")]
    inventory = builders.inventory(builders.node("n1"), builders.node("n2"), *shared)
    measured(inventory, n1=GIB)

    found = place(inventory, requiring(MEMORY, requests.Replicas(1)))

    assert found is not None
    assert found.node == "n2"


def test_why_not_and_what_would_help_is_said_in_figures() -> None:
    """Memory that a pod holds may be freed; what others use is only said."""
    inventory = builders.inventory(*builders.nodes(2, 1), half("n1", 0))
    measured(inventory, n2=GIB)
    pod = requiring(MEMORY)

    found = explain.explain(Search(inventory), pod, policy=RULES, all_nodes=True)

    size, left = f"{MEMORY // GIB} GiB", f"{MEMORY // 2 // GIB} GiB"
    assert explain.sentence(found, pod).startswith(
        f"0/2 nodes are available: 2 have no card with at least {size} of memory free "
        f"(nearest: GPU 0 of n1 has {left} free, {size} wanted)."
    )
    advice = [explain.would_fit(one) for one in found.advice]
    assert f"would fit if {left} were freed on {builders.uuid('n1', 0)} of n1" in advice
    assert (
        f"would fit on 1 node if it required {left} instead of {size} of free memory on each card" in advice
    )
    assert "would fit on 2 nodes if the condition on free memory were dropped" in advice


def test_the_end_of_a_pod_does_not_free_what_others_use() -> None:
    """So it is not proposed."""
    inventory = builders.inventory(*builders.nodes(1, 1))
    inventory.charge(builders.hold("a", "n1", [builders.share(0, core=10, memory=GIB)]))
    measured(inventory, n1=GIB)

    found = explain.explain(Search(inventory), requiring(MEMORY), policy=RULES, all_nodes=True)

    told = [explain.would_fit(one) for one in found.advice]
    assert not [one for one in told if "terminated" in one or "freed" in one]


def test_a_card_that_is_smaller_never_fits() -> None:
    """However little of it is used."""
    inventory = builders.inventory(*builders.nodes(1, 1))

    pod = requiring(MEMORY + 1)
    found = explain.explain(Search(inventory), pod, policy=RULES, all_nodes=True)

    assert "too few cards with at least" in explain.sentence(found, pod)
    assert [one.never_fits for one in found.nodes] == [True]


def test_the_end_of_a_pod_lets_another_in() -> None:
    """And so does memory that is measured free again."""
    ledger = ledgers.with_nodes(1, 1)
    ledger.loads.report("n1", {0: CardLoad(free_memory=GIB)}, 0.0)
    ledger.pod_waiting(requiring(MEMORY), gated=False)
    (wait,) = ledgers.decide(ledger, 0.0)
    assert isinstance(wait, Wait)
    ledgers.requeue(ledger, "p", *(wait.awaited or ()))

    assert ledger.loads.report("n1", {0: CardLoad(free_memory=MEMORY)}, 1.0)
    ledger.backlog.cluster_event((ClusterEvent.LOAD_CHANGED,))

    assert [type(one).__name__ for one in ledgers.decide(ledger)] == ["Bind"]


def test_memory_of_a_shared_card_that_is_measured_free_again_is_told() -> None:
    """Pods that wait for it are tried again, as for that of other cards."""
    card = builders.card(0, replicas=4)
    inventory = builders.inventory(builders.node(), builders.device("n1", [card]))
    loads = measured(inventory, n1=GIB)

    assert not loads.report("n1", {0: CardLoad(free_memory=GIB // 2)}, 1.0)
    assert loads.report("n1", {0: CardLoad(free_memory=MEMORY)}, 2.0)
