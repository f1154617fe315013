"""The same cluster by hand: `PYTHONPATH=tests .venv/bin/python -m testbed up`.

For a look at what tests see, and for trying a change with kubectl. Everything it starts ends with it.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from testbed import binaries, cluster, console, processes, workers

ROOT = Path(__file__).resolve().parents[2]


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; troubles are sentences, not tracebacks."""
    arguments = _parser().parse_args(words)
    return console.exit_code("testbed", lambda: arguments.command(arguments))


def build(_arguments: argparse.Namespace) -> None:
    """Find or build every program."""
    binaries.ensure(binaries.PROGRAMS)


def where(_arguments: argparse.Namespace) -> None:
    """Print where each program comes from, one line each."""
    for name, program in binaries.PROGRAMS.items():
        found = binaries.locate(name)
        origin = f"{found.path} ({found.origin})" if found else f"not built yet, {program.usual_seconds} s"
        print(f"{name} {binaries.version(program)}: {origin}")


def up(arguments: argparse.Namespace) -> None:
    """Start a cluster and stay until told to end."""
    if arguments.worker and (why := workers.misnamed(arguments.worker) or workers.obstacle()):
        raise processes.CannotStart(f"there can be no worker: {why}")
    testbed = cluster.Cluster(
        controller_manager=not arguments.no_controller_manager,
        scheduler=arguments.scheduler,
        apiserver_args=arguments.apiserver_arg,
    )
    with testbed, contextlib.ExitStack() as nodes:
        if arguments.berth:
            install(testbed)
        for name in arguments.worker:
            nodes.enter_context(workers.Worker(testbed, name))
        print(console.exports(testbed))
        print(
            f"# Logs are in {testbed.directory}; Ctrl-C stops the cluster and removes everything.", flush=True
        )
        _wait_for_interrupt()


def install(testbed: cluster.Cluster, *, without: Sequence[str] = ()) -> None:
    """Apply what the project ships: the kinds, and when the server knows them the rest but for some files."""
    testbed.apply(ROOT / "crds")
    testbed.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
    testbed.apply(*(path for path in sorted((ROOT / "manifests").glob("*.yaml")) if path.name not in without))


def _wait_for_interrupt() -> None:
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        print("testbed: stopping", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="PYTHONPATH=tests .venv/bin/python -m testbed",
        description="A real Kubernetes control plane on this machine, with real nodes on request.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    starter = commands.add_parser("up", help="start a cluster and stay until Ctrl-C or SIGTERM")
    starter.add_argument("--berth", action="store_true", help="apply crds/ and manifests/ of this checkout")
    starter.add_argument("--scheduler", action="store_true", help="run kube-scheduler too")
    starter.add_argument("--no-controller-manager", action="store_true", help="do without garbage collection")
    starter.add_argument(
        "--apiserver-arg",
        action="append",
        default=[],
        metavar="ARG",
        help="one more argument for the API server, such as --apiserver-arg=--v=4; may be repeated",
    )
    starter.add_argument(
        "--worker",
        action="append",
        default=[],
        metavar="NAME",
        help="add a node with a real kubelet, as root; may be repeated",
    )
    starter.set_defaults(command=up)

    maker = commands.add_parser("build", help="find or build the programs, without starting them")
    maker.set_defaults(command=build)

    finder = commands.add_parser("where", help="print where each program comes from")
    finder.set_defaults(command=where)
    return parser


if __name__ == "__main__":
    sys.exit(main())
