"""A teller at work beside a test, and what it would have told by event."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from berth_crds.client import api
from berth_operator.engine import pace
from berth_operator.kube import events, tellers
from berth_operator.scheduling.decisions import Reason
from support import clock


class Notes(events.Events):
    """Notes that are kept instead of posted."""

    def __init__(self, session: api.Api) -> None:
        super().__init__(session, pace.unlimited(), wall=clock.Clock().wall, instance="test")
        self.told: list[tuple[str, str]] = []

    def tell(self, note: events.Note) -> None:
        """Keep a note."""
        self.told.append((note.reason, note.message))


@contextlib.asynccontextmanager
async def telling(teller: tellers.Teller) -> AsyncIterator[None]:
    """Run a teller beside the block."""
    task = asyncio.create_task(teller.run())
    try:
        yield
        assert not task.done(), "the teller ended by itself"
    finally:
        task.cancel()
        await asyncio.wait([task])


def waits(*reasons: Reason) -> str:
    """Say no on a node for each reason."""
    return f"No node fits: {', '.join(reasons)}"
