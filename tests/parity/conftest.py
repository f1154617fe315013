"""What the tests here share: a cluster of their own, whose only scheduler is kube-scheduler."""

from collections.abc import AsyncIterator, Iterator

import pytest

from parity import stock
from testbed import cluster as clusters
from testbed import lending


@pytest.fixture(scope="session")
def parity_cluster(request: pytest.FixtureRequest) -> Iterator[clusters.Cluster]:
    """Lend a cluster in which only these tests make nodes."""
    yield from lending.share("parity_cluster", stock.control_plane(), request.config)


@pytest.fixture
async def oracle(parity_cluster: clusters.Cluster) -> AsyncIterator[stock.Stock]:
    """Lend kube-scheduler, which says where pods may run."""
    async with stock.started(parity_cluster) as found:
        yield found
