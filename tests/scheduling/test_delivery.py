"""A pod is bound only where its containers get the cards that it is given."""

import dataclasses

import pytest

from berth_crds.vocabulary import Delivery
from berth_operator.scheduling import cycle, decisions, delivery_methods, explain, policy_rules, queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.delivery_methods import DeliveryMethod
from berth_operator.scheduling.devices.search_effort import Effort
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from support import builders

OBEYING = DeliveryMethod.UNCHECKED | DeliveryMethod.ENVIRONMENT
FED, UNFED = DeliveryMethod.NRI | DeliveryMethod.ENVIRONMENT, DeliveryMethod.NRI


def cluster(**nodes: DeliveryMethod) -> Inventory:
    """Return nodes of one card each that have these methods."""
    devices = (
        dataclasses.replace(builders.device(name, 1), delivery=methods) for name, methods in nodes.items()
    )
    return builders.inventory(*map(builders.node, nodes), *devices)


def pod(methods: DeliveryMethod) -> queued_pods.PodInfo:
    """Return a pod of a card that these methods serve."""
    return builders.pod_info(demand=dataclasses.replace(builders.demand(), delivery=methods))


def decided(
    inventory: Inventory, pod_info: queued_pods.PodInfo, policy: Policy | None = None
) -> str | dict[Reason, int]:
    """Return the node of a pod, or how many nodes refuse it for which reason."""
    search, rules = Search(inventory), policy or Policy()
    found = policy_rules.apply(rules, pod_info)
    made = cycle.place_or_count_reasons(search, found, rules, {}, Effort())
    if isinstance(made, decisions.Bind):
        return made.placement.node
    assert isinstance(made, decisions.Wait)
    return {count.reason: count.nodes for count in made.counts}


@pytest.mark.parametrize(
    ("node", "served"),
    {
        DeliveryMethod.UNCHECKED: set[str](),
        OBEYING: {"fed"},
        DeliveryMethod.UNCHECKED | DeliveryMethod.NRI: {"fed", "unfed", "by plugin"},
        DeliveryMethod.UNCHECKED | DeliveryMethod.DEVICE_PLUGIN: {"by plugin"},
        delivery_methods.ALL: {"fed", "unfed", "by plugin"},
    }.items(),
)
def test_a_node_takes_the_pods_that_one_of_its_ways_serves(node: DeliveryMethod, served: set[str]) -> None:
    """And no other pod, for its containers would start without their cards."""
    pods = {"fed": FED, "unfed": UNFED, "by plugin": DeliveryMethod.NRI | DeliveryMethod.DEVICE_PLUGIN}

    taken = {name for name, methods in pods.items() if decided(cluster(n1=node), pod(methods)) == "n1"}

    assert taken == served


def test_a_pod_goes_where_it_is_served() -> None:
    """However well another node suits it."""
    inventory = cluster(n1=DeliveryMethod.UNCHECKED, n2=OBEYING, n3=delivery_methods.ALL)

    assert decided(inventory, pod(UNFED)) == "n3"


def test_what_a_pod_lacks_is_said() -> None:
    """A pod that was made too early is told to be made again; a node that has no way is named as such."""
    inventory = cluster(n1=DeliveryMethod.UNCHECKED, n2=OBEYING, n3=OBEYING)

    assert decided(inventory, pod(UNFED)) == {Reason.NO_DELIVERY: 1, Reason.NOT_FED: 2}
    work = explain.effort_outside_rounds(all_nodes=True)
    told = explain.sentence(
        explain.explain(Search(inventory), pod(UNFED), policy=Policy(), effort=work), pod(UNFED)
    )
    assert "1 has no way to give containers their cards: its Device says why" in told
    assert "2 would start the pod without its cards" in told
    assert "Would fit on 2 nodes if it were created again, with Berth's admission policy in place" in told


def test_devices_that_agents_open_need_the_runtimes_plugin() -> None:
    """No other way of a node brings them, and to make the pod again would not help."""
    inventory = cluster(
        n1=DeliveryMethod.UNCHECKED, n2=OBEYING, n3=DeliveryMethod.UNCHECKED | DeliveryMethod.DEVICE_PLUGIN
    )
    asking = pod(DeliveryMethod.NRI | DeliveryMethod.OPENING)

    assert decided(inventory, asking) == {Reason.NO_DELIVERY: 3}
    told = explain.sentence(
        explain.explain(
            Search(inventory), asking, policy=Policy(), effort=explain.effort_outside_rounds(all_nodes=True)
        ),
        asking,
    )
    assert "for which the agent needs --nri: their Devices say why" in told and "made again" not in told
    assert decided(cluster(n1=DeliveryMethod.UNCHECKED | DeliveryMethod.NRI), asking) == "n1"
    assert decided(inventory, asking, Policy(delivery=Delivery.ENVIRONMENT)) == {Reason.NO_DELIVERY: 3}
    assert decided(inventory, asking, Policy(delivery=Delivery.UNCHECKED)) == "n1"


def test_a_kubelet_that_nobody_serves_gets_no_pod_that_asks_it_for_cards() -> None:
    """It would fail it, whatever the node's other methods; and pods that do not ask it come."""
    inventory = cluster(n1=DeliveryMethod.UNCHECKED | DeliveryMethod.ENVIRONMENT | DeliveryMethod.UNSERVED)
    asking = pod(FED | DeliveryMethod.DEVICE_PLUGIN)
    asking = dataclasses.replace(asking, demand=dataclasses.replace(asking.demand, is_counted=True))

    for policy in Delivery:
        assert decided(inventory, asking, Policy(delivery=policy)) == {Reason.NO_DELIVERY: 1}
    assert decided(inventory, pod(FED)) == "n1"
    assert decided(cluster(n1=DeliveryMethod.UNCHECKED | DeliveryMethod.ENVIRONMENT), asking) == "n1"


def test_who_asks_by_a_name_that_the_kubelet_does_not_count_is_told_by_which() -> None:
    """Such as gpu-memory, on a node with the device plugin alone."""
    inventory = cluster(
        n1=DeliveryMethod.UNCHECKED | DeliveryMethod.DEVICE_PLUGIN, n2=DeliveryMethod.UNCHECKED
    )

    assert decided(inventory, pod(UNFED)) == {Reason.NOT_COUNTED: 1, Reason.NO_DELIVERY: 1}


@pytest.mark.parametrize(
    ("delivery", "bound"),
    {
        Delivery.REPORTED: {},
        Delivery.ENVIRONMENT: {"fed": "n1"},
        Delivery.UNCHECKED: {"fed": "n1", "unfed": "n1"},
    }.items(),
)
def test_the_policy_may_know_better_than_the_agents(delivery: Delivery, bound: dict[str, str]) -> None:
    """For some runtimes hide what they obey, and some clusters have means of their own."""
    inventory = cluster(n1=DeliveryMethod.UNCHECKED)

    found = {
        name: decided(inventory, pod(methods), Policy(delivery=delivery))
        for name, methods in {"fed": FED, "unfed": UNFED}.items()
    }

    assert {name: node for name, node in found.items() if isinstance(node, str)} == bound


def test_a_pod_without_cards_goes_anywhere() -> None:
    """Nothing has to be handed to it."""
    pod_info = builders.pod_info(request=builders.request())

    assert decided(cluster(n1=DeliveryMethod.UNCHECKED), pod_info) == "n1"
