"""Starts the programs of a cluster so that none of them can outlive its owner.

A test run ends in many ways: normally, by Ctrl-C, by a signal, by SIGKILL. Only the first few let Python
clean up, so two things here hold in every case. Each program asks the kernel to be killed when the thread
that started it dies; since that is the *thread*, not the process, all of them are started by one thread
that lives as long as the process. And the temporary directory is made and removed by a tiny shell process,
which waits on a pipe that only the owner holds open: however the owner ends, the kernel closes
the pipe. Programs get a session of their own, so that Ctrl-C in a terminal reaches only the owner, which
then stops them in the right order.
"""

import functools
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

# Runs between fork and exec, as a program of its own: a Python function in that place (`preexec_fn`) may
# deadlock where there are threads, and a program in Python takes a tenth of a second. The shell is for an
# owner that died before `setpriv` took effect.
DEATH_PACT = ("--pdeathsig", "KILL", "/bin/sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')

# The environment of programs of ours: aiohttp would read the certificates of all the world, which takes a
# tenth of a second, and they talk to servers of tests alone.
OF_OURS: Final = {"SSL_CERT_FILE": os.devnull}

# Writers may still be dying while the tree is removed, and a file made in between makes rmdir fail: hence
# the retries. Cgroups named after the directory are those of an enclosure whose owner had no time to
# remove them.
KEEPER = """
trap '' INT TERM HUP
mkdir -m 700 -- "$1" || exit 1
echo made
cat >/dev/null
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  find /sys/fs/cgroup -depth -type d -path "*/$(basename "$1")-*" -exec rmdir {} \\; 2>/dev/null
  rm -rf -- "$1" 2>/dev/null && exit 0
  sleep 0.2
done
exit 1
"""


class CannotStart(Exception):
    """A program could not be started, or died before it was ready; the message has its last words."""


class Process(Protocol):
    """What is used of a process, such as one of `subprocess.Popen`."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def returncode(self) -> int | None:
        """Its exit status, once it was asked for after the end."""

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status; raise TimeoutExpired after so many seconds."""

    def send_signal(self, number: int, /) -> None:
        """Send it a signal, unless it has ended."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""


@dataclass(frozen=True, slots=True)
class Program:
    """A started program: its name for people, its log, and the process."""

    name: str
    log: Path
    process: Process

    def alive(self) -> bool:
        """Whether the process still runs; collects its exit status if not."""
        return self.process.poll() is None

    def stop(self, *, grace: float) -> None:
        """Ask it to end, and kill it when `grace` seconds have passed."""
        self.process.terminate()
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.wait()


def start(
    name: str, command: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None
) -> Program:
    """Start a program whose output is appended to `log` and which dies with this process."""
    with log.open("ab") as output:
        words = [*_death_pact(), *(str(word) for word in command)]
        environment = None if env is None else dict(env)

        def launch() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

        return Program(name=name, log=log, process=_launched(launch))


def tail(log: Path, *, lines: int = 15) -> str:
    """Return the last lines of a log, for error messages."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:]) or "(empty log)"


class OwnedDirectory:
    """Owns a temporary directory and removes it when told to, or when this process is gone."""

    def __init__(self, prefix: str) -> None:
        """Make a new directory whose name starts with `prefix`."""
        self.path = Path(tempfile.gettempdir()) / f"{prefix}{secrets.token_hex(4)}"
        self._process = subprocess.Popen(  # The script is a constant, its argument is a path of our own.
            ["/bin/sh", "-c", KEEPER, "keeper", str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        if not (self._process.stdout and self._process.stdout.readline()):
            message = f"cannot make the temporary directory {self.path}"
            raise CannotStart(message)

    def remove(self) -> None:
        """Remove the directory with all that is in it."""
        self._process.communicate()  # Closes the pipe, which is the signal, and collects the process.


def _launched(launch: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Run `launch` in the immortal thread; an interrupt while waiting for it must not lose the process."""
    future = _spawner().submit(launch)
    try:
        return future.result()
    except BaseException:
        future.add_done_callback(_kill_result)
        raise


def _kill_result(future: futures.Future[subprocess.Popen[bytes]]) -> None:
    if future.exception() is None:
        future.result().kill()


@functools.cache
def _spawner() -> futures.ThreadPoolExecutor:
    return futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="testbed-spawner")


def _death_pact() -> list[str]:
    """Return the words before a command that tie its life to ours, which only Linux can do."""
    if sys.platform != "linux":
        return []
    setpriv = shutil.which("setpriv", path=f"{os.environ.get('PATH', '')}:/usr/bin:/bin")
    return [setpriv or "setpriv", *DEATH_PACT, str(os.getpid())]
