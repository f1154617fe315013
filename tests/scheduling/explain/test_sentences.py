"""Whole clusters in a sentence: what stands in the way, what is nearest, what would help most (I12)."""

import hypothesis
import pytest
from hypothesis import strategies as st

from berth_crds.vocabulary import Scope
from berth_operator.scheduling import decisions, explain, queued_pods
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.devices import device_facts, node_topology, requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from scheduling.explain import clusters, scenes
from support import builders


def mixed() -> Inventory:
    """Make eight nodes of another model, three that are full and one whose agent is silent."""
    names = [f"n{number:02}" for number in range(1, 13)]
    cards = {name: [builders.card(minor, at=name) for minor in range(4)] for name in names[8:]}
    cards |= {name: [builders.card(at=name, model="Tesla T4")] for name in names[:8]}
    holds = [
        builders.hold(
            f"{name}-{minor}", name, [builders.share(minor, at=name, core=10, memory=60 * builders.GIB)]
        )
        for name in names[8:11]
        for minor in range(4)
        if (name, minor) != ("n10", 2)
    ]
    return builders.inventory(
        *map(builders.node, names),
        *(builders.device(name, cards[name]) for name in names),
        *holds,
        builders.hold("small", "n10", [builders.share(2, at="n10", core=10, memory=20 * builders.GIB)]),
        silent=["n12"],
    )


def halves() -> Inventory:
    """Make a node of two NUMA nodes, in each of which one card is in use."""
    cards = [builders.card(minor, numa=minor % 2) for minor in range(4)]
    topology = node_topology.NodeTopology(4, ((10,) * 4,) * 4, ((Scope.NUMA, (0b0101, 0b1010)),))
    device = builders.device(cards=cards, topology=topology)
    held = (builders.hold("a", "n1", [0]), builders.hold("b", "n1", [1]))
    return builders.inventory(builders.node(), device, *held)


def one_instance() -> Inventory:
    """Make a card with a single MIG instance, which is taken."""
    instance = device_facts.Instance("MIG-0", "1g.5gb", 5 * builders.GIB)
    taken = decisions.Share("MIG-0", 0, 100, 5 * builders.GIB, profile="1g.5gb")
    device = builders.device(cards=[builders.card(mig=True, instances=(instance,))])
    return builders.inventory(builders.node(), device, builders.hold("a", "n1", [taken]))


def troubled(trouble: Reason) -> Inventory:
    """Make a node with a good card and one in trouble."""
    return builders.inventory(
        builders.node(), builders.device(cards=[builders.card(0, trouble=trouble), builders.card(1)])
    )


TAINT = nodes.Taint("gpu", "yes", "NoSchedule")
NOT_READY = nodes.Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
ZONE_A = nodes.NodeSelection(selector=(("zone", "a"),))
NONE = "0/1 nodes are available:"
ONE_CPU = "Would fit if 1 cpu were freed"
BOTH = "these obstacles: taint b, taint gpu"
UNREADABLE = "cards held by pods whose allocation annotation is missing or unreadable"
THREE = "these obstacles: node cordoned, taint gpu, other model"
NEVER = "It would not fit on any node even if all nodes were empty."

