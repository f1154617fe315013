"""Whoever asks for instances that are lacking, or for cards that are cut, is told which ones there are."""

from typing import Final

import pytest

from berth_operator.scheduling import explain, known_models, queued_pods
from berth_operator.scheduling.decisions import Count, Reason
from berth_operator.scheduling.devices import device_facts, requests
from berth_operator.scheduling.inventory import Inventory
from scheduling.explain import scenes
from support import builders

PROFILES: Final = ("1g.10gb", "2g.20gb")


def wanted(count: int = 1) -> queued_pods.PodInfo:
    """Make a pod that asks for instances of a profile that no node has."""
    return scenes.pod(requests.Instances("1g.5gb", count))


def cut(*profiles: str) -> Inventory:
    """Make a node of one card in MIG mode with an instance of each of these profiles."""
    instances = tuple(
        device_facts.Instance(f"MIG-{at}", profile, builders.GIB, start=at)
        for at, profile in enumerate(profiles)
    )
    card = builders.card(mig=True, instances=instances)
    return builders.inventory(builders.node(), builders.device(cards=[card]))


@pytest.mark.parametrize(
    ("count", "lacking"), [(1, "no MIG 1g.5gb instance"), (3, "fewer than 3 MIG 1g.5gb instances")]
)
def test_a_profile_that_is_lacking_is_answered_with_those_there_are(count: int, lacking: str) -> None:
    """The short sentence names them as does the one after a close look."""
    made = cut(*PROFILES)
    counts = [Count(Reason.PROFILE_MISMATCH, "1g.5gb", 1)]

    brief = explain.brief(counts, wanted(count), known_models.instead(counts, made))

    assert f"1 has {lacking} (there are 1g.10gb and 2g.20gb)" in brief
    assert f"1 has {lacking} (there are 1g.10gb and 2g.20gb)" in scenes.said(made, wanted(count))


def test_a_node_without_instances_has_none() -> None:
    """Nothing is named where there is nothing, and nobody reads that there are some but too few."""
    made = builders.inventory(*builders.nodes(1, 2))

    assert "1 has no MIG 1g.5gb instance." in scenes.said(made, wanted())


def test_who_asks_for_a_card_in_mig_mode_reads_what_to_ask_for() -> None:
    """The card is named, then the profiles and the resource that gives their instances."""
    said = scenes.said(cut(*PROFILES), scenes.cards())

    assert "1 has cards in MIG mode (" in said
    assert "there are 1g.10gb and 2g.20gb: ask for nvidia.com/mig-PROFILE)" in said
