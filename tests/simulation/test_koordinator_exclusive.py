"""Koordinator's exclusivePolicy, rule by rule: what `place` does in its vocabulary and in Berth's own.

The table is like those of `test_koordinator_rules` and counts 15 rules. Koordinator's allocator works out
which roots are unused, and then gives devices of any; here its published rule holds.
"""

from pathlib import Path
from typing import Final

import pytest
import yaml

from simulation import koordinator_words, simulator
from simulation.koordinator_words import (
    Case,
    alone,
    held,
    koordinator,
    nics,
    node,
    own,
    pairs_of_nics,
    same,
)
from support import wired_nodes

ONE_OF_EACH: Final = {"gpu": 100, "rdma": 100}
NIC: Final = wired_nodes.holding_nic
TENTH: Final = {"rdma": 10}
EXCLUSIVE: Final = {
    "PCIeLevel: a root below which no pod has a NIC": Case(
        pairs_of_nics(4, NIC(0)), *alone("rdma", TENTH, "pcie"), "n1: c0 rdma 2@10%/0Gi"
    ),
    "PCIeLevel: no such root is left": Case(
        pairs_of_nics(4, NIC(0), NIC(3)),
        *alone("rdma", TENTH, "pcie"),
        "partly used; another pod is below its PCIe root; another pod is below its PCIe root; partly used",
    ),
    "PCIeLevel: a sick NIC that a pod has counts": Case(
        (
            *pairs_of_nics(2, NIC(0))[:1],
            pairs_of_nics(2)[1] | {"status": {"devices": [{"uuid": "rdma-n1-0", "health": "Unhealthy"}]}},
            NIC(0),
        ),
        *alone("rdma", TENTH, "pcie"),
        "another pod is below its PCIe root",
    ),
    "PCIeLevel of NICs: a card below the root does not count": Case(
        (*pairs_of_nics(2), held(0, 1)), *alone("rdma", TENTH, "pcie"), "n1: c0 rdma 0@10%/0Gi"
    ),
    "PCIeLevel of cards": Case(node(held(0)), *alone("gpu", {"gpu": 100}, "pcie"), "n1: c0 gpu 2"),
    "PCIeLevel of parts of cards": Case(
        node(held(0, core=50)), *alone("gpu", {"gpu": 50}, "pcie"), "n1: c0 gpu 2@50%/40Gi"
    ),
    "PCIeLevel of cards: no such root is left": Case(
        node(held(0), held(2), held(4), held(6, core=1)),
        *alone("gpu", {"gpu": 100}, "pcie"),
        "another pod is below its PCIe root",
    ),
    "PCIeLevel: where no roots are known, a node of its own [they might be the same]": Case(
        node(held(0), wired=False),
        *alone("gpu", {"gpu": 100}, "pcie"),
        "another pod is below its PCIe root",
    ),
    "PCIeLevel, then a pod that does not ask for it: it may come beside": Case(
        pairs_of_nics(2, NIC(0, {"berth.dev/exclusive": "rdma=pcie"})),
        *same({"rdma": 10}),
        "n1: c0 rdma 0@10%/0Gi",
    ),
    "DeviceLevel: a NIC of which no pod has a part": Case(
        pairs_of_nics(2, NIC(0)), *alone("rdma", TENTH, "device"), "n1: c0 rdma 1@10%/0Gi"
    ),
    "DeviceLevel: no such NIC is left": Case(
        pairs_of_nics(1, NIC(0)), *alone("rdma", TENTH, "device"), "partly used"
    ),
    "RequestsAsCount with PCIeLevel": Case(
        pairs_of_nics(4, NIC(1)),
        *alone("rdma", {"rdma": 2}, "pcie", "RequestsAsCount"),
        "n1: c0 rdma 2@1%/0Gi 3@1%/0Gi",
    ),
    "ApplyForAll with PCIeLevel: all of them or none": Case(
        pairs_of_nics(4, NIC(1)),
        *alone("rdma", TENTH, "pcie", "ApplyForAll"),
        "another pod is below its PCIe root; partly used",
    ),
    "ApplyForAll with DeviceLevel: all of them": Case(
        pairs_of_nics(2), *alone("rdma", TENTH, "device", "ApplyForAll"), "n1: c0 rdma 0@10%/0Gi 1@10%/0Gi"
    ),
    "joint and PCIeLevel: a root with a card and a NIC that nobody shares": Case(
        (*nics(4, functions=1), NIC(0)),
        own(ONE_OF_EACH, joint="gpu,rdma", exclusive="rdma=pcie", function_labels="rdma: *"),
        koordinator(
            ONE_OF_EACH,
            device_joint_allocate={"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"},
            device_allocate_hint={"rdma": {"vfSelector": {}, "exclusivePolicy": "PCIeLevel"}},
        ),
        "n1: c0 gpu 2 rdma 1@0000:01:00.1",
    ),
}


@pytest.mark.parametrize("words", ["ours", "theirs"])
@pytest.mark.parametrize("case", EXCLUSIVE.values(), ids=EXCLUSIVE)
def test_rule(case: Case, words: str) -> None:
    """The rule holds, in whichever vocabulary the pod is written."""
    becomes = koordinator_words.becomes(case, words)

    placed = case.becomes.startswith("n1: ")
    assert becomes == case.becomes if placed else case.becomes in becomes, becomes


def test_the_rules_are_counted() -> None:
    """The docstring says how many rules there are."""
    assert [int(word) for word in (__doc__ or "").split() if word.isdecimal()] == [len(EXCLUSIVE)]


@pytest.mark.parametrize("words", ["ours", "theirs"])
def test_two_pods_that_want_a_root_to_themselves_never_share_it(words: str) -> None:
    """Of three, decided together or one after another, the third finds no root of two that is unused."""
    ours, theirs = alone("rdma", TENTH, "pcie")
    wish = ours if words == "ours" else theirs
    waiting = [wired_nodes.asking(*wish.limits, annotations=wish.annotations) for _ in range(3)]
    for at, pod in enumerate(waiting):
        pod["metadata"] |= {"name": f"p{at}", "uid": f"p{at}"}

    answers = simulator.place(*pairs_of_nics(4), *waiting)

    assert [wired_nodes.outcome(one) for one in answers[:2]] == [
        "n1: c0 rdma 0@10%/0Gi",
        "n1: c0 rdma 2@10%/0Gi",
    ]
    assert answers[2]["node"] is None


def test_who_finds_no_root_to_itself_is_told_what_would_help(tmp_path: Path) -> None:
    """How many nodes refuse for it, what the pod could do without, and which pod would have to end."""
    wish, _ = alone("rdma", TENTH, "pcie")
    pod = wired_nodes.asking(*wish.limits, annotations=wish.annotations)
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([*pairs_of_nics(4, NIC(0), NIC(3)), pod]))

    told = simulator.run("place", "--explain", file).out

    assert "1 has too few rdma devices below PCIe roots that no other pod uses" in told
    assert (
        "would fit on 1 node if the condition on exclusive devices (berth.dev/exclusive) were removed" in told
    )
    assert "would fit if rdma-n1-0 of n1 were freed (held by ml/holds-nic-0)" in told
