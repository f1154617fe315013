"""The agent as a process of its own, and its end within the time it has for that."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

END_SECONDS: Final = 2.0


@contextlib.asynccontextmanager
async def running(
    command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None
) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run a program beside the block; it does not outlive it."""
    with log.open("wb") as said:
        agent = subprocess.Popen(command, stderr=said, env=os.environ | (env or {}))  # noqa: ASYNC220  only started here
        try:
            yield agent
        finally:
            agent.kill()
            agent.wait()


async def ends(agent: subprocess.Popen[bytes]) -> None:
    """Ask it to end: it does so in order, and soon."""
    told = time.monotonic()
    agent.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(agent.wait, 10) == 0
    assert time.monotonic() - told < END_SECONDS