SENTENCES: dict[str, tuple[Inventory, queued_pods.PodInfo, str]] = {
    "several reasons": (
        mixed(),
        scenes.part(20, 80, models=frozenset({builders.MODEL})),
        (
            "0/12 nodes are available: 8 have no card of model A100-SXM4-80GB "
            "(there are Tesla-T4 and A100-SXM4-80GB); 3 have no card with enough free among those asked for "
            "(nearest: GPU 2 of n10 has 60 GiB free, 80 GiB wanted); 1 has an agent that stopped reporting. "
            "Would fit if 20 GiB were freed on GPU-n10-2 of n10."
        ),
    ),
    "both core and memory": (
        builders.inventory(
            *builders.nodes(1, 1),
            builders.hold("a", "n1", [builders.share(0, core=70, memory=60 * builders.GIB)]),
        ),
        scenes.part(50, 40),
        (
            "0/1 nodes are available: 1 has no card with enough free "
            "(nearest: GPU 0 of n1 has 30 % core and 20 GiB free, 50 % and 40 GiB wanted). "
            "Would fit if 20 % core and 20 GiB were freed on GPU-n1-0 of n1."
        ),
    ),
    "whole cards": (
        builders.inventory(
            *builders.nodes(2, 4),
            *(builders.hold(f"a{at}", "n1", [at]) for at in range(2)),
            *(builders.hold(f"b{at}", "n2", [at]) for at in range(3)),
        ),
        scenes.cards(3),
        (
            "0/2 nodes are available: 2 have fewer than 3 free cards "
            "(nearest: n1 has 2 cards free, 3 wanted). "
            "Would fit if GPU-n1-0 of n1 were freed."
        ),
    ),
    "cpu": (
        builders.inventory(
            *builders.nodes(2, 2),
            builders.hold("a", amounts=builders.amounts(7500)),
            builders.hold("b", "n2", amounts=builders.amounts(5000)),
        ),
        scenes.cards(cpu=4000),
        (
            "0/2 nodes are available: 2 have insufficient cpu (nearest: n2 has 3 cpu free, 4 wanted). "
            f"{ONE_CPU} on n2."
        ),
    ),
    "cpu that pods with cards hold": (
        builders.inventory(
            builders.node(cpu=4000),
            builders.device(cards=8),
            *(builders.hold(f"a{at}", "n1", [at], amounts=builders.amounts(1000)) for at in range(4)),
        ),
        scenes.cards(cpu=2000),
        "0/1 nodes are available: 1 has insufficient cpu. Would fit if 2 cpu were freed on n1.",
    ),
    "cpu and cards": (
        builders.inventory(
            builders.node(cpu=2000),
            builders.device("n1", 2),
            *(builders.hold(f"a{at}", "n1", [at], amounts=builders.amounts(1000)) for at in range(2)),
        ),
        scenes.cards(cpu=1000),
        "0/1 nodes are available: 1 has no free card. Would fit if ml/a0 on n1 terminated.",
    ),
    "room for pods": (
        builders.inventory(
            nodes.Node("n1", allocatable=((nodes.CPU, 8000), (nodes.PODS, 1))),
            builders.device("n1", 2),
            builders.hold("a", "n1", [0], amounts=builders.amounts(0)),
        ),
        scenes.cards(),
        "0/1 nodes are available: 1 has too many pods. Would fit if 1 pod on n1 terminated.",
    ),
    "more cpu than there is": (
        builders.inventory(*builders.nodes(2, 2)),
        scenes.cards(cpu=9000),
        (
            f"0/2 nodes are available: 2 have insufficient cpu. {NEVER} "
            "Would fit on 2 nodes if it asked for 8 instead of 9 cpu."
        ),
    ),
    "a cordoned node": (
        builders.inventory(builders.node(unschedulable=True), builders.device("n1", 2)),
        scenes.cards(),
        "0/1 nodes are available: 1 is cordoned. Would fit if n1 were uncordoned.",
    ),
    "a taint": (
        builders.inventory(builders.node(taints=(TAINT,)), builders.device("n1", 2)),
        scenes.cards(),
        f"{NONE} 1 has the untolerated taint gpu. Would fit on 1 node if the taint gpu=yes were tolerated.",
    ),
    "a taint of Kubernetes": (
        builders.inventory(builders.node(taints=(NOT_READY,)), builders.device("n1", 2)),
        scenes.cards(),
        "0/1 nodes are available: 1 has the untolerated taint node.kubernetes.io/not-ready",
    ),
    "two taints": (
        builders.inventory(
            builders.node(taints=(TAINT, nodes.Taint("b", "", "NoExecute"))), builders.device("n1", 2)
        ),
        scenes.cards(),
        (
            f"{NONE} 1 has the untolerated taint gpu (nearest: n1, with {BOTH}). "
            "Would fit on at least 1 node if the taint b were tolerated and the taint gpu=yes were tolerated."
        ),
    ),
    "a selector": (
        builders.inventory(*builders.nodes(3, 2)),
        scenes.cards(node_selection=ZONE_A),
        (
            "0/3 nodes are available: 3 do not match the node selector or affinity. "
            "Would fit on 3 nodes if the node selector zone=a were dropped."
        ),
    ),
    "a selector of two pairs": (
        builders.inventory(*builders.nodes(1, 2)),
        scenes.cards(node_selection=nodes.NodeSelection(selector=(("size", "5"), ("zone", "a")))),
        (
            "0/1 nodes are available: 1 does not match the node selector or affinity. "
            "Would fit on 1 node if the node selector were dropped."
        ),
    ),
    "a silent agent": (
        builders.inventory(*builders.nodes(1, 2), silent=["n1"]),
        scenes.cards(),
        (
            "0/1 nodes are available: 1 has an agent that stopped reporting. "
            "Would fit if the Berth agent on n1 reported again."
        ),
    ),
    "a failed source": (
        builders.inventory(builders.node(), builders.device("n1", 2, failed="NVMLDown")),
        scenes.cards(),
        (
            "0/1 nodes are available: 1 has an agent that cannot read its GPUs (NVMLDown). "
            "Would fit if the Berth agent on n1 could read its GPUs."
        ),
    ),
    "too few cards": (
        builders.inventory(*builders.nodes(2, 2)),
        scenes.cards(4),
        (
            f"0/2 nodes are available: 2 have fewer than 4 cards. {NEVER} "
            "Would fit on 2 nodes if it asked for 2 instead of 4 cards."
        ),
    ),
    "another model": (
        builders.inventory(*builders.nodes(2, 2)),
        scenes.cards(models=frozenset({"T4"})),
        (
            f"0/2 nodes are available: 2 have no card of model T4 (there is A100-SXM4-80GB). {NEVER} "
            "Would fit on 2 nodes if the condition on models were dropped."
        ),
    ),
    "too small a card": (
        builders.inventory(*builders.nodes(2, 2)),
        scenes.part(50, 400),
        (
            f"0/2 nodes are available: 2 have too few cards with at least 400 GiB. {NEVER} "
            "Would fit on 2 nodes if it asked for 80 GiB instead of 400 GiB of each card."
        ),
    ),
    "two conditions at once": (
        builders.inventory(*builders.nodes(1, 2)),
        scenes.cards(models=frozenset({"T4"}), memory_at_least=800 * builders.GIB),
        (
            f"0/1 nodes are available: 1 has no card of model T4 (there is A100-SXM4-80GB). {NEVER} "
            "Would fit on at least 1 node if the condition on models were dropped and "
            "the condition on memory were dropped."
        ),
    ),
    "a cordoned node of another model": (
        builders.inventory(builders.node(unschedulable=True), builders.device("n1", 2)),
        scenes.cards(models=frozenset({"T4"})),
        (
            f"{NONE} 1 is cordoned (nearest: n1, with these obstacles: node cordoned, other model). {NEVER} "
            "Would fit if n1 were uncordoned and the condition on models were dropped."
        ),
    ),
    "a cordoned node that is full": (
        builders.inventory(
            builders.node(unschedulable=True),
            builders.device("n1", 2),
            *(builders.hold(f"a{at}", "n1", [at]) for at in range(2)),
        ),
        scenes.cards(),
        (
            f"{NONE} 1 is cordoned (nearest: n1, with these obstacles: node cordoned, not enough free). "
            "Would fit if n1 were uncordoned and ml/a0 on n1 terminated."
        ),
    ),
    "three things at once": (
        builders.inventory(builders.node(unschedulable=True, taints=(TAINT,)), builders.device("n1", 2)),
        scenes.cards(models=frozenset({"T4"})),
        f"{NONE} 1 is cordoned (nearest: n1, with {THREE}). {NEVER}",
    ),
    "a cordoned card": (
        troubled(Reason.CARD_CORDONED),
        scenes.cards(2),
        (
            "0/1 nodes are available: 1 has too few cards that are not cordoned "
            "(GPU-n1-0 on n1 is cordoned; nearest: n1 has 1 card free, 2 wanted). "
            "Would fit if GPU-n1-0 of n1 were not cordoned."
        ),
    ),
    "an unhealthy card": (
        troubled(Reason.UNHEALTHY),
        scenes.cards(2),
        (
            "0/1 nodes are available: 1 has too few healthy cards "
            "(GPU-n1-0 on n1 is unhealthy; nearest: n1 has 1 card free, 2 wanted). "
            "Would fit if GPU-n1-0 of n1 were healthy."
        ),
    ),
    "cards that nobody can name": (
        builders.inventory(*builders.nodes(1, 2), builders.hold("a", withheld=2)),
        scenes.cards(),
        (
            f"0/1 nodes are available: 1 has {UNREADABLE} "
            "(such as ml/a on n1). Would fit if ml/a on n1 terminated."
        ),
    ),
    "NICs, of which a pod may have any": (
        builders.inventory(
            builders.node(),
            builders.device("n1", others=[builders.nic(0), builders.nic(1)]),
            builders.hold("a", withheld_types=frozenset({"rdma"})),
        ),
        scenes.pod(requests.OtherDevices("rdma", 1, 1)),
        (
            f"{NONE} 1 has rdma devices reserved for a pod without a valid allocation annotation "
            "(such as ml/a on n1). Would fit if ml/a on n1 terminated."
        ),
    ),
    "a scope": (
        halves(),
        scenes.cards(2, grouping=requests.Grouping(scope=Scope.NUMA)),
        (
            "0/1 nodes are available: 1 has too few free cards within one NUMA node "
            "(nearest: n1 has 1 card free, 2 wanted). "
            "Would fit if GPU-n1-0 of n1 were freed."
        ),
    ),
    "a scope that no card of the node has": (
        builders.inventory(builders.node(), builders.device(cards=8)),
        scenes.cards(4, grouping=requests.Grouping(scope=Scope.NVLINK, required=True)),
        (
            f"0/1 nodes are available: 1 has too few free cards within one NVLink group. {NEVER} "
            "Would fit on 1 node if the required scope (berth.dev/scope) were removed."
        ),
    ),
    "a MIG instance": (
        one_instance(),
        scenes.pod(requests.Instances("1g.5gb", 1)),
        (
            "0/1 nodes are available: 1 has too few free MIG 1g.5gb instances. "
            "Would fit if MIG-0 of n1 were freed."
        ),
    ),
    "no nodes": (builders.inventory(), scenes.cards(), "there are no nodes"),
    "some nodes fit": (
        builders.inventory(*builders.nodes(2, 2), builders.hold("a", "n1", [0])),
        scenes.cards(2),
        "1/2 nodes are available: 1 has fewer than 2 free cards (nearest: n1 has 1 card free, 2 wanted)",
    ),
    "all nodes fit": (builders.inventory(*builders.nodes(2, 2)), scenes.cards(2), "2/2 nodes are available"),
}


