"""What the tests of the contract share: the kinds on the cluster, and objects of them."""

import pytest

from crds import example_objects
from testbed import cluster as clusters
from testbed import shipped


@pytest.fixture(scope="session")
def kinds(cluster: clusters.Cluster) -> clusters.Cluster:
    """Return the cluster with our kinds on it; applying them again changes nothing."""
    shipped.install_kinds(cluster)
    return cluster


@pytest.fixture
def objects(kinds: clusters.Cluster, namespace: str) -> example_objects.ExampleObjects:
    """Return a maker of objects on the cluster that has our kinds."""
    return example_objects.ExampleObjects(kinds, namespace)
