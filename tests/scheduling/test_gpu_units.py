"""Nodes on which nvidia.com/gpu asks for replicas or MIG instances, as NVIDIA's plugin may have it (N16)."""

import dataclasses
from typing import Any

import pytest

from berth_crds import allocation, names
from berth_crds.vocabulary import Scope
from berth_operator.scheduling import cycle, decisions, node_offers, queued_pods
from berth_operator.scheduling.delivery_methods import DeliveryMethod
from berth_operator.scheduling.devices import device_facts, node_topology, requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from berth_operator.translate import bind_annotations, pods
from scheduling.explain import scenes
from support import builders

RULES = Policy()


def by_gpu(count: int = 1, name: str = names.NVIDIA_GPU, **fields: Any) -> queued_pods.PodInfo:
    """Return a pod that asks for so many nvidia.com/gpu, and for what the same is in the core."""
    pod = scenes.cards(count, **fields)
    return dataclasses.replace(pod, demand=dataclasses.replace(pod.demand, device_resources=((name, count),)))


def shared(at: str = "n1", *, replicas: int = 2, cards: int = 2) -> device_facts.Device:
    """Return cards whose replicas nvidia.com/gpu asks for."""
    found = [builders.card(minor, at=at, replicas=replicas) for minor in range(cards)]
    return builders.device(at, found, gpu_unit=device_facts.REPLICA)


def cut(at: str = "n1") -> device_facts.Device:
    """Return a card whose two instances nvidia.com/gpu asks for."""
    card = builders.card(at=at, mig=True, instances=builders.instances(at, 0, 2))
    return builders.device(at, [card], gpu_unit=builders.PROFILE)


def placed(inventory: Inventory, pod: queued_pods.PodInfo) -> decisions.Placement | None:
    """Place a pod."""
    return Search(inventory).place(pod.request, pod.demand, policy=RULES)


def fill(inventory: Inventory, pod: queued_pods.PodInfo, most: int = 9) -> list[str]:
    """Place such pods until no more fit, and return the nodes they got."""
    found = []
    for number in range(most):
        one = dataclasses.replace(pod, uid=f"uid-{number}", name=f"p{number}")
        if (placement := placed(inventory, one)) is None:
            break
        inventory.charge(cycle.hold_for(one, placement))
        found.append(placement.node)
    return found


def test_replicas_are_given_for_nvidia_com_gpu() -> None:
    """As many as there are, each a part of its card."""
    inventory = builders.inventory(builders.node(), shared())

    first = placed(inventory, by_gpu())
    assert first is not None
    assert [(share.core, share.memory) for share in first.grants[0].shares] == [(50, builders.MEMORY // 2)]
    assert fill(inventory, by_gpu()) == ["n1"] * 4


def test_instances_are_given_for_nvidia_com_gpu() -> None:
    """Each pod has one of its own."""
    inventory = builders.inventory(builders.node(), cut())

    first = placed(inventory, by_gpu())
    assert first is not None
    assert [share.profile for share in first.grants[0].shares] == [builders.PROFILE]
    assert fill(inventory, by_gpu()) == ["n1"] * 2


def test_whole_cards_come_first() -> None:
    """Replicas and instances are given when no whole card is left, whatever the nodes are called."""
    inventory = builders.inventory(
        builders.node("a"),
        shared("a", cards=1),
        builders.node("b"),
        builders.device("b", 1),
        builders.node("c"),
        cut("c"),
    )

    found = fill(inventory, by_gpu())
    assert found[0] == "b"
    assert sorted(found) == ["a", "a", "b", "c", "c"]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(by_gpu(name=names.GPU), id="a whole card by Berth's own name"),
        pytest.param(scenes.cards(), id="by a name that the kubelet does not count"),
        pytest.param(by_gpu(2, grouping=requests.Grouping(scope=Scope.NUMA)), id="where a scope is required"),
        pytest.param(
            by_gpu(grouping=requests.Grouping(exclusive=(("gpu", Scope.PCIE),))),
            id="a root without other pods",
        ),
        pytest.param(scenes.part(), id="a part of a card"),
        pytest.param(by_gpu(memory_at_least=60 * builders.GIB), id="where a size is required"),
        pytest.param(
            dataclasses.replace(
                by_gpu(), demand=nodes.NodeDemand(device_resources=((names.GPU, 100), (names.NVIDIA_GPU, 1)))
            ),
            id="a whole card by another name in another container",
        ),
    ],
)
def test_other_pods_get_no_replica(pod: queued_pods.PodInfo) -> None:
    """What asks for more than NVIDIA's plugin knows of asks for cards."""
    assert placed(builders.inventory(builders.node(), shared()), pod) is None


