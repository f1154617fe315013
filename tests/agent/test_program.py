"""The program says what is wrong in one line, stays while the API is away, and ends when told to."""

import asyncio
import datetime as dt
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import programs
from berth_agent import __main__ as program
from berth_agent import loop, node_view, settings, simulated
from berth_crds.client import api, connection
from support import kubeconfigs, thorough
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
        thorough.case(
            ["--node", "n1", "--kubeconfig", "/nonexistent"],
            "/nonexistent does not exist",
            id="real cards, no kubeconfig",
        ),
        pytest.param([*ONE_NODE, "--kubeconfig", "BROKEN"], "is not YAML", id="broken kubeconfig"),
        thorough.case([*ONE_NODE], "/nonexistent/.kube/config does not exist", id="nothing to connect to"),
    ],
)
def test_what_cannot_be_used_is_one_line(arguments: list[str], sentence: str, broken: Path) -> None:
    """A start that cannot succeed ends with code 2 and one line on stderr, never a traceback."""
    ended = run(*(str(broken) if word == "BROKEN" else word for word in arguments))

    assert (ended.returncode, ended.stdout) == (2, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith("berth-agent: ")
    assert sentence in line


@pytest.fixture
def nowhere(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Lend the flag of a kubeconfig whose server does not answer."""
    reservation, config = ports.Reservation(), tmp_path / "config"
    config.write_text(kubeconfigs.NOWHERE.format(port=reservation.port))
    yield "--kubeconfig", str(config)
    reservation.release()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_unreachable_server_is_waited_for(
    tmp_path: Path, nowhere: tuple[str, str], number: signal.Signals
) -> None:
    """Without a server the agent stays and says so, and a signal ends it cleanly."""
    log = tmp_path / "log"
    async with programs.running([*AGENT, *ONE_NODE, *nowhere], log) as agent:
        await waiting.eventually(
            lambda: asyncio.sleep(0, "cannot be listed" in log.read_text()), what="it to say so"
        )
        assert agent.poll() is None
        await programs.ends(agent, number)

    assert "Traceback" not in log.read_text()
    assert log.read_text().endswith("stopped\n")


def test_cards_that_cannot_be_read_end_it_where_that_is_asked_for(
    tmp_path: Path, nowhere: tuple[str, str]
) -> None:
    """With the exit code of NVIDIA's plugin and a sentence; the usual agent stays."""
    faults = tmp_path / "faults.json"
    faults.write_text('{"n1": {"source": {"reason": "DriverNotLoaded", "message": "There is no driver."}}}')

    ended = run(*ONE_NODE, *nowhere, "--faults", str(faults), "--fail-on-init-error")

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "berth-agent: the cards of n1 cannot be read: There is no driver."


async def test_a_hangup_does_not_end_it(tmp_path: Path, nowhere: tuple[str, str]) -> None:
    """It is for the device plugin, which then serves anew; to end it there is another signal."""
    log = tmp_path / "log"
    async with programs.running([*AGENT, *ONE_NODE, *nowhere], log) as agent:
        await waiting.eventually(lambda: "speaks for n1" in log.read_text(), what="the agent to start")
        agent.send_signal(signal.SIGHUP)
        await asyncio.sleep(0.3)
        assert agent.poll() is None
        await programs.ends(agent)

    assert log.read_text().endswith("stopped\n")


async def test_hung_kubelet_does_not_hold_up_the_end(tmp_path: Path, nowhere: tuple[str, str]) -> None:
    """While a kubelet takes the question and never answers, a signal ends the agent all the same."""
    path, log = tmp_path / "mute.sock", tmp_path / "log"
    patient = ("--sample-deadline", "3600", "--lease-duration", "7200")
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(path))
        mute.listen()
        mute.settimeout(60)
        command = [*AGENT, *ONE_NODE, *nowhere, "--pod-resources", str(path), *patient]
        async with programs.running(command, log) as agent:
            caller, _ = await asyncio.to_thread(mute.accept)
            with caller:
                await programs.ends(agent)

    assert log.read_text().endswith("stopped\n")


@pytest.mark.parametrize(
    ("arguments", "there", "is_asked"),
    [
        pytest.param(["--node=n1"], True, True, id="its folder is there"),
        pytest.param(["--node=n1"], False, False, id="there is none"),
        pytest.param(["--node=n1", "--no-ask-kubelet"], True, False, id="it is not to be asked"),
        pytest.param(["--node=n1", "--simulate=1xT4"], True, False, id="the cards are simulated"),
    ],
)
def test_kubelet_is_asked_at_its_usual_socket(
    tmp_path: Path, arguments: list[str], *, there: bool, is_asked: bool
) -> None:
    """Without a word of the one who starts the agent, if the node's cards are real, or while it restarts."""
    path = tmp_path / ("" if there else "missing") / "kubelet.sock"
    chosen = settings.parse(arguments, {}, host="n1")

    found = program._usual_socket(chosen.nodes[0], chosen, path)

    assert found == (path if is_asked else None)


@pytest.mark.parametrize("hangs", [False, True], ids=["as usual", "while a thread hangs"])
async def test_a_changed_configuration_starts_it_anew(
    tmp_path: Path, nowhere: tuple[str, str], *, hangs: bool
) -> None:
    """A thread that reads from a dead disk never ends, and the event loop waits for it."""
    config, runtime, log = tmp_path / "config.yaml", tmp_path / "config.toml", tmp_path / "log"
    config.write_text("version: v1\nflags:\n  failOnInitError: false\n")
    os.mkfifo(runtime) if hangs else runtime.touch()
    flags = ("--config-file", str(config), "--runtime-config", str(runtime))
    async with programs.running([*AGENT, *ONE_NODE, *nowhere, *flags], log) as agent:
        await waiting.eventually(lambda: "cannot be listed" in log.read_text(), what="the agent to work")
        config.write_text("version: v1\nflags:\n  failOnInitError: true\n")
        agent.send_signal(signal.SIGHUP)
        await waiting.eventually(lambda: "starting anew" in log.read_text(), what="it to see the change")
        agent.send_signal(signal.SIGHUP)
        await waiting.eventually(
            lambda: log.read_text().count("speaks for n1") == 2, what="it to start anew", seconds=60
        )
        await programs.ends(agent)


async def test_node_that_fails_is_started_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours in one node's loop is told with its trace, and that node alone is started again."""
    starts: list[str] = []

    async def run(agent: loop.NodeAgent) -> None:
        starts.append(agent.node)
        if starts.count(agent.node) == 1 and agent.node == "bad":
            raise ZeroDivisionError
        await asyncio.Event().wait()

    monkeypatch.setattr(loop.NodeAgent, "run", run)
    runtime = loop.ProcessContext(lambda: dt.datetime.now(dt.UTC), "me")
    session = api.Api(connection.Connection("http://nowhere"), agent="test")
    probe = simulated.SimulatedProbe("n", "1xT4")
    subjects = [loop.NodeConfig(name, probe, None) for name in ("good", "bad")]
    tasks = [
        asyncio.create_task(
            program._run_forever(session, each, loop.Timing(1, 1, 3), runtime, node_view.NodeView(each.node))
        )
        for each in subjects
    ]

    await waiting.eventually(lambda: asyncio.sleep(0, starts.count("bad") == 2), what="the node again")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert starts.count("good") == 1
    assert "node bad: the agent failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text