@pytest.mark.parametrize(("inventory", "pod", "text"), SENTENCES.values(), ids=SENTENCES.keys())
def test_sentence(inventory: Inventory, pod: queued_pods.PodInfo, text: str) -> None:
    """A pod is told how many nodes refuse it for which reason, and the one change that is smallest."""
    assert scenes.said(inventory, pod) == text


def test_sentence_does_not_flicker() -> None:
    """What happens on cards that are not named in a sentence does not change it."""
    inventory, pod = mixed(), scenes.part(20, 80, models=frozenset({builders.MODEL}))
    before = scenes.said(inventory, pod)

    inventory.charge(
        builders.hold(
            "new",
            "n09",
            [builders.share(0, at="n09", core=10, memory=10 * builders.GIB)],
            amounts=builders.amounts(500),
        )
    )
    inventory.release("uid-n11-3")
    inventory.charge(
        builders.hold("newer", "n11", [builders.share(3, at="n11", core=20, memory=70 * builders.GIB)])
    )

    assert scenes.said(inventory, pod) == before


COUNTS = st.lists(
    st.builds(Count, st.sampled_from(Reason), st.text(max_size=300), st.integers(1, 10**6)), max_size=40
)


@clusters.PROPERTY
@hypothesis.given(counts=COUNTS, models=st.frozensets(st.text(max_size=300), max_size=8))
def test_sentence_has_an_end(counts: list[Count], models: frozenset[str]) -> None:
    """Whatever people wrote, and however many reasons there are, an event can carry the sentence."""
    pod = scenes.cards(models=models)
    told = explain.Explanation(tuple(counts), (), sum(one.nodes for one in counts))

    assert 0 < len(explain.brief(counts, pod)) <= 1024
    assert 0 < len(explain.sentence(told, pod)) <= 1024
