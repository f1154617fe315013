"""Koordinator's published allocator, rule by rule: what `place` does in its vocabulary and in Berth's own.

Each case is one node or more, a pod in both vocabularies, and what becomes of it. Where Berth differs by
intent from what Koordinator does, the name of the case ends with the reason in brackets.

The table counts 92 rules: 18 of names and amounts, 16 of combinations, 14 of counts and shares, 15 of
hints and joint devices, 20 of partitions, 9 of what a node must be. Selectors and oversale are
tested where they are read, exclusivePolicy in `test_koordinator_exclusive`.
"""

import re
from typing import Final

import pytest

from simulation import koordinator_words
from simulation.koordinator_words import (
    Body,
    Case,
    Wish,
    gpus,
    held,
    hinted,
    in_partition,
    joint,
    koordinator,
    nics,
    node,
    own,
    same,
    scoped,
    tabled,
    with_hint,
)
from support import manifests, wired_nodes

HONOR: Final = {"node.koordinator.sh/gpu-partition-policy": "Honor"}
OUR_HONOR: Final = {"berth.dev/partition-policy": "honor"}
H100: Final = "NVIDIA H100 80GB HBM3"

PLAIN: Final = node()
# A kubelet admits no pod with names of the group kubernetes.io that its Node does not list.
DEPRECATED: Final[Body] = {
    f"kubernetes.io/{name}": amount
    for name, amount in (
        ("gpu", 800),
        ("gpu-core", 800),
        ("gpu-memory", "640Gi"),
        ("gpu-memory-ratio", 800),
        ("rdma", 100),
    )
}
LISTING: Final = (
    manifests.node("n1", **DEPRECATED),
    wired_nodes.device("n1", others=[wired_nodes.nic("n1", 0)]),
)
NAMES: Final = {
    "gpu: 100 is one card, the lowest minor, which is 0 and not dropped": Case(
        PLAIN, *gpus(1), "n1: c0 gpu 0"
    ),
    "gpu is core and memory alike": Case(PLAIN, *same({"gpu": 50}), "n1: c0 gpu 0@50%/40Gi"),
    "gpu-core and gpu-memory-ratio": Case(
        PLAIN, *same({"gpu-core": 30, "gpu-memory-ratio": 50}), "n1: c0 gpu 0@30%/40Gi"
    ),
    "gpu-core and gpu-memory": Case(
        PLAIN, *same({"gpu-core": 30, "gpu-memory": "8Gi"}), "n1: c0 gpu 0@30%/8Gi"
    ),
    "gpu-memory alone takes no core": Case(PLAIN, *same({"gpu-memory": "8Gi"}), "n1: c0 gpu 0@0%/8Gi"),
    "gpu-memory-ratio alone takes no core": Case(
        PLAIN, *same({"gpu-memory-ratio": 25}), "n1: c0 gpu 0@0%/20Gi"
    ),
    "gpu.shared counts cards": Case(
        PLAIN,
        *same({"gpu.shared": 2, "gpu-core": 100, "gpu-memory-ratio": 100}),
        "n1: c0 gpu 0@50%/40Gi 1@50%/40Gi",
    ),
    "nvidia.com/gpu counts whole cards": Case(PLAIN, *same({"nvidia.com/gpu": 2}), "n1: c0 gpu 0 1"),
    "rdma: 100 is one NIC": Case(nics(2), *same({"rdma": 100}), "n1: c0 rdma 0"),
    **{
        f"the deprecated {name}": Case(LISTING, own(ours), Wish([theirs]), becomes)
        for name, ours, theirs, becomes in (
            ("gpu", {"gpu": 50}, {"kubernetes.io/gpu": 50}, "n1: c0 gpu 0@50%/40Gi"),
            (
                "gpu-core and gpu-memory",
                {"gpu_core": 20, "gpu_memory": "8Gi"},
                {"kubernetes.io/gpu-core": 20, "kubernetes.io/gpu-memory": "8Gi"},
                "n1: c0 gpu 0@20%/8Gi",
            ),
            (
                "gpu-memory-ratio",
                {"gpu_memory_ratio": 25},
                {"kubernetes.io/gpu-memory-ratio": 25},
                "n1: c0 gpu 0@0%/20Gi",
            ),
        )
    },
    "the deprecated rdma": Case(
        LISTING, own({"rdma": 100}), Wish([{"kubernetes.io/rdma": 100}]), "n1: c0 rdma 0"
    ),
    "a deprecated name beside the new one does not count": Case(
        LISTING,
        own({"gpu": 200}),
        Wish([{"kubernetes.io/gpu": 100, "koordinator.sh/gpu": 200}]),
        "n1: c0 gpu 0 1",
    ),
    "fpga where there is none": Case(PLAIN, *same({"fpga": 100}), "has no fpga devices"),
    "npu-core is another maker's": Case(
        PLAIN, *same({"huawei.com/npu-core": 1}), "container c0 asks for huawei.com/npu-core"
    ),
    "amd.com/gpu is another maker's": Case(
        PLAIN, *same({"amd.com/gpu": 1}), "container c0 asks for amd.com/gpu"
    ),
    "dcu.com/gpu is another maker's": Case(
        PLAIN, *same({"dcu.com/gpu": 1}), "container c0 asks for dcu.com/gpu"
    ),
}
COMBINATIONS: Final = {
    "gpu over 100 that is no multiple": Case(
        PLAIN, *same({"gpu": 150}), "150 is neither a percentage of one card"
    ),
    "gpu: 0 and nothing else is no request": Case(PLAIN, *same({"gpu": 0}), "n1: "),
    "ratio over 100 that is no multiple": Case(
        PLAIN, *same({"gpu-memory-ratio": 150}), "150 is neither a percentage of one card"
    ),
    "core over 100 that is no multiple": Case(
        PLAIN, *same({"gpu-core": 150, "gpu-memory-ratio": 100}), "150 is more than one card has"
    ),
    "rdma over 100 that is no multiple": Case(
        nics(2), *same({"rdma": 150}), "150 is neither a percentage of one device"
    ),
    "core alone": Case(PLAIN, *same({"gpu-core": 50}), "gpu-core says nothing of memory"),
    "shared alone": Case(
        PLAIN, *same({"gpu.shared": 2}), "gpu.shared says over how many cards, but not how much of them"
    ),
    "memory and ratio together": Case(
        PLAIN,
        *same({"gpu-memory": "8Gi", "gpu-memory-ratio": 50}),
        "gpu-memory-ratio both say how much memory; write one of them",
    ),
    "gpu and core together": Case(
        PLAIN, *same({"gpu": 100, "gpu-core": 50}), "gpu-core; ask in one way only"
    ),
    "gpu and shared together": Case(
        PLAIN, *same({"gpu": 100, "gpu.shared": 1}), "gpu.shared; ask in one way only"
    ),
    "core that the shared cards do not divide": Case(
        PLAIN,
        *same({"gpu.shared": 2, "gpu-core": 75, "gpu-memory-ratio": 100}),
        "75 cannot be divided evenly among 2 cards",
    ),
    "more core than the shared cards have": Case(
        PLAIN,
        *same({"gpu.shared": 2, "gpu-core": 300, "gpu-memory-ratio": 100}),
        "300 is more than 100 percent of each of 2 cards",
    ),
    "shared with memory": Case(
        PLAIN, *same({"gpu.shared": 2, "gpu-memory": "16Gi"}), "n1: c0 gpu 0@0%/8Gi 1@0%/8Gi"
    ),
    "a vendor's name among Koordinator's": Case(
        PLAIN, *same({"nvidia.com/gpu": 1, "gpu": 100}), "gpu; ask in one way only"
    ),
    "two containers of 60 percent are valid each [the sum is not what is checked]": Case(
        PLAIN, *same({"gpu": 60}, {"gpu": 60}), "n1: c0 gpu 0@60%/48Gi, c1 gpu 1@60%/48Gi"
    ),
    "a whole card and a half are valid each [the sum is not what is checked]": Case(
        PLAIN, *same({"gpu": 100}, {"gpu": 50}), "n1: c0 gpu 0, c1 gpu 1@50%/40Gi"
    ),
}
SHARES: Final = {
    "a multiple of 100 is so many whole cards": Case(PLAIN, *gpus(3), "n1: c0 gpu 0 1 2"),
    "a ratio of 200 is two cards": Case(
        PLAIN, *same({"gpu-core": 200, "gpu-memory-ratio": 200}), "n1: c0 gpu 0 1"
    ),
    "core of several cards without their count [refused at once: it would never fit]": Case(
        PLAIN,
        *same({"gpu-core": 200, "gpu-memory": "64Gi"}),
        "is more than one card has; for 2 cards add berth.dev/gpu.shared: 2",
    ),
    "memory that the count does not divide is rounded up [no remainder is lost]": Case(
        PLAIN,
        *same({"gpu.shared": 3, "gpu-memory": 1 << 33}),
        "n1: c0 gpu 0@0%/2863311531 1@0%/2863311531 2@0%/2863311531",
    ),
    "a share packs onto a card in use": Case(
        node(held(3, core=50)), *same({"gpu": 50}), "n1: c0 gpu 3@50%/40Gi"
    ),
    "a share that has no room there starts another": Case(
        node(held(3, core=60)), *same({"gpu": 50}), "n1: c0 gpu 0@50%/40Gi"
    ),
    "a whole card is never one that is partly used": Case(node(held(0, core=1)), *gpus(1), "n1: c0 gpu 1"),
    "shares of several cards take different ones": Case(
        node(held(0, core=50)),
        *same({"gpu.shared": 2, "gpu-core": 100, "gpu-memory-ratio": 100}),
        "n1: c0 gpu 0@50%/40Gi 1@50%/40Gi",
    ),
    "each container has a record of its own [not the pod as a whole]": Case(
        PLAIN, *same({"gpu": 100}, {"gpu": 200}), "n1: c0 gpu 2, c1 gpu 0 1"
    ),
    "a part of a NIC comes with its lowest free function": Case(
        nics(1, functions=3), *same({"rdma": 10}), "n1: c0 rdma 0@0000:00:00.1"
    ),
    "more memory than a card has": Case(
        PLAIN, *same({"gpu-memory": "81Gi"}), "too small for this pod: has 80 GiB, 81 GiB wanted"
    ),
    "two NICs": Case(nics(3), *same({"rdma": 200}), "n1: c0 rdma 0 1"),
    "parts of a NIC that it has not in all": Case(
        nics(1), *same({"rdma": 50}, {"rdma": 60}), "has too few rdma devices"
    ),
    "too many NICs": Case(nics(1), *same({"rdma": 200}), "has too few rdma devices"),
}


