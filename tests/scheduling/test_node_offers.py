"""A node that is held against a waiting pod says no only where the search would find no place on it."""

import dataclasses
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds import vocabulary
from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling import cycle, decisions, node_offers, queued_pods
from berth_operator.scheduling.delivery_methods import DeliveryMethod
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.policy import Policy
from scheduling.placements import place
from support import builders, clock, ledgers, random_clusters

CARD = builders.card()


@random_clusters.PROPERTY
@hypothesis.given(cluster=random_clusters.clusters(), pod=random_clusters.pod_infos())
def test_a_no_is_certain(cluster: random_clusters.ClusterState, pod: queued_pods.PodInfo) -> None:
    """Wherever the search places a pod, the offer of that node was large enough."""
    inventory = cluster.inventory()

    found = place(inventory, pod)

    assert found is None or node_offers.judge(inventory, found.node)(pod)


@pytest.mark.parametrize(
    ("after", "better"),
    [
        pytest.param(CARD, False, id="the same"),
        pytest.param(dataclasses.replace(CARD, memory=CARD.memory - 1), False, id="less memory"),
        pytest.param(dataclasses.replace(CARD, memory=CARD.memory + 1), True, id="more memory"),
        pytest.param(dataclasses.replace(CARD, model="another"), True, id="another model"),
    ],
)
def test_better_cards(after: PhysicalDevice, better: bool) -> None:  # noqa: FBT001  a column of the table
    """Cards of which one has less memory, and nothing else is new, serve nobody whom they did not serve."""
    before = builders.device(cards=[CARD]), 1

    assert node_offers.better_cards(before, (builders.device(cards=[after]), 1)) is better
    assert node_offers.better_cards(before, (before[0], 0)), "fewer cards are kept back"
    assert not node_offers.better_cards(before, (None, 0)), "there are none any more"


