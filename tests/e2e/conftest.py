"""What the end-to-end tests share: one cluster with all that the project ships, and a stage for each test."""

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from e2e import fleet, inside
from e2e import stage as stages
from testbed import cluster as clusters
from testbed import processes, waiting, workers


@pytest.fixture(scope="session")
def base(own_cluster: clusters.Cluster) -> fleet.Fleet:
    """Install all that the project ships: there is one leader in a cluster, and each test has operators."""
    installed = fleet.Fleet(own_cluster)
    installed.install()
    # For a moment the server of a new kind asks for patience, which kubectl has.
    own_cluster.kubectl("get", "devices,gpupods,placementpolicies", "--all-namespaces")
    return installed


@pytest.fixture(scope="module")
def leader(base: fleet.Fleet) -> Iterator[processes.Program]:
    """Run one operator for all tests of a module that leave it alone."""
    program = base.operator(*stages.LONG, name=f"leader-{secrets.token_hex(3)}")
    try:
        waiting.until(
            lambda: "deciding:" in program.log.read_text(),
            what="the operator to decide",
            seconds=60,
            instead=lambda: processes.tail(program.log),
        )
        yield program
        assert program.alive(), processes.tail(program.log)
    finally:
        program.stop(grace=30)
    # One that had to be killed has not released its Lease, and the next module would wait for it in vain.
    assert "released the Lease" in program.log.read_text(), processes.tail(program.log)


@pytest.fixture
async def stage(base: fleet.Fleet) -> AsyncIterator[stages.Stage]:
    """Yield a stage."""
    async with stages.lent(base) as stage:
        yield stage


@pytest.fixture
def worker(stage: stages.Stage) -> Iterator[workers.Worker]:
    """Yield a node with a real kubelet and a real containerd."""
    yield from _worker(stage, nvidia=False)


@pytest.fixture
def nvidia_worker(stage: stages.Stage) -> Iterator[workers.Worker]:
    """Yield one whose runtime does what NVIDIA's does."""
    yield from _worker(stage, nvidia=True)


def _worker(stage: stages.Stage, *, nvidia: bool) -> Iterator[workers.Worker]:
    if why := workers.obstacle():
        pytest.skip(why)
    with workers.Worker(stage.cluster, f"worker-{secrets.token_hex(3)}", nvidia=nvidia) as worker:
        yield worker
    stage.cluster.delete(f"/api/v1/nodes/{worker.name}")


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """Return the root of a driver's installation."""
    inside.make_driver(tmp_path)
    return tmp_path
