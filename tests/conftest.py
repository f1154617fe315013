"""What all tests share: one real cluster for the whole run, and a fresh namespace in it for each test.

A test that names the fixture `cluster`, or anything built on it, gets the marker `cluster` by itself, so
that `-m "not cluster"` is the fast set and nobody has to remember. Where the cluster's programs can neither
be found nor built because the machine has no Go or no network, these tests are skipped and say so; every
other trouble is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testbed import builder, processes
from testbed import cluster as clusters

CANNOT_BE_HELPED = {builder.Obstacle.NO_GO, builder.Obstacle.NO_NETWORK}


@pytest.hookimpl(tryfirst=True)  # Before the option -m looks at the markers.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses the cluster, directly or through another fixture."""
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[clusters.Cluster]:
    """Lend the cluster of this run; do not stop or break it for longer than your own test."""
    testbed = clusters.Cluster()
    _start(testbed, request.config)
    yield testbed
    testbed.stop()


@pytest.fixture
def namespace(cluster: clusters.Cluster) -> str:
    """Lend a namespace that nobody else uses; it goes away with the cluster."""
    return cluster.namespace()


def _start(testbed: clusters.Cluster, config: pytest.Config) -> None:
    """Start the cluster, with its progress on the terminal: pytest hides output, a build takes minutes."""
    capture = config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():
            testbed.start()
    except builder.Unavailable as error:
        if error.obstacle in CANNOT_BE_HELPED:
            pytest.skip(error.sentence)
        pytest.fail(str(error), pytrace=False)
    except processes.CannotStart as error:
        pytest.fail(str(error), pytrace=False)
