"""However its owner ends, a cluster leaves no process and no directory behind."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import thorough
from testbed import enclosure, waiting, workers

TESTS = Path(__file__).resolve().parents[1]

# A node that leaves much behind, where this machine can have one.
WORKER = [] if workers.obstacle() else ["--worker=worker"]


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[str]]:
    """Yield a process that owns a cluster, started by the developer's tool."""
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed", "up", *WORKER],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.mark.cluster
@pytest.mark.parametrize(
    "way", [signal.SIGKILL, thorough.case(signal.SIGHUP)], ids=["a hard kill", "a closed terminal"]
)
def test_owner_ends(owner: subprocess.Popen[str], way: signal.Signals) -> None:
    """Whatever ends the owner ends its programs and what they started, and removes directory and cgroups."""
    assert owner.stdout is not None
    line = owner.stdout.readline()  # That people copy into their shell.
    match = re.fullmatch(r"export KUBECONFIG=(/.+)/admin\.kubeconfig\n", line)
    assert match, f"unexpected announcement: {line!r}"
    directory = Path(match[1])
    wanted = {
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        *(["kubelet", "containerd"] if WORKER else []),
    }
    waiting.until(lambda: wanted <= set(_programs_of(directory)), what=f"the start of {wanted}")
    assert bool(_cgroups_of(directory)) == bool(WORKER)

    owner.send_signal(way)
    owner.wait(30)

    waiting.until(lambda: not _programs_of(directory), what="the end of its programs")
    waiting.until(lambda: not directory.exists(), what=f"the end of {directory}")
    waiting.until(lambda: not _cgroups_of(directory), what="the end of its cgroups")


def _cgroups_of(directory: Path) -> list[Path]:
    patterns = (f"{directory.name}-*", f"*/{directory.name}-*")
    return [path for pattern in patterns for path in enclosure.CGROUPS.glob(pattern)]


def _programs_of(directory: Path) -> list[str]:
    """Return the name of every process whose command line mentions the directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if any(str(directory) in word for word in words):
                found.append(Path(words[0]).name)
    return found
