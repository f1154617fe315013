"""A pod goes only to nodes whose kubelets declare the features that it needs."""

import numpy as np

from berth_operator.scheduling import decisions, signatures
from berth_operator.scheduling.constraints import registry, taints_and_affinity
from berth_operator.scheduling.constraints.query import Query
from berth_operator.scheduling.devices import requests
from berth_operator.scheduling.inventory import Inventory
from berth_operator.scheduling.nodes import facts
from support import builders

FEATURE = "Restarts"
NEEDING = facts.NodeSelection(features=(FEATURE,))
DECLARED = frozenset({FEATURE})


def query(inventory: Inventory, node_selection: facts.NodeSelection) -> Query:
    """Return the signature of a pod that may run there, put to all nodes."""
    signature = signatures.of(requests.NO_DEVICES, facts.NodeDemand(node_selection=node_selection))
    return Query.for_all_nodes(inventory, signature)


def with_nodes(*nodes: facts.Node) -> Inventory:
    """Return an inventory of these nodes."""
    inventory = Inventory()
    for node in nodes:
        inventory.put_node(node)
    return inventory


def test_only_nodes_that_declare_it_pass() -> None:
    """A node without the feature refuses, and says which one."""
    inventory = with_nodes(builders.node("n1", declared_features=DECLARED), builders.node("n2"))
    asked = query(inventory, NEEDING)

    (rejection,) = [one for one in taints_and_affinity.unresolvable(asked) if one.nodes.any()]

    assert registry.feasible(asked).tolist() == [True, False]
    assert rejection.nodes.tolist() == [False, True]
    assert (rejection.reason, rejection.detail) == (decisions.Reason.FEATURE_MISSING, FEATURE)


def test_a_pod_that_needs_none_goes_anywhere() -> None:
    """Features that nobody asks for keep nobody away."""
    inventory = with_nodes(builders.node("n1", declared_features=DECLARED), builders.node("n2"))

    assert registry.feasible(query(inventory, facts.ANYWHERE)).tolist() == [True, True]


def test_a_kubelet_that_is_upgraded_declares_it() -> None:
    """The remembered answer of a node is void once its kubelet declares the feature."""
    inventory = with_nodes(builders.node("n1"))
    before = registry.feasible(query(inventory, NEEDING)).tolist()

    inventory.put_node(builders.node("n1", declared_features=DECLARED))

    assert (before, registry.feasible(query(inventory, NEEDING)).tolist()) == ([False], [True])


def test_each_obstacle_counts() -> None:
    """A missing feature is one obstacle beside the others, and doing without it lifts it."""
    node = builders.node("n1", labels={"zone": "a"})
    node_selection = facts.NodeSelection(selector=(("zone", "b"),), features=(FEATURE,))

    found = taints_and_affinity.obstacles(node, node_selection)
    counts = with_nodes(node).node_selection_reasons(node_selection).obstacle_counts
    drop = next(one for one in found if isinstance(one, taints_and_affinity.DropFeature))

    assert [reason for reason, _ in found.values()] == [
        decisions.Reason.FEATURE_MISSING,
        decisions.Reason.SELECTOR_MISMATCH,
    ]
    assert np.array_equal(counts, [2])
    assert drop.relaxed(node_selection).features == ()
