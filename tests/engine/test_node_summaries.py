"""What is said of the cards of nodes in a list of Devices."""

import dataclasses
from typing import Any

import pytest

from berth_crds import text
from berth_crds.client import cooperative
from berth_crds.vocabulary import Recovery
from berth_operator.engine import node_summaries
from berth_operator.engine.node_summaries import NodeSummary
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts, node_topology
from berth_operator.scheduling.devices.device_facts import PhysicalDevice
from berth_operator.scheduling.inventory import Inventory
from support import builders, clock


def summed(inventory: Inventory) -> NodeSummary:
    """Sum node n1 up, without the uuids that are its own."""
    (found,) = node_summaries.summarize(inventory, {"n1"})
    return dataclasses.replace(found, claims=(), in_use="")


def troubled(*troubles: Reason | None) -> device_facts.Device:
    """Return a node whose cards have these troubles."""
    return builders.device(cards=[builders.card(at, trouble=one) for at, one in enumerate(troubles)])


def sick(recovery: Recovery, **fields: Any) -> device_facts.Device:
    """Return a node whose first card is sick, and the other is well."""
    first = builders.card(0, trouble=Reason.UNHEALTHY, recovery=recovery, **fields)
    return builders.device(cards=[first, builders.card(1)])


PLAIN = builders.nodes(1)
CASES: dict[str, tuple[Inventory, NodeSummary]] = {
    "all is well": (builders.inventory(*PLAIN), NodeSummary("n1", 4, 0, 4, silent=False)),
    "the node is cordoned": (
        builders.inventory(
            builders.node(unschedulable=True), builders.device(), builders.hold("a", shares=(0, 1))
        ),
        NodeSummary("n1", 0, 2, 4, silent=False, reason="node is cordoned"),
    ),
    "cards are in use": (
        builders.inventory(*PLAIN, builders.hold("a", shares=(0, 1)), builders.hold("b", shares=(3,))),
        NodeSummary("n1", 1, 3, 4, silent=False),
    ),
    "a hold names a card that is not there": (
        builders.inventory(*PLAIN, builders.hold("a", shares=(9,))),
        NodeSummary("n1", 0, 0, 4, silent=False, reason="1 device is missing or overcommitted"),
    ),
    "the agent is silent": (
        builders.inventory(*PLAIN, silent=["n1"]),
        NodeSummary("n1", 0, 0, 0, silent=True, reason="agent silent"),
    ),
    "the source failed": (
        builders.inventory(builders.device(failed="NVMLDown")),
        NodeSummary("n1", 0, 0, 0, silent=False, reason="NVMLDown", failed="NVMLDown"),
    ),
    "a table of partitions that cannot be read": (
        builders.inventory(dataclasses.replace(builders.device(), table_fault="it is not read")),
        NodeSummary("n1", 4, 0, 4, silent=False, reason="it is not read"),
    ),
    "links that no hardware has": (
        builders.inventory(
            dataclasses.replace(
                builders.device(), topology=dataclasses.replace(node_topology.LOOSE, tangled=True)
            )
        ),
        NodeSummary("n1", 4, 0, 4, silent=False, reason=node_summaries.TANGLED),
    ),
    "one card of each trouble": (
        builders.inventory(troubled(Reason.UNHEALTHY, Reason.CARD_CORDONED, Reason.OCCUPIED, None)),
        NodeSummary(
            "n1",
            1,
            0,
            3,
            silent=False,
            reason="1 card cordoned; 1 card used by other processes; 1 card unhealthy",
            cordoned=("GPU-n1-1",),
        ),
    ),
    "cards that others use": (
        builders.inventory(
            builders.device(
                "n1",
                cards=[
                    builders.card(
                        0, trouble=Reason.OCCUPIED, occupants=(device_facts.Occupant(7, "python3"),)
                    ),
                    builders.card(
                        1,
                        trouble=Reason.OCCUPIED,
                        occupants=(
                            device_facts.Occupant(8, "a", "ml/stray"),
                            device_facts.Occupant(9, "b", "ml/stray"),
                            device_facts.Occupant(10, "c", "ml/elsewhere"),
                        ),
                    ),
                    builders.card(
                        2,
                        trouble=Reason.OCCUPIED,
                        occupants=(device_facts.Occupant(3), device_facts.Occupant(4)),
                    ),
                ],
            ),
            builders.hold("stray"),
            builders.hold("elsewhere", "n2"),
        ),
        NodeSummary(
            "n1",
            0,
            0,
            3,
            silent=False,
            reason=(
                "3 cards used by other processes; card 0 used by process 7 (python3); card 1 used by pod"
                " ml/stray and 1 more; card 2 used by process 3 and 1 more"
            ),
        ),
    ),
    "several cards of one trouble": (
        builders.inventory(troubled(Reason.UNHEALTHY, Reason.UNHEALTHY, None)),
        NodeSummary("n1", 1, 0, 1, silent=False, reason="2 cards unhealthy"),
    ),
    "a sick card that a pod holds": (
        builders.inventory(sick(Recovery.RESET), builders.hold("a", shares=(0,))),
        NodeSummary(
            "n1", 1, 1, 1, silent=False, reason="1 card unhealthy; card 0 needs a reset: 1 pod holds it"
        ),
    ),
    "a sick card that is safe to reset": (
        builders.inventory(sick(Recovery.RESET), builders.hold("a", shares=(1,))),
        NodeSummary(
            "n1",
            0,
            1,
            1,
            silent=False,
            reason="1 card unhealthy; card 0 needs a reset: no pod holds it, it is safe to reset it",
        ),
    ),
    "a sick card that others use": (
        builders.inventory(sick(Recovery.RESET, occupants=(device_facts.Occupant(7),))),
        NodeSummary(
            "n1",
            1,
            0,
            1,
            silent=False,
            reason="1 card unhealthy; card 0 needs a reset: processes outside Berth use it",
        ),
    ),
    "a sick card, and a pod of which no card is known": (
        builders.inventory(sick(Recovery.REBOOT), builders.hold("a", withheld=1)),
        NodeSummary(
            "n1",
            0,
            0,
            1,
            silent=False,
            reason="1 card unhealthy; "
            "card 0 needs a reboot of its node: a pod without a valid allocation annotation may hold it; "
            "1 pod whose allocation annotation is missing or unreadable",
        ),
    ),
    "a sick card that comes back by itself": (
        builders.inventory(sick(Recovery.NONE)),
        NodeSummary("n1", 1, 0, 1, silent=False, reason="1 card unhealthy"),
    ),
    "a sick card behind a silent agent": (
        builders.inventory(sick(Recovery.RESET), silent=["n1"]),
        NodeSummary("n1", 0, 0, 0, silent=True, reason="agent silent; 1 card unhealthy"),
    ),
    "many sick cards": (
        builders.inventory(
            builders.device(
                cards=[
                    builders.card(at, trouble=Reason.UNHEALTHY, recovery=Recovery.REPLACE) for at in range(6)
                ]
            )
        ),
        NodeSummary(
            "n1",
            0,
            0,
            0,
            silent=False,
            reason="6 cards unhealthy; "
            + "; ".join(
                f"card {at} must be replaced: no pod holds it, it can be taken out" for at in range(4)
            )
            + "; 2 more cards need repair",
        ),
    ),
    "a cordon that names nothing": (
        builders.inventory(dataclasses.replace(builders.device(), astray=("9", "GPU-nonsense"))),
        NodeSummary(
            "n1",
            4,
            0,
            4,
            silent=False,
            reason="cordon names no device: 9, GPU-nonsense",
            unmatched_cordon=("9", "GPU-nonsense"),
        ),
    ),
    "types of devices beyond the limit": (
        builders.inventory(
            builders.device(others=[PhysicalDevice(f"o{at}", at, type=f"t{at}") for at in range(514)])
        ),
        NodeSummary(
            "n1", 4, 0, 4, silent=False, reason="2 MIG profiles or device types over the cluster limit"
        ),
    ),
    "a pod without a readable allocation": (
        builders.inventory(*PLAIN, builders.hold("a", withheld=3)),
        NodeSummary(
            "n1", 1, 0, 4, silent=False, reason="1 pod whose allocation annotation is missing or unreadable"
        ),
    ),
    "pods without a readable allocation": (
        builders.inventory(*PLAIN, builders.hold("a", withheld=1), builders.hold("b", withheld=9)),
        NodeSummary(
            "n1", 0, 0, 4, silent=False, reason="2 pods whose allocation annotation is missing or unreadable"
        ),
    ),
    "everything at once": (
        builders.inventory(
            builders.device(cards=[builders.card(trouble=Reason.UNHEALTHY)], failed="NVMLDown"),
            builders.hold("a", withheld=1),
            silent=["n1"],
        ),
        NodeSummary(
            "n1",
            0,
            0,
            0,
            silent=True,
            reason="agent silent; NVMLDown; 1 card unhealthy; "
            "1 pod whose allocation annotation is missing or unreadable",
            failed="NVMLDown",
        ),
    ),
    "no cards at all": (
        builders.inventory(builders.device(cards=0)),
        NodeSummary("n1", 0, 0, 0, silent=False),
    ),
}