ONE_OF_EACH: Final = {"gpu": 100, "rdma": 100}
ANY_FUNCTION: Final = hinted("rdma", {"function_labels": "rdma: *"}, vfSelector={})
HINTS: Final = {
    "scope PCIe: both below one root": Case(
        node(held(0)), *scoped({"gpu": 200}, "pcie", "PCIe"), "n1: c0 gpu 2 3"
    ),
    "scope PCIe: three are never below one root": Case(
        PLAIN, *scoped({"gpu": 300}, "pcie", "PCIe"), "has too few free cards within one PCIe root"
    ),
    "scope NUMANode: all on one socket": Case(
        node(held(0, 1)), *scoped({"gpu": 300}, "numa", "NUMANode"), "n1: c0 gpu 4 5 6"
    ),
    "scope Node: anywhere on the node": Case(
        node(held(0, 1)), *scoped({"gpu": 500}, "node", "Node"), "n1: c0 gpu 2 4 5 6 7"
    ),
    "scope Device: one card [Koordinator can never meet it]": Case(
        PLAIN, *scoped({"gpu": 100}, "device", "Device"), "n1: c0 gpu 0"
    ),
    "scope Device: two cards": Case(
        PLAIN, *scoped({"gpu": 200}, "device", "Device"), "keeps the pod to one card, but 2 are asked for"
    ),
    "without a scope the deepest that fits": Case(node(held(0, 2, 4)), *gpus(2), "n1: c0 gpu 6 7"),
    "of equals the scope that is in use already": Case(node(held(7)), *gpus(1), "n1: c0 gpu 6"),
    "ApplyForAll takes every NIC that is well [a sick one is not waited for]": Case(
        nics(3, sick=(1,)),
        *with_hint({"rdma": 100}, *hinted("rdma", {"apply": "rdma=every"}, allocateStrategy="ApplyForAll")),
        "n1: c0 rdma 0 2",
    ),
    "joint and required: the same root": Case(
        (*nics(4), held(0, 1)), *joint(ONE_OF_EACH, required=True), "n1: c0 gpu 2 rdma 1"
    ),
    "joint and preferred: any NIC where none is near": Case(
        (*nics(1), held(0, 1)), *joint(ONE_OF_EACH, required=False), "n1: c0 gpu 2 rdma 0"
    ),
    "an empty vfSelector: a whole NIC comes with a function": Case(
        nics(1, functions=2), *with_hint({"rdma": 100}, *ANY_FUNCTION), "n1: c0 rdma 0@0000:00:00.1"
    ),
    "an empty vfSelector: no whole NIC without functions": Case(
        nics(1),
        *with_hint({"rdma": 100}, *ANY_FUNCTION),
        "other labels, unsuitable for this pod",
    ),
    "an empty vfSelector: nor a part of one": Case(
        nics(1), *with_hint({"rdma": 10}, *ANY_FUNCTION), "other labels, unsuitable for this pod"
    ),
    "joint, and an empty vfSelector": Case(
        (*nics(2, functions=2), held(0, 1)),
        own(ONE_OF_EACH, joint="gpu,rdma", function_labels="rdma: *"),
        koordinator(
            ONE_OF_EACH,
            device_joint_allocate={"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"},
            device_allocate_hint=ANY_FUNCTION[1]["device_allocate_hint"],
        ),
        "n1: c0 gpu 2 rdma 1@0000:01:00.1",
    ),
}


