"""Pods that look at other pods, from files to the printed explanation."""

from typing import Any, Final

import pytest

from simulation import simulator

ZONES: Final = tuple(
    one
    for name, zone in (("n1", "a"), ("n2", "b"))
    for one in (
        simulator.node(name, labels={"zone": zone, "kubernetes.io/hostname": name}),
        simulator.device(name),
    )
)
WEB: Final = {"matchLabels": {"app": "web"}}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
Body = dict[str, Any]


def web(name: str, at: str = "", *, namespace: str = "ml", app: str = "web", **spec: Any) -> Body:
    """Write a pod of an application, on a node or waiting."""
    meta = {"uid": f"u-{name}", "labels": {"app": app}, "namespace": namespace}
    if at:
        return simulator.pod(name, 0, meta=meta, **spec | {"nodeName": at, "phase": "Running"})
    return simulator.pod(name, meta=meta, **spec)


def spread(**fields: Any) -> Body:
    """Write a constraint that spreads the application over zones."""
    usual = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    return {"topologySpreadConstraints": [usual | fields]}


def affinity(kind: str, **term: Any) -> Body:
    """Write a required term about the application."""
    return {"affinity": {kind: {REQUIRED: [{"labelSelector": WEB} | term]}}}


def test_pods_are_spread_and_the_last_is_explained() -> None:
    """Two pods take both zones; with a third domain wanted the next fits nowhere, and each node says why."""
    answer = simulator.run_on(
        [*ZONES, web("a", **spread()), web("b", **spread()), web("c", **spread(minDomains=3))], "--explain"
    )

    assert "ml/a" in answer.out
    assert (
        "ml/c: 0/2 nodes are available: "
        "2 didn't match pod topology spread constraints (zone: skew 2, maxSkew 1)"
    ) in answer.out
    assert "topology spread: zone: skew 2, maxSkew 1" in answer.out
    assert "would fit if ml/a on n1 terminated" in answer.out
    assert "if maxSkew over zone were 2" in answer.out


@pytest.mark.parametrize(
    ("there", "asks", "node"),
    [
        pytest.param(
            web("w", "n1"), web("p", **affinity("podAffinity", topologyKey="zone")), "n1", id="near"
        ),
        pytest.param(
            web("w", "n1"), web("p", **affinity("podAntiAffinity", topologyKey="zone")), "n2", id="far"
        ),
        pytest.param(
            web("w", "n1", **affinity("podAntiAffinity", topologyKey="zone")), web("p"), "n2", id="repelled"
        ),
        pytest.param(
            web("w", "n2", namespace="blue"),
            web(
                "p",
                **affinity(
                    "podAffinity", topologyKey="zone", namespaceSelector={"matchLabels": {"team": "blue"}}
                ),
            ),
            "n2",
            id="near a pod of a namespace with a label",
        ),
    ],
)
def test_each_constraint_is_kept(there: Body, asks: Body, node: str) -> None:
    """From manifests alone, the Namespace among them."""
    blue = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue", "labels": {"team": "blue"}}}

    assert simulator.nodes(simulator.place(*ZONES, blue, blue, there, asks))["ml/p"] == node


def test_the_pods_of_a_replica_set_are_spread_by_default() -> None:
    """One goes to each node, though they do not say so, and those that ask for a card go to one node."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}
    meta = {"labels": {"app": "web"}, "ownerReferences": [owner]}
    plain = [simulator.pod(name, {}, meta=meta) for name in ("p1", "p2")]
    with_cards = [simulator.pod(name, meta=meta) for name in ("g1", "g2")]

    found = simulator.nodes(simulator.place(*ZONES, *plain, *with_cards))

    assert {found["ml/p1"], found["ml/p2"]} == {"n1", "n2"}
    assert found["ml/g1"] == found["ml/g2"]
