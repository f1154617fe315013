"""Pods of one controller that ask for no device are spread a little, though they do not say so."""

from typing import Any, Final

import pytest

from berth_operator.scheduling import cycle
from berth_operator.scheduling.decisions import Bind
from berth_operator.scheduling.nodes.facts import Replicas
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES
from scheduling.pod_clusters import Body, Both, candidate, node, parts, pod, softly
from support import backlogs

WEB: Final = {"app": "web", "pod-template-hash": "7f"}
GPU: Final[Body] = {"limits": {"nvidia.com/gpu": 1}}


def replica(
    name: str = "p", at: str = "", *, kind: str = "ReplicaSet", version: str = "apps/v1", **fields: Any
) -> Body:
    """Write a pod that a controller has made."""
    made = pod(name, at, **{"labels": WEB, **fields})
    owner = {"apiVersion": version, "kind": kind, "name": "web", "uid": "rs", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def alike(made: Body) -> Replicas | None:
    """Return with which pods a pod is spread by default."""
    return candidate(made).demand.replicas


# ---------------------------------------------------------------- which pods


@pytest.mark.parametrize(
    ("kind", "version"),
    [("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1")],
)
def test_pods_with_equal_labels_are_spread(kind: str, version: str) -> None:
    """They are in one namespace, and share the question that is put to nodes with all other pods."""
    made = replica(kind=kind, version=version)

    assert alike(made) == ("ml", (("app", "web"), ("pod-template-hash", "7f")))
    assert candidate(made).demand == candidate(pod()).demand


def test_what_a_stateful_set_writes_on_each_pod_tells_none_apart() -> None:
    """Its pods have a name and a number of their own, and in an update another revision."""
    own = {
        "statefulset.kubernetes.io/pod-name": "db-0",
        "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": "db-1",
    }

    assert alike(replica(kind="StatefulSet", labels={"app": "db", **own})) == ("ml", (("app", "db"),))


NOT_SPREAD: Final[dict[str, Body]] = {
    "nobody's": pod(labels=WEB),
    "a Job's": replica(kind="Job", version="batch/v1"),
    "of a ReplicaSet of somebody else": replica(version="apps.example.com/v1"),
    "without labels": replica(labels={}),
    "with very many labels": replica(labels={f"key-{at}": "x" for at in range(33)}),
    "asks for a card": replica(containers=[{"name": "main", "resources": GPU}]),
    "says what it wants": replica(topologySpreadConstraints=[softly(skew=2)]),
}


@pytest.mark.parametrize("made", NOT_SPREAD.values(), ids=NOT_SPREAD.keys())
def test_other_pods_are_not(made: Body) -> None:
    """A pod that says so is spread as it says, and no other way."""
    assert alike(made) is None


def test_an_owner_that_is_no_controller_does_not_count() -> None:
    """As Kubernetes tells one from the other."""
    made = replica()
    made["metadata"]["ownerReferences"][0]["controller"] = False

    assert alike(made) is None


# ---------------------------------------------------------------- where they go


def test_nodes_without_a_zone_count_too() -> None:
    """Otherwise than by constraints that a pod has itself; by hosts alone, n1 has a pod and n2 none."""
    both = Both(node("n1"), node("n2"), node("n3", "a"), replica("w", "n1"), replica("v", "n3"))
    names = ("n1", "n2", "n3")

    found = parts(both, "default_spread", replica(), names)

    assert found["n2"] > found["n1"] > found["n3"]


def test_replicas_of_one_round_are_spread() -> None:
    """Three pods of each of two controllers, which do not count for each other, on three nodes."""
    both = Both(node("n1", "a"), node("n2", "a"), node("n3", "b"))
    waiting = [replica(f"p{at}") for at in range(3)]
    waiting += [replica(f"q{at}", labels={"app": "other"}) for at in range(3)]

    answers = cycle.simulate(Search(both.inventory), backlogs.of(*map(candidate, waiting)), 0.0, RULES)

    nodes = {one.uid: one.placement.node for one in answers if isinstance(one, Bind)}
    for name in "pq":
        assert len({nodes[f"uid-{name}{at}"] for at in range(3)}) == 3


def test_a_pod_counts_until_it_is_deleted_or_is_another() -> None:
    """Whether it comes before or after somebody asked."""
    both = Both(node("n1"), node("n2"), node("n3"), replica("u", "n1"), replica("v", "n2"))
    rows, index = both.inventory.pods.replicas.rows, both.inventory.index
    wanted = alike(replica())
    assert wanted is not None

    def there() -> dict[str, int]:
        found = rows(wanted)
        return {name: found[index[name]] for name in index if index[name] in found}

    assert there() == {"n1": 1, "n2": 1}
    both.put_pod(replica("w", "n2"))
    assert there() == {"n1": 1, "n2": 2}
    both.put_pod(replica("u", "n1", leaving=True))
    both.put_pod(replica("v", "n2", labels={"app": "other"}))
    assert there() == {"n2": 1}
    both.drop_pod("w")
    assert there() == {}
