"""What all scenarios of `make bench` have in common as programs.

How they tell where they are, get their cluster, end on Ctrl-C, and write down what they
found. What is measured and how is the scenario's own.
"""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from bench import arena
from testbed import cluster as clusters

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "build" / "bench"
INTERRUPTED: Final = 130

T = TypeVar("T")


def tell(sentence: str) -> None:
    """Print one line for the person who waits."""
    print(f"bench: {sentence}", file=sys.stderr, flush=True)


@contextlib.asynccontextmanager
async def furnished(nodes: int) -> AsyncIterator[arena.Arena]:
    """Start a cluster with so many nodes, and take it down afterwards."""
    with clusters.Cluster(controller_manager=False, apiserver_args=arena.LIFTED, tell=tell) as testbed:
        async with arena.Arena(testbed, tell=tell) as place:
            await place.furnish(nodes)
            yield place


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run a scenario to its end; a signal ends it in order, and the program with it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def write(name: str, found: Sequence[dict[str, Any]] | dict[str, Any]) -> None:
    """Write what was found: one flat record, or a list of them."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / name
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"\nwritten to {path.relative_to(ROOT)}", file=sys.stderr)
