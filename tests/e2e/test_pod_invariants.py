"""The watch notices each promise that is broken, at the revision at which it is."""

import itertools
from collections.abc import Callable
from typing import Any, Final

import pytest

from berth_crds import allocation, names
from support import pod_invariants

GIB: Final = 1 << 30
CARDS: Final = {"GPU-0": pod_invariants.Card("a", 16 * GIB), "GPU-1": pod_invariants.Card("b", 16 * GIB)}


@pytest.fixture
def invariants() -> pod_invariants.Invariants:
    """Yield invariants about two nodes with a card each, whose core is oversold to one PriorityClass."""
    return pod_invariants.Invariants(CARDS, {"batch": 150})


@pytest.fixture
def event(invariants: pod_invariants.Invariants) -> Callable[..., None]:
    """Yield a way to tell the invariants of a pod at its next revision."""
    revisions = itertools.count(1)

    def tell(name: str, change: str = "MODIFIED", **words: Any) -> None:
        pod = described(name, **words)
        pod["metadata"]["resourceVersion"] = str(next(revisions))
        invariants.take(change, pod)

    return tell


USUAL: Final[dict[str, Any]] = {
    "node": "",
    "card": "",
    "core": 100,
    "memory": 16 * GIB,
    "of": "",
    "term": "x_1/1",
    "class": "",
    "phase": "Pending",
}


def described(name: str, **words: Any) -> dict[str, Any]:
    """Describe a pod that asks for a card, and perhaps holds one."""
    said, notes = USUAL | words, dict[str, str]()
    if said["card"]:
        share = allocation.Share(said["card"], 0, said["core"], said["memory"])
        record = allocation.of(said["of"] or said["node"], {"main": {"gpu": [share]}})
        notes = allocation.annotations(record, term=said["term"])
    container = {"name": "main", "resources": {"limits": {names.NVIDIA_GPU: "1"}}}
    return {
        "metadata": {"name": name, "uid": name, "annotations": notes},
        "spec": {
            "containers": [container],
            "priorityClassName": said["class"],
            **({"nodeName": said["node"]} if said["node"] else {}),
        },
        "status": {"phase": said["phase"]},
    }


Tell = Callable[..., None]


def test_what_is_in_order_is_not_complained_of(invariants: pod_invariants.Invariants, event: Tell) -> None:
    """Two halves of a card, a pod that ends and one that takes its place, and a new term: all is well."""
    event("first", "ADDED")
    event("first", node="a", card="GPU-0", core=50, memory=8 * GIB)
    event("half", node="a", card="GPU-0", core=50, memory=8 * GIB)
    event("first", node="a", card="GPU-0", core=50, memory=8 * GIB, phase="Succeeded")
    event("next", node="a", card="GPU-0", core=50, memory=8 * GIB, term="y_1/2")
    event("half", "DELETED", node="a", card="GPU-0", core=50, memory=8 * GIB)
    event("next", "DELETED", node="a", card="GPU-0", core=50, memory=8 * GIB, term="y_1/2")

    assert invariants.violations == []
    assert invariants.unheld() == {"GPU-0": "a", "GPU-1": "b"}
    assert [bind.pod for bind in invariants.binds] == ["first", "half", "next"]


def test_core_may_be_oversold_to_pods_of_the_class(
    invariants: pod_invariants.Invariants, event: Tell
) -> None:
    """In whatever order their binds are stored."""
    event("spare", node="a", card="GPU-0", core=60, memory=1, **{"class": "batch"})
    event("first", node="a", card="GPU-0", core=90, memory=1)

    assert invariants.violations == []


OVERSOLD: Final = {"core": 80, "memory": 1, "class": "batch"}


@pytest.mark.parametrize(
    ("invariant", "story"),
    [
        pytest.param("I1", [{"name": "p"}, {"name": "q", "core": 1, "memory": 0}], id="core above capacity"),
        pytest.param("I1", [{"name": "p", "core": 1}, {"name": "q", "core": 1, "memory": 1}], id="memory"),
        pytest.param(
            "I1", [{"name": "p", **OVERSOLD}, {"name": "q", **OVERSOLD}], id="core above what may be oversold"
        ),
        pytest.param(
            "I1",
            [{"name": "p", **OVERSOLD, "class": ""}, {"name": "q", **OVERSOLD, "core": 30, "class": ""}],
            id="core oversold to others",
        ),
        pytest.param(
            "I1",
            [{"name": "p", **OVERSOLD}, {"name": "q", **OVERSOLD, "core": 1, "memory": 16 * GIB}],
            id="memory beside oversold core",
        ),
        pytest.param("I2", [{"name": "p", "of": "b"}], id="an allocation of another node"),
        pytest.param("I2", [{"name": "p", "card": "GPU-1"}], id="a card of another node"),
        pytest.param("I3", [{"name": "p"}, {"name": "p", "core": 99}], id="an allocation that changes"),
        pytest.param("I3", [{"name": "p"}, {"name": "p", "card": ""}], id="an allocation that vanishes"),
        pytest.param("I4", [{"name": "p", "card": ""}], id="a node without an allocation"),
        pytest.param("I4", [{"name": "p", "node": ""}], id="an allocation without a node"),
        pytest.param(
            "I7",
            [
                {"name": "p", "core": 1, "memory": 1},
                {"name": "q", "core": 1, "memory": 1, "term": "y_1/2"},
                {"name": "r", "core": 1, "memory": 1},
            ],
            id="an old term that binds once more",
        ),
    ],
)
def test_what_is_broken_is_named(
    invariants: pod_invariants.Invariants, event: Tell, invariant: str, story: list[dict[str, Any]]
) -> None:
    """The complaint names the invariant and the very revision."""
    for words in story:
        event(**{"node": "a", "card": "GPU-0", "of": "a", **words})

    assert [one[: len(f"revision {len(story)}: I1")] for one in invariants.violations] == [
        f"revision {len(story)}: {invariant}"
    ]


def test_a_bind_that_a_new_leader_did_not_see_is_named() -> None:
    """A term that begins on a picture without an older term's last bind has begun too early."""
    binds = [
        pod_invariants.Bind(5, "p", "a", "x/1"),
        pod_invariants.Bind(9, "q", "a", "x/1"),
        pod_invariants.Bind(12, "r", "b", "y/2"),
    ]

    assert pod_invariants.overtaken(binds, {"x/1": 1, "y/2": 9}) == []
    assert pod_invariants.overtaken(binds, {"x/1": 1, "y/2": 8}) == ["I7: y/2 did not see q bound, at 9"]


@pytest.mark.parametrize(
    ("phase", "found"), [("Running", []), ("Pending", ["I7: y/2 did not see old bound, at 9"])]
)
def test_a_bind_that_is_only_listed_is_older_than_what_its_kubelet_wrote(
    invariants: pod_invariants.Invariants, event: Tell, phase: str, found: list[str]
) -> None:
    """A new leader may have seen that bind, however new the pod's last change is."""
    share = {"node": "a", "card": "GPU-0", "of": "a", "core": 1, "memory": 1}
    listed = described("old", **share, term="x/1", phase=phase)
    listed["metadata"]["resourceVersion"] = "9"

    invariants.take_listed([listed])
    event("new", **share, term="y/2")

    assert pod_invariants.overtaken(invariants.binds, {"x/1": 1, "y/2": 8}) == found
    assert invariants.violations == []
