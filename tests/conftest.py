"""What all tests share: one real cluster for the whole run, and a fresh namespace in it for each test.

A test that names the fixture `cluster`, or anything built on it, gets the marker `cluster` by itself, so
that `-m "not cluster"` is the fast set and nobody has to remember.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import hypothesis
import pytest
import uvloop

from testbed import cluster as clusters
from testbed import lending

# How long an example takes says more of what else the machine does than of the program.
hypothesis.settings.register_profile("berth", deadline=None)
hypothesis.settings.load_profile("berth")

# Fixtures that lend a cluster, this run's or one of their own.
CLUSTERS = {"cluster", "base", "own_cluster", "parity_cluster"}
# What the operator is made of runs in its loop. Programs that tests start have their own.
# The client's connections are tried in both, for agents have asyncio's.
IN_UVLOOP = {"admission", "engine", "http_api", "http_server", "kube", "prometheus"}
IN_BOTH = {"test_api.py", "test_bounds.py", "test_connection_pool.py", "test_idle_timeout.py"}
# They mostly wait for containers: others compute meanwhile, and nobody waits for them at the end.
LONGEST = ("release/test_upgrade.py", "release/test_install.py")


@pytest.hookimpl(tryfirst=True)  # Before the option -m looks at the markers.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses the cluster, in whatever way; the longest files come first."""
    for item in items:
        if CLUSTERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)
        if hypothesis.is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.property)
    items.sort(key=lambda item: not any(map(item.path.match, LONGEST)))


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose the loop in which a test runs, or both."""
    part = item.path.relative_to(Path(__file__).parent).parts[0]
    both = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    if part == "client" and item.path.name in IN_BOTH:
        return both
    chosen = "uvloop" if part in IN_UVLOOP else "asyncio"
    return {chosen: both[chosen]}


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[clusters.Cluster]:
    """Lend the cluster of this run; do not stop or break it for longer than your own test."""
    yield from lending.lend(clusters.Cluster(), request.config)


@pytest.fixture
def namespace(cluster: clusters.Cluster) -> str:
    """Lend a namespace that nobody else uses; it goes away with the cluster."""
    return cluster.namespace()


@pytest.fixture(scope="session")
def own_cluster(request: pytest.FixtureRequest) -> Iterator[clusters.Cluster]:
    """Lend a second cluster, which only end-to-end tests use: theirs has a leader of its own."""
    yield from lending.lend(clusters.Cluster(), request.config)
