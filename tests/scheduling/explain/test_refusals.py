"""Each refusal of an explanation as a message for its device or node."""

import pytest

from berth_operator.scheduling import explain, queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.inventory import Inventory
from scheduling.explain import scenes
from support import builders

UNREADABLE = "cards held by pods whose allocation annotation is missing or unreadable"
REFUSALS = {
    "a card that is full": (
        builders.inventory(
            *builders.nodes(1, 1),
            builders.hold("a", "n1", [builders.share(0, core=70, memory=60 * builders.GIB)]),
        ),
        scenes.part(50, 40),
        [("GPU-n1-0", Reason.FULL, "not enough free: 30 % core and 20 GiB free, 50 % and 40 GiB wanted")],
    ),
    "a card that another has": (
        builders.inventory(*builders.nodes(1, 2), builders.hold("a", "n1", [0])),
        scenes.cards(2),
        [("GPU-n1-0", Reason.IN_USE, "in use")],
    ),
    "a card that is too small": (
        builders.inventory(*builders.nodes(1, 1)),
        scenes.part(50, 400),
        [("GPU-n1-0", Reason.TOO_SMALL, "too small for this pod: has 80 GiB, 400 GiB wanted")],
    ),
    "a card of another model": (
        builders.inventory(*builders.nodes(1, 1)),
        scenes.cards(models=frozenset({"T4"})),
        [("GPU-n1-0", Reason.MODEL_MISMATCH, "other model, unsuitable for this pod")],
    ),
    "a node": (
        builders.inventory(builders.node(unschedulable=True), builders.device("n1", 2)),
        scenes.cards(),
        [("", Reason.NODE_CORDONED, "is cordoned")],
    ),
    "cards that nobody can name": (
        builders.inventory(*builders.nodes(1, 2), builders.hold("a", withheld=1)),
        scenes.cards(2),
        [("", Reason.WITHHELD, f"has {UNREADABLE} (ml/a): 1 card free, 2 wanted")],
    ),
    "a resource": (
        builders.inventory(*builders.nodes(1, 2), builders.hold("a", amounts=builders.amounts(7500))),
        scenes.cards(cpu=4000),
        [("", Reason.INSUFFICIENT_RESOURCE, "has insufficient cpu: 0.5 cpu free, 4 wanted")],
    ),
    "no nodes": (builders.inventory(), scenes.cards(), [("", Reason.NO_NODES, "there are no nodes")]),
}


@pytest.mark.parametrize(("inventory", "pod", "expected"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refusals(
    inventory: Inventory, pod: queued_pods.PodInfo, expected: list[tuple[str, Reason, str]]
) -> None:
    """Each refusal names its device, or the node where no device is at fault, with a message."""
    told = scenes.told(inventory, pod, all_nodes=True)

    found = explain.refusals(told, pod)

    assert [(one.device, one.reason, one.detail) for one in found] == expected
