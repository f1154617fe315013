"""What a program cost: processor time, memory, and writes to the API.

Time and memory are read from /proc, so the program under test need not take part. Writes
are counted in the API server's audit log, which no client can fool.
"""

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench import scenario
from testbed import audit

TICK: Final = os.sysconf("SC_CLK_TCK")
QUIET_SHARE: Final = 0.08  # Of one core, over one second: what a program that only waits may use.
QUIET_BYTES: Final = 12 << 10  # Of the audit log in one second: ten lines or so.
QUIET_LOOKS: Final = 2
QUIET_PATIENCE: Final = 300.0  # Ten thousand Events are posted within a minute.


def processor_seconds(pid: int) -> float:
    """Return how long a process has computed, in user and in system mode; its children are not counted."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def peak_mib(pid: int) -> float:
    """Tell the most memory that a process has had resident."""
    return _memory(pid, "VmHWM:")


def resident_mib(pid: int) -> float:
    """Return how much memory a process has resident now."""
    return _memory(pid, "VmRSS:")


def _memory(pid: int, field: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith(field))
    return int(line.split()[1]) / 1024


async def quiet(pid: int, log: Path) -> float:
    """Wait until a process only waits and hardly anything is written, and tell how long it has computed."""
    deadline = time.monotonic() + QUIET_PATIENCE
    calm, before = 0, look(pid, log)
    while calm < QUIET_LOOKS:
        if time.monotonic() > deadline:
            scenario.tell(
                f"process {pid} is not quiet after {QUIET_PATIENCE:g} s; what it does later is not counted"
            )
            break
        await asyncio.sleep(1)
        after = look(pid, log)
        still = after[0] - before[0] < QUIET_SHARE and after[1] - before[1] < QUIET_BYTES
        calm, before = calm + 1 if still else 0, after
    return before[0]


def look(pid: int, log: Path) -> tuple[float, int]:
    """Return how long a process has computed, and how long a log is."""
    return processor_seconds(pid), log.stat().st_size


def writes(log: Iterable[audit.AuditEvent], *, user: str, namespace: str) -> tuple[int, int, int]:
    """Count one user's writes to pods of a namespace, to its events, and to anything else."""
    mine = audit.writes_by(log, user)
    pods, events = (len(audit.writes_to(mine, kind, namespace=namespace)) for kind in ("pods", "events"))
    return pods, events, len(mine) - pods - events
