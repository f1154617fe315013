"""Features of kubelets that pods need are read from their specs, and those that are there from Nodes."""

from typing import Any

import pytest

from berth_crds import wire
from berth_operator.translate import demands, node_features, nodes, raw
from support import builders

RESTART_ALL = [{"action": "RestartAllContainers"}]
RESTART_ONE = [{"action": "Restart"}]
ALL, USERS = node_features.RESTART_ALL, node_features.HOST_NETWORK_USERS


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        pytest.param({}, (), id="an ordinary pod"),
        pytest.param(
            {"containers": [builders.container(restartPolicyRules=RESTART_ALL)]}, (ALL,), id="restarting all"
        ),
        pytest.param(
            {"containers": [builders.container(restartPolicyRules=RESTART_ONE)]}, (), id="restarting one"
        ),
        pytest.param(
            {"initContainers": [builders.container("i", restartPolicyRules=RESTART_ALL)]},
            (ALL,),
            id="an init container",
        ),
        pytest.param(
            {"hostNetwork": True, "hostUsers": False}, (USERS,), id="its users in the host's network"
        ),
        pytest.param({"hostNetwork": True}, (), id="the network of its host alone"),
        pytest.param({"hostUsers": False}, (), id="users of its own alone"),
        pytest.param({"hostNetwork": True, "hostUsers": True}, (), id="the host's users"),
    ],
)
def test_what_a_pod_needs(spec: dict[str, Any], needed: tuple[str, ...]) -> None:
    """A pod needs the features that its fields stand for."""
    pod = builders.pod(**spec)

    assert demands.node_selection(pod.spec).features == needed


@pytest.mark.parametrize(
    ("listed", "declared"),
    [
        pytest.param(None, set(), id="nothing"),
        pytest.param((ALL,), {ALL}, id="one that pods may need"),
        pytest.param((ALL, "Another", USERS), {ALL, USERS}, id="no others are kept"),
    ],
)
def test_what_a_node_declares(listed: tuple[str, ...] | None, declared: set[str]) -> None:
    """Of a Node's features those are kept that a pod may need."""
    node = raw.Node(wire.Meta(name="n1"), status=raw.NodeStatus(declared_features=listed))

    assert nodes.read(node).declared_features == declared
