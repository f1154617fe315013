"""Lends clusters to tests, and says in one sentence where a machine cannot have one.

Where the cluster's programs can neither be found nor built because the machine has no Go
or no network, the tests that need one are skipped and say so; every other trouble is a
failure.

Some clusters are shared by many tests: of a whole run, or of one of its workers. Each takes a
twentieth of a core as long as it is there, so the files that use one come one after another, and
then it is stopped.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from testbed import builder, processes
from testbed import cluster as clusters

CANNOT_BE_HELPED: Final = {builder.Obstacle.NO_GO, builder.Obstacle.NO_NETWORK}

# The fixtures that share a cluster, in the order in which the files come that use them.
SHARED: Final = ("cluster", "parity_cluster", "own_cluster")
_turns: Final = pytest.StashKey[Mapping[Path, int]]()
_running: Final = pytest.StashKey[dict[str, clusters.Cluster]]()


def turns(items: Sequence[pytest.Item]) -> Mapping[Path, int]:
    """Return the turn of each file: that of the first cluster in SHARED that it uses, or the last."""
    found: dict[Path, int] = {}
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        turn = next((turn for turn, name in enumerate(SHARED) if name in used), len(SHARED))
        found[item.path] = min(turn, found.get(item.path, turn))
    if items:
        items[0].config.stash[_turns] = found
    return found


def share(name: str, testbed: clusters.Cluster, config: pytest.Config) -> Iterator[clusters.Cluster]:
    """Start a cluster as `lend` does, for all tests that use this fixture; `stop_unused` may end it."""
    for cluster in lend(testbed, config):
        config.stash.setdefault(_running, {})[name] = cluster
        yield cluster


def stop_unused(config: pytest.Config, following: pytest.Item) -> None:
    """Stop the shared clusters whose turn was before that of the next test."""
    running = config.stash.get(_running, {})
    for name in SHARED[: config.stash[_turns][following.path]]:
        if (cluster := running.pop(name, None)) is not None:
            cluster.stop()


def lend(testbed: clusters.Cluster, config: pytest.Config) -> Iterator[clusters.Cluster]:
    """Start a cluster, or skip or fail with the reason, and stop it in the end."""
    _start(testbed, config)
    try:
        yield testbed
    finally:
        testbed.stop()


def _start(testbed: clusters.Cluster, config: pytest.Config) -> None:
    """Start it with its progress on the terminal: pytest hides output, and a build takes minutes."""
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
