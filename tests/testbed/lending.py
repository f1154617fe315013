"""Lends clusters to tests, and says in one sentence where a machine cannot have one.

Where the cluster's programs can neither be found nor built because the machine has no Go
or no network, the tests that need one are skipped and say so; every other trouble is a
failure.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from testbed import builder, processes
from testbed import cluster as clusters

CANNOT_BE_HELPED: Final = {builder.Obstacle.NO_GO, builder.Obstacle.NO_NETWORK}


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
