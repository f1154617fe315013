"""What happens to a program that binds: its first bind, its last one, its unexpected end.

The watcher's sighting says what was bound; here is only waited, never longer than the
program lives, and what it computed meanwhile is read when the moment has come.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Final

from bench import bench_cluster, process_costs, systems
from berth_crds import names
from testbed import processes

PATIENCE: Final = 300.0
SLOWEST: Final = 50.0  # Binds a second.


async def until_first(
    program: processes.Program, watching: asyncio.Task[None], sighting: bench_cluster.Sighting, *, server: int
) -> tuple[float, float]:
    """Wait for the first bind, and tell what program and server had computed when it was seen."""
    deadline = time.monotonic() + PATIENCE
    pid = program.process.pid
    while True:
        found = process_costs.processor_seconds(pid), process_costs.processor_seconds(server)
        if sighting.count or watching.done():
            return found
        if not program.alive() or time.monotonic() > deadline:
            raise SystemExit(f"no pod was bound:\n{processes.tail(program.log, lines=40)}")
        await asyncio.sleep(0.005)


async def until_last(
    program: processes.Program, watching: asyncio.Task[None], sighting: bench_cluster.Sighting, *, count: int
) -> None:
    """Wait for the last bind, but not after the program's end."""
    deadline = time.monotonic() + PATIENCE + count / SLOWEST
    while not watching.done():
        await asyncio.wait([watching], timeout=1)
        if not watching.done() and (not program.alive() or time.monotonic() > deadline):
            raise SystemExit(f"{sighting.count} of {count} pods bound:\n{processes.tail(program.log)}")
    watching.result()


async def filled(place: bench_cluster.BenchCluster, count: int) -> processes.Program:
    """Let our operator bind so many pods as they come, and give it as it lives on, quiet again."""
    await place.police(wanted=True)
    sighting = bench_cluster.Sighting()
    program = await systems.berth(place, "", None)
    watching: asyncio.Task[None] = asyncio.create_task(asyncio.sleep(0))
    try:
        namespace = await place.fill(count, scheduler=names.SCHEDULER_NAME)
        watching = asyncio.create_task(place.watch(namespace, count, sighting))
        await until_last(program, watching, sighting, count=count)
        await process_costs.quiet(program.process.pid, place.log)
    except BaseException:
        program.kill()
        raise
    finally:
        watching.cancel()
    return program


@contextlib.contextmanager
def busy(place: bench_cluster.BenchCluster, loops: int) -> Iterator[None]:
    """Keep so many processors busy beside the block."""
    words = (sys.executable, "-c", "while True: pass")
    log = place.cluster.directory / "busy.log"
    running = [processes.start(f"busy-{at}", words, log=log) for at in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
