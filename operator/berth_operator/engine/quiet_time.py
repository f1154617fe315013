"""When nothing is bound for a moment: then there is time for what may wait."""

import asyncio
from collections.abc import Callable
from typing import Final

from berth_operator.engine import ports

QUIET_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.05


async def wait(is_busy: Callable[[], bool], clock: ports.Clock) -> None:
    """Wait, within a limit, until no pod is bound for a moment: waiting pods come before statuses.

    Kopf reads all Devices when it starts; the binds that waited for a new leader come first.
    """
    started = last = clock()
    while (now := clock()) < min(last + QUIET_SECONDS, started + PATIENCE_SECONDS):
        if is_busy():
            last = now
        await asyncio.sleep(LOOK_SECONDS)