def test_network_cards_of_its_own_do_not_change_what_is_meant() -> None:
    """A condition on NICs is none on cards."""
    nic = dataclasses.replace(builders.card(0, at="n1"), uuid="rdma-n1-0", type="rdma", memory=0)
    device = dataclasses.replace(shared(), others=(nic,))
    pod = by_gpu(grouping=requests.Grouping(exclusive=(("rdma", Scope.PCIE),)))
    (container,) = pod.request.containers
    asks = (*container.asks, requests.OtherDevices("rdma", 1, 10))
    request = dataclasses.replace(pod.request, containers=(dataclasses.replace(container, asks=asks),))
    demand = dataclasses.replace(pod.demand, device_resources=((names.NVIDIA_GPU, 1), (names.RDMA, 10)))

    found = placed(
        builders.inventory(builders.node(), device), dataclasses.replace(pod, request=request, demand=demand)
    )

    assert found is not None
    assert {share.type: share.core for share in found.grants[0].shares} == {"gpu": 50, "rdma": 10}


@pytest.mark.parametrize("scope", [None, Scope.PCIE, Scope.NUMA])
def test_a_preferred_scope_does_not_change_what_is_meant(scope: Scope | None) -> None:
    """Where nvidia.com/gpu asks for instances, a pod gets one, and no whole card that lies beside them."""
    card = builders.card(at="n1", mig=True, instances=builders.instances("n1", 0, 2))
    together = tuple((scope, (0b11,)) for scope in (Scope.NUMA, Scope.PCIE))
    topology = node_topology.NodeTopology(2, ((0, 50), (50, 0)), together)
    mixed = builders.device(
        "n1", [card, builders.card(1, at="n1")], gpu_unit=builders.PROFILE, topology=topology
    )
    inventory = builders.inventory(builders.node(), mixed)
    pod = by_gpu(grouping=requests.Grouping(scope=scope, required=False))

    found = placed(inventory, pod)

    assert found is not None
    assert [share.profile for share in found.grants[0].shares] == [builders.PROFILE]


@pytest.mark.parametrize(("gpus", "cards"), [(2, 1), (2, 8), (3, 2), (9, 8), (16, 8)])
def test_what_was_placed_is_what_is_read_back(gpus: int, cards: int) -> None:
    """Several replicas may be of one card: the record says so, and nothing else is kept back."""
    inventory = builders.inventory(builders.node(), shared(cards=cards))
    waiting = pods.classify(builders.pod("p", gpus=gpus))
    assert isinstance(waiting, pods.WaitingPod)
    placement = placed(inventory, waiting.pod_info)
    assert placement is not None

    annotations = bind_annotations.of(placement, term="t", containers=["main"])
    bound = pods.classify(
        builders.pod("p", gpus=gpus, annotations=annotations, nodeName="n1", phase="Running")
    )
    assert isinstance(bound, pods.BoundPod)
    assert (bound.hold.shares, bound.hold.withheld, bound.fault) == (
        cycle.hold_for(waiting.pod_info, placement).shares,
        0,
        "",
    )


def test_a_record_that_names_too_few_cards_still_keeps_them_back() -> None:
    """A part of a card in it is no replica unless it says so."""
    damaged = builders.written("n1", {"main": {"gpu": [allocation.Share("GPU-n1-0", 0, 50, 1)]}})
    bound = pods.classify(builders.pod("p", gpus=4, annotations=damaged, nodeName="n1", phase="Running"))
    assert isinstance(bound, pods.BoundPod)
    assert (bound.hold.withheld, bound.fault) == (3, "its allocation names 1 of 4 cards")


