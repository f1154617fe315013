"""What a pod shows anybody who may read it names no pod of another namespace."""

import dataclasses

import pytest

from berth_operator.scheduling import explain, holds, queued_pods
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts
from berth_operator.scheduling.nodes import facts as nodes
from scheduling.explain import scenes
from support import builders

OTHERS = "payroll"


Known = tuple[nodes.Node | device_facts.Device | holds.Hold, ...]


def told(
    *known: nodes.Node | device_facts.Device | holds.Hold, asked: queued_pods.PodInfo
) -> tuple[str, str]:
    """Explain to a pod of another namespace, and to one of the namespace of the holders."""
    made = builders.inventory(*known)
    stranger = dataclasses.replace(asked, namespace="other")
    return scenes.said(made, stranger), scenes.said(made, asked)


CPU_AND_CARDS: Known = (
    builders.node(cpu=2000),
    builders.device("n1", 2),
    *(builders.hold(f"{OTHERS}-{at}", "n1", [at], amounts=builders.amounts(1000)) for at in range(2)),
)
CORDONED: Known = (
    builders.node(unschedulable=True),
    builders.device("n1", 2),
    *(builders.hold(f"{OTHERS}-{at}", "n1", [at]) for at in range(2)),
)
OCCUPIED: Known = (
    builders.node(),
    builders.device(
        "n1",
        cards=[
            builders.card(
                0, trouble=Reason.OCCUPIED, occupants=(device_facts.Occupant(7, "python3", f"ml/{OTHERS}"),)
            )
        ],
    ),
    builders.hold(OTHERS),
)
WITHHELD: Known = (*builders.nodes(1, 2), builders.hold(OTHERS, withheld=2))


@pytest.mark.parametrize(
    ("known", "asked", "ending"),
    [
        (CPU_AND_CARDS, scenes.cards(), "Would fit if 1 pod of another namespace on n1 terminated."),
        (CPU_AND_CARDS, scenes.cards(2), "Would fit if 2 pods of other namespaces on n1 terminated."),
        (CORDONED, scenes.cards(), "n1 were uncordoned and 1 pod of another namespace on n1 terminated."),
        (OCCUPIED, scenes.cards(), "no other process used GPU-n1-0 of n1 (a pod of another namespace)."),
        (WITHHELD, scenes.cards(), "(such as 1 pod of another namespace on n1). Would fit if 1 pod of"),
    ],
    ids=["one ends", "two end", "with another change", "a stray process", "cards that nobody can name"],
)
def test_pods_of_other_namespaces_are_counted(known: Known, asked: queued_pods.PodInfo, ending: str) -> None:
    """Their names are nobody's business; those of its own namespace are told."""
    stranger, own = told(*known, asked=asked)

    assert ending in stranger
    assert OTHERS not in stranger
    assert OTHERS in own


def test_own_pods_are_named_beside_the_others() -> None:
    """Whoever waits may end what is theirs."""
    mine, other = (
        builders.hold("mine", "n1", [0], amounts=builders.amounts(1000)),
        builders.hold(OTHERS, "n1", [1], amounts=builders.amounts(1000)),
    )
    made = builders.inventory(
        builders.node(cpu=2000), builders.device("n1", 2), mine, dataclasses.replace(other, title="x/y")
    )

    said = scenes.said(made, scenes.cards(2))

    assert said.endswith("Would fit if ml/mine and 1 pod of another namespace on n1 terminated.")


def test_the_tables_name_them_all() -> None:
    """They are for people who run the cluster."""
    made = builders.inventory(*CPU_AND_CARDS)
    stranger = dataclasses.replace(scenes.cards(), namespace="other")

    assert f"ml/{OTHERS}-0" in explain.table(scenes.told(made, stranger))