@pytest.mark.parametrize(("inventory", "expected"), CASES.values(), ids=CASES.keys())
def test_summary(inventory: Inventory, expected: NodeSummary) -> None:
    """Counts tell how many cards are free, used and healthy; the reason tells what is wrong."""
    assert summed(inventory) == expected


def test_nodes_are_summed_up_by_name() -> None:
    """Summaries come in the order of names, and only of nodes that were asked about and have a Device."""
    inventory = builders.inventory(*reversed(builders.nodes(3)), builders.node("n4"))

    found = node_summaries.summarize(inventory, {"n3", "n1", "n4", "gone"})

    assert [node_summary.node for node_summary in found] == ["n1", "n3"]


def test_nodes_are_summed_up_a_moment_at_a_time() -> None:
    """Each as it is when its turn comes; one that is gone by then is left out."""
    inventory = builders.inventory(*builders.nodes(9))
    ticking = clock.Ticking(cooperative.STEP_SECONDS / 3)
    names = {info.name for info in inventory.each()} | {"gone"}

    found = []
    for portion in node_summaries.portions(inventory, names, ticking):
        found.append([node_summary.node for node_summary in portion])
        inventory.drop_device("n8")

    assert found == [["n1", "n2", "n3"], ["n4", "n5", "n6"], ["n7", "n9"]]
    assert list(node_summaries.portions(inventory, set(), ticking)) == []


