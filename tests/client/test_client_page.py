"""The programs of the page on the client run, against a server in memory."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from berth_crds import catalog, fake, wire
from client.conftest import kubeconfig
from release import layout

PROGRAMS = re.findall(
    r"```python\n(.*?)```", (layout.ROOT / "manifests" / "client.md").read_text(), re.DOTALL
)
CARD = wire.HeldCard("GPU-1", 0, "gpu", 100, 80_000 * catalog.MIB)
HELD = wire.GpuPod(
    wire.Meta("p", "ns"), wire.GpuPodSpec("node-1", "u", (wire.HoldingContainer("main", (CARD,)),))
)
SICK = wire.Device(
    wire.Meta("node-1"),
    wire.DeviceSpec("node-1"),
    wire.DeviceStatus((wire.CardStatus("GPU-1", "Unhealthy"), wire.CardStatus("GPU-2", "Healthy"))),
)


@pytest.mark.parametrize(
    ("at", "lines"),
    [
        pytest.param(0, ["['GPU-1']"], id="to read once"),
        pytest.param(1, ["{('ns', 'p'): ['GPU-1']}"], id="to follow"),
        pytest.param(2, ["NVIDIA A100-SXM4-80GB Unhealthy", "0 cards"], id="to test"),
    ],
)
async def test_a_program_of_the_page_says_what_it_found(at: int, lines: list[str], tmp_path: Path) -> None:
    """As somebody copies it, with a kubeconfig of theirs."""
    path = tmp_path / "config"
    async with fake.serving(SICK, HELD) as server:
        path.write_text(kubeconfig(cluster={"server": server.url}, user={}))
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", "-c", PROGRAMS[at]),
            env={**os.environ, "KUBECONFIG": f"{path}"},
            stdout=asyncio.subprocess.PIPE,
        )
        assert program.stdout is not None
        try:
            found = [(await program.stdout.readline()).decode().rstrip("\n") for _ in lines]
        finally:
            if program.returncode is None:
                program.kill()
            await program.wait()
    assert found == lines


def test_the_page_has_no_other_programs() -> None:
    """Each of them is tried."""
    assert len(PROGRAMS) == 3
