"""What the tests of the contract share: examples to start from, and the kinds on the cluster."""

import pathlib
from collections.abc import Callable

import pytest
import yaml

from crds import example_objects
from testbed import cluster as clusters

HERE = pathlib.Path(__file__).parent
CRDS = HERE.parents[1] / "crds"


@pytest.fixture(scope="session")
def crds_folder() -> pathlib.Path:
    """Return the folder of the generated CRDs."""
    return CRDS


@pytest.fixture
def example() -> Callable[[str], example_objects.Object]:
    """Return a function that reads an example, by its kind in lowercase."""
    return lambda kind: yaml.safe_load((HERE / "examples" / f"{kind}.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def kinds(cluster: clusters.Cluster) -> clusters.Cluster:
    """Return the cluster with our kinds on it; applying them again changes nothing."""
    cluster.apply(*sorted(CRDS.glob("*.yaml")))
    crds = cluster.kubectl("get", "-f", str(CRDS), "-o", "name").split()
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *crds)
    return cluster


@pytest.fixture
def objects(
    kinds: clusters.Cluster, namespace: str, example: Callable[[str], example_objects.Object]
) -> example_objects.ExampleObjects:
    """Return a maker of objects on the cluster that has our kinds."""
    return example_objects.ExampleObjects(kinds, namespace, example)
