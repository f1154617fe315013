"""Follows a collection without a watch: it is read again now and then.

A server hands each change of a custom resource to every watch of that resource, and only then compares the
selector: with a watch in each of 5,000 agents, each write of a GpuPod costs it 20 ms. Where the one who
follows is the only writer, as an agent is of its node's GpuPods, it knows its own writes from their answers,
and a watch would only tell what somebody changed by hand. That is found by the next list.

A list makes the server compare all objects. The pause to the next one is so many times what the list took
that 5,000 agents together keep a server busy for a quarter of a core, however many objects there are.
"""

import asyncio
import random
from typing import Final

from berth_crds.client import informer
from berth_crds.client.store import B

SECONDS_BETWEEN: Final = 20_000.0  # For each second that a list takes.
SHORTEST_SECONDS: Final = 30.0
LONGEST_SECONDS: Final = 600.0
SPREAD: Final = 0.25


class Poller(informer.Informer[B]):
    """Lists one collection again and again, and feeds one sink with what differs."""

    _list_seconds = 0.0  # How long the last list took.

    async def read(self) -> None:
        """Read the collection once, and note how long that takes."""
        began = asyncio.get_running_loop().time()
        await super().read()
        self._list_seconds = asyncio.get_running_loop().time() - began

    async def _watch(self) -> None:
        """Pause until the next list."""
        self._list_backoff.watched()
        await asyncio.sleep(pause(self._list_seconds) * random.uniform(1 - SPREAD, 1 + SPREAD))

    def _may_be_restored(self) -> bool:
        """Nothing is in sight between two lists, so of a restore only those learn who watch something."""
        return False


def pause(list_seconds: float) -> float:
    """Return how long to pause after a list that took so long."""
    return min(max(SECONDS_BETWEEN * list_seconds, SHORTEST_SECONDS), LONGEST_SECONDS)
