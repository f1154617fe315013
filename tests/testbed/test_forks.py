"""A program that is forked is as one that was started: with its own words, environment, log and end."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from testbed import forks, kubeconfig, ports, waiting

TESTS: Final = Path(__file__).resolve().parents[1]
ENVIRONMENT: Final = {**os.environ, "PYTHONUNBUFFERED": "1"}
OPERATOR: Final = "berth_operator"


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Return an operator that waits for a server that is not there."""
    nowhere = kubeconfig.Endpoint(server=f"http://127.0.0.1:{ports.free()}", ca_file=None)
    path = kubeconfig.write(tmp_path / "kubeconfig", nowhere, {"u": kubeconfig.token("t")})
    return [OPERATOR, "--kubeconfig", str(path)]


def test_a_program_has_its_own_words_environment_and_log(tmp_path: Path) -> None:
    """What it says is in its log, and how it ends is known."""
    log, wrong = tmp_path / "log", {**ENVIRONMENT, "BERTH_LOG_LEVEL": "loud"}

    helped = forks.start("help", ["berth_agent", "--help"], log=log, env=ENVIRONMENT).process
    statuses = [helped.wait(30), forks.start("wrong", [OPERATOR], log=log, env=wrong).process.wait(30)]

    said = log.read_text()
    assert isinstance(helped, forks.ForkedProcess)
    assert statuses == [0, 2]
    assert said.startswith("usage: berth-agent ") and said.count("loud") == 1


def test_what_the_interpreter_is_to_read_otherwise_is_not_forked(tmp_path: Path) -> None:
    """It has been read long before."""
    words, log = [OPERATOR, "--version"], tmp_path / "log"

    program = forks.start("other", words, log=log, env=ENVIRONMENT | {"PYTHONPATH": str(tmp_path)})

    assert program.process.wait(30) == 0
    assert not isinstance(program.process, forks.ForkedProcess)


@pytest.mark.parametrize(("way", "status"), [(signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_signal_ends_it(words: list[str], tmp_path: Path, way: signal.Signals, status: int) -> None:
    """It ends as the program or the kernel has it end, and not before."""
    program = forks.start("operator", words, log=tmp_path / "log", env=ENVIRONMENT)
    waiting.until(lambda: "Cannot connect" in program.log.read_text(), what="the operator to try", seconds=30)
    alive = program.alive()
    with pytest.raises(subprocess.TimeoutExpired):
        program.process.wait(0.01)

    program.process.send_signal(way)

    assert (alive, program.process.wait(30), program.alive()) == (True, status, False)


def test_it_dies_with_its_owner(words: list[str], tmp_path: Path) -> None:
    """However the owner ends, the kernel ends what it had started."""
    script = (
        "import os, pathlib, sys, time\n"
        "from testbed import forks\n"
        "env = os.environ | {'PYTHONUNBUFFERED': '1'}\n"
        "program = forks.start('operator', sys.argv[2:], log=pathlib.Path(sys.argv[1]), env=env)\n"
        "print(program.process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "log"), *words]
    owner = subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": str(TESTS)}, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    assert _is_there(pid)

    owner.kill()
    owner.communicate()

    waiting.until(lambda: not _is_there(pid), what="the end of the program")


def _is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not asked about does not."""
    with contextlib.suppress(FileNotFoundError):
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
