"""The first reason of a node, counted without looking closely: what no patience can cure comes first."""

from collections.abc import Mapping

import pytest

from berth_operator.scheduling import decisions, queued_pods, signatures
from berth_operator.scheduling.constraints import reason_counts
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.inventory import Inventory
from scheduling.explain import scenes
from support import builders
from support.builders import nic

GIB = builders.GIB
FULL_OF_T4 = (
    builders.node(),
    builders.device(cards=[builders.card(model="Tesla T4", trouble=Reason.UNHEALTHY)]),
    builders.hold("a", "n1", [0]),
)


def cut(trouble: Reason | None = None, *, instances: int = 1) -> device_facts.Device:
    """Make a card with some MIG instances of 1g.5gb."""
    made = tuple(device_facts.Instance(f"MIG-{at}", "1g.5gb", 5 * GIB, at) for at in range(instances))
    return builders.device(cards=[builders.card(mig=True, instances=made, trouble=trouble)])


CASES: dict[str, tuple[Inventory, queued_pods.PodInfo, tuple[Count, ...]]] = {
    "the model before its trouble and its use": (
        builders.inventory(*FULL_OF_T4),
        scenes.cards(models=frozenset({"A100"})),
        (Count(Reason.MODEL_MISMATCH, "", 1),),
    ),
    "trouble before use": (
        builders.inventory(*FULL_OF_T4),
        scenes.cards(models=frozenset({"t4"})),
        (Count(Reason.UNHEALTHY, "", 1),),
    ),
    "use": (
        builders.inventory(*builders.nodes(1, 1), builders.hold("a", "n1", [0])),
        scenes.cards(),
        (Count(Reason.FULL, "", 1),),
    ),
    "the list of uuids": (
        builders.inventory(*builders.nodes(1, 2)),
        scenes.cards(uuids=frozenset({"GPU-other"})),
        (Count(Reason.NOT_INCLUDED, "", 1),),
    ),
    "the list of uuids to avoid": (
        builders.inventory(*builders.nodes(1, 1)),
        scenes.cards(avoid_uuids=frozenset({"GPU-n1-0"})),
        (Count(Reason.EXCLUDED, "", 1),),
    ),
    "the least memory": (
        builders.inventory(*builders.nodes(1, 2)),
        scenes.cards(memory_at_least=90 * GIB),
        (Count(Reason.TOO_SMALL, "", 1),),
    ),
    "a share larger than the card": (
        builders.inventory(*builders.nodes(1, 2)),
        scenes.part(10, 90),
        (Count(Reason.TOO_SMALL, "", 1),),
    ),
    "more core than any card has": (
        builders.inventory(*builders.nodes(1, 2)),
        scenes.part(120, 10),
        (Count(Reason.TOO_SMALL, "", 1),),
    ),
    "asks of different sizes, each judged by itself": (
        builders.inventory(
            builders.node(),
            builders.device(cards=[builders.card(0), builders.card(1, memory=800 * GIB)]),
            builders.hold("a", "n1", [builders.share(1, core=100, memory=800 * builders.GIB)]),
        ),
        builders.pod_info(
            request=builders.request(requests.Gpus(1, 10, 40 * GIB), requests.Gpus(2, 10, GIB))
        ),
        (Count(Reason.FULL, "", 1),),
    ),
    "withheld cards, of which a share may not start one": (
        builders.inventory(*builders.nodes(1, 1), builders.hold("a", withheld=1)),
        scenes.part(),
        (Count(Reason.WITHHELD, "", 1),),
    ),
    "which source failed": (
        builders.inventory(builders.node(), builders.device("n1", 2, failed="NVMLDown")),
        scenes.cards(),
        (Count(Reason.SOURCE_FAILED, "NVMLDown", 1),),
    ),
    "other devices, of which some may become free": (
        builders.inventory(
            builders.node(),
            builders.device(cards=0, others=(nic(0),)),
            builders.hold("a", "n1", [decisions.Share("rdma-n1-0", 0, 100, 0, "rdma")]),
        ),
        scenes.pod(requests.OtherDevices("rdma", 1)),
        (Count(Reason.FULL, "rdma", 1),),
    ),
    "no other device at all": (
        builders.inventory(builders.node(), builders.device(others=[nic(0)])),
        scenes.pod(requests.OtherDevices("fpga", 1)),
        (Count(Reason.NO_DEVICE, "fpga", 1),),
    ),
    "a cordoned other device": (
        builders.inventory(builders.node(), builders.device(others=[nic(0, trouble=Reason.CARD_CORDONED)])),
        scenes.pod(requests.OtherDevices("rdma", 1)),
        (Count(Reason.CARD_CORDONED, "rdma", 1),),
    ),
    "an unhealthy other device beside one that is full": (
        builders.inventory(
            builders.node(),
            builders.device(others=[nic(0, trouble=Reason.UNHEALTHY), nic(1)]),
            builders.hold("a", "n1", [decisions.Share("rdma-n1-1", 1, 100, 0, "rdma")]),
        ),
        scenes.pod(requests.OtherDevices("rdma", 1)),
        (Count(Reason.FULL, "rdma", 1),),
    ),
    "no such instance at all": (
        builders.inventory(builders.node(), cut()),
        scenes.pod(requests.Instances("2g.10gb", 1)),
        (Count(Reason.PROFILE_MISMATCH, "2g.10gb", 1),),
    ),
    "fewer instances than are wanted": (
        builders.inventory(builders.node(), cut()),
        scenes.pod(requests.Instances("1g.5gb", 2)),
        (Count(Reason.PROFILE_MISMATCH, "1g.5gb", 1),),
    ),
    "instances of a cordoned card": (
        builders.inventory(builders.node(), cut(Reason.CARD_CORDONED)),
        scenes.pod(requests.Instances("1g.5gb", 1)),
        (Count(Reason.CARD_CORDONED, "MIG 1g.5gb", 1),),
    ),
    "replicas of an unhealthy card": (
        builders.inventory(
            builders.node(), builders.device(cards=[builders.card(replicas=4, trouble=Reason.UNHEALTHY)])
        ),
        scenes.pod(requests.Replicas(2)),
        (Count(Reason.UNHEALTHY, "replicas", 1),),
    ),
    "no replicas at all": (
        builders.inventory(*builders.nodes(1, 2)),
        scenes.pod(requests.Replicas(2)),
        (Count(Reason.TOO_FEW_CARDS, "replicas", 1),),
    ),
    "whole cards where all are given out as replicas": (
        builders.inventory(builders.node(), builders.device(cards=[builders.card(replicas=4)])),
        scenes.cards(),
        (Count(Reason.SHARING_MODE, "", 1),),
    ),
    "a share where all cards are given out as replicas": (
        builders.inventory(builders.node(), builders.device(cards=[builders.card(replicas=4)])),
        scenes.part(),
        (Count(Reason.SHARING_MODE, "", 1),),
    ),
    "the mode of one card before the trouble of another": (
        builders.inventory(
            builders.node(),
            builders.device(cards=[builders.card(replicas=4), builders.card(1, trouble=Reason.UNHEALTHY)]),
        ),
        scenes.cards(2),
        (Count(Reason.SHARING_MODE, "", 1),),
    ),
    "a full card beside one that is given out as replicas": (
        builders.inventory(
            builders.node(),
            builders.device(cards=[builders.card(replicas=4), builders.card(1)]),
            builders.hold("a", "n1", [1]),
        ),
        scenes.cards(),
        (Count(Reason.FULL, "", 1),),
    ),
    "what is not there before what is full": (
        builders.inventory(*builders.nodes(1, 1), builders.hold("a", "n1", [0])),
        scenes.pod(requests.cards(1), requests.OtherDevices("fpga", 1)),
        (Count(Reason.NO_DEVICE, "fpga", 1),),
    ),
    "cpu that is not there before cards that are full": (
        builders.inventory(*builders.nodes(1, 1), builders.hold("a", "n1", [0])),
        scenes.cards(cpu=9000),
        (Count(Reason.INSUFFICIENT_RESOURCE, "cpu", 1),),
    ),
    "no nodes": (builders.inventory(), scenes.cards(), (Count(Reason.NO_NODES, "", 0),)),
}


