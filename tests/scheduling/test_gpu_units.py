"""Nodes on which nvidia.com/gpu asks for replicas or MIG instances, as NVIDIA's plugin may have it (N16)."""

import dataclasses
from typing import Any

import pytest

from berth_crds import names
from berth_crds.vocabulary import Scope
from berth_operator.scheduling import cycle, decisions, node_offers, queued_pods
from berth_operator.scheduling.devices import facts as devices
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from scheduling.explain import scenes
from support import builders

RULES = Policy()


def by_gpu(count: int = 1, name: str = names.NVIDIA_GPU, **fields: Any) -> queued_pods.Candidate:
    """Return a pod that asks for so many nvidia.com/gpu, and for what the same is in the core."""
    pod = scenes.cards(count, **fields)
    return dataclasses.replace(pod, demand=dataclasses.replace(pod.demand, device_resources=((name, count),)))


def shared(at: str = "n1", *, replicas: int = 2, cards: int = 2) -> devices.Device:
    """Return cards whose replicas nvidia.com/gpu asks for."""
    found = [builders.card(minor, at=at, replicas=replicas) for minor in range(cards)]
    return builders.device(at, found, gpu_unit=devices.REPLICA)


def cut(at: str = "n1") -> devices.Device:
    """Return a card whose two instances nvidia.com/gpu asks for."""
    card = builders.card(at=at, mig=True, instances=builders.instances(at, 0, 2))
    return builders.device(at, [card], gpu_unit=builders.PROFILE)


def placed(inventory: Inventory, pod: queued_pods.Candidate) -> decisions.Placement | None:
    """Place a pod."""
    return Search(inventory).place(pod.request, pod.demand, policy=RULES)


def fill(inventory: Inventory, pod: queued_pods.Candidate, most: int = 9) -> list[str]:
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
        pytest.param(scenes.part(), id="a part of a card"),
    ],
)
def test_other_pods_get_no_replica(pod: queued_pods.Candidate) -> None:
    """What asks for more than NVIDIA's plugin knows of asks for cards."""
    assert placed(builders.inventory(builders.node(), shared()), pod) is None


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
        "0/1 nodes are available: 1 has too few free replicas. Would fit if GPU-n1-0 of n1 were freed."
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
    pods = by_gpu(), by_gpu(4)

    def fitting() -> list[bool]:
        return [search.place(pod.request, pod.demand, policy=RULES) is not None for pod in pods]

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
    pods = [dataclasses.replace(by_gpu(), uid=f"uid-{number}", name=f"p{number}") for number in range(3)]
    search = Search(inventory)
    for pod in pods[:2]:
        placement = search.place(pod.request, pod.demand, policy=RULES)
        assert placement is not None
        inventory.charge(cycle.hold_for(pod, placement))
    told = scenes.told(inventory, pods[2])
    assert {(one.reason, one.detail) for one in told.counts} >= {(decisions.Reason.FULL, "replicas")}
