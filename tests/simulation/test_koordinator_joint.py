"""Koordinator's joint allocation and hints, rule by rule: in its vocabulary and in Berth's own.

The table is like those of `test_koordinator_rules` and counts 20 rules.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from simulation import koordinator_words
from simulation.koordinator_words import (
    Body,
    Case,
    Wish,
    held,
    hinted,
    joint,
    koordinator,
    nics,
    own,
    with_hint,
)
from support import manifests, wired_nodes

FOUR: Final = {"gpu": 400, "rdma": 100}
TWO: Final = {"gpu": 200, "rdma": 100}
ONE_OF_EACH: Final = {"gpu": 100, "rdma": 100}


def with_hints(
    limits: Mapping[str, object], ours: Mapping[str, str], hint: Body, types: Sequence[str] = ("gpu", "rdma")
) -> tuple[Wish, Wish]:
    """Return joint devices below one root, with a hint for the NICs."""
    return (
        own(limits, joint=",".join(types), **ours),
        koordinator(
            limits,
            device_joint_allocate={"deviceTypes": list(types), "requiredScope": "SamePCIe"},
            device_allocate_hint={"rdma": hint},
        ),
    )


def labelled(*zones: str) -> tuple[Body, ...]:
    """Return a node with a NIC in each of these zones."""
    others = [wired_nodes.nic("n1", at) | {"labels": {"zone": zone}} for at, zone in enumerate(zones)]
    return manifests.node("n1"), wired_nodes.device("n1", others=others)


def grouped(*zones: str) -> tuple[Body, ...]:
    """Return a node with a NIC whose virtual functions are in these zones."""
    groups = [
        {"labels": {"zone": zone}, "vfs": [{"minor": at, "busID": f"0000:00:00.{at + 1}"}]}
        for at, zone in enumerate(zones)
    ]
    one = wired_nodes.nic("n1", 0) | {"vfGroups": groups}
    return manifests.node("n1"), wired_nodes.device("n1", others=[one])


def expression(operator: str, *values: str) -> Body:
    """Return a selector with one expression on the zone."""
    return {"matchExpressions": [{"key": "zone", "operator": operator, "values": list(values)}]}


REQUIRED: Final = {
    "required: a NIC on each of the cards' roots, more than were asked for": Case(
        nics(4), *joint(FOUR, required=True), "n1: c0 gpu 0 1 2 3 rdma 0 1"
    ),
    "required: other cards, where a root of the best has no NIC left": Case(
        (*nics(4), wired_nodes.holding_nic(1, core=100), held(0)),
        *joint(FOUR, required=True),
        "n1: c0 gpu 4 5 6 7 rdma 2 3",
    ),
    "required: refused where a root of all cards has none": Case(
        nics(3), *joint({"gpu": 800, "rdma": 100}, required=True), "gpu and rdma on the same PCIe root"
    ),
    "required: a network card that leads [cards are never more than were asked for]": Case(
        nics(4),
        *with_hints({"gpu": 100, "rdma": 200}, {}, {}, ("rdma", "gpu")),
        "rdma and gpu on the same PCIe root",
    ),
    "required: a network card that leads, and as many cards": Case(
        nics(4),
        *with_hints({"gpu": 200, "rdma": 200}, {}, {}, ("rdma", "gpu")),
        "n1: c0 gpu 0 2 rdma 0 1",
    ),
    "required, RequestsAsCount: so many NICs, be it on two roots": Case(
        nics(4),
        *with_hints(
            {"gpu": 200, "rdma": 2}, {"apply": "rdma=count"}, {"allocateStrategy": "RequestsAsCount"}
        ),
        "n1: c0 gpu 0 2 rdma 0@1%/0Gi 1@1%/0Gi",
    ),
    "required, ApplyForAll: every NIC, and the cards wherever they are best": Case(
        (*nics(4), held(0)),
        *with_hints(TWO, {"apply": "rdma=every"}, {"allocateStrategy": "ApplyForAll"}),
        "n1: c0 gpu 2 3 rdma 0 1 2 3",
    ),
}
PREFERRED: Final = {
    "preferred: a NIC on each of the cards' roots": Case(
        nics(4), *joint(FOUR, required=False), "n1: c0 gpu 0 1 2 3 rdma 0 1"
    ),
    "preferred: as many as there are": Case(
        nics(3), *joint({"gpu": 800, "rdma": 100}, required=False), "n1: c0 gpu 0 1 2 3 4 5 6 7 rdma 0 1 2"
    ),
    "preferred: those of the cards' roots first, then others up to one for each root": Case(
        (*nics(3), held(0, 1, 2, 3)), *joint(FOUR, required=False), "n1: c0 gpu 4 5 6 7 rdma 0 2"
    ),
    "preferred: one of the same NUMA node before one of another": Case(
        (*nics(3), held(0, 1, 2, 3, 4, 5)), *joint(TWO, required=False), "n1: c0 gpu 6 7 rdma 2"
    ),
    "preferred: cards that are connected as well, beside a NIC": Case(
        (*nics(2), wired_nodes.holding_nic(0, core=100)), *joint(TWO, required=False), "n1: c0 gpu 2 3 rdma 1"
    ),
    "preferred: never worse connected cards for the sake of a NIC": Case(
        (*nics(2), held(1), held(3), held(6, 7)), *joint(TWO, required=False), "n1: c0 gpu 4 5 rdma 0"
    ),
    "preferred, RequestsAsCount: at least so many": Case(
        nics(4),
        own({"gpu": 200, "rdma": 2}, joint="gpu,rdma", joint_policy="preferred", apply="rdma=count"),
        koordinator(
            {"gpu": 200, "rdma": 2},
            device_joint_allocate={"deviceTypes": ["gpu", "rdma"]},
            device_allocate_hint={"rdma": {"allocateStrategy": "RequestsAsCount"}},
        ),
        "n1: c0 gpu 0 1 rdma 0@1%/0Gi 1@1%/0Gi",
    ),
    "preferred: too few NICs on the whole node": Case(
        nics(1), *joint({"gpu": 100, "rdma": 200}, required=False), "has too few rdma devices"
    ),
}
SELECTED: Final = {
    "a selector by label": Case(
        labelled("a", "b"),
        *with_hint(
            {"rdma": 100},
            *hinted("rdma", {"labels": "rdma: zone=b"}, selector={"matchLabels": {"zone": "b"}}),
        ),
        "n1: c0 rdma 1",
    ),
    "a selector by expression": Case(
        labelled("a", "b", "c"),
        *with_hint(
            {"rdma": 100},
            *hinted("rdma", {"labels": "rdma: zone notin (a,b)"}, selector=expression("NotIn", "a", "b")),
        ),
        "n1: c0 rdma 2",
    ),
    "a selector that no device meets": Case(
        labelled("a"),
        *with_hint(
            {"rdma": 100}, *hinted("rdma", {"labels": "rdma: zone in (b)"}, selector=expression("In", "b"))
        ),
        "other labels, unsuitable for this pod",
    ),
    "a selector of virtual functions": Case(
        grouped("a", "b"),
        *with_hint(
            {"rdma": 10},
            *hinted("rdma", {"function_labels": "rdma: zone in (b)"}, vfSelector=expression("In", "b")),
        ),
        "n1: c0 rdma 0@0000:00:00.2",
    ),
    "joint, with a selector: a root whose NIC is selected": Case(
        labelled("a", "b"),
        *with_hints(ONE_OF_EACH, {"labels": "rdma: zone=b"}, {"selector": {"matchLabels": {"zone": "b"}}}),
        "n1: c0 gpu 2 rdma 1",
    ),
}
CASES: Final = REQUIRED | PREFERRED | SELECTED


@pytest.mark.parametrize("words", ["ours", "theirs"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rule(case: Case, words: str) -> None:
    """The rule holds, in whichever vocabulary the pod is written."""
    becomes = koordinator_words.becomes(case, words)

    assert becomes == case.becomes if case.becomes.startswith("n1: ") else case.becomes in becomes, becomes


def test_the_rules_are_counted() -> None:
    """The docstring says how many rules there are."""
    assert [int(word) for word in (__doc__ or "").split() if word.isdecimal()] == [len(CASES)]
