"""The program says what is wrong in one line, stays while the API is away, and ends when told to."""

import asyncio
import datetime as dt
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from berth_agent import __main__ as program
from berth_agent import loop, node_view, simulated
from berth_crds.client import api, connection
from support import kubeconfigs
from testbed import ports, waiting

AGENT = (sys.executable, "-m", "berth_agent")
ONE_NODE = ("--node", "n1", "--simulate", "2xT4")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the agent to its end, with nothing in its environment that could help it."""
    bare = {key: value for key, value in os.environ.items() if key in {"PATH", "PYTHONPATH"}}
    return subprocess.run(
        [*AGENT, *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        env={**bare, "HOME": "/nonexistent", **environment},
        check=False,
    )


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Lend a kubeconfig that is none."""
    path = tmp_path / "broken"
    path.write_text("clusters: [")
    return path


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(["--simulate", "8xA101"], "There is no GPU model 'A101'", id="unknown model"),
        pytest.param(["--interval", "x"], "argument --interval: 'x' is not a number", id="bad number"),
        pytest.param(
            [*ONE_NODE, "--context-by-node", "--kubeconfig", "/nonexistent"],
            "/nonexistent does not exist",
            id="no contexts for the nodes",
        ),
        pytest.param(
            [*ONE_NODE, "--kubeconfig", "/nonexistent"], "/nonexistent does not exist", id="no kubeconfig"
        ),
        pytest.param(
            ["--node", "n1", "--kubeconfig", "/nonexistent"],
            "/nonexistent does not exist",
            id="real cards, no kubeconfig",
        ),
        pytest.param([*ONE_NODE, "--kubeconfig", "BROKEN"], "is not YAML", id="broken kubeconfig"),
        pytest.param([*ONE_NODE], "/nonexistent/.kube/config does not exist", id="nothing to connect to"),
    ],
)
def test_what_cannot_be_used_is_one_line(arguments: list[str], sentence: str, broken: Path) -> None:
    """A start that cannot succeed ends with code 2 and one line on stderr, never a traceback."""
    ended = run(*(str(broken) if word == "BROKEN" else word for word in arguments))

    assert ended.returncode == 2
    assert ended.stdout == ""
    [line] = ended.stderr.splitlines()
    assert line.startswith("berth-agent: ")
    assert sentence in line


def test_help_tells_every_flag() -> None:
    """--help ends well and names the flags, the shapes and the file of faults."""
    ended = run("--help")

    assert ended.returncode == 0
    for word in (
        "--simulated-node NAME=SHAPE",
        "--faults FILE",
        "8xA100-SXM4-80GB",
        "NODE_NAME",
        '"xid": 79',
        "--pod-resources SOCKET",
    ):
        assert word in ended.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_unreachable_server_is_waited_for(tmp_path: Path, number: signal.Signals) -> None:
    """Without a server the agent stays and says so, and a signal ends it cleanly within two seconds."""
    reservation, log = ports.Reservation(), tmp_path / "log"
    config = tmp_path / "config"
    config.write_text(kubeconfigs.NOWHERE.format(port=reservation.port))
    with log.open("wb") as output:
        agent = subprocess.Popen([*AGENT, *ONE_NODE, "--kubeconfig", str(config)], stderr=output)
    try:
        waiting.until(
            lambda: "cannot be listed" in log.read_text(), what="the agent to say that nobody answers"
        )
        assert agent.poll() is None

        told = time.monotonic()
        agent.send_signal(number)
        assert agent.wait(10) == 0
        assert time.monotonic() - told < 2
        assert "Traceback" not in log.read_text()
        assert log.read_text().endswith("stopped\n")
    finally:
        agent.kill()
        agent.wait()
        reservation.release()


def test_hung_kubelet_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """While a kubelet takes the question and never answers, a signal ends the agent within two seconds."""
    reservation, log, config = ports.Reservation(), tmp_path / "log", tmp_path / "config"
    config.write_text(kubeconfigs.NOWHERE.format(port=reservation.port))
    kubelet = ("--pod-resources", str(tmp_path / "mute.sock"), "--sample-deadline", "20")
    with log.open("wb") as output, socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "mute.sock"))
        mute.listen()
        mute.settimeout(20)
        agent = subprocess.Popen([*AGENT, *ONE_NODE, "--kubeconfig", str(config), *kubelet], stderr=output)
        try:
            caller, _ = mute.accept()
            told = time.monotonic()
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(10) == 0
            assert time.monotonic() - told < 2
            assert log.read_text().endswith("stopped\n")
            caller.close()
        finally:
            agent.kill()
            agent.wait()
            reservation.release()


async def test_node_that_fails_is_started_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours in one node's loop is told with its trace, and that node alone is started again."""
    starts: list[str] = []

    async def run_node(_session: object, subject: loop.Subject, *_: object) -> None:
        starts.append(subject.node)
        if starts.count(subject.node) == 1 and subject.node == "bad":
            raise ZeroDivisionError
        await asyncio.Event().wait()

    monkeypatch.setattr(loop, "run_node", run_node)
    means = loop.Means(lambda: dt.datetime.now(dt.UTC), lambda: 0.0, "me", time.monotonic)
    session = api.Api(connection.Connection("http://nowhere"), agent="test")
    probe = simulated.SimulatedProbe(simulated.machine("n", "1xT4"), simulated.FaultFile(None, "n"))
    subjects = [loop.Subject(name, probe, None) for name in ("good", "bad")]
    tasks = [
        asyncio.create_task(
            program._keep(session, each, loop.Pace(1, 1, 3), means, node_view.Board(each.node))
        )
        for each in subjects
    ]

    async def again() -> bool:
        return starts.count("bad") == 2

    await waiting.eventually(again, what="the node to be started anew")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert starts.count("good") == 1
    assert "node bad: the agent failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text
