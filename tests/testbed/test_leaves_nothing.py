"""However its owner ends, a cluster leaves no process and no directory behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import cluster as clusters
from testbed import enclosure, waiting, workers

TESTS = Path(__file__).resolve().parents[1]

WAYS_TO_END = {
    "ctrl-c": signal.SIGINT,
    "a polite kill": signal.SIGTERM,
    "a closed terminal": signal.SIGHUP,
    "a hard kill": signal.SIGKILL,
}


@pytest.fixture
def owner(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that owns a cluster, started by the developer's tool, perhaps with more words."""
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed", "up", *getattr(request, "param", ())],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.mark.cluster
@pytest.mark.parametrize("way", WAYS_TO_END.values(), ids=WAYS_TO_END)
def test_owner_ends(owner: subprocess.Popen[str], way: signal.Signals) -> None:
    """Whatever ends the owner ends its programs too, and removes their directory."""
    directory = _announced_directory(owner)
    wanted = {"etcd", "kube-apiserver", "kube-controller-manager"}
    waiting.until(lambda: wanted <= set(_programs_of(directory).values()), what=f"the start of {wanted}")

    owner.send_signal(way)
    owner.wait(30)

    waiting.until(lambda: not _programs_of(directory), what="the end of its programs")
    waiting.until(lambda: not directory.exists(), what=f"the end of {directory}")


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.skipif(bool(workers.obstacle()), reason=workers.obstacle())
@pytest.mark.parametrize("owner", [("--worker", "worker")], indirect=True, ids=["with a worker"])
@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL], ids=["a polite kill", "a hard kill"])
def test_owner_of_a_real_node_ends(owner: subprocess.Popen[str], way: signal.Signals) -> None:
    """Neither a kubelet, nor what it started, nor its cgroups outlive who owned it."""
    directory = _announced_directory(owner)
    assert {"kubelet", "containerd"} <= set(_programs_of(directory).values())
    assert _cgroups_of(directory)

    owner.send_signal(way)
    owner.wait(30)

    waiting.until(lambda: not _programs_of(directory), what="the end of its programs")
    waiting.until(lambda: not directory.exists(), what=f"the end of {directory}")
    waiting.until(lambda: not _cgroups_of(directory), what="the end of its cgroups")


def _cgroups_of(directory: Path) -> list[Path]:
    return [
        path
        for pattern in ("*", "*/*")
        for path in enclosure.CGROUPS.glob(pattern)
        if path.name.startswith(f"{directory.name}-")
    ]


@pytest.mark.cluster
def test_context_ends() -> None:
    """A failure in the middle of a test stops the cluster before the failure is reported."""
    with pytest.raises(ZeroDivisionError), clusters.Cluster() as testbed:
        raise ZeroDivisionError

    assert not _programs_of(testbed.directory)
    assert not testbed.directory.exists()


def _announced_directory(owner: subprocess.Popen[str]) -> Path:
    """Read where the cluster lives from the line that people copy into their shell."""
    assert owner.stdout is not None
    line = owner.stdout.readline()
    match = re.fullmatch(r"export KUBECONFIG=(/.+)/admin\.kubeconfig\n", line)
    assert match, f"unexpected announcement: {line!r}"
    return Path(match[1])


def _programs_of(directory: Path) -> dict[int, str]:
    """Return the name of every process whose command line mentions the directory, by process id."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(str(directory) in word for word in words):
            found[int(process.name)] = Path(words[0]).name
    return found
