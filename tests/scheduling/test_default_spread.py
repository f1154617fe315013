"""Pods of one controller that ask for no device are spread a little, though they do not say so."""

from typing import Any, Final

import pytest

from berth_operator.scheduling import cycle, signatures
from berth_operator.scheduling.decisions import Bind, Placement
from berth_operator.scheduling.preferences import default_spread
from berth_operator.scheduling.search import Search
from scheduling.placements import RULES
from scheduling.pod_clusters import Body, Both, hold, node, parts, pod, pod_info, softly, spread
from support import backlogs

WEB: Final = {"app": "web", "pod-template-hash": "7f"}
GPU: Final[Body] = {"limits": {"nvidia.com/gpu": 1}}


def replica(
    name: str = "p",
    at: str = "",
    *,
    kind: str = "ReplicaSet",
    version: str = "apps/v1",
    of: str = "rs",
    **fields: Any,
) -> Body:
    """Write a pod that a controller has made."""
    made = pod(name, at, **{"labels": WEB, **fields})
    owner = {"apiVersion": version, "kind": kind, "name": "web", "uid": of, "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def is_spread(made: Body) -> bool:
    """Whether a pod is spread by default."""
    waiting = pod_info(made)
    signature = signatures.of(waiting.request, waiting.demand)
    return default_spread.applies_to(Both().inventory, signature)


# ---------------------------------------------------------------- which pods


@pytest.mark.parametrize(
    ("kind", "version"),
    [("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1")],
)
def test_pods_of_a_controller_are_spread(kind: str, version: str) -> None:
    """They share the signature that is put to nodes with all other pods."""
    made = replica(kind=kind, version=version)

    assert is_spread(made)
    assert pod_info(made).demand == pod_info(pod()).demand


NOT_SPREAD: Final[dict[str, Body]] = {
    "nobody's": pod(labels=WEB),
    "a Job's": replica(kind="Job", version="batch/v1"),
    "of a ReplicaSet of somebody else": replica(version="apps.example.com/v1"),
    "of a controller that no server has named": replica(of="x" * 65),
    "asks for a card": replica(containers=[{"name": "main", "resources": GPU}]),
    "says what it wants": replica(topologySpreadConstraints=[softly(skew=2)]),
    "says what it needs": replica(topologySpreadConstraints=[spread(skew=2)]),
}


@pytest.mark.parametrize("made", NOT_SPREAD.values(), ids=NOT_SPREAD.keys())
def test_other_pods_are_not(made: Body) -> None:
    """A pod that says so is spread as it says, and no other way."""
    assert not is_spread(made)


def test_an_owner_that_is_no_controller_does_not_count() -> None:
    """As Kubernetes tells one from the other."""
    made = replica()
    made["metadata"]["ownerReferences"][0]["controller"] = False

    assert not is_spread(made)


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
    waiting += [replica(f"q{at}", of="other") for at in range(3)]

    answers = cycle.simulate(Search(both.inventory), backlogs.of(*map(pod_info, waiting)), 0.0, RULES)

    nodes = {one.uid: one.placement.node for one in answers if isinstance(one, Bind)}
    for name in "pq":
        assert len({nodes[f"uid-{name}{at}"] for at in range(3)}) == 3


def counted(both: Both) -> dict[str, int]:
    """Return how many pods of the controller are on which nodes."""
    index = both.inventory.index
    found = both.inventory.pods.by_controller.rows(pod_info(replica()).demand.controller)
    return {name: found[index[name]] for name in index if index[name] in found}


def test_a_pod_counts_until_it_is_deleted_or_is_another_controllers() -> None:
    """Whether it comes before or after somebody asked; another namespace's controller is another one."""
    both = Both(node("n1"), node("n2"), node("n3"), replica("u", "n1"), replica("v", "n2"))
    both.put_pod(replica("x", "n3", namespace="other"))

    assert counted(both) == {"n1": 1, "n2": 1}
    both.put_pod(replica("w", "n2"))
    assert counted(both) == {"n1": 1, "n2": 2}
    both.put_pod(replica("u", "n1", leaving=True))
    both.put_pod(replica("v", "n2", of="other"))
    assert counted(both) == {"n2": 1}
    both.drop_pod("w")
    assert counted(both) == {}


def test_a_pod_counts_whatever_is_written_on_it_alone() -> None:
    """As a StatefulSet, an operator and, when it is bound, the server write on a pod; it is bound later."""
    both = Both(node("n1"), node("n2"))
    waiting = pod_info(replica("u"))
    both.inventory.charge(cycle.hold_for(waiting, Placement("n1", ())))
    assert counted(both) == {"n1": 1}
    own = {
        "statefulset.kubernetes.io/pod-name": "web-0",
        "controller-revision-hash": "web-1",
        "role": "primary",
        "topology.kubernetes.io/zone": "a",
        "berth.dev/fenced": "true",
    }

    both.inventory.refresh(hold(replica("u", "n1", labels=WEB | own)))

    assert counted(both) == {"n1": 1}
    both.inventory.release("uid-u")
    assert counted(both) == {}
