"""After `make cluster` there is all that the first pod and the examples need."""

import http
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from e2e import by_hand, fleet
from support import thorough
from testbed import pages, processes, waiting, workers

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

EXAMPLES: Final = fleet.ROOT / "manifests" / "examples"


@pytest.fixture(scope="module", params=[thorough.case(()), ("--worker", "w1")], ids=["played", "worker"])
def shell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """Run the program until it says what to do, and lend an environment in which that can be done.

    Whoever ends it by hand gets the exit code 0.
    """
    if request.param and (why := workers.obstacle()):
        pytest.skip(why)
    log = tmp_path_factory.mktemp("by-hand") / "log"
    command = [sys.executable, "-m", "e2e.by_hand", *request.param]
    program = processes.start("by-hand", command, log=log, env={**os.environ, "PYTHONPATH": "tests"})
    try:
        said = waiting.until(lambda: _said(program, log), what="the cluster to be there", seconds=180)
        yield {**os.environ, **said}
    finally:
        program.stop(grace=30)
    assert program.process.returncode == 0, log.read_text()


def _said(program: processes.Program, log: Path) -> dict[str, str] | None:
    text = log.read_text()
    assert program.alive(), text
    found = re.search(
        r"^(export KUBECONFIG=\S+\nexport PATH=\S+\nexport OPERATOR=\S+)$.*?^(kubectl apply .*)$.*?Ctrl-C",
        text,
        re.MULTILINE | re.DOTALL,
    )
    inside = re.search(r"^kubectl exec .*$", text, re.MULTILINE)
    return (
        {"EXPORTS": found[1], "COMMAND": found[2], "INSIDE": inside[0] if inside else ""} if found else None
    )


def call(shell: dict[str, str], command: str) -> str:
    """Run a command as somebody would type it, after the lines that the shell is to be told first."""
    words = ["bash", "-c", f"{shell['EXPORTS']}\n{command}"]
    ended = subprocess.run(words, env=shell, cwd=fleet.ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def pods(shell: dict[str, str], namespace: str) -> dict[str, Any]:
    """Read the pods of a namespace, by name."""
    listed = json.loads(call(shell, f"kubectl get pods -n {namespace} -o json"))["items"]
    return {one["metadata"]["name"]: one for one in listed}


def test_the_first_pod_runs_and_the_examples_can_be_applied(shell: dict[str, str]) -> None:
    """What the program says to type binds the README's first pod, and it runs; every example is taken."""
    call(shell, shell["COMMAND"])
    call(shell, f"kubectl apply -f {EXAMPLES / 'pods'}")
    call(shell, "kubectl wait --for=jsonpath='{.status.phase}'=Running pod/train --timeout=60s")
    if shell["INSIDE"]:
        assert "HOSTNAME=train" in call(shell, shell["INSIDE"])
    assert pods(shell, "default")["train"]["metadata"]["annotations"]["berth.dev/minors"] == "0,1"
    named = re.findall(
        r"^  name: (\S+)$", "".join(path.read_text() for path in EXAMPLES.glob("pods/*")), re.MULTILINE
    )
    assert {*pods(shell, "examples")} == {*named} - {"examples"}


def test_the_operator_tells_how_it_is_doing(shell: dict[str, str]) -> None:
    """The address that is printed is the operator's, whose pages the README lists."""
    port = int(call(shell, "echo $OPERATOR").rpartition(":")[2])

    for page in ("/healthz", "/readyz", "/metrics", "/debug/backlog"):
        assert pages.get(port, page)[0] == http.HTTPStatus.OK


def test_make_starts_it() -> None:
    """`make cluster` is this program, and WORKER names a node."""
    target = (fleet.ROOT / "Makefile").read_text().split("\ncluster: ")[1].split("\n\n")[0]

    assert "-m e2e.by_hand $(if $(WORKER),--worker $(WORKER))" in target
    assert by_hand.IMAGE in by_hand.first_pod()