@pytest.mark.parametrize(
    ("ask", "able"),
    [
        pytest.param(requests.Gpus(1, core=60, ratio=60), True, id="all that is left"),
        pytest.param(requests.Gpus(1, core=61, ratio=60), False, id="more compute"),
        pytest.param(requests.Gpus(1, core=60, ratio=61), False, id="more memory"),
        pytest.param(requests.Gpus(1, core=60, memory=builders.MEMORY * 3 // 5), True, id="its bytes"),
        pytest.param(requests.Gpus(1, core=60, memory=builders.MEMORY * 3 // 5 + 1), False, id="a byte more"),
    ],
)
def test_what_is_left_of_a_card_is_offered_to_the_last(ask: requests.Gpus, able: bool) -> None:  # noqa: FBT001  a column of the table
    """A pod that asks for exactly so much is woken, and one that asks for more is not."""
    held = builders.share(core=40, memory=builders.MEMORY * 2 // 5)
    inventory = builders.inventory(*builders.nodes(1, cards=1), builders.hold("a", shares=[held]))
    pod = builders.pod_info("p", ask)

    assert node_offers.judge(inventory, "n1")(pod) is able
    assert (place(inventory, pod) is not None) is able


@pytest.mark.parametrize(
    "ask", [requests.cards(1), requests.Gpus(1, core=50, ratio=50)], ids=["whole", "part"]
)
@pytest.mark.parametrize(
    ("node", "minor", "able"),
    [
        pytest.param("n1", 1, True, id="free here"),
        pytest.param("n1", 0, False, id="used up"),
        pytest.param("n2", 1, False, id="elsewhere"),
    ],
)
def test_who_waits_for_one_card_is_helped_by_no_other(
    ask: requests.Gpus,
    node: str,
    minor: int,
    able: bool,  # noqa: FBT001  a column of the table
) -> None:
    """However many pods name one card, what becomes free elsewhere wakes none of them."""
    inventory = builders.inventory(*builders.nodes(2, cards=2), builders.hold("a", shares=[0]))
    conditions = requests.Conditions(uuids=frozenset({builders.uuid(node, minor)}))
    pod = builders.pod_info(request=builders.request(ask, conditions=conditions))

    assert node_offers.judge(inventory, "n1")(pod) is able


@pytest.mark.parametrize(
    ("named", "able"),
    [
        pytest.param("MIG-n1-0-0", True, id="the instance"),
        pytest.param(builders.uuid("n1", 0), True, id="its card"),
        pytest.param("MIG-n2-0-0", False, id="another node's"),
    ],
)
def test_who_waits_for_one_instance_is_helped_by_no_other(named: str, able: bool) -> None:  # noqa: FBT001  a column of the table
    """An instance is named by its own uuid, or by that of its card."""
    cut = builders.card(0, mig=True, instances=builders.instances("n1", 0, 1))
    inventory = builders.inventory(builders.node("n1"), builders.device("n1", cards=[cut]))
    conditions = requests.Conditions(uuids=frozenset({named}))
    ask = requests.Instances(builders.PROFILE, 1)
    pod = builders.pod_info(request=builders.request(ask, conditions=conditions))

    assert node_offers.judge(inventory, "n1")(pod) is able
    assert (place(inventory, pod) is not None) is able


@pytest.mark.parametrize(
    "ask", [requests.cards(1), requests.Gpus(1, core=50, ratio=50)], ids=["whole", "part"]
)
def test_who_waits_for_a_model_is_helped_by_no_other(ask: requests.Gpus) -> None:
    """Unless a policy says what people call models: then one may be another."""
    inventory = builders.inventory(*builders.nodes(1, cards=2))
    card = builders.card().model
    renamed = Policy(models=(("mine", card),))

    found = [
        node_offers.judge(inventory, "n1", policy=policy)(
            builders.pod_info(request=builders.request(ask, models=[model]))
        )
        for model, policy in ((card, Policy()), ("other", Policy()), ("other", renamed))
    ]

    assert found == [True, False, True]


def test_cards_that_a_pod_cannot_get_help_it_as_little() -> None:
    """Unless a policy says how pods get their cards."""
    by_plugin, by_environment = DeliveryMethod.DEVICE_PLUGIN, DeliveryMethod.ENVIRONMENT
    device = builders.device("n1", cards=[CARD], delivery=by_environment | DeliveryMethod.UNCHECKED)
    inventory = builders.inventory(builders.node("n1"), device)

    found = [
        node_offers.judge(inventory, "n1", policy=policy)(
            builders.pod_info(demand=builders.demand(delivery=delivery))
        )
        for delivery, policy in (
            (by_environment, Policy()),
            (by_plugin, Policy()),
            (by_plugin, Policy(delivery=vocabulary.Delivery.ENVIRONMENT)),
        )
    ]

    assert found == [True, False, True]


def test_a_name_that_a_node_advertises_no_more_may_help() -> None:
    """Names that Berth serves are asked only of a node that advertises them."""
    before, after = builders.node(extra={"nvidia.com/gpu": 0}), builders.node()

    assert node_offers.better_node(before, after)
    assert not node_offers.better_node(after, after)
    assert not node_offers.better_node(after, builders.node(cpu=1))


# ---------------------------------------------------------------- nobody sleeps who could go


def test_a_pod_that_nothing_helps_keeps_no_other_asleep() -> None:
    """Not even one whose request was made up so that both have the same hash."""
    ledger = ledgers.with_nodes()
    ledger.pod_bound(builders.hold("holder", shares=range(4)))
    shares = {"odd": requests.Gpus(8, 46, 4619257955497632), "plain": requests.Gpus(1, 50, 8 << 30)}
    for name, ask in shares.items():
        ledger.pod_waiting(builders.pod_info(name, ask), gated=False)
        ledgers.requeue(ledger, name, *decisions.ClusterEvent)

    ledger.pod_over("uid-holder")

    assert ledgers.ready_names(ledger) == ["plain"]


def happen(ledger: Ledger, what: str, name: str, value: Any) -> None:
    """Have one thing happen to a node, its cards, its agent or a pod on it; None is something that goes."""
    match what:
        case "hold" if value is None or ledger.inventory.hold(name) is not None:
            ledger.pod_over(name)
        case "hold":
            ledger.pod_bound(value)
        case "node" if value is None:
            ledger.node_gone(name)
        case "node":
            ledger.node_seen(value)
        case "cards" if value is None:
            ledger.device_gone(name)
        case "cards":
            ledger.device_seen(value)
        case "agent":
            ledger.agent_silent(name, silent=not value)


def decide(ledger: Ledger) -> None:
    """Try whoever may be tried, and let it wait for the events it awaits."""
    for answer in cycle.simulate(ledger.search, ledger.backlog, 1e9, ledger.policy):
        if isinstance(answer, decisions.Wait):
            ledger.backlog.requeue(answer.uid, now=0.0, awaited=answer.awaited)


@random_clusters.PROPERTY
@hypothesis.given(data=st.data(), pod=random_clusters.pod_infos())
def test_nobody_sleeps_who_could_go(data: st.DataObject, pod: queued_pods.PodInfo) -> None:
    """Whatever happens to nodes, cards and pods: who waits for a change has no place (I5)."""
    ledger = Ledger(clock.Clock())
    for at in random_clusters.NODES:
        ledgers.join(ledger, data.draw(random_clusters.nodes(at)), data.draw(random_clusters.devices(at)))
    ledger.pod_waiting(pod, gated=False)

    for change in data.draw(st.lists(random_clusters.changes(), min_size=1, max_size=12)):
        decide(ledger)
        happen(ledger, *change)
        (entry,) = ledger.backlog.entries()
        if entry.awaited is not None and not pod.faults:
            assert ledger.search.place(pod.request, pod.demand, policy=ledger.policy) is None
