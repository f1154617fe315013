"""What all scenarios of `make bench` have in common as programs.

How they tell where they are, get their cluster, end on Ctrl-C, and write down what they
found. What is measured and how is the scenario's own.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from bench import arena
from testbed import cluster as clusters
from testbed import console

ROOT: Final = Path(__file__).resolve().parents[2]
RESULTS: Final = ROOT / "build" / "bench"

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
    """Run a scenario to its end and return what it found; what ends it early ends the program too."""
    found: list[T] = []
    if code := console.exit_code("bench", lambda: found.append(asyncio.run(work))):
        sys.exit(code)
    return found[0]


def write(name: str, found: Sequence[dict[str, Any]] | dict[str, Any]) -> None:
    """Write what was found: one flat record, or a list of them."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / name
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"\nwritten to {path.relative_to(ROOT)}", file=sys.stderr)
