"""Where one change is enough on some node it is found, even if many that need more come before it."""

from typing import Any

import pytest

from berth_operator.scheduling.nodes import facts
from scheduling import pod_clusters
from scheduling.explain import scenes
from support import builders

OTHERS = [f"a{number:02}" for number in range(20)]
TAINTED = (facts.Taint("gpu", "yes", "NoSchedule"),)
ZONE_A = facts.NodeSelection(selector=(("zone", "a"),))
PORT = facts.HostPort(80)
CORDONED = builders.node("z", unschedulable=True, labels={"zone": "a"})


@pytest.mark.parametrize(
    "obstacle",
    [
        pytest.param({"taints": TAINTED}, id="a taint"),
        pytest.param({"labels": {"zone": "b"}}, id="another zone"),
    ],
)
def test_a_cordoned_node_with_nothing_else_in_the_way(obstacle: dict[str, Any]) -> None:
    """The other nodes are cordoned too, and something else keeps the pod from them."""
    others = (
        builders.node(name, unschedulable=True, **({"labels": {"zone": "a"}} | obstacle)) for name in OTHERS
    )
    devices = (builders.device(name, 4) for name in (*OTHERS, "z"))
    inventory = builders.inventory(*others, CORDONED, *devices)

    assert scenes.said(inventory, scenes.cards(node_selection=ZONE_A)).endswith(
        "Would fit if z were uncordoned."
    )


def test_a_silent_agent_on_the_only_node_with_the_port_free() -> None:
    """Of the others the port is taken besides."""
    holds = (builders.hold(f"h-{name}", name, host_ports=(PORT,)) for name in OTHERS)
    nodes = (builders.node(name) for name in (*OTHERS, "z"))
    devices = (builders.device(name, 4) for name in (*OTHERS, "z"))
    inventory = builders.inventory(*nodes, *devices, *holds, silent=(*OTHERS, "z"))
    pod = builders.pod_info(demand=builders.demand(host_ports=(PORT,)))

    assert scenes.said(inventory, pod).endswith("Would fit if the Berth agent on z reported again.")


def test_the_taint_of_a_cordon_is_a_cordon() -> None:
    """Also where the node itself does not say that it is unschedulable."""
    taint = facts.Taint(facts.UNSCHEDULABLE_TAINT, "", "NoSchedule")
    inventory = builders.inventory(builders.node(taints=(taint,)), builders.device())

    assert scenes.said(inventory, scenes.cards()) == (
        "0/1 nodes are available: 1 is cordoned. Would fit if n1 were uncordoned."
    )


@pytest.mark.parametrize(
    ("stays", "would"),
    [
        pytest.param((), "GPU-n1-0 of n1 were freed", id="nobody else has a part of it"),
        pytest.param((30,), "ml/a on n1 terminated", id="another pod stays on it"),
    ],
)
def test_a_card_is_to_be_freed_only_by_all_that_have_it(stays: tuple[int, ...], would: str) -> None:
    """Where one pod is in the way and another may stay, the card as a whole need not be freed."""
    shares = {"a": 60, **dict(zip("b", stays, strict=False))}
    holds = (
        builders.hold(name, "n1", [builders.share(core=core, memory=builders.GIB)])
        for name, core in shares.items()
    )
    inventory = builders.inventory(builders.node(), builders.device(cards=1), *holds)

    said = [
        change.clause() for one in scenes.told(inventory, scenes.part(65, 1)).advice for change in one.changes
    ]

    assert would in said
    assert not [one for one in said if one.endswith("freed") and one != would]


NEAR_DB = pod_clusters.near(pod_clusters.term(selector=pod_clusters.selecting(app="db")))


@pytest.mark.parametrize(
    ("there", "would"),
    [
        pytest.param({"db": "db"}, "", id="the pod that it requires"),
        pytest.param({"db": "db", "web": "web"}, ". Would fit if ml/web on n1 terminated.", id="another one"),
        pytest.param({"a": "db", "b": "db"}, ". Would fit if ml/a on n1 terminated.", id="one of two such"),
    ],
)
def test_of_the_pods_on_a_full_node_one_ends_that_is_not_required(there: dict[str, str], would: str) -> None:
    """It is not said that any pod might end where the waiting pod requires one of them to be near."""
    node = pod_clusters.node("n1", "a")
    node["status"]["allocatable"]["pods"] = str(len(there))
    pods = (pod_clusters.pod(name, "n1", labels={"app": app}) for name, app in there.items())
    inventory = pod_clusters.Both(node, *pods).inventory
    waiting = pod_clusters.pod_info(pod_clusters.pod(affinity=NEAR_DB))

    assert scenes.said(inventory, waiting) == f"0/1 nodes are available: 1 has too many pods{would}"
