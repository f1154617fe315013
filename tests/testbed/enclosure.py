"""A room for programs that take the machine for their own, such as a kubelet and what it starts.

They get mounts, process numbers, a network and a branch of the cgroups of their own. All of them, and
whatever they leave behind on purpose (the shims of containers outlive containerd), are children of one
process, the room's own process number one: when that ends, the kernel kills the rest, and its mounts and its
network are gone with it.
"""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed import processes, waiting

CGROUPS = Path("/sys/fs/cgroup")

# What a child of this hierarchy must be told before any process may be in it.
INHERITED = ("cpuset.cpus", "cpuset.mems")


def obstacle() -> str:
    """Return in one sentence why this machine can have no such room; empty if it can."""
    if os.geteuid() != 0:
        return "only root can make namespaces and cgroups for a kubelet"
    if missing := [tool for tool in ("unshare", "nsenter", "mount") if not shutil.which(tool)]:
        return f"there is no {missing[0]}, of which Debian's package is called util-linux or mount"
    if subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "true"], check=False).returncode:
        return "this machine does not let root make namespaces"
    return _cgroups_refused()


@dataclass(frozen=True, slots=True)
class EnclosedProgram:
    """A program in the room: what brought it in, and its own process, as numbered outside."""

    entry: processes.Program
    pid: int

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.entry.alive()

    def kill(self) -> None:
        """End it at once, as a crash would, and wait until it is gone; what it has started lives on."""
        with contextlib.suppress(ProcessLookupError):  # It may just have ended by itself.
            os.kill(self.pid, signal.SIGKILL)
        self.entry.process.wait()


class Enclosure:
    """One room."""

    def __init__(self, directory: Path, *, setup: Sequence[str]) -> None:
        """Choose where logs go, and shell commands that are run in the room before anything else."""
        self._directory = directory
        self._setup = tuple(setup)
        self._first: EnclosedProgram | None = None
        self._programs: list[EnclosedProgram] = []

    @property
    def cgroup(self) -> str:
        """The path of its cgroup in each hierarchy."""
        return f"/{self._directory.parent.name}-{self._directory.name}"

    def start(self) -> None:
        """Open it."""
        for branch in _branches(self.cgroup):
            _make(branch)
        ready = self._directory / "ready"
        script = " && ".join((*self._setup, f"touch {ready}", "exec sleep infinity"))
        namespaces = ("--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc")
        self._first = self._launched("enclosure", ["unshare", *namespaces, "sh", "-c", script])
        first = self._first
        waiting.until(lambda: ready.exists() or not first.alive(), what="the room to be set up")
        if not ready.exists():
            raise processes.CannotStart(f"the room ended by itself: {processes.tail(first.entry.log)}")

    def run(self, name: str, command: Sequence[str | Path], *, env: Mapping[str, str]) -> EnclosedProgram:
        """Start a program in it."""
        program = self._launched(name, [*self._into(), *command], env=env)
        self._programs.append(program)
        return program

    def call(
        self, command: Sequence[str | Path], *, seconds: float = 30.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a short program in it to its end."""
        words = [*self._into(), *command]
        return subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)

    def _into(self) -> list[str]:
        assert self._first, "it is open"
        return ["nsenter", "--target", str(self._first.pid), "--mount", "--pid", "--net", "--"]

    def stop(self) -> None:
        """End all that is in it; safe to call twice."""
        if self._first:
            self._first.kill()
        while self._programs:
            self._programs.pop().entry.process.wait()  # The kernel has ended what it brought in.
        self._first = None
        for branch in _branches(self.cgroup):
            waiting.until(functools.partial(_removed, branch), what=f"{branch} to go", seconds=10.0)

    def _launched(
        self, name: str, command: Sequence[str | Path], *, env: Mapping[str, str] | None = None
    ) -> EnclosedProgram:
        program = processes.start(name, command, log=self._directory / f"{name}.log", env=env)
        pid = waiting.until(
            lambda: _child(program.process.pid) or (None if program.alive() else -1), what=f"{name} to start"
        )
        if pid < 0:
            raise processes.CannotStart(f"{name} ended by itself: {processes.tail(program.log)}")
        return EnclosedProgram(program, pid)


def _child(pid: int) -> int | None:
    """Return the number of the one child of a process."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return None
    return int(children[0]) if children else None


# ---------------------------------------------------------------- cgroups


def _branches(path: str) -> Iterator[Path]:
    """Name a cgroup in each hierarchy that there is; in version 2 there is one."""
    if (CGROUPS / "cgroup.controllers").exists():
        yield CGROUPS / path.lstrip("/")
        return
    # Some hierarchies are known under two names.
    for hierarchy in sorted({each.resolve() for each in CGROUPS.iterdir() if each.is_dir()}):
        yield hierarchy / path.lstrip("/")


def _cgroups_refused() -> str:
    """Try to make a cgroup in each hierarchy; say which one does not let us."""
    for branch in _branches(f"/berth-probe-{os.getpid()}"):
        try:
            branch.mkdir()
            branch.rmdir()
        except OSError as error:
            return f"no cgroup can be made in {branch.parent}: {error.strerror}"
    return ""


def _make(branch: Path) -> None:
    branch.mkdir(exist_ok=True)
    for name in INHERITED:
        if (branch / name).exists() and (branch.parent / name).exists():
            (branch / name).write_text((branch.parent / name).read_text())


def _removed(branch: Path) -> bool:
    """Remove a cgroup with all below it, unless something in it still dies."""
    for folder, _, _ in os.walk(branch, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not branch.exists()