@pytest.mark.parametrize("trouble", node_summaries.TROUBLES)
def test_every_trouble_of_a_card_has_words(trouble: Reason) -> None:
    """Whatever keeps a card back, a person reads it."""
    found = summed(builders.inventory(troubled(trouble)))

    assert found.reason == f"1 card {node_summaries.TROUBLES[trouble]}"


def test_long_reason_is_cut() -> None:
    """However much an agent gives as the reason of its failure, the summary is one that the server takes."""
    failed = builders.device(failed="x" * text.LONGEST, cards=[builders.card(trouble=Reason.UNHEALTHY)])

    found = summed(builders.inventory(failed))

    assert len(found.reason) == text.LONGEST


USES: dict[str, tuple[Inventory, str]] = {
    "nothing": (builders.inventory(*PLAIN), "0"),
    "whole cards": (builders.inventory(*PLAIN, builders.hold("a", shares=(0, 1))), "2"),
    "a whole card and a part": (
        builders.inventory(
            *PLAIN, builders.hold("p", shares=[builders.share(0), builders.share(1, core=40, memory=1)])
        ),
        "1.4",
    ),
    "next to nothing": (
        builders.inventory(*PLAIN, builders.hold("p", shares=[builders.share(core=1, memory=1)])),
        "0.1",
    ),
}


@pytest.mark.parametrize(("inventory", "in_use"), USES.values(), ids=USES.keys())
def test_parts_in_use_are_added_up(inventory: Inventory, in_use: str) -> None:
    """Cards that several pods share count as far as they are held, and what is held is never nothing."""
    (found,) = node_summaries.summarize(inventory, {"n1"})

    assert found.in_use == in_use
