"""What a pod that finds no partition is told to change, in Berth's vocabulary and in Koordinator's."""

from typing import Final

import pytest

from simulation import simulator
from simulation.koordinator_words import Body, Wish, gpus, in_partition, node, tabled
from support import wired_nodes

pytestmark = pytest.mark.usefixtures("unhurried")

SCORES: Final[Body] = tabled((1, "200Gi", [0, 1]), (9, "400Gi", [2, 3]))


def with_replicas(minor: int) -> tuple[Body, ...]:
    """Return a node one of whose cards is given out by replicas, and never whole."""
    cluster = node(**SCORES)
    cluster[1]["spec"]["devices"][minor]["sharing"] = {"strategy": "time-slicing", "replicas": 4}
    return cluster


ADVICE: Final[dict[str, tuple[tuple[Body, ...], tuple[Wish, Wish], str]]] = {
    "a partition of another score": (
        with_replicas(2),
        in_partition(2, "Restricted"),
        "would fit on 1 node if any partition would do (berth.dev/partition: best-effort)",
    ),
    "any bandwidth": (
        node(**SCORES),
        in_partition(2, bandwidth="500Gi"),
        "would fit on 1 node if berth.dev/ring-bandwidth were removed",
    ),
    "no partition at all": (
        node(**SCORES),
        in_partition(1),
        "would fit on 1 node if the condition on partitions (berth.dev/partition) were removed",
    ),
    "a node that only prefers them": (
        node(labels={"node.koordinator.sh/gpu-partition-policy": "Honor"}, **SCORES),
        gpus(1),
        "would fit if n1 had the label berth.dev/partition-policy=prefer",
    ),
}


@pytest.mark.parametrize(("cluster", "wishes", "advice"), ADVICE.values(), ids=ADVICE)
def test_what_would_help(cluster: tuple[Body, ...], wishes: tuple[Wish, Wish], advice: str) -> None:
    """The least change that would let the pod in is named, in Berth's words as in Koordinator's."""
    pods = [
        wired_nodes.asking(*wish.limits, name=name, annotations=wish.annotations)
        for name, wish in zip(("berth", "koordinator"), wishes, strict=True)
    ]

    answers = simulator.place(*cluster, *pods)

    assert [(answer["node"], answer["nearest"]) for answer in answers] == [(None, advice)] * 2