def test_by_the_plugin_alone_pieces_have_one_name() -> None:
    """The kubelet does not count replicas by their own name where nvidia.com/gpu asks for them."""
    inventory = builders.inventory(
        builders.node(),
        dataclasses.replace(shared(), delivery=DeliveryMethod.DEVICE_PLUGIN | DeliveryMethod.UNCHECKED),
    )
    by_plugin = DeliveryMethod.NRI | DeliveryMethod.DEVICE_PLUGIN
    own_name = scenes.pod(requests.Replicas(1))
    found = [
        placed(
            inventory, dataclasses.replace(pod, demand=dataclasses.replace(pod.demand, delivery=by_plugin))
        )
        for pod in (by_gpu(), own_name)
    ]
    assert [one is not None for one in found] == [True, False]


def test_a_plugin_may_give_a_container_one_replica() -> None:
    """Several are refused with a sentence before the kubelet does; several containers get one each."""
    inventory = builders.inventory(
        builders.node(), dataclasses.replace(shared(cards=4), one_replica_each=True)
    )
    one = requests.ContainerRequest("a", (requests.cards(1),))
    two = dataclasses.replace(
        by_gpu(2), request=requests.DeviceRequest((one, dataclasses.replace(one, name="b")))
    )

    assert placed(inventory, by_gpu()) is not None
    assert placed(inventory, two) is not None
    assert placed(inventory, by_gpu(2)) is None
    assert scenes.said(inventory, by_gpu(2)) == (
        "0/1 nodes are available: 1 gives a container one replica at most: ask for one in each."
        " It would not fit on any node even if all nodes were empty."
    )
    assert scenes.said(inventory, scenes.pod(requests.Replicas(2))).startswith(
        "0/1 nodes are available: 1 gives a container one replica at most"
    )
    inventory.put_device(shared(cards=4))
    assert placed(inventory, by_gpu(2)) is not None


def counted(at: str = "n1", cards: int = 2) -> device_facts.Device:
    """Return cards that the kubelet counts by nvidia.com/gpu, and gives to one pod each."""
    return builders.device(at, cards, gpu_unit=device_facts.COUNTED_CARD)


def part_by_gpu(count: int = 1, *, memory: int = 20 * builders.GIB) -> queued_pods.PodInfo:
    """Return a pod that asks for so many nvidia.com/gpu, and that it needs no more than this of each."""
    pod = scenes.pod(requests.Gpus(count, memory=memory))
    demand = dataclasses.replace(pod.demand, device_resources=((names.NVIDIA_GPU, count),))
    return dataclasses.replace(pod, demand=demand)


def test_a_kubelet_that_counts_cards_gives_them_whole() -> None:
    """A pod that would do with a part gets all of its card, which nobody can share with it."""
    inventory = builders.inventory(builders.node(), counted())

    first = placed(inventory, part_by_gpu())
    assert first is not None
    assert [(share.core, share.memory) for share in first.grants[0].shares] == [(100, builders.MEMORY)]
    assert fill(inventory, part_by_gpu()) == ["n1"] * 2


def test_elsewhere_parts_are_parts() -> None:
    """And where both kinds of nodes are, they come first."""
    inventory = builders.inventory(
        builders.node("a"), counted("a"), builders.node("b"), builders.device("b", 1)
    )

    first = placed(inventory, part_by_gpu())
    assert first is not None
    assert (first.node, first.grants[0].shares[0].memory) == ("b", 20 * builders.GIB)
    found = fill(inventory, part_by_gpu(), most=20)
    assert (found.count("a"), found[-2:]) == (2, ["a", "a"])
    assert len(found) == 2 + builders.MEMORY // (20 * builders.GIB)


@pytest.mark.parametrize(
    ("pod", "parts"),
    [
        pytest.param(by_gpu(), [100], id="whole cards"),
        pytest.param(by_gpu(50, name=names.GPU), None, id="many cards by Berth's own name"),
        pytest.param(scenes.part(core=30), [30], id="a part by names that the kubelet gives nothing for"),
    ],
)
def test_others_get_what_they_ask_for(pod: queued_pods.PodInfo, parts: list[int] | None) -> None:
    """A kubelet that counts cards counts parts by Berth's own name."""
    found = placed(builders.inventory(builders.node(), counted()), pod)

    assert ([share.core for share in found.grants[0].shares] if found else None) == parts


def test_a_card_must_have_the_memory_that_is_asked_for() -> None:
    """Though all of it is given."""
    inventory = builders.inventory(builders.node(), counted())

    assert placed(inventory, part_by_gpu(memory=builders.MEMORY + 1)) is None
    assert placed(inventory, part_by_gpu(memory=builders.MEMORY)) is not None


