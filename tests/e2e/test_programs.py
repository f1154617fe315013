"""The programs from outside: mistakes end in one line, troubles of the cluster are waited out and said."""

import contextlib
import http.client
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
import yaml

from berth_crds import flags
from e2e import fleet
from testbed import ports, processes, waiting

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


def kubeconfig(path: Path, *, user: Mapping[str, Any], **cluster: Any) -> str:
    """Write a kubeconfig."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": dict(user)}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


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

BROKEN = {
    "no YAML": ("clusters: [", "is not YAML"),
    "another context": ("clusters: []\ncurrent-context: x\n", "there is no context named 'x'"),
}


@BOTH
@pytest.mark.parametrize(("text", "fault"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_kubeconfig_is_one_line(
    program: tuple[str, ...], text: str, fault: str, tmp_path: Path
) -> None:
    """A kubeconfig that cannot be used ends a program with one line, and no traceback."""
    path = tmp_path / "broken"
    path.write_text(text)

    ended = run(*program, "--kubeconfig", str(path))

    only_line(ended, str(path), fault)


@BOTH
def test_no_kubeconfig_at_all_is_one_line(program: tuple[str, ...]) -> None:
    """Without any hint where the cluster is, the file that was looked for is named."""
    only_line(run(*program), "/nonexistent/.kube/config does not exist")


@BOTH
def test_a_pod_without_its_account_is_one_line(program: tuple[str, ...]) -> None:
    """In a pod without a service account the folder that is missing is named."""
    ended = run(*program, KUBERNETES_SERVICE_HOST="10.0.0.1")

    only_line(ended, "/var/run/secrets/kubernetes.io/serviceaccount")


def test_a_login_that_fails_is_one_line(tmp_path: Path) -> None:
    """An exec plug-in that fails ends the operator with one line that has the plug-in's words."""
    script = ["-c", "echo no more tokens >&2; exit 3"]
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": script}
    path = kubeconfig(tmp_path / "config", user={"exec": plugin}, server="https://127.0.0.1:9")

    ended = run(*OPERATOR, "--kubeconfig", path)

    only_line(ended, "login failed", "no more tokens")


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    """An operator whose probes cannot be served says so and ends."""
    path = kubeconfig(tmp_path / "config", user={"token": "t"}, server="http://127.0.0.1:9")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        ended = run(*OPERATOR, "--kubeconfig", path, "--listen", f"127.0.0.1:{port}", "--log-level", "error")

    only_line(ended, str(port))


@BOTH
@pytest.mark.parametrize(
    "words", [["--frobnicate"], ["--lease-duration", "soon"]], ids=["unknown flag", "bad value"]
)
def test_a_bad_flag_is_one_line(program: tuple[str, ...], words: list[str]) -> None:
    """An unknown flag and a bad value end a program with one line that names them."""
    only_line(run(*program, *words), words[-1], "--help")


@BOTH
def test_a_bad_variable_is_one_line(program: tuple[str, ...]) -> None:
    """A variable that cannot be used ends a program with one line that blames no flag."""
    only_line(run(*program, BERTH_LISTEN="here"), ": BERTH_LISTEN: 'here' is not HOST:PORT")


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


@pytest.fixture
def nobody() -> Iterator[str]:
    """Yield the address of a server that is not there."""
    reservation = ports.Reservation()
    yield f"http://127.0.0.1:{reservation.port}"
    reservation.release()


def start(program: tuple[str, ...], path: str, tmp_path: Path) -> processes.Program:
    """Start a program that stays."""
    log = tmp_path / "log"
    return processes.start("program", [*program, "--kubeconfig", path], log=log, env=bare())


def stays_and_says(program: processes.Program, word: str) -> None:
    """Wait until a program has said something; it must still run, and end well at SIGTERM."""
    try:
        waiting.until(
            lambda: word in program.log.read_text(), what=f"the program to say {word!r}", seconds=30
        )
        assert program.alive()
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(10) == 0
        assert "Traceback" not in program.log.read_text()
    finally:
        program.kill()


@BOTH
def test_a_server_that_is_not_there_is_waited_for(
    program: tuple[str, ...], nobody: str, tmp_path: Path
) -> None:
    """Without a server a program stays, says so, and ends at once when told to."""
    path = kubeconfig(tmp_path / "config", user={"token": "t"}, server=nobody)

    stays_and_says(start(program, path, tmp_path), "Cannot connect to host")


def test_the_probes_tell_life_from_readiness(nobody: str, tmp_path: Path) -> None:
    """An operator that cannot read the cluster is alive and not ready, and says what it is doing."""
    path = kubeconfig(tmp_path / "config", user={"token": "t"}, server=nobody)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    program = start((*OPERATOR, "--listen", f"127.0.0.1:{port}"), path, tmp_path)

    def ask(probe: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        with contextlib.closing(connection), contextlib.suppress(ConnectionError):
            connection.request("GET", probe)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        return 0, ""

    try:
        waiting.until(lambda: ask("/healthz")[0], what="the probe to answer", seconds=20)
        assert ask("/healthz")[0] == 200
        assert ask("/readyz")[0] == 503
        assert ask("/readyz")[1].startswith("standing by; ")
    finally:
        program.kill()


@BOTH
def test_a_token_that_is_not_known_is_said(
    program: tuple[str, ...], base: fleet.Fleet, tmp_path: Path
) -> None:
    """A server that does not know us is said as such: somebody may yet mend it."""
    cluster = base.cluster
    path = kubeconfig(
        tmp_path / "config",
        user={"token": "nonsense"},
        server=cluster.server,
        **{"certificate-authority": str(cluster.ca_file)},
    )

    stays_and_says(start(program, path, tmp_path), "401 Unauthorized")


@BOTH
def test_a_server_with_another_certificate_is_said(
    program: tuple[str, ...], base: fleet.Fleet, tmp_path: Path
) -> None:
    """A server that cannot prove who it is gets no token, and is said as such."""
    cluster = base.cluster
    path = kubeconfig(tmp_path / "config", user={"token": "t"}, server=cluster.server)

    stays_and_says(start(program, path, tmp_path), "CERTIFICATE_VERIFY_FAILED")


@BOTH
def test_an_account_without_rights_is_said(
    program: tuple[str, ...], base: fleet.Fleet, tmp_path: Path
) -> None:
    """An account that was given no role is told what it may not do."""
    cluster = base.cluster
    path = cluster.kubeconfig_for(cluster.namespace("e2e"), "default")

    stays_and_says(start(program, str(path), tmp_path), "403 Forbidden")
