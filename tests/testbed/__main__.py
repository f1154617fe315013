"""The same cluster by hand: `PYTHONPATH=tests .venv/bin/python -m testbed up`.

For a look at what tests see, and for trying a change with kubectl. Everything it starts ends with it.
"""

import argparse
import contextlib
import sys
import threading
from collections.abc import Sequence

from testbed import binaries, cluster, console, workers


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; troubles are sentences, not tracebacks."""
    parser = argparse.ArgumentParser(
        prog="PYTHONPATH=tests .venv/bin/python -m testbed",
        description="A real Kubernetes control plane on this machine, with real nodes on request.",
    )
    parser.add_argument("command", choices=["up", "build"], help="stay until Ctrl-C, or build the programs")
    workers.add_option(parser)
    chosen = parser.parse_args(words)
    if chosen.command == "build":
        return console.exit_code("testbed", build)
    return console.exit_code("testbed", lambda: up(chosen.worker), interrupted=0)


def build() -> None:
    """Find or build every program."""
    binaries.ensure(binaries.PROGRAMS)


def up(nodes: Sequence[str]) -> None:
    """Start a cluster with real nodes of these names, and stay until told to end."""
    workers.require(nodes)
    with cluster.Cluster() as testbed, contextlib.ExitStack() as stack:
        for name in nodes:
            stack.enter_context(workers.Worker(testbed, name))
        print(console.exports(testbed))
        print(
            f"# Logs are in {testbed.directory}; Ctrl-C stops the cluster and removes everything.", flush=True
        )
        threading.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
