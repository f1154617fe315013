"""The agent as a process of its own, and its end by a signal."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from testbed import processes

END_SECONDS: Final = 120.0  # On the slowest machine: what holds an agent up in these tests never ends.


@contextlib.asynccontextmanager
async def running(
    command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None
) -> AsyncIterator[subprocess.Popen[bytes]]:
    """Run a program beside the block; it does not outlive it."""
    with log.open("wb") as stderr:
        variables = {**os.environ, **processes.OF_OURS, **(env or {})}
        agent = subprocess.Popen(command, stderr=stderr, env=variables)  # noqa: ASYNC220  only started here
        try:
            yield agent
        finally:
            agent.kill()
            agent.wait()


async def ends(agent: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM) -> None:
    """Ask it to end, and wait until it has done so in order."""
    agent.send_signal(number)
    assert await asyncio.to_thread(agent.wait, END_SECONDS) == 0