def counted(
    inventory: Inventory, pod: queued_pods.PodInfo, searched: Mapping[int, decisions.NodeReason]
) -> tuple[Count, ...]:
    """Count the reasons of all nodes."""
    signature = signatures.of(pod.request, pod.demand)
    return reason_counts.count(Query.for_all_nodes(inventory, signature), searched)


@pytest.mark.parametrize(("inventory", "pod", "counts"), CASES.values(), ids=CASES.keys())
def test_first_reason(inventory: Inventory, pod: queued_pods.PodInfo, counts: tuple[Count, ...]) -> None:
    """Each node gives its first reason, in the order in which its cards are asked ever more closely."""
    assert counted(inventory, pod, {}) == counts


def test_closer_look_speaks_last() -> None:
    """What only a closer look showed is the reason of a node that has no other; the rest had no look."""
    inventory, pod = builders.inventory(*builders.nodes(2, 2)), scenes.cards(3)
    fits = scenes.cards(1)
    closer = {0: (Reason.NO_ROOT, "")}

    assert counted(inventory, pod, closer) == (Count(Reason.TOO_FEW_CARDS, "", 2),)
    assert counted(inventory, fits, closer) == (
        Count(Reason.NO_ROOT, "", 1),
        Count(Reason.UNDECIDED, "", 1),
    )