def test_a_full_node_of_counted_cards_says_so() -> None:
    """And that a whole card has to be freed."""
    inventory = builders.inventory(builders.node(), counted())
    fill(inventory, part_by_gpu())

    assert scenes.said(inventory, part_by_gpu()) == (
        "0/1 nodes are available: 1 has no card with enough free. Would fit if GPU-n1-0 of n1 were freed."
    )


def test_pieces_by_their_own_name_are_delivered_beside_counted_cards() -> None:
    """The plugin counts MIG instances by their profile there."""
    card = builders.card(9, mig=True, instances=builders.instances("n1", 9, 1))
    there = builders.device(
        "n1",
        [card],
        gpu_unit=device_facts.COUNTED_CARD,
        delivery=DeliveryMethod.DEVICE_PLUGIN | DeliveryMethod.UNCHECKED,
    )
    pod = scenes.pod(requests.Instances(builders.PROFILE, 1))
    pod = dataclasses.replace(
        pod,
        demand=dataclasses.replace(pod.demand, delivery=DeliveryMethod.NRI | DeliveryMethod.DEVICE_PLUGIN),
    )

    assert placed(builders.inventory(builders.node(), there), pod) is not None


def test_a_preferred_scope_gives_way() -> None:
    """It is no matter of replicas, and the pod has said that it can do without."""
    near = requests.Grouping(scope=Scope.NUMA, required=False)
    assert placed(builders.inventory(builders.node(), shared()), by_gpu(2, grouping=near)) is not None


def test_why_not_is_told_of_what_is_asked_for_there() -> None:
    """A node whose replicas are all in use is full, and one with too few says how many it lacks."""
    inventory = builders.inventory(builders.node(), shared(cards=1))
    assert scenes.said(inventory, by_gpu(3)).startswith(
        "0/1 nodes are available: 1 has fewer than 3 replicas of shared cards."
    )
    fill(inventory, by_gpu())
    assert scenes.said(inventory, by_gpu()) == (
        "0/1 nodes are available: 1 has too few free replicas. Would fit if ml/p0 on n1 terminated."
    )

    of_instances = builders.inventory(builders.node(), cut())
    fill(of_instances, by_gpu())
    assert scenes.said(of_instances, by_gpu()) == (
        f"0/1 nodes are available: 1 has too few free MIG {builders.PROFILE} instances."
        " Would fit if MIG-n1-0-0 of n1 were freed."
    )


def test_a_waiting_pod_is_woken_by_a_free_replica() -> None:
    """Though no whole card is free; one that asks by another name sleeps on."""
    inventory = builders.inventory(builders.node(), shared())
    there = node_offers.offer(inventory, "n1")
    assert there is not None

    assert [
        node_offers.may_take(there, pod.request, pod.demand)
        for pod in (by_gpu(), by_gpu(4), by_gpu(5), by_gpu(name=names.GPU))
    ] == [True, True, False, False]


def test_the_unit_of_a_node_may_change() -> None:
    """What was remembered of the node is found out anew."""
    inventory = builders.inventory(builders.node(), builders.device("n1", 2))
    search = Search(inventory)
    both = by_gpu(), by_gpu(4)

    def fitting() -> list[bool]:
        return [search.place(pod.request, pod.demand, policy=RULES) is not None for pod in both]

    assert fitting() == [True, False]
    inventory.put_device(shared())
    assert fitting() == [True, True]
    inventory.put_device(builders.device("n1", 4))
    assert fitting() == [True, True]
    inventory.put_device(builders.device("n1", 2))
    assert fitting() == [True, False]


def test_a_cycle_binds_to_replicas_and_says_why_the_next_one_waits() -> None:
    """A round as the operator makes it."""
    inventory = builders.inventory(builders.node(), nodes.Node("n2", allocatable=()), shared(cards=1))
    three = [dataclasses.replace(by_gpu(), uid=f"uid-{number}", name=f"p{number}") for number in range(3)]
    search = Search(inventory)
    for pod in three[:2]:
        placement = search.place(pod.request, pod.demand, policy=RULES)
        assert placement is not None
        inventory.charge(cycle.hold_for(pod, placement))
    told = scenes.told(inventory, three[2])
    assert {(one.reason, one.detail) for one in told.counts} >= {(decisions.Reason.FULL, "replicas")}
