"""The servers of both programs under a crowd: probes answer, the log stays short, and it passes by."""

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from http_server import clients
from support import kubeconfigs
from testbed import ports, processes, waiting

OK: Final = "200 OK"
DESCRIPTORS: Final = 256  # What a program gets here, so that a small crowd is large.
CROWD: Final = 1100
PROGRAMS: Final = {
    "operator": ["-m", "berth_operator"],
    "agent": ["-m", "berth_agent", "--node", "n1", "--simulate", "1xT4"],
}
# A listener in a process whose other parts take every file descriptor, as long as stdin stays open.
STARVING: Final = """
import asyncio, logging, os, resource, sys
from aiohttp import web
from berth_crds import http_server

async def alive(_):
    return web.Response(text="alive\\n")

async def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    http_server.PAUSE_SECONDS, http_server.QUIET_SECONDS = 0.1, 0.5
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    async with http_server.serving("127.0.0.1:0", [web.get("/healthz", alive)]) as address:
        taken = []
        await asyncio.sleep(0)
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            print(address, flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for one in taken:
            os.close(one)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def _descriptors() -> Iterator[None]:
    """Let this process open a crowd of connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(2 * CROWD, hard)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.asynccontextmanager
async def running(program: str, directory: Path) -> AsyncIterator[tuple[str, str, Path]]:
    """Run a program without an API server; yield where it listens, where its probes are, and its log."""
    nowhere = ports.Reservation()
    config = directory / "config"
    config.write_text(kubeconfigs.NOWHERE.format(port=nowhere.port))
    listen, probes = (f"127.0.0.1:{ports.free()}" for _ in range(2))
    flags = ["--kubeconfig", str(config), "--listen", listen, "--listen-probes", probes]
    command = ["bash", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "bash"]
    started = processes.start(
        program,
        [*command, sys.executable, *PROGRAMS[program], *flags],
        log=directory / "log",
        env=dict(os.environ),
    )

    async def answers() -> bool:
        with contextlib.suppress(ConnectionError):
            return await clients.ask(listen) == await clients.ask(probes) == OK
        return False

    try:
        await waiting.eventually(answers, what=f"the {program} to listen")
        yield listen, probes, started.log
    finally:
        started.kill()
        nowhere.release()


@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_crowd_makes_nobody_restart_a_program(program: str, tmp_path: Path) -> None:
    """While more clients stay idle than there are file descriptors, pages and probes answer."""
    async with running(program, tmp_path) as (listen, probes, log):
        async with clients.connected(listen, CROWD), clients.connected(probes, DESCRIPTORS):
            assert await clients.ask(probes) == OK
            assert await clients.ask(probes, "/metrics") == "404 Not Found"
            assert await clients.ask(listen) == OK
            assert await clients.ask(listen, "/metrics") == OK

        assert await clients.ask(listen, "/metrics") == OK
        assert await clients.ask(probes) == OK
    # The API server, which is not there, is complained of some few times.
    assert len(log.read_text().splitlines()) < 50
    assert "Too many open files" not in log.read_text()


class Starving:
    """A listener in a process that has not one file descriptor left, until it may close some."""

    def __init__(self, log: Path) -> None:
        self._log = log
        script = [sys.executable, "-c", STARVING]
        with log.open("wb") as errors:
            self.process = subprocess.Popen(script, stdin=-1, stdout=-1, stderr=errors, text=True, bufsize=1)
        assert self.process.stdout
        self.address = self.process.stdout.readline().strip()

    def close_files(self) -> None:
        """Let it have file descriptors."""
        assert self.process.stdin
        self.process.stdin.write("\n")

    def logged(self) -> list[str]:
        """Return the lines of its log."""
        return self._log.read_text().splitlines()

    def seconds_used(self) -> float:
        """Return how much processor time it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def starving(tmp_path: Path) -> Iterator[Starving]:
    """Lend such a process."""
    made = Starving(tmp_path / "log")
    with made.process:
        yield made
        made.process.kill()


async def test_without_file_descriptors_it_logs_that_once_and_rests(starving: Starving) -> None:
    """Who cannot accept logs one line, waits without a busy loop, and logs when it is over."""
    # Given a process without file descriptors, and a crowd that stays
    async with clients.connected(starving.address, 100) as crowd:
        before = starving.seconds_used()
        await asyncio.sleep(2)

        # When it has descriptors again
        used = starving.seconds_used() - before
        starving.close_files()

        # Then it has not turned in vain, and serves
        assert used < 0.5
        assert await crowd[-1].ask("/healthz") == OK
        assert await clients.ask(starving.address) == OK

    await asyncio.to_thread(waiting.until, lambda: len(starving.logged()) > 1, what="the shortage to be over")
    short, over = starving.logged()
    assert short.endswith("no connection can be accepted: Too many open files")
    assert over.endswith("connections are accepted again")