SCORES: Final[Body] = tabled(
    (1, "200Gi", [4, 5]), (1, "200Gi", [0, 1]), (9, "400Gi", [2, 3]), (0, "", [6, 7])
)
HOPPER: Final[Body] = {"model": H100}
PARTITIONS: Final = {
    "Honor: a count that the built-in table lacks": Case(
        node(labels=HONOR, **HOPPER), *gpus(3), "has no free partition of 3 cards"
    ),
    "Berth's own label says the same": Case(
        node(labels=OUR_HONOR, **HOPPER), *gpus(3), "has no free partition of 3 cards"
    ),
    "Honor on the Device": Case(
        (manifests.node("n1"), wired_nodes.device("n1", model=H100, labels=HONOR)),
        *gpus(3),
        "has no free partition of 3 cards",
    ),
    "Honor: nothing of the size is free": Case(
        node(held(0), held(3), held(4), held(7), labels=HONOR, **HOPPER),
        *gpus(2),
        "has no free partition of 2 cards",
    ),
    "Honor: a share is no matter of partitions": Case(
        node(held(0, core=50), labels=HONOR, **HOPPER), *same({"gpu": 50}), "n1: c0 gpu 0@50%/40Gi"
    ),
    "Honor: a partition that is free": Case(
        node(held(0), held(3), held(4), labels=HONOR, **HOPPER), *gpus(2), "n1: c0 gpu 6 7"
    ),
    "Prefer: another count is given all the same": Case(node(**HOPPER), *gpus(3), "n1: c0 gpu 0 1 2"),
    "Prefer: nothing of the size is free, so other cards": Case(
        node(held(0), held(3), held(4), held(7), **HOPPER), *gpus(2), "n1: c0 gpu 1 2"
    ),
    "H800 has the built-in table": Case(
        node(held(0), model="NVIDIA H800"), *in_partition(4), "n1: c0 gpu 4 5 6 7"
    ),
    "H20 has it too": Case(node(held(5), model="NVIDIA H20"), *in_partition(2), "n1: c0 gpu 6 7"),
    "a card on PCIe has none [there is no switch to partition]": Case(
        node(model="NVIDIA H100 PCIe"), *in_partition(2), "has no free NVLink partition of 2 cards"
    ),
    "the pod's spec binds it where the node only prefers": Case(
        node(held(0), held(3), held(4), held(7), **HOPPER),
        *in_partition(2),
        "has no free NVLink partition of 2 cards",
    ),
    "a used, sick or partly used member rules a partition out": Case(
        node(held(0), held(7, core=1), sick=(3,), **HOPPER), *in_partition(2), "n1: c0 gpu 4 5"
    ),
    "the one is taken that leaves a half whole": Case(
        node(held(0), **HOPPER), *in_partition(2), "n1: c0 gpu 2 3"
    ),
    "a single card leaves pairs whole": Case(node(held(5), **HOPPER), *in_partition(1), "n1: c0 gpu 4"),
    "the best score first [Koordinator begins with the worst]": Case(
        node(**SCORES), *in_partition(2), "n1: c0 gpu 2 3"
    ),
    "BestEffort goes on to the next score, and the first of the table": Case(
        node(held(2), **SCORES), *in_partition(2), "n1: c0 gpu 4 5"
    ),
    "Restricted does not": Case(
        node(held(2), **SCORES),
        *in_partition(2, "Restricted"),
        "has no free NVLink partition of 2 cards of the best score",
    ),
    "a bandwidth that a partition has": Case(
        node(held(0), **SCORES), *in_partition(2, bandwidth="200Gi"), "n1: c0 gpu 2 3"
    ),
    "a bandwidth that none has left, one unknown included": Case(
        node(held(2), **SCORES),
        *in_partition(2, bandwidth="300Gi"),
        "has no free NVLink partition of 2 cards with 300 GiB/s",
    ),
}
NODES: Final = {
    "an unhealthy card is given to no pod": Case(node(sick=(0,)), *gpus(1), "n1: c0 gpu 1"),
    "a node without a Device takes no pod [it would be bound without cards]": Case(
        (manifests.node("n1"),), *gpus(1), "has no Device"
    ),
    "a type that the node has not": Case(node(), *same({"rdma": 100}), "has no rdma devices"),
    "a node that is full for now": Case(node(held(0, 1, 2, 3, 4, 5, 6, 7)), *gpus(1), "has no free card"),
    "too few cards for ever": Case(node(), *gpus(9), "has fewer than 9 cards"),
    "LeastAllocated is the policy spread": Case(
        (
            *node(held(0, core=50)),
            manifests.node("n2"),
            wired_nodes.device("n2"),
            manifests.own("PlacementPolicy", "default", spec={"strategy": "spread"}),
        ),
        *gpus(1),
        "n2: c0 gpu 0",
    ),
    "MostAllocated is the policy binpack": Case(
        (
            *node(held(0, 1, 2)),
            manifests.node("n0"),
            wired_nodes.device("n0"),
            manifests.own("PlacementPolicy", "default", spec={"strategy": "binpack"}),
        ),
        *gpus(4),
        "n1: c0 gpu 4 5 6 7",
    ),
    "without topology the lowest minors": Case(node(held(0), wired=False), *gpus(2), "n1: c0 gpu 1 2"),
    "a used card of another node does not count": Case(
        (*node(held(0, 1, 2, 3, 4, 5, 6)), manifests.node("n2"), wired_nodes.device("n2", 2)),
        *gpus(2),
        "n2: c0 gpu 0 1",
    ),
}
TABLES: Final = (NAMES, COMBINATIONS, SHARES, HINTS, PARTITIONS, NODES)
PLACED: Final = re.compile(r"n\d: ")
CASES: Final = {name: case for table in TABLES for name, case in table.items()}


@pytest.mark.parametrize("words", ["ours", "theirs"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rule(case: Case, words: str) -> None:
    """The rule holds, in whichever vocabulary the pod is written."""
    becomes = koordinator_words.becomes(case, words)

    assert becomes == case.becomes if PLACED.match(case.becomes) else case.becomes in becomes, becomes


def test_the_rules_are_counted() -> None:
    """The docstring says how many rules there are in each table."""
    counted = [int(word) for word in (__doc__ or "").split() if word.isdecimal()]

    assert counted == [sum(map(len, TABLES)), *map(len, TABLES)]
