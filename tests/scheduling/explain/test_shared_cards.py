"""What a pod shows of cards that their node shares by time-slicing or MPS, which give nothing else."""

import dataclasses
import re
from pathlib import Path
from typing import Final

import pytest

from berth_crds import names
from berth_crds.vocabulary import Scope
from berth_operator.scheduling import queued_pods
from berth_operator.scheduling.changes import Scenario
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts as nodes
from scheduling.explain import scenes
from support import builders

GIVEN: Final = "cards that are given out only as time-sliced or MPS replicas (such as GPU-n1-0 on n1)"
NEVER: Final = "It would not fit on any node even if all nodes were empty."
PAGE: Final = (Path(__file__).resolve().parents[3] / "manifests" / "agents.md").read_text()


def shared(*, replicas: int = 4) -> Inventory:
    """Make a node of two idle cards, each given out as so many replicas."""
    return builders.inventory(
        builders.node(),
        builders.device(cards=[builders.card(minor, replicas=replicas) for minor in range(2)]),
    )


SENTENCES: Final[dict[str, tuple[queued_pods.PodInfo, str]]] = {
    "a whole card": (scenes.cards(), "1 replica (nvidia.com/gpu.shared) instead of 1 whole card"),
    "whole cards": (scenes.cards(2), "2 replicas (nvidia.com/gpu.shared) instead of 2 whole cards"),
    "a part of a card": (scenes.part(), "1 replica (nvidia.com/gpu.shared) instead of a part of a card"),
}


@pytest.mark.parametrize(("pod", "helpful"), SENTENCES.values(), ids=SENTENCES.keys())
def test_an_idle_node_of_replicas_is_not_full(pod: queued_pods.PodInfo, helpful: str) -> None:
    """Who asks for cards that are only given out as replicas reads so, and what to ask for instead."""
    said = scenes.said(shared(), pod)

    assert (
        said
        == f"0/1 nodes are available: 1 has {GIVEN}. {NEVER} Would fit on 1 node if it asked for {helpful}."
    )


def test_the_advice_is_what_a_pod_can_write() -> None:
    """The pod as it is advised to be asks for replicas by their resource, and no more for cards by theirs."""
    demand = nodes.NodeDemand(device_resources=((names.NVIDIA_GPU, 1),))
    pod = dataclasses.replace(scenes.cards(), demand=demand)

    (advice,) = scenes.told(shared(), pod).advice
    (change,) = advice.changes

    advised = change.apply(Scenario(pod.request, pod.demand))
    assert advised.demand == nodes.NodeDemand(device_resources=((names.NVIDIA_GPU_SHARED, 1),))
    assert advised.request == scenes.pod(requests.Replicas(1)).request


REFUSED: Final[dict[str, queued_pods.PodInfo]] = {
    "a scope": scenes.cards(2, grouping=requests.Grouping(scope=Scope.NUMA)),
    "more cards than there are": scenes.cards(3),
    "a model that no card is of": scenes.cards(models=frozenset({"T4"})),
}


@pytest.mark.parametrize("pod", REFUSED.values(), ids=REFUSED.keys())
def test_replicas_are_no_advice_where_they_would_not_do(pod: queued_pods.PodInfo) -> None:
    """Nothing is advised that would not help, or would leave out what the pod asks for."""
    assert names.NVIDIA_GPU_SHARED not in scenes.said(shared(), pod)


def test_no_replica_is_advised_that_is_not_free() -> None:
    """The advice was tried: where all replicas are in use, one alone does not do."""
    inventory = shared(replicas=2)
    for minor in range(2):
        for half in "ab":
            inventory.charge(
                builders.hold(
                    f"{half}{minor}",
                    "n1",
                    [builders.share(minor, core=50, memory=40 * builders.GIB)],
                )
            )

    assert scenes.said(inventory, scenes.cards()) == (
        f"0/1 nodes are available: 1 has {GIVEN}. {NEVER} Would fit if it asked for "
        "1 replica (nvidia.com/gpu.shared) instead of 1 whole card and ml/a0 on n1 terminated."
    )


def test_a_shared_card_is_no_nearer_than_a_full_one() -> None:
    """A node that could never take the pod is not proposed before one whose cards are in use."""
    inventory = builders.inventory(
        builders.node(),
        builders.node("n2"),
        builders.device(cards=[builders.card(replicas=4)]),
        builders.device("n2", 1),
        builders.hold("a", "n2", [0]),
    )

    said = scenes.said(inventory, scenes.cards())

    assert said.startswith(
        "0/2 nodes are available: 1 has no free card; 1 has cards that are given out only as"
    )
    assert said.endswith("Would fit if GPU-n2-0 of n2 were freed.")


def test_who_asks_for_replicas_reads_of_replicas() -> None:
    """Of plain cards a pod that asks for replicas reads that there are none."""
    said = scenes.said(builders.inventory(*builders.nodes(1, 2)), scenes.pod(requests.Replicas(1)))

    assert said == (
        "0/1 nodes are available: 1 has no replica of shared cards (nvidia.com/gpu asks for a whole card). "
        f"{NEVER}"
    )


def test_its_page_says_what_a_pod_shows() -> None:
    """The sentences that the page for those who run agents has are those of a pod."""
    said = scenes.said(shared(), scenes.cards())
    section = " ".join(PAGE.split("## Shared cards")[1].split("\n## ")[0].split())
    sentences = [found for found in re.findall(r"`([^`]+)`", section) if " " in found]

    assert len([one for one in sentences if one in said]) == 2
