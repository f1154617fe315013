"""`make kind`: what kind reads of our configuration, and what is said where it cannot run.

What is done with the cluster that kind makes is tested on a real one, where Berth is installed.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from release import in_kind, rendering
from testbed import binaries, builder, lending

# Plays docker until all nodes are up, which kind waits for, and no further; each call is a line of a file.
DOCKER: Final = """#!/bin/sh
printf '%s\\n' "$*" >> "{calls}"
case "$*" in
-v) echo "Docker version 29.0.0, build 0";;
"network ls "*) echo 0123456789ab;;
"network inspect "*) echo '[{{"Id": "0123456789ab", "Created": "2026-01-01T00:00:00Z"}}]';;
"info "*) echo '{{"CgroupDriver": "systemd", "CgroupVersion": "2", "MemoryLimit": true}}';;
"run "*) echo cba9876543210;;
"logs "*) echo "Reached target Multi-User System.";;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Play docker; return the file of its calls."""
    tools = tmp_path / "bin"
    tools.mkdir()
    file = tmp_path / "calls"
    docker = tools / "docker"
    docker.write_text(DOCKER.format(calls=file))
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([f"{tools}", os.environ["PATH"]]))
    return file


@pytest.mark.slow
def test_kind_makes_the_nodes_of_our_configuration(calls: Path, tmp_path: Path) -> None:
    """One for the control plane, and two on which agents will run."""
    try:
        program = binaries.ensure(["kind"])["kind"]
    except builder.Unavailable as error:
        if error.obstacle not in lending.CANNOT_BE_HELPED:
            raise
        pytest.skip(error.sentence)

    words = (
        "create",
        "cluster",
        "--config",
        f"{in_kind.CONFIG}",
        "--kubeconfig",
        f"{tmp_path / 'kubeconfig'}",
    )
    made = subprocess.run([program, *words, "--retain"], capture_output=True, text=True, check=False)

    nodes = [line for line in calls.read_text().splitlines() if line.startswith("run ")]
    names = sorted(line.split("--name ")[1].split()[0] for line in nodes)
    assert names == ["berth-control-plane", "berth-worker", "berth-worker2"], made.stderr
    # Docker is played no further: it then lists no node, which kind notices when it writes their files.
    steps = re.findall("^ (.) ([A-Z][a-z]+ [a-z]+)", made.stderr, re.MULTILINE)
    assert [step for step in steps if step[0] in "✓✗"] == [
        ("✓", "Ensuring node"),
        ("✓", "Preparing nodes"),
        ("✗", "Writing configuration"),
    ]
    assert made.returncode == 1
    assert "expected one control plane node or a load balancer, not 0 and none" in made.stderr


def test_where_nothing_runs_containers_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And names what needs none."""
    monkeypatch.setenv("PATH", f"{tmp_path}")

    assert in_kind.main([]) == in_kind.FAILED
    assert capsys.readouterr().err == f"kind: {in_kind.NOTHING}\n"


def test_buildah_runs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    """It only builds images."""
    with pytest.raises(SystemExit):
        in_kind.main(["--engine", "buildah"])
    assert "invalid choice: 'buildah'" in capsys.readouterr().err


def test_agents_run_where_the_configuration_says() -> None:
    """By a label that the chart knows."""
    nodes = yaml.safe_load(in_kind.CONFIG.read_text())["nodes"]
    chart = yaml.safe_load((rendering.CHART / "values.yaml").read_text())

    labels = [node.get("labels", {}) for node in nodes if node["role"] == "worker"]
    assert len(labels) == 2
    for label in labels:
        assert label.items() <= chart["agent"]["nodeLabels"].items()
    assert json.dumps(yaml.safe_load(in_kind.VALUES.read_text())).count("8xA100") == 1
