"""What all tests share: one real cluster for the whole run, and a fresh namespace in it for each test.

A test that names the fixture `cluster`, or anything built on it, gets the marker `cluster` by itself, so
that `-m "not cluster"` is the fast set and nobody has to remember.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import hypothesis
import pytest
import uvloop

from support import thorough
from testbed import cluster as clusters
from testbed import lending

# How long an example takes says more of what else the machine does than of the program.
hypothesis.settings.register_profile("berth", deadline=None, max_examples=thorough.examples(200))
hypothesis.settings.load_profile("berth")

# The programs of clusters have memory enough here: they collect garbage a third as often as by themselves.
os.environ.setdefault("GOGC", "400")
CLUSTERS = {*lending.SHARED, "base"}  # Fixtures that lend a cluster, or what stands in one.
# What the operator is made of runs in its loop. Programs that tests start have their own.
# The client's connections are tried in both, for agents have asyncio's.
IN_UVLOOP = {"admission", "engine", "http_api", "http_server", "kube", "prometheus"}
IN_BOTH = {
    "test_api.py",
    "test_bounds.py",
    "test_connection_pool.py",
    "test_idle_timeout.py",
    "test_lost_connections.py",
    "test_sockets.py",
}
# They mostly wait for containers: others compute meanwhile, and nobody waits for them at the end.
LONGEST = ("release/test_upgrade.py", "release/test_install.py")


def pytest_configure(config: pytest.Config) -> None:
    """Give each of several workers a session of its own.

    Linux shares the processors out among sessions, and each program that a test starts has one. Workers that
    share one get little together, and those who stand between operators and the server hold both up.
    """
    if hasattr(config, "workerinput"):
        os.setsid()


def pytest_collection_finish() -> None:
    """Have garbage collections leave out what stays for the whole run: all modules, ten thousand tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # Before the option -m looks at the markers.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses a cluster, in whatever way, and bring the files into order."""
    for item in items:
        if CLUSTERS & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)
        if hypothesis.is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.property)
    turns = lending.turns(items)
    items.sort(key=lambda item: (not any(map(item.path.match, LONGEST)), turns[item.path]))


@pytest.hookimpl(trylast=True)  # After the fixtures of a test, or of a file, are gone.
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the clusters that no further test of this worker uses."""
    if nextitem is not None:
        lending.stop_unused(item.config, nextitem)


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
    yield from lending.share("cluster", clusters.Cluster(), request.config)


@pytest.fixture
def namespace(cluster: clusters.Cluster) -> str:
    """Lend a namespace that nobody else uses; it goes away with the cluster."""
    return cluster.namespace()


@pytest.fixture(scope="session")
def own_cluster(request: pytest.FixtureRequest) -> Iterator[clusters.Cluster]:
    """Lend a second cluster, which only end-to-end tests use: theirs has a leader of its own."""
    yield from lending.share("own_cluster", clusters.Cluster(), request.config)
