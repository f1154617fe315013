"""Every change has its words: what would have to happen, and on how many nodes the pod would then fit."""

from typing import Any

import pytest

from berth_operator.scheduling import explain
from berth_operator.scheduling.decisions import Reason
from berth_operator.scheduling.deficits import Deficit, Unit
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.explain import clauses, findings
from scheduling.explain import scenes
from support import builders

GIB = builders.GIB
PICKY = scenes.PICKY

EDIT = findings.ChangedRequest(PICKY.request, PICKY.demand, 4, exact=True, example="n7")
FEW = findings.ChangedRequest(PICKY.request, PICKY.demand, 1, exact=False, example="n7")


def rooms(count: int, **fields: Any) -> tuple[findings.Room, ...]:
    """Name cards of n3."""
    return tuple(findings.Room(f"GPU-{minor}", minor, **fields) for minor in range(count))


CHANGES: dict[str, tuple[findings.Change, str]] = {
    "memory of a card": (
        findings.MakeRoom("n3", rooms(1, memory=2 * GIB), ("ml/a",), 0.25),
        "would fit if 2 GiB were freed on GPU-0 of n3",
    ),
    "core and memory of a card": (
        findings.MakeRoom("n3", rooms(1, core=20, memory=GIB // 2), ("ml/a",), 0.25),
        "would fit if 20 % core and 512 MiB were freed on GPU-0 of n3",
    ),
    "a part of another device": (
        findings.MakeRoom("n3", rooms(1, core=20, type="rdma"), ("ml/a",), 0.25),
        "would fit if 20 % were freed on GPU-0 of n3",
    ),
    "core of two cards": (
        findings.MakeRoom("n3", rooms(2, core=20), ("ml/a",), 0.25),
        "would fit if 20 % core on GPU-0 and 20 % core on GPU-1 of n3 were freed",
    ),
    "a card": (
        findings.EndPods("n3", ("a",), ("ml/a",), rooms(1), 1.0),
        "would fit if GPU-0 of n3 were freed",
    ),
    "many cards": (
        findings.EndPods("n3", ("a",), ("ml/a",), rooms(5), 1.0),
        "would fit if 5 devices of n3 (minors 0, 1, 2, 3 and 4) were freed",
    ),
    "pods that hold no card by name": (
        findings.EndPods("n3", ("a", "b"), ("ml/a", "ml/b"), (), 1.0),
        "would fit if ml/a and ml/b ended on n3",
    ),
    "cpu": (
        findings.FreeResource("n3", Deficit("cpu", Unit.THOUSANDTHS, 4000, 2500), 0.4),
        "would fit if 1.5 cpu were freed on n3",
    ),
    "fewer cards": (
        findings.AskLess("main", Deficit("cards", Unit.PIECES, 8, 6), EDIT, 0.25),
        "would fit on 4 nodes if it asked for 6 instead of 8 cards",
    ),
    "less memory": (
        findings.AskLess("main", Deficit("", Unit.BYTES, 8 * GIB, GIB // 2), FEW, 0.25),
        "would fit on at least 1 node if it asked for 512 MiB instead of 8 GiB of each card",
    ),
    "less core": (
        findings.AskLess("main", Deficit("core", Unit.PERCENT, 50, 20), EDIT, 0.6),
        "would fit on 4 nodes if it asked for 20 % instead of 50 % of the core of each card",
    ),
    "a lower ratio": (
        findings.AskLess("main", Deficit("ratio", Unit.PERCENT, 50, 20), EDIT, 0.6),
        "would fit on 4 nodes if it asked for 20 % instead of 50 % of the memory of each card",
    ),
    "less cpu": (
        findings.AskLess("", Deficit("cpu", Unit.THOUSANDTHS, 8000, 6000), EDIT, 0.25),
        "would fit on 4 nodes if it asked for 6 instead of 8 cpu",
    ),
    "a replica": (
        findings.AskReplicas(1, whole=True, edit=EDIT, size=1.0),
        "would fit on 4 nodes if it asked for 1 replica (nvidia.com/gpu.shared) instead of 1 whole card",
    ),
    "replicas": (
        findings.AskReplicas(2, whole=True, edit=FEW, size=1.0),
        (
            "would fit on at least 1 node if it asked for 2 replicas (nvidia.com/gpu.shared) "
            "instead of 2 whole cards"
        ),
    ),
    "a replica in place of a share": (
        findings.AskReplicas(1, whole=False, edit=EDIT, size=1.0),
        "would fit on 4 nodes if it asked for 1 replica (nvidia.com/gpu.shared) instead of a part of a card",
    ),
    "replicas in place of shares": (
        findings.AskReplicas(2, whole=False, edit=EDIT, size=1.0),
        (
            "would fit on 4 nodes if it asked for 2 replicas (nvidia.com/gpu.shared) "
            "instead of parts of 2 cards"
        ),
    ),
    **{
        f"without {condition}": (
            findings.DropCondition(condition, value, EDIT, 1.0),
            f"would fit on 4 nodes if {text}",
        )
        for condition, value, text in (
            (findings.PodCondition.MODELS, "", "the condition on models were dropped"),
            (findings.PodCondition.PATTERN, "", "the pattern for models were dropped"),
            (findings.PodCondition.AVOID_MODELS, "", "no model were avoided"),
            (findings.PodCondition.AVOID_PATTERN, "", "the pattern for models to avoid were dropped"),
            (findings.PodCondition.UUIDS, "", "the list of wanted uuids were dropped"),
            (findings.PodCondition.AVOID_UUIDS, "", "no uuid were avoided"),
            (findings.PodCondition.MEMORY_AT_LEAST, "", "the condition on memory were dropped"),
            (findings.PodCondition.SCOPE, "", "the condition on scope were dropped"),
            (findings.PodCondition.JOINT, "", "the devices did not have to share a PCIe root"),
            (findings.PodCondition.LABELS, "", "the condition on labels were dropped"),
            (
                findings.PodCondition.FUNCTION_LABELS,
                "",
                "the condition on labels of virtual functions were dropped",
            ),
            (findings.PodCondition.SELECTOR, "zone=a", "the node selector zone=a were dropped"),
            (findings.PodCondition.AFFINITY, "", "the node affinity were dropped"),
            (findings.PodCondition.TAINT, "gpu=yes", "the taint gpu=yes were tolerated"),
        )
    },
    "a cordoned node": (
        findings.Repair("n3", Reason.UNSCHEDULABLE, (), 1.0),
        "would fit if n3 were uncordoned",
    ),
    "a silent agent": (
        findings.Repair("n3", Reason.SILENT, (), 1.0),
        "would fit if the agent of n3 were back",
    ),
    "a failed source": (
        findings.Repair("n3", Reason.SOURCE_FAILED, (), 1.0),
        "would fit if the agent of n3 could read its cards",
    ),
    "a cordoned card": (
        findings.Repair("n3", Reason.CORDONED, rooms(1), 1.0),
        "would fit if GPU-0 of n3 were not cordoned",
    ),
    "unhealthy cards": (
        findings.Repair("n3", Reason.UNHEALTHY, rooms(2), 1.0),
        "would fit if GPU-0 and GPU-1 of n3 were healthy",
    ),
    "two changes": (
        findings.Pair(
            "n3",
            (
                findings.Repair("n3", Reason.UNSCHEDULABLE, (), 1.0),
                findings.DropCondition(findings.PodCondition.MODELS, "", FEW, 1.0),
            ),
            2.0,
        ),
        "would fit if n3 were uncordoned and the condition on models were dropped",
    ),
    "two changes of the pod": (
        findings.Pair(
            "n3",
            (
                findings.DropCondition(findings.PodCondition.MODELS, "", FEW, 1.0),
                findings.DropCondition(findings.PodCondition.SCOPE, "", FEW, 0.5),
            ),
            1.5,
        ),
        (
            "would fit on at least 1 node if the condition on models were dropped "
            "and the condition on scope were dropped"
        ),
    ),
    "occupied cards": (
        findings.Repair("n3", Reason.OCCUPIED, rooms(3), 1.0),
        "would fit if no other process used GPU-0, GPU-1 and GPU-2 of n3",
    ),
    "a uuid that is published twice": (
        findings.Repair("n3", Reason.DUPLICATE_UUID, rooms(1), 1.0),
        "would fit if no other node published GPU-0 of n3",
    ),
}


@pytest.mark.parametrize(("change", "text"), CHANGES.values(), ids=CHANGES.keys())
def test_change(change: findings.Change, text: str) -> None:
    """Each change is said so that one knows what to do, and where."""
    assert explain.would_fit(change) == text


def test_every_change_has_words() -> None:
    """No condition and nothing that can be put right is left without words."""
    assert set(clauses.DROPPED) == set(findings.PodCondition)
    assert {change.reason for change, _ in CHANGES.values() if isinstance(change, findings.Repair)} == set(
        clauses.MENDED
    )
    assert {type(change) for change, _ in CHANGES.values()} == set(findings.ORDER)


def test_container_is_named_where_there_are_several() -> None:
    """Which container should ask for less is said where it could be another."""
    request = requests.Request(tuple(requests.ContainerRequest(name, (requests.cards(2),)) for name in "ab"))
    edit = findings.ChangedRequest(request, PICKY.demand, 1, exact=True, example="n1")
    change = findings.AskLess("b", Deficit("cards", Unit.PIECES, 2, 1), edit, 0.5)

    assert explain.would_fit(change) == (
        "would fit on 1 node if it asked for 1 instead of 2 cards in container b"
    )
