"""What all scenarios of `make bench` have in common as programs.

How they tell where they are, get their cluster, and end on Ctrl-C. What is measured is
their own.
"""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from bench import bench_cluster
from testbed import cluster as clusters
from testbed import console

T = TypeVar("T")


def tell(sentence: str) -> None:
    """Print one line for the person who waits."""
    print(f"bench: {sentence}", file=sys.stderr, flush=True)


@contextlib.asynccontextmanager
async def furnished(nodes: int, *, env_delivered: bool = True) -> AsyncIterator[bench_cluster.BenchCluster]:
    """Start a cluster with so many nodes, and take it down afterwards."""
    with clusters.Cluster(
        controller_manager=False, apiserver_args=bench_cluster.LIFTED, tell=tell
    ) as testbed:
        async with bench_cluster.BenchCluster(testbed, tell=tell) as place:
            await place.furnish(nodes, env_delivered=env_delivered)
            yield place


def add_env_delivery(parser: argparse.ArgumentParser) -> None:
    """Let a command line leave out the policy that writes the environment of our pods."""
    parser.add_argument(
        "--env-delivery",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="have the API server write the environment of our pods",
    )


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a scenario to its end and return what it found; what ends it early ends the program too."""
    found: list[T] = []
    if code := console.exit_code("bench", lambda: found.append(asyncio.run(work))):
        sys.exit(code)
    return found[0]
