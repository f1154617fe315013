"""What only a real card shows, for `make test-gpu`: programs that compute there, fail, or share it by MPS."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from berth_agent import other_holders, probe, sysfs
from berth_agent.delivery import isolation
from berth_agent.gpupods import process_owners
from berth_agent.kubelet import device_ids
from berth_agent.mps.daemon import MpsConfig, MpsDaemon
from berth_agent.nvml import nvml_probe
from berth_crds import catalog, wire
from support import cuda_program, nodes, timeless
from support.nvml import fixtures
from testbed import waiting

pytestmark = pytest.mark.skipif(not os.environ.get(fixtures.REAL), reason="`make test-gpu` asks real cards")
PROGRAM: Final = (sys.executable, "-m", cuda_program.__name__)
# XID 31: a program used memory of the card that it does not have.
FAULT_OF_A_PROGRAM: Final = 31


def occupants(source: nvml_probe.NvmlProbe) -> Sequence[wire.Occupant]:
    """Return the processes on the first card, none of which was given it."""
    allocatable = device_ids.allocatable_devices(nodes.spec(source).devices)
    located = process_owners.locate(source.processes() or (), Path("/proc"))
    found = process_owners.on_cards(located, allocatable, lambda _: None)
    least = other_holders.USUAL.least_process_memory
    return next(iter(process_owners.occupants(found, {}, least_memory=least).values()), ())


def test_a_program_is_listed_with_its_memory_and_its_load_is_measured() -> None:
    """From when it computes until it ends."""
    source = nvml_probe.NvmlProbe(sysfs.Kernel())
    before = nodes.first(source).measurements.memory_used or 0

    def held() -> dict[int, wire.Occupant]:
        return {one.pid: one for one in occupants(source)}

    def load() -> probe.Measurements:
        return nodes.first(source).measurements

    with subprocess.Popen((*PROGRAM, "compute"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None and program.stdout.readline() == b"ready\n"
        waiting.until(lambda: (load().utilization or 0) > 50, what="the card is busy")
        found, used = held()[program.pid], load().memory_used or 0
        program.communicate(b"\n")

    assert program.returncode == 0
    assert found.command.startswith("python")
    # What a program has of a card before it allocates anything closes the card already.
    context = (found.memory or 0) - cuda_program.MEMORY
    assert other_holders.USUAL.least_process_memory < context < cuda_program.MEMORY
    assert not found.small
    assert used - before >= cuda_program.MEMORY
    waiting.until(lambda: program.pid not in held(), what="the program is gone from the card")
    source.close()


def test_an_error_of_a_program_is_reported_and_the_card_stays_well() -> None:
    """The driver names the card, and the cause lies in the program."""
    source = nvml_probe.NvmlProbe(sysfs.Kernel())
    said = nodes.spec(source)

    failed = subprocess.run((*PROGRAM, "fail"), capture_output=True, text=True, check=False)
    waiting.until(source.has_events, what="the driver reports an error")
    seen = nodes.look(source)

    assert "cuCtxSynchronize failed" in failed.stderr
    assert probe.XidEvent(said.devices[0].uuid, FAULT_OF_A_PROGRAM) in seen.xids
    assert nodes.status(seen, said).devices == ()
    source.close()


# ---------------------------------------------------------------- MPS


def by_way_of(pipe: Path) -> dict[str, str]:
    """Return the variables of a program that uses the cards through a daemon of MPS."""
    return {**os.environ, isolation.MPS_PIPE: f"{pipe}"}


@pytest.fixture
async def pipe(tmp_path: Path) -> AsyncIterator[Path]:
    """Lend the folder by which programs reach a daemon that splits the first card in three."""
    if shutil.which("nvidia-cuda-mps-control") is None:
        pytest.skip("the driver was installed without MPS")
    source = nvml_probe.NvmlProbe(sysfs.Kernel())
    cards = nodes.spec(source).devices
    source.close()
    root = tmp_path / "mps"
    root.mkdir()
    (root / isolation.SHM_FOLDER).symlink_to(isolation.SHM)
    # The cards keep their compute mode: this machine is not ours to set.
    made = MpsDaemon(MpsConfig(root, sharing=wire.Sharing("mps", 3)), "n1", interval=0.2)
    made.set_cards(cards[:1])
    async with timeless.beside(made.run()):
        await waiting.eventually(lambda: asyncio.sleep(0, not made.failure), what="MPS serves")
        try:
            yield root / isolation.PIPE_FOLDER
        finally:
            end = await asyncio.create_subprocess_exec(
                "nvidia-cuda-mps-control", stdin=subprocess.PIPE, env=by_way_of(root / isolation.PIPE_FOLDER)
            )
            await end.communicate(b"quit -t 1\n")


async def client(
    pipe: Path, gib: int, limits: Mapping[str, str] = {}, stdin: int = subprocess.PIPE
) -> asyncio.subprocess.Process:
    """Start a program that wants so much of the first card, and computes until its input ends."""
    return await asyncio.create_subprocess_exec(
        *PROGRAM,
        "compute",
        f"{gib * catalog.GIB}",
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**by_way_of(pipe), **limits},
    )


async def allocated(pipe: Path, gib: int, limits: Mapping[str, str] = {}) -> str:
    """Return how such a program fares: `ready`, or what failed."""
    program = await client(pipe, gib, limits, subprocess.DEVNULL)
    said, wrong = await program.communicate()
    return (said + wrong).decode().strip()


async def test_mps_keeps_programs_to_their_parts(pipe: Path) -> None:
    """To that of a replica, or to that which a container brings."""
    source = nvml_probe.NvmlProbe(sysfs.Kernel())
    third = (nodes.first(source).memory or 0) // 3 // catalog.GIB
    part = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=4096M", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "20"}
    refused = "cuMemAlloc_v2 failed with 2"

    assert await allocated(pipe, third - 2) == "ready"
    assert await allocated(pipe, third + 1) == refused
    assert await allocated(pipe, 2, part) == "ready"
    assert await allocated(pipe, 5, part) == refused

    source.close()


async def test_programs_that_share_a_card_by_mps_are_listed_one_by_one(pipe: Path) -> None:
    """Each with its own memory, so that a pod is charged with its own, and the server with next to none."""
    source = nvml_probe.NvmlProbe(sysfs.Kernel())
    programs = [await client(pipe, gib) for gib in (2, 4)]
    for program in programs:
        assert program.stdout is not None and await program.stdout.readline() == b"ready\n"

    found = {one.pid: one for one in occupants(source)}
    for program in programs:
        await program.communicate(b"\n")

    held = [(found.pop(program.pid).memory or 0) // catalog.GIB for program in programs]
    assert held == [2, 4]
    (server,) = found.values()
    assert (server.command, server.small) == (process_owners.MPS_SERVER, True), server
    source.close()
