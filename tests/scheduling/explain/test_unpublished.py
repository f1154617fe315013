"""Nodes without a Device: where there are no GPUs, which is usual, or where an agent was never started."""

import pytest

from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.inventory import Inventory
from scheduling.explain import scenes
from support import builders

CASES = {
    "alone": (
        builders.inventory(builders.node("n1"), builders.node("n2")),
        scenes.cards(),
        "0/2 nodes are available: 2 have no Device: no agent has published their cards",
    ),
    "beside others, however many they are": (
        builders.inventory(*builders.nodes(1, 2), builders.node("n2"), builders.node("n3")),
        scenes.cards(4),
        (
            "0/3 nodes are available: 1 has fewer than 4 cards; "
            "2 have no Device: no agent has published their cards. "
            "It would not fit on any node with a Device even if all nodes were empty. "
            "Would fit on 1 node if it asked for 2 instead of 4 cards."
        ),
    ),
    "and one whose Device has no cards": (
        builders.inventory(builders.node(), builders.device(cards=0)),
        scenes.cards(),
        "0/1 nodes are available: 1 has no cards. It would not fit on any node even if all nodes were empty.",
    ),
}


@pytest.mark.parametrize(("inventory", "pod", "text"), CASES.values(), ids=CASES.keys())
def test_nobody_is_told_that_more_hardware_is_needed(
    inventory: Inventory, pod: queued_pods.PodInfo, text: str
) -> None:
    """Of what such a node might have nothing is said, and it stands last: it is seldom what is wrong."""
    assert scenes.said(inventory, pod) == text


def test_a_pod_without_devices_may_fit_on_a_node_without_a_device() -> None:
    """Whether it ever fits is asked of all nodes, and nothing is said of Devices."""
    busy = builders.hold("old", "n1", amounts=builders.amounts(6000))
    nodes = builders.node("n1", cpu=8000), builders.node("n2", cpu=2000), builders.device("n2", 2)
    lacking = "0/2 nodes are available: 2 have insufficient cpu"

    wants_4, wants_9 = (
        scenes.said(builders.inventory(*nodes, busy), builders.pod_info(cards=0, demand=builders.demand(cpu)))
        for cpu in (4000, 9000)
    )

    assert (
        wants_4 == f"{lacking} (nearest: n1 has 2 cpu free, 4 wanted). Would fit if 2 cpu were freed on n1."
    )
    assert wants_9.startswith(f"{lacking}. It would not fit on any node even if all nodes were empty. ")
