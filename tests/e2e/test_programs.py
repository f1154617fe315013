"""The programs from outside: mistakes end in one line, troubles of the cluster are waited out and said."""

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from berth_crds import flags
from e2e import fleet
from support import thorough
from testbed import kubeconfig, pages, ports, processes, waiting

OPERATOR = (sys.executable, "-m", "berth_operator")
AGENT = (sys.executable, "-m", "berth_agent", "--node", "n1", "--simulate", "2xT4")
BOTH = pytest.mark.parametrize("program", [OPERATOR, AGENT], ids=["operator", "agent"])


def bare(**more: str) -> dict[str, str]:
    """Make an environment with nothing in it that could help a program."""
    kept = {key: value for key, value in os.environ.items() if key in {"PATH", "PYTHONPATH"}}
    return {**kept, "HOME": "/nonexistent", **more}


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(
        words, capture_output=True, text=True, timeout=60, env=bare(**variables), check=False
    )


def config(folder: Path, server: str, user: Mapping[str, Any], ca_file: Path | None = None) -> str:
    """Write a kubeconfig."""
    endpoint = kubeconfig.Endpoint(server=server, ca_file=ca_file)
    return str(kubeconfig.write(folder / "config", endpoint, {"u": user}))


def only_line(ended: subprocess.CompletedProcess[str], *words: str) -> None:
    """Check that a program ended badly, with one line that says all this."""
    assert ended.returncode == flags.EXIT_UNUSABLE
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith(("berth-operator: ", "berth-agent: "))
    for word in words:
        assert word in lines[0]


# ---------------------------------------------------------------- mistakes

FILE = "broken"


@dataclasses.dataclass(frozen=True, slots=True)
class Mistake:
    """How a program is started wrongly, and what its one line says; `text` is that of a kubeconfig."""

    words: tuple[str, ...]
    fault: str
    text: str = ""
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
LISTEN = {"BERTH_LISTEN": "here"}
MISTAKES = {
    "no YAML": Mistake(("--kubeconfig", FILE), "is not YAML", "clusters: ["),
    "another context": Mistake(
        ("--kubeconfig", FILE), "there is no context named 'x'", "clusters: []\ncurrent-context: x\n"
    ),
    "no kubeconfig": Mistake((), "/nonexistent/.kube/config does not exist"),
    "no account": Mistake((), "/var/run/secrets/kubernetes.io/serviceaccount", variables=IN_A_POD),
    "an unknown flag": Mistake(("--frobnicate",), "--frobnicate"),
    "a bad value": Mistake(("--lease-duration", "soon"), "soon"),
    "a bad variable": Mistake((), ": BERTH_LISTEN: 'here' is not HOST:PORT", variables=LISTEN),
}


# Both programs read a kubeconfig by the same means.
TRIED_WITH = [
    *(pytest.param(OPERATOR, mistake, id=f"operator, {name}") for name, mistake in MISTAKES.items()),
    *(
        (thorough.case if mistake.text else pytest.param)(AGENT, mistake, id=f"agent, {name}")
        for name, mistake in MISTAKES.items()
    ),
]


@pytest.mark.parametrize(("program", "mistake"), TRIED_WITH)
def test_a_mistake_is_one_line(
    program: tuple[str, ...], mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be used ends a program with one line that names it, and no traceback."""
    monkeypatch.chdir(tmp_path)
    Path(FILE).write_text(mistake.text)

    only_line(run(*program, *mistake.words, **mistake.variables), mistake.fault)


def test_a_login_that_fails_is_one_line(tmp_path: Path) -> None:
    """An exec plug-in that fails ends the operator with one line that has the plug-in's words."""
    script = ["-c", "echo no more tokens >&2; exit 3"]
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": script}
    path = config(tmp_path, "https://127.0.0.1:9", {"exec": plugin})

    only_line(run(*OPERATOR, "--kubeconfig", path), "login failed", "no more tokens")


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    """An operator whose probes cannot be served says so and ends."""
    path = config(tmp_path, "http://127.0.0.1:9", {"token": "t"})
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        ended = run(*OPERATOR, "--kubeconfig", path, "--listen", f"127.0.0.1:{port}", "--log-level", "error")

    only_line(ended, str(port))


@pytest.mark.parametrize(
    ("program", "name"),
    [
        pytest.param(OPERATOR, "berth-operator", id="operator"),
        pytest.param(AGENT, "berth-agent", id="agent"),
        pytest.param(
            (sys.executable, "-m", "berth_operator.simulation"), "berth-simulation", id="simulation"
        ),
    ],
)
def test_a_program_tells_its_version(program: tuple[str, ...], name: str) -> None:
    """--version tells the version that is installed, and ends well."""
    ended = run(*program, "--version")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"{name} {metadata.version('berth')}\n"


# ---------------------------------------------------------------- a cluster in trouble


@contextlib.contextmanager
def running(program: tuple[str, ...], path: str, folder: Path) -> Iterator[processes.Program]:
    """Run a program beside the block; it must still run then, and end well at SIGTERM."""
    words = [*program, "--kubeconfig", path]
    started = processes.start("program", words, log=folder / "log", env=bare())
    try:
        yield started
        assert started.alive()
        started.process.send_signal(signal.SIGTERM)
        assert started.process.wait(10) == 0
        assert "Traceback" not in started.log.read_text()
    finally:
        started.kill()


def until_it_says(program: processes.Program, word: str) -> None:
    """Wait until a program has said something."""
    waiting.until(lambda: word in program.log.read_text(), what=f"the program to say {word!r}", seconds=30)


@BOTH
def test_a_server_that_is_not_there_is_waited_for(program: tuple[str, ...], tmp_path: Path) -> None:
    """Without a server a program stays, says so, and ends at once when told to.

    An operator that cannot read the cluster is alive and not ready, and says what it is doing.
    """
    port = ports.free()
    words = (*program, "--listen", f"127.0.0.1:{port}") if program == OPERATOR else program
    with running(
        words, config(tmp_path, f"http://127.0.0.1:{ports.free()}", {"token": "t"}), tmp_path
    ) as started:
        until_it_says(started, "Cannot connect to host")
        if program == OPERATOR:
            status, text = pages.get(port, "/readyz")
            assert (pages.get(port, "/healthz")[0], status) == (200, 503)
            assert text.startswith("standing by; ")


@BOTH
@pytest.mark.parametrize(
    ("token", "sentence"),
    [
        pytest.param("nonsense", "401 Unauthorized", id="an unknown token"),
        pytest.param("", "403 Forbidden", id="no role"),
        pytest.param("t", "CERTIFICATE_VERIFY_FAILED", id="another certificate"),
    ],
)
def test_a_cluster_that_does_not_serve_us_is_said(
    program: tuple[str, ...], token: str, sentence: str, base: fleet.Fleet, tmp_path: Path
) -> None:
    """A token or an account that gets no answer is said as such: somebody may yet mend it.

    A server that cannot prove who it is gets no token at all.
    """
    cluster = base.cluster
    token = token or cluster.token(cluster.namespace("e2e"), "default")
    ca_file = None if "VERIFY" in sentence else cluster.ca_file

    with running(program, config(tmp_path, cluster.server, {"token": token}, ca_file), tmp_path) as started:
        until_it_says(started, sentence)
