"""What only a real card shows, for `make test-gpu`: a program that computes there, and one that fails."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from berth_agent import probe, sysfs
from berth_agent.gpupods import process_owners
from berth_agent.nvml import nvml_probe
from support import cuda_program, nodes
from support.nvml import fixtures
from testbed import waiting

pytestmark = pytest.mark.skipif(not os.environ.get(fixtures.REAL), reason="`make test-gpu` asks real cards")
PROGRAM: Final = (sys.executable, "-m", cuda_program.__name__)
# XID 31: a program used memory of the card that it does not have.
FAULT_OF_A_PROGRAM: Final = 31


def test_a_program_is_listed_with_its_memory_and_its_load_is_measured() -> None:
    """From when it computes until it ends."""
    source = nvml_probe.NvmlProbe(sysfs.Kernel())
    before = nodes.first(source)

    def held() -> dict[int, tuple[str, int]]:
        located = process_owners.locate(source.processes() or (), Path("/proc"))
        return {one.process.pid: (one.command, one.process.memory or 0) for one in located}

    def load() -> probe.Measurements:
        return nodes.first(source).measurements

    with subprocess.Popen((*PROGRAM, "compute"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None and program.stdout.readline() == b"ready\n"
        waiting.until(lambda: (load().utilization or 0) > 50, what="the card is busy")
        command, memory = held()[program.pid]
        used = load().memory_used or 0
        program.communicate(b"\n")

    assert program.returncode == 0
    assert command.startswith("python")
    assert cuda_program.MEMORY <= memory < 3 * cuda_program.MEMORY
    assert used - (before.measurements.memory_used or 0) >= cuda_program.MEMORY
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
