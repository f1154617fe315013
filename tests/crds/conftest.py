"""What the tests of the contract share: examples to start from, and the kinds on the cluster."""

import pathlib
from collections.abc import Callable

import pytest
import yaml

from crds import shelves
from testbed import cluster as clusters

HERE = pathlib.Path(__file__).parent
CRDS = HERE.parents[1] / "crds"


@pytest.fixture(scope="session")
def crds_folder() -> pathlib.Path:
    """Name the folder of the generated CRDs."""
    return CRDS


@pytest.fixture
def example() -> Callable[[str], shelves.Object]:
    """Lend a fresh copy of an example, by its kind in lowercase."""
    return lambda kind: yaml.safe_load((HERE / "examples" / f"{kind}.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def kinds(cluster: clusters.Cluster) -> clusters.Cluster:
    """Lend the cluster with our kinds on it; applying them again changes nothing."""
    cluster.apply(*sorted(CRDS.glob("*.yaml")))
    crds = cluster.kubectl("get", "-f", str(CRDS), "-o", "name").split()
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *crds)
    return cluster


@pytest.fixture
def shelf(kinds: clusters.Cluster, namespace: str, example: Callable[[str], shelves.Object]) -> shelves.Shelf:
    """Lend a place for objects on the cluster that has our kinds."""
    return shelves.Shelf(kinds, namespace, example)
