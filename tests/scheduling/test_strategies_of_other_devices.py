"""By each strategy the devices that are no cards count for pods that ask for them, and for no other."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from berth_crds.vocabulary import Strategy
from berth_operator.scheduling import cycle, decisions, queued_pods
from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.holds import Hold
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.policy import Policy
from berth_operator.scheduling.search import Search
from scheduling.placements import place
from support import builders

BINPACK, SPREAD, WEIGHTED = Strategy.BINPACK, Strategy.SPREAD, Strategy.WEIGHTED
FRAGMENTATION: Final = Strategy.FRAGMENTATION
FULLER: Final = (BINPACK, FRAGMENTATION)
EMPTIER: Final = (SPREAD, WEIGHTED)
EACH = pytest.mark.parametrize("strategy", list(Strategy))
KINDS = pytest.mark.parametrize("kind", ["rdma", "npu-x"], ids=["built in", "of a package"])


def others(kind: str, at: str, count: int) -> tuple[PhysicalDevice, ...]:
    """Return devices of a type."""
    return tuple(builders.nic(minor, at=at, type=kind, uuid=f"{kind}-{at}-{minor}") for minor in range(count))


def node(at: str, cards: int = 0, **counts: int) -> list[Any]:
    """Return a node with so many cards, and so many devices of each type."""
    listed = tuple(one for kind, count in counts.items() for one in others(kind.replace("_", "-"), at, count))
    own = tuple(builders.card(minor, at=at) for minor in range(cards))
    return [builders.node(at), device_facts.Device(at, own, listed)]


def holding(kind: str, at: str, minor: int, percent: int = 100) -> Hold:
    """Return a pod that has so much of a device."""
    share = decisions.Share(f"{kind}-{at}-{minor}", minor, percent, 0, kind)
    return builders.hold(f"{kind}-{at}-{minor}", at, [share])


def asking(kind: str, count: int = 1, share: int = 100, *, cards: int = 0) -> queued_pods.PodInfo:
    """Return a pod that asks for devices of a type, and for cards."""
    asks: Sequence[Any] = [
        *([requests.cards(cards)] if cards else []),
        requests.OtherDevices(kind, count, share),
    ]
    return builders.pod_info(request=builders.request(asks))


def node_of(inventory: Inventory, pod: queued_pods.PodInfo, strategy: Strategy) -> str | None:
    """Return where a pod goes."""
    found = place(inventory, pod, Policy(strategy))
    return found.node if found is not None else None


@KINDS
@EACH
def test_the_fuller_node_or_the_emptier(strategy: Strategy, kind: str) -> None:
    """By binpack and fragmentation whole sets stay free; by spread and weighted no device is crowded."""
    both = [*node("n1", **{kind.replace("-", "_"): 4}), *node("n2", **{kind.replace("-", "_"): 4})]

    first_used = builders.inventory(*both, holding(kind, "n1", 0))
    last_used = builders.inventory(*both, holding(kind, "n2", 0))

    expected = ("n1", "n2") if strategy in FULLER else ("n2", "n1")
    found = tuple(node_of(one, asking(kind), strategy) for one in (first_used, last_used))
    assert found == expected


@KINDS
@pytest.mark.parametrize(
    ("strategy", "nodes"),
    [
        (SPREAD, ["n1", "n2", "n3", "n1", "n2", "n3"]),
        (WEIGHTED, ["n1", "n2", "n3", "n1", "n2", "n3"]),
        (BINPACK, ["n1", "n1", "n2", "n2", "n3", "n3"]),
        (FRAGMENTATION, ["n1", "n1", "n2", "n2", "n3", "n3"]),
    ],
)
def test_one_pod_after_another(strategy: Strategy, nodes: list[str], kind: str) -> None:
    """What was given counts for the next pod, and counts no more once the pod has ended."""
    name = kind.replace("-", "_")
    inventory = builders.inventory(*(one for at in ("n1", "n2", "n3") for one in node(at, **{name: 2})))
    search, policy, found, held = Search(inventory), Policy(strategy), [], []
    for number in range(6):
        pod = builders.pod_info(f"p{number}", request=asking(kind).request)
        placement = search.place(pod.request, pod.demand, policy=policy)
        assert placement is not None
        found.append(placement.node)
        held.append(cycle.hold_for(pod, placement))
        inventory.charge(held[-1])
    assert found == nodes

    for hold in held:
        inventory.release(hold.uid)
    placement = search.place(asking(kind).request, builders.demand(), policy=policy)
    assert placement is not None
    assert placement.node == "n1"


@EACH
def test_parts_of_devices_count_by_percent(strategy: Strategy) -> None:
    """A NIC of which a tenth is given is nearly as good as an unused one."""
    inventory = builders.inventory(
        *node("n1", rdma=2), *node("n2", rdma=2), holding("rdma", "n1", 0, 60), holding("rdma", "n2", 0, 10)
    )

    assert node_of(inventory, asking("rdma", share=20), strategy) == ("n1" if strategy in FULLER else "n2")


@pytest.mark.parametrize(
    ("strategy", "node_taken"), [(BINPACK, "n1"), (FRAGMENTATION, "n1"), (SPREAD, "n2"), (WEIGHTED, "n2")]
)
def test_nodes_of_different_size(strategy: Strategy, node_taken: str) -> None:
    """All but weighted go by what part is used, weighted by how many there are and are left."""
    inventory = builders.inventory(*node("n1", rdma=2), *node("n2", rdma=8), holding("rdma", "n2", 0))

    assert node_of(inventory, asking("rdma"), strategy) == node_taken


@KINDS
@EACH
def test_of_nodes_whose_cards_are_alike_the_other_devices_decide(strategy: Strategy, kind: str) -> None:
    """For a pod that asks for both."""
    name = kind.replace("-", "_")
    both = [*node("n1", cards=2, **{name: 4}), *node("n2", cards=2, **{name: 4})]

    first_used = builders.inventory(*both, holding(kind, "n1", 0))
    last_used = builders.inventory(*both, holding(kind, "n2", 0))

    expected = ("n1", "n2") if strategy in FULLER else ("n2", "n1")
    found = tuple(node_of(one, asking(kind, cards=1), strategy) for one in (first_used, last_used))
    assert found == expected


@EACH
def test_cards_come_first(strategy: Strategy) -> None:
    """However many of the other devices are used, where the pod asks for both."""
    nodes = [*node("n1", cards=4, rdma=4), *node("n2", cards=4, rdma=4)]
    used = [holding("rdma", "n1", minor) for minor in range(3)]
    inventory = builders.inventory(*nodes, *used, builders.hold("a", "n2", [0]))

    # By its NICs it would be the other node, by each strategy.
    assert node_of(inventory, asking("rdma", cards=1), strategy) == ("n2" if strategy in FULLER else "n1")


@EACH
def test_pods_that_ask_for_none_of_them_go_where_they_went(strategy: Strategy) -> None:
    """Neither cards nor devices of another type count what others have of a type."""
    nodes = [*node("n1", cards=2, rdma=4, fpga=2), *node("n2", cards=2, rdma=4, fpga=2)]
    pods = builders.pod_info(), builders.pod_info(cards=0), asking("fpga"), asking("fpga", cards=1)

    for used in ("n1", "n2"):
        inventory = builders.inventory(*nodes, holding("rdma", used, 0))
        assert [node_of(inventory, one, strategy) for one in pods] == ["n1"] * 4


@EACH
def test_several_types_count_alike(strategy: Strategy) -> None:
    """Half of one type weighs more than a quarter of another."""
    asks = [requests.OtherDevices("rdma", 1), requests.OtherDevices("fpga", 1)]
    pod = builders.pod_info(request=builders.request(asks))
    inventory = builders.inventory(
        *node("n1", rdma=4, fpga=4),
        *node("n2", rdma=4, fpga=4),
        holding("rdma", "n1", 0),
        holding("rdma", "n1", 1),
        holding("fpga", "n2", 0),
    )

    assert node_of(inventory, pod, strategy) == ("n1" if strategy in FULLER else "n2")


@EACH
def test_devices_that_are_not_well_are_neither_used_nor_free(strategy: Strategy) -> None:
    """A node with two unused NICs of which one is sick is as empty as one with one unused NIC."""
    sick = builders.nic(1, at="n2", trouble=decisions.Reason.UNHEALTHY)
    inventory = builders.inventory(
        *node("n1", rdma=1),
        builders.node("n2"),
        device_facts.Device("n2", (), (*others("rdma", "n2", 1), sick)),
    )

    assert node_of(inventory, asking("rdma", share=50), strategy) == "n1"
