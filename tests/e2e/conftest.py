"""What the end-to-end tests share: one cluster with all that the project ships, and a stage for each test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from berth_crds.client import api, connection
from e2e import fleet
from e2e import stage as stages
from support import kubelet
from testbed import cluster as clusters


@pytest.fixture(scope="session")
def base() -> Iterator[fleet.Fleet]:
    """Start a cluster of our own: there is one leader in a cluster, and each test has operators."""
    with clusters.Cluster() as cluster:
        installed = fleet.Fleet(cluster)
        installed.install()
        # For a moment the server of a new kind asks for patience, which kubectl has.
        cluster.kubectl("get", "devices,gpupods,placementpolicies", "--all-namespaces")
        yield installed


@pytest.fixture
async def stage(base: fleet.Fleet) -> AsyncIterator[stages.Stage]:
    """Lend a stage."""
    link = connection.load(base.cluster.admin_kubeconfig)
    async with api.Api(link, agent="test-e2e") as admin, kubelet.Kubelets(base.cluster) as kubelets:
        lent = stages.Stage(base, kubelets, admin)
        try:
            yield lent
        finally:
            await lent.close()
