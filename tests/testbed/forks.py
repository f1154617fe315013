"""Starts programs of ours from a process that has imported them already.

A program takes most of its first second for imports, and tests start some two hundred. So one process
imports them once and is forked for each start: the copy gets its own session, arguments, environment and log,
and runs the program's `main` as `python -m` would. What the dynamic loader and the interpreter read from the
environment is that of the first process; a program that is to have another is not forked.

    python -m testbed.forks SOCKET MODULE...

listens for one request on each connection, and answers with the process id and, in the end, the exit status.
"""

import atexit
import contextlib
import ctypes
import dataclasses
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from testbed import processes, waiting

TESTS: Final = Path(__file__).resolve().parents[1]
PROGRAMS: Final = ("berth_operator", "berth_agent")
MOST_BYTES: Final = 1 << 20  # Of a request.
PR_SET_PDEATHSIG: Final = 1


# ---------------------------------------------------------------- for who starts programs


class ForkedProcess:
    """A process that another one has started: what tests use of `subprocess.Popen`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reading = threading.Lock()
        self.pid = int(connection.recv(MOST_BYTES))
        self.returncode: int | None = None

    def __del__(self) -> None:
        """Close the connection, if nobody has asked for the exit status."""
        self._connection.close()

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status; raise TimeoutExpired after so many seconds."""
        if (status := self._status(timeout)) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return status

    def _status(self, timeout: float | None) -> int | None:
        with self._reading:
            if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
                # Without a word the first process has died, and all of its copies with it.
                self.returncode = int(self._connection.recv(MOST_BYTES) or -signal.SIGKILL)
                self._connection.close()
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def start(name: str, words: Sequence[str], *, log: Path, env: Mapping[str, str]) -> processes.Program:
    """Start a program of ours, given as its module and arguments, as `processes.start` does."""
    first = _first()
    if _read_early(env) != first.read_early:
        return processes.start(name, _command(words), log=log, env=env)
    log.touch()
    with contextlib.ExitStack() as failed:
        connection = failed.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        connection.connect(str(first.path))
        connection.send(json.dumps({"words": words, "log": str(log), "env": dict(env)}).encode())
        forked = ForkedProcess(connection)
        failed.pop_all()
    return processes.Program(name=name, log=log, process=forked)


@dataclasses.dataclass(frozen=True, slots=True)
class First:
    """The process that is forked: its socket, and what it has of the environment for good."""

    path: Path
    read_early: Mapping[str, str]


@functools.cache
def _first() -> First:
    """Start the process that is forked, until we end."""
    home = processes.OwnedDirectory("berth-testbed-forks-")
    atexit.register(home.remove)
    path, log = home.path / "socket", home.path / "log"
    environment = {**os.environ, **processes.OF_OURS, "PYTHONUNBUFFERED": "1"}
    search = os.pathsep.join(filter(None, (str(TESTS), environment.get("PYTHONPATH"))))
    command = (sys.executable, "-m", "testbed.forks", str(path), *PROGRAMS)
    program = processes.start("forks", command, log=log, env={**environment, "PYTHONPATH": search})
    atexit.register(program.kill)
    waiting.until(
        lambda: path.exists() or not program.alive(), what="the programs to be imported", seconds=60
    )
    if not path.exists():
        raise processes.CannotStart(f"the programs cannot be imported: {processes.tail(log)}")
    return First(path, _read_early(environment))


def _read_early(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the dynamic loader and the interpreter read."""
    return {name: value for name, value in environment.items() if name.startswith(("LD_", "PYTHON"))}


def _command(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", *words]


# ---------------------------------------------------------------- the process that is forked


def main(path: str, *modules: str) -> int:
    """Import the programs and serve; in a copy, run one of them and return its exit status."""
    for module in modules:
        importlib.import_module(f"{module}.__main__")
    importlib.import_module("berth_operator.app")  # Which it imports late.
    gc.freeze()
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as listener:
        listener.bind(f"{path}.new")
        listener.listen(128)
        Path(f"{path}.new").rename(path)
        request = _serve(listener)
    return _run(**request)


def _serve(listener: socket.socket) -> dict[str, Any]:
    """Fork for each request and report each end, for ever; return the request in the copy."""
    woken, wakes = socket.socketpair()
    for one in (listener, woken, wakes):
        one.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    asking: set[socket.socket] = set()
    running: dict[int, socket.socket] = {}
    first = os.getpid()
    while True:
        ready, _, _ = select.select([listener, woken, *asking], [], [])
        if woken in ready:
            woken.recv(MOST_BYTES)
            _report_ended(running)
        if listener in ready:
            asking.add(listener.accept()[0])
        for connection in asking.intersection(ready):
            asking.remove(connection)
            if not (message := connection.recv(MOST_BYTES)):
                continue
            if (pid := os.fork()) == 0:
                _detach(first, (listener, woken, wakes, connection, *asking, *running.values()))
                return dict(json.loads(message))
            running[pid] = connection
            connection.send(str(pid).encode())


def _report_ended(running: dict[int, socket.socket]) -> None:
    for pid in list(running):
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            with running.pop(pid) as connection, contextlib.suppress(OSError):
                connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _detach(first: int, open_here: Iterable[socket.socket]) -> None:
    """Make a copy a process of its own, which dies with the first one and keeps none of these open."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != first:  # It has died before that took effect.
        os._exit(1)
    for one in open_here:
        one.close()


def _run(words: Sequence[str], log: str, env: Mapping[str, str]) -> int:
    """Run the `main` of a program with these arguments, this log and this environment."""
    for path, flags, descriptors in (
        (os.devnull, os.O_RDONLY, (0,)),
        (log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, (1, 2)),
    ):
        opened = os.open(path, flags, 0o644)
        for descriptor in descriptors:
            os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(env)
    module = importlib.import_module(f"{words[0]}.__main__")
    sys.argv, sys.orig_argv = [str(module.__file__), *words[1:]], _command(words)  # To start itself anew.
    return int(module.main())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
