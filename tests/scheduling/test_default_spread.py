"""Pods of one controller that ask for no device are spread a little, though they do not say so."""

from typing import Any, Final

import pytest

from berth_operator.scheduling import cycle
from berth_operator.scheduling.decisions import Bind
from berth_operator.scheduling.nodes.facts import LabelExpression
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES
from scheduling.pod_clusters import HOST, ZONE, Body, Both, candidate, node, parts, pod, softly
from support import backlogs

WEB: Final = {"app": "web", "pod-template-hash": "7f"}
OWNER: Final[Body] = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs"}
GPU: Final[Body] = {"limits": {"nvidia.com/gpu": 1}}


def replica(name: str = "p", at: str = "", *, kind: str = "ReplicaSet", **fields: Any) -> Body:
    """Write a pod that a controller has made."""
    made = pod(name, at, **{"labels": WEB, **fields})
    made["metadata"]["ownerReferences"] = [OWNER | {"kind": kind, "controller": True}]
    return made


def constraints(made: Body) -> list[tuple[str, int, tuple[LabelExpression, ...] | None]]:
    """Return how a pod would rather be spread: by which label, how far, and among whom."""
    preferred = candidate(made).demand.preferred_pods
    spread = preferred.spread if preferred is not None else ()
    return [(one.topology_key, one.max_skew, one.selector.expressions) for one in spread]


# ---------------------------------------------------------------- which pods


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
def test_pods_with_equal_labels_are_spread(kind: str) -> None:
    """Over nodes and zones, as far as kube-scheduler does by default."""
    alike = (LabelExpression("app", "In", ("web",)), LabelExpression("pod-template-hash", "In", ("7f",)))

    assert constraints(replica(kind=kind)) == [(HOST, 3, alike), (ZONE, 5, alike)]


def test_what_a_stateful_set_writes_on_each_pod_tells_none_apart() -> None:
    """Its pods have a name and a number of their own, and in an update another revision."""
    own = {
        "statefulset.kubernetes.io/pod-name": "db-0",
        "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": "db-1",
    }

    found = constraints(replica(kind="StatefulSet", labels={"app": "db", **own}))

    assert [one for _, _, one in found] == [(LabelExpression("app", "In", ("db",)),)] * 2


NOT_SPREAD: Final[dict[str, Body]] = {
    "nobody's": pod(labels=WEB),
    "a Job's": replica(kind="Job"),
    "without labels": replica(labels={}),
    "with very many labels": replica(labels={f"key-{at}": "x" for at in range(33)}),
    "asks for a card": replica(containers=[{"name": "main", "resources": GPU}]),
    "says what it wants": replica(topologySpreadConstraints=[softly(skew=2)]),
}


@pytest.mark.parametrize("made", NOT_SPREAD.values(), ids=NOT_SPREAD.keys())
def test_other_pods_are_not(made: Body) -> None:
    """A pod that says so is spread as it says, and no other way."""
    assert [one for one in constraints(made) if one[1] != 2] == []


def test_an_owner_that_is_no_controller_does_not_count() -> None:
    """As Kubernetes tells one from the other."""
    made = replica()
    made["metadata"]["ownerReferences"][0]["controller"] = False

    assert constraints(made) == []


def test_what_a_pod_prefers_besides_is_kept() -> None:
    """It is spread, and near the pods that it would rather be near."""
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE}
    wished = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": term}]}

    preferred = candidate(replica(affinity={"podAffinity": wished})).demand.preferred_pods

    assert preferred is not None
    assert [one.weight for one in preferred.terms] == [5]
    assert len(preferred.spread) == 2


# ---------------------------------------------------------------- where they go


def test_nodes_without_a_zone_count_too() -> None:
    """Otherwise than by constraints that a pod has itself; by hosts alone, n1 has a pod and n2 none."""
    both = Both(node("n1"), node("n2"), node("n3", "a"), replica("w", "n1"), replica("v", "n3"))
    names = ("n1", "n2", "n3")

    found = parts(both, "spread", replica(), names)

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
