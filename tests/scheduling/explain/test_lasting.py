"""What keeps a pod out even with nothing used is told beside what stands in its way now."""

from typing import Any

import pytest

from berth_crds.vocabulary import Scope
from berth_operator.scheduling.devices import device_facts, requests
from scheduling.explain import scenes
from support import builders

THREE_FIFTHS = requests.Gpus(1, core=60, ratio=60)
NEVER = "It would not fit on any node even if all nodes were empty"


def halves() -> device_facts.Device:
    """Make four cards, two at each of two NUMA nodes."""
    return builders.device(cards=[builders.card(minor, numa=minor // 2) for minor in range(4)])


def test_a_scope_that_is_too_narrow_for_ever_is_named_behind_what_passes() -> None:
    """One card is in use, and no NUMA node has four: the second is what the pod has to know."""
    made = builders.inventory(builders.node(), halves(), builders.hold("a", "n1", [0]))
    wide = requests.Grouping(scope=Scope.NUMA, required=True)

    said = scenes.said(made, scenes.cards(4, grouping=wide))

    assert "1 has fewer than 4 free cards" in said
    assert f"{NEVER}: too few cards are within one NUMA node. " in said


def test_one_ask_that_is_too_large_needs_no_more_words() -> None:
    """Of a node with too few cards the reason itself says what lasts."""
    made = builders.inventory(builders.node(), halves(), builders.hold("a", "n1", [0]))

    assert f"1 has fewer than 5 cards. {NEVER}." in scenes.said(made, scenes.cards(5))


@pytest.mark.parametrize(
    "asks",
    [[THREE_FIFTHS] * 5, [requests.cards(3), THREE_FIFTHS, THREE_FIFTHS]],
    ids=["parts", "cards and parts"],
)
def test_no_number_is_named_that_would_not_do(asks: list[requests.Ask]) -> None:
    """Parts of three fifths take a card each, though all of them together are not more than there is."""
    made = builders.inventory(builders.node(), halves())

    said = scenes.said(made, builders.pod_info(request=builders.request(*asks)))

    assert f"1 has too few cards. {NEVER}." in said


@pytest.mark.parametrize(
    ("conditions", "among"), [({}, ""), ({"uuids": frozenset({"GPU-n1-0"})}, " among those asked for")]
)
def test_cards_that_were_not_asked_for_have_enough_free(conditions: dict[str, Any], among: str) -> None:
    """Where other cards are empty, it is said that only those asked for have too little."""
    full = [
        builders.hold(f"h{minor}", "n1", [builders.share(minor, core=70, memory=60 * builders.GIB)])
        for minor in range(2 if not among else 1)
    ]
    made = builders.inventory(builders.node(), builders.device(cards=2), *full)

    said = scenes.said(made, scenes.part(20, 80, **conditions))

    assert f"1 has no card with enough free{among} (nearest:" in said
