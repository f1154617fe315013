"""Where things live in the API: the paths are those that kubectl uses."""

import pytest

from berth_crds.client import resources


@pytest.mark.parametrize(
    ("found", "path"),
    [
        pytest.param(resources.PODS.path(), "/api/v1/pods", id="all pods of the cluster"),
        pytest.param(
            resources.PODS.path(namespace="ml"), "/api/v1/namespaces/ml/pods", id="pods of a namespace"
        ),
        pytest.param(
            resources.PODS.path("a", namespace="ml", sub="binding"),
            "/api/v1/namespaces/ml/pods/a/binding",
            id="a pod's binding",
        ),
        pytest.param(resources.NODES.path("n1"), "/api/v1/nodes/n1", id="a node"),
        pytest.param(
            resources.LEASES.path("l", namespace="s"),
            "/apis/coordination.k8s.io/v1/namespaces/s/leases/l",
            id="a lease",
        ),
        pytest.param(
            resources.DEVICES.path("n1", sub="status"),
            "/apis/berth.dev/v1alpha1/devices/n1/status",
            id="a device's status",
        ),
    ],
)
def test_paths(found: str, path: str) -> None:
    """Collection, object and subresource are one path each, with and without a group."""
    assert found == path


def test_a_resource_is_named_as_rbac_names_it() -> None:
    """In messages a kind of a group carries the group, a core one does not."""
    assert str(resources.DEVICES) == "devices.berth.dev"
    assert str(resources.PODS) == "pods"
    assert resources.PODS.api_version == "v1"
    assert resources.LEASES.api_version == "coordination.k8s.io/v1"
