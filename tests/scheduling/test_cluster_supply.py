"""What the nodes have together: who counts, and how often a change of it is seen."""

from collections.abc import Callable
from typing import Final

import pytest

from berth_operator.engine.ledger import Ledger
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.nodes import facts
from berth_operator.scheduling.workload_model import WorkloadModel
from support import builders, clock, ledgers

LARGE = [builders.card(minor, at="n9", memory=1 << 40) for minor in range(64)]
ILL = [builders.card(minor, at="n9", memory=1 << 40, trouble=Reason.UNHEALTHY) for minor in range(64)]


def together(ledger: Ledger) -> tuple[WorkloadModel, tuple[int, int]]:
    """Return what depends on all that the nodes have."""
    return ledger.inventory.workload_model(), ledger.inventory.most_cards_and_memory_of_a_node()


JOINING: Final = builders.node("n9", cpu=1000)
SPARE: Final[dict[str, tuple[facts.Node, device_facts.Device, bool]]] = {
    "a node that is cordoned": (builders.node("n9", unschedulable=True), builders.device("n9", LARGE), False),
    "a node whose cards cannot be read": (JOINING, builders.device("n9", LARGE, failed="NVML"), False),
    "a node whose agent is silent": (JOINING, builders.device("n9", LARGE), True),
    "a node whose cards are all ill": (JOINING, builders.device("n9", ILL), False),
}


@pytest.mark.parametrize(("node", "device", "silent"), SPARE.values(), ids=SPARE)
def test_a_node_that_can_give_nothing_does_not_count(
    node: facts.Node, device: device_facts.Device, *, silent: bool
) -> None:
    """Where other pods go does not depend on cards that nobody can have."""
    ledger = ledgers.with_nodes(3)
    before = together(ledger)

    ledgers.join(ledger, node, device, silent=silent)

    assert together(ledger) == before


@pytest.mark.parametrize(
    "leave", [Ledger.node_gone, Ledger.device_gone], ids=["the Node goes", "the Device goes"]
)
def test_a_node_that_can_give_something_counts(leave: Callable[[Ledger, str], object]) -> None:
    """It does from the moment its agent is heard, and no more once it is gone."""
    ledger = ledgers.with_nodes(3)
    before = together(ledger)

    ledgers.join(ledger, JOINING, builders.device("n9", LARGE))
    there = together(ledger)
    leave(ledger, "n9")

    assert there[0] != before[0]
    assert there[1] == (64, 64 << 40)
    assert together(ledger) == before


def test_what_is_no_news_of_all_voids_no_answer() -> None:
    """A number of a card that changes neither what nodes have together nor who is the largest is its own."""
    ledger = ledgers.with_nodes(3)
    ledger.inventory.workload_model()
    before = ledger.inventory.supply_version, ledger.inventory.score_epoch

    for less in range(1, 9):
        cards = [builders.card(minor, memory=builders.MEMORY - (0 if minor else less)) for minor in range(4)]
        ledger.device_seen(builders.device(cards=cards))
        ledger.inventory.workload_model()

    # The first of these takes from a node that was as large as any, and the others do not.
    assert ledger.inventory.supply_version <= before[0] + 1
    assert ledger.inventory.score_epoch == before[1]


def test_a_node_that_changes_without_end_is_counted_anew_once_in_a_second() -> None:
    """Each other state would void all that is remembered; the latest counts when the second is over."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(3, now=now)
    ledger.inventory.workload_model()
    found = []

    for step in range(1, 31):
        now.advance(0.1)
        ledger.device_seen(builders.device(cards=1 + step % 4))
        ledgers.decide(ledger, now.now)
        found.append((ledger.inventory.workload_model(), ledger.inventory.score_epoch))

    assert len(set(found)) <= 4
    assert ledger.inventory.supply_version > 1


def test_pods_that_change_without_end_teach_something_once_in_a_second() -> None:
    """Whoever edits a pod all the time does not void all that is remembered each time."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(3, now=now)
    found = set()

    for step in range(1, 31):
        now.advance(0.1)
        asked = builders.request(requests.Gpus(60, core=1 + step))
        ledgers.add_waiting(ledger, request=asked, demand=builders.demand(1000 * step))
        found.add(ledger.inventory.workload_model())
    gated = builders.pod_info("gated", request=builders.request(requests.Gpus(4, core=50)))
    before = dict(ledger.inventory.workload.samples)
    ledger.pod_waiting(gated, gated=True)

    assert 1 < len(found) <= 4
    assert ledger.inventory.workload.samples == before


def test_the_latest_state_counts_in_a_later_round() -> None:
    """What was left out because it came too soon is made up for, without another event."""
    now = clock.Clock()
    ledger = ledgers.with_nodes(2, now=now)
    ledger.inventory.workload_model()
    for cards in (5, 9):
        now.advance(0.5)
        ledger.device_seen(builders.device(cards=cards))
        ledger.inventory.workload_model()

    soon = ledger.inventory.most_cards_and_memory_of_a_node()
    now.advance(1.0)
    ledgers.decide(ledger, now.now)

    assert (soon[0], ledger.inventory.most_cards_and_memory_of_a_node()[0]) == (5, 9)
